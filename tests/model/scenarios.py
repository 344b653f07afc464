"""The bounds within which the protocol is explored: who runs, over how many partitions, and what the adversary may do.

Rules of this file: a scenario says what it is there to show.  It must be complete in seconds with all rules on; a hole
that needs a rare meeting of faults gets a scenario of its own in which just those faults are allowed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tests.model.clients import Client, Producer, spark_job
from tests.model.invariants import ABORTED_BUT_VISIBLE, FALSE_OUTCOME, HANGING, LOST, TORN, VISIBLE_TWICE
from tests.model.state import Budget, Outcome


@dataclass(frozen=True)
class Scenario:
    """One bound.  Each of `starts` is a set of clients to begin with; `keep` is how many outcomes a shard remembers."""

    name: str
    starts: tuple[tuple[Client, ...], ...]
    budget: Budget
    partitions: int = 1
    keep: int = 4

    def parts(self) -> tuple[Scenario, ...]:
        """The same bound, once for each of its starts."""
        return tuple(replace(self, name=f"{self.name} {i}", starts=(start,)) for i, start in enumerate(self.starts, 1))


def _producers(partitions: int, wants: tuple[str, ...]) -> tuple[tuple[Client, ...], ...]:
    """One session, which in each of the starts asks for another sequence of outcomes: C to commit, A to abort."""
    return tuple((Producer(1, partitions, _outcomes(letters)),) for letters in wants)


def _outcomes(letters: str) -> tuple[Outcome, ...]:
    return tuple("COMMITTED" if letter == "C" else "ABORTED" for letter in letters)


EVERYTHING = Scenario(
    "everything",
    _producers(2, ("CA", "AC")),
    Budget(faults=2, repeats=2, losses=2, slow_markers=1, time_outs=1, failovers=1, elections=1, give_ups=1),
    partitions=2,
)
"""Two transactions with different ends over two partitions, and any two faults of any kind."""

LATE_COPIES = replace(
    EVERYTHING,
    name="everything but time-outs",
    budget=EVERYTHING.budget._replace(time_outs=0, failovers=0, elections=0),
)
"""A part of it: nobody fails, but messages repeat, answers are lost and users give up."""

ONE_PARTITION = Scenario(
    "one partition, three faults",
    _producers(1, ("CC", "AC")),
    Budget(faults=3, repeats=3, losses=3, slow_markers=1, time_outs=1, failovers=1, elections=1, give_ups=1),
)
"""A smaller system under a stronger adversary."""

SESSIONS = Scenario(
    "two sessions",
    tuple((Producer(1, 1, _outcomes(first)), Producer(2, 1, _outcomes("C"), n=0)) for first in ("CC", "CA")),
    Budget(faults=1, repeats=1, losses=1, slow_markers=1, time_outs=1, failovers=1, elections=1),
)
"""A zombie runs on while its successor, which takes the id at any moment, commits (hole 15: sessions)."""

SHORT_LIST = Scenario(
    "an outcome list of one",
    _producers(1, ("CCC", "CAC", "ACA")),
    Budget(faults=2, repeats=1, losses=1, slow_markers=1, time_outs=1, elections=1),
    keep=1,
)
"""More transactions than remembered outcomes (hole 15: the list)."""

SPECULATION = Scenario(
    "a loser writes too",
    ((spark_job((("W", 0), ("Z", 0)), chosen="W", attempts=1),),),
    Budget(faults=3, repeats=1, losses=1, slow_markers=1, time_outs=1, failovers=1, elections=1),
)
"""Winner W and its speculative copy Z write to one partition (hole 5)."""

TWO_TASKS = Scenario(
    "two tasks, one commit",
    ((spark_job((("A", 0), ("B", 0)), chosen="AB", attempts=2),),),
    Budget(faults=2, repeats=1, losses=1, slow_markers=1, time_outs=1, failovers=1),
)
"""Both tasks' rows belong to the micro-batch, whatever ends in between (hole 11)."""

REPLAY = Scenario(
    "a driver that dies",
    ((spark_job((("A", 0),), chosen="A", attempts=2),),),
    Budget(faults=3, repeats=1, losses=1, slow_markers=1, time_outs=1, failovers=1, elections=1, crashes=1),
)
"""The micro-batch runs again, and is in once (hole 16)."""

SCENARIOS = (EVERYTHING, ONE_PARTITION, SESSIONS, SHORT_LIST, SPECULATION, TWO_TASKS, REPLAY)


@dataclass(frozen=True)
class Ablation:
    """A rule that is taken out, the scenario in which that shows, and the violations that must then be found."""

    rule: str
    scenario: Scenario
    finds: frozenset[str]


def _shows(rule: str, scenario: Scenario, *finds: str) -> Ablation:
    return Ablation(rule, scenario, frozenset(finds))


ABLATIONS = (
    _shows("name_transactions", LATE_COPIES, LOST, ABORTED_BUT_VISIBLE, TORN, HANGING, FALSE_OUTCOME),
    _shows("epoch_record_before_answer", ONE_PARTITION, FALSE_OUTCOME, LOST),
    _shows("heal_answer_carries_winners", SPECULATION, ABORTED_BUT_VISIBLE),
    _shows("unknown_is_recorded_first", ONE_PARTITION, LOST),
    _shows("record_holds_all_decided", ONE_PARTITION, HANGING),
    _shows("commit_names_txn_no", TWO_TASKS, LOST, TORN),
    _shows("marker_always_appended", SHORT_LIST, FALSE_OUTCOME, HANGING),
    _shows("forgotten_below_list", SHORT_LIST, FALSE_OUTCOME),
    _shows("session_epoch_checked", SESSIONS, ABORTED_BUT_VISIBLE),
    _shows("token_in_every_record", REPLAY, VISIBLE_TWICE),
    _shows("end_always_recorded", ONE_PARTITION, FALSE_OUTCOME, HANGING),
    _shows("expected_may_be_open", SESSIONS, FALSE_OUTCOME),
    _shows("given_numbers_are_closed", SESSIONS, FALSE_OUTCOME),
    _shows("stale_coordinator_is_silent", ONE_PARTITION, FALSE_OUTCOME),
)
