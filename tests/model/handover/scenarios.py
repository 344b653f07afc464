"""What is explored: the sizes, how often each thing may happen, and what is found without each rule."""

from __future__ import annotations

from dataclasses import dataclass

from tests.model.handover.state import Budget


@dataclass(frozen=True)
class Scenario:
    """The bounds of one exploration."""

    name: str
    members: int
    partitions: int
    budget: Budget
    settled: int = 0
    """Members that are there at the beginning, with all partitions."""


@dataclass(frozen=True)
class Ablation:
    """A rule that is taken out, and the violation that must be found then."""

    rule: str
    finds: str
    scenario: Scenario


FIRST = Scenario("the first two members", 2, 2, Budget(copies=1))
LOSSES = Scenario("a lost answer and a copy", 2, 1, Budget(copies=1, losses=1))
ENDS = Scenario("a session that ends, and a copy", 2, 1, Budget(copies=1, ends=1))
LEAVES = Scenario("a member that leaves, and a copy", 2, 1, Budget(copies=1, leaves=1))
COPIES = Scenario("partitions that move again, and a copy", 2, 1, Budget(assignments=1, copies=1))
MOVES = Scenario("partitions that move twice", 2, 2, Budget(assignments=1), settled=1)
THREE = Scenario("a third member", 3, 2, Budget(), settled=2)
SCENARIOS = (FIRST, LOSSES, ENDS, LEAVES, COPIES, MOVES, THREE)

_FENCED = "a member was fenced that did nothing wrong"
ABLATIONS = (
    Ablation("waits_for_release", "two members own one partition", MOVES),
    Ablation("silence_releases_nothing", "two members read one partition", MOVES),
    Ablation("keeps_what_stays", "a kept partition was taken away", MOVES),
    Ablation("only_own_epoch_moves", _FENCED, COPIES),
    Ablation("join_copy_says_nothing", "two members read one partition", COPIES),
    Ablation("previous_epoch_counts", _FENCED, LOSSES),
    Ablation("id_is_used_once", _FENCED, ENDS),
)
