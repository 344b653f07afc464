"""The bounds within which replication is explored: who is in the ISR at first, and what the adversary may do.

Rules of this file: a scenario says what it is there to show.  Those of `SCENARIOS` are complete in seconds with all rules on
and belong to the test suite; those of `DEEP` take minutes, and the search ends at a million states, complete or not:
`python -m tests.model.replication deep` says which.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tests.model.replication.invariants import GIVEN_TWICE, LEADERLESS, LOST, NO_WRITES, OVERTHROWN, UNUSED
from tests.model.replication.state import Budget, Refs

ALL: Refs = (1, 1, 1)
PAIR: Refs = (1, 1, 0)
ALONE: Refs = (1, 0, 0)


@dataclass(frozen=True)
class Scenario:
    """One bound.  A leads, and the members of `isr` hold one acknowledged record; another replica lacks it, unless the ISR
    is below `min_insync`: then it is eligible.  `appends` is how many records follow.  Without `seals` no leader ever gets to
    seal its log, which spares states.  With `old_seal` B led in the epoch
    before, sealed its log when that was empty, and was deposed without being restarted.  With `left_alone` A led in epoch 1,
    and wrote two records of which B took both; C, elected without them, wrote one of its own in epoch 2 that nobody took; now
    B is elected in epoch 3, with A in the ISR, which has one of the two.  etcd's backup is of epoch 1."""

    name: str
    budget: Budget
    appends: int = 0
    isr: Refs = ALL
    min_insync: int = 2
    fsync: bool = False
    seals: bool = True
    old_seal: bool = False
    left_alone: bool = False


ONE_FAULT = Scenario(
    "any one fault",
    Budget(faults=1, kills=1, power_cuts=1, volumes=1, goners=1, freezes=1, expiries=1, cuts=1),
    appends=1,
)
"""A record is on its way through everything that one fault can set off."""

POWER = Scenario("two power cuts", Budget(faults=2, power_cuts=2), isr=PAIR, seals=False)
"""Both members of an ISR lose power before they have sealed anything, and one of them its record."""

SEALED = Scenario("a leader below the minimum loses power", Budget(faults=1, power_cuts=1), appends=1, isr=ALONE)
"""It may have sealed its log, and then have come back to the minimum, and have acknowledged a record."""

DISK = Scenario("a kill and a lost volume", Budget(faults=2, kills=1, volumes=1))
"""What an empty disk must not do, when the intact ones are slow to come back."""

KILLS = Scenario("two kills", Budget(faults=2, kills=2), isr=PAIR)
"""Nothing is ever lost, so the leader always has everything: also when a third replica lags."""

PAGE_CACHE = Scenario("a kill and a power cut", Budget(faults=2, kills=1, power_cuts=1))
"""What an earlier life of a follower held."""

CUT = Scenario("one broker is cut off", Budget(faults=1, cuts=1))
"""Whichever it is, and whoever is the controller; all of them reach etcd."""

GONERS = Scenario("two machines never come back", Budget(faults=3, goners=2, minimums=1))
"""The operator lowers the minimum to what is left."""

LOWERED = Scenario("the minimum is lowered", Budget(faults=2, minimums=1, kills=1), appends=1, isr=ALONE)
"""A leader is alone, with two eligible replicas beside it, when one replica becomes enough."""

RAISED = Scenario("the minimum is raised", Budget(faults=2, minimums=1, volumes=1), 1, ALONE, min_insync=1)
"""A leader is alone, which was enough, when two are asked for."""

RESTORED = Scenario("etcd is restored", Budget(faults=2, kills=1, restores=1), appends=1)
"""From a backup that was made before the last election, while all brokers are stopped."""

ROLLED_BACK = Scenario("etcd goes back, and that is noticed", Budget(faults=2, kills=1, rollbacks=1), appends=1)
"""While leaders lead, or after an election: what was acknowledged since is in the logs alone."""

LEFT_ALONE = Scenario(
    "etcd goes back after two changes of leaders", Budget(faults=2, rollbacks=1, fulls=1), left_alone=True
)
"""Whoever was left behind with a record of its own has the greatest last epoch, and not what was acknowledged since."""

SCENARIOS = (ONE_FAULT, POWER, SEALED, DISK, KILLS, CUT, GONERS, LOWERED, RESTORED, ROLLED_BACK, LEFT_ALONE)

FSYNC = Scenario(
    "fsync: power cuts and a lost volume", Budget(3, power_cuts=2, volumes=1), appends=1, isr=PAIR, fsync=True
)
"""What is acknowledged is on the disks of the ISR: power cuts are free, and one volume may go."""

ZOMBIE = Scenario("a frozen leader goes on", Budget(faults=2, freezes=1, kills=1), appends=1)
"""It is deposed, knows nothing of it, and speaks to followers."""

LOST_REQUEST = Scenario(
    "an ISR change is lost", Budget(faults=3, freezes=1, kills=1, losses=1), appends=1, isr=PAIR, min_insync=1
)
"""The leader does not know whether its write has happened."""

DISAGREED = Scenario(
    "the minimum is raised, and not everybody knows",
    Budget(faults=3, minimums=1, freezes=1, volumes=1),
    appends=1,
    isr=PAIR,
    min_insync=1,
)
"""An ISR change that was made under the old minimum meets acknowledgements under the new one."""

TWO_FAULTS = Scenario(
    "any two faults",
    Budget(faults=2, kills=1, power_cuts=1, volumes=1, freezes=1, expiries=1, cuts=1),
)
"""Without further records."""

OLD_SEAL = replace(POWER, name="two power cuts, and seals", seals=True, old_seal=True)
"""Who is left seals its log in time, or not; and who was sealed in an epoch before loses power as a follower."""

SEALED_TWICE = replace(
    SEALED, name="a leader below the minimum loses power twice", budget=Budget(faults=2, power_cuts=2)
)
"""It seals its log in two epochs, or another one does."""

SEALED_LOWERED = replace(
    SEALED, name="a leader below the minimum loses power, or needs nobody", budget=Budget(2, power_cuts=1, minimums=1)
)
"""The minimum is lowered to what is left, so the seal is broken without anybody coming back."""

BACK_TWICE = replace(LEFT_ALONE, name="etcd goes back twice", budget=Budget(faults=3, rollbacks=2, fulls=1), appends=1)
"""The second time from what the logs have decided."""

BACK_AND_ONE = replace(
    LEFT_ALONE,
    name="etcd goes back, and any other fault but a disk's",
    budget=Budget(faults=3, kills=1, freezes=1, expiries=1, cuts=1, rollbacks=1, fulls=1),
)
"""Before it, while some have noticed, or after it."""

DEEP = (
    *(OLD_SEAL, SEALED_TWICE, SEALED_LOWERED, PAGE_CACHE, RAISED, FSYNC, ZOMBIE, LOST_REQUEST, DISAGREED, TWO_FAULTS),
    *(BACK_TWICE, BACK_AND_ONE),
)

LAST_ONE = Scenario("one is gone, the last one loses power", Budget(faults=2, goners=1, power_cuts=1), isr=PAIR)
"""Who is left leads alone if it has sealed its log, and waits for ever if power was lost before."""

KNOWN_HOLES = (
    (replace(RESTORED, name="etcd is restored, two records", appends=2), GIVEN_TWICE),
    (LAST_ONE, LEADERLESS),
    (Scenario("fsync: one is gone, two lose power", Budget(3, goners=1, power_cuts=2), fsync=True), LEADERLESS),
)
"""What happens with all rules on.  The first: a broker that is still down knows a newer epoch than the restored etcd and all
who answer, so the epoch is given again.  The others: who lost power holds what is acknowledged, and yet waits for the one
that is gone; an operator must act.  Seals narrow these two and close none: whoever has sealed its log leads alone, but power
may be lost before, or while the ISR is still at its minimum."""


@dataclass(frozen=True)
class Ablation:
    """Rules that are taken out, the scenario in which that shows, and the violation that must then be found."""

    rules: tuple[str, ...]
    scenario: Scenario
    finds: str


ABLATIONS = (
    Ablation(("eligible_is_kept",), POWER, LOST),
    Ablation(("eligible_is_kept",), DISK, LEADERLESS),
    Ablation(("eligible_is_cleared",), GONERS, NO_WRITES),
    Ablation(("power_cut_is_noticed",), POWER, LOST),
    Ablation(("empty_disk_is_noticed",), DISK, LOST),
    Ablation(("waits_for_all",), POWER, LOST),
    Ablation(("longest_unclean_wins",), POWER, LOST),
    Ablation(("majority_declares_dead",), CUT, OVERTHROWN),
    Ablation(("config_is_compared",), DISAGREED, LEADERLESS),
    Ablation(("epoch_above_told", "refusals_are_told"), RESTORED, LEADERLESS),
    Ablation(("seal_counts_as_intact",), LAST_ONE, UNUSED),
    Ablation(("sealed_is_synced", "seal_tells_its_end"), SEALED, LOST),
    Ablation(("seal_is_broken_first",), SEALED, LOST),
    Ablation(("seal_is_of_one_epoch",), OLD_SEAL, LOST),
    Ablation(("watermark_needs_min_isr",), RAISED, LEADERLESS),
    Ablation(("watermark_needs_no_eligible",), LOWERED, LOST),
    Ablation(("minimum_is_heard_in_order",), DISAGREED, LEADERLESS),
    Ablation(("small_proposal_stops_watermark", "minimum_is_heard_in_order"), DISAGREED, LEADERLESS),
    Ablation(("leader_clears_eligible",), GONERS, NO_WRITES),
    Ablation(("watermark_waits_for_maximal_isr",), LOST_REQUEST, LOST),
    Ablation(("old_acks_do_not_count",), PAGE_CACHE, LOST),
    Ablation(("only_synced_counts",), replace(FSYNC, budget=Budget(2, power_cuts=2)), LOST),
    Ablation(("joins_at_epoch_start",), KILLS, LOST),
    Ablation(("old_epochs_are_fenced",), ZOMBIE, LOST),
    Ablation(("restored_value_is_not_believed",), LEFT_ALONE, LOST),
    Ablation(("all_are_asked_after_restore",), LEFT_ALONE, LOST),
    Ablation(("restore_is_noticed_first",), LEFT_ALONE, LOST),
    Ablation(("reached_epoch_counts",), LEFT_ALONE, LOST),
    Ablation(("followers_note_epochs",), LEFT_ALONE, LOST),
    Ablation(("old_epochs_commit_at_once",), LEFT_ALONE, LOST),
)

SPARE = (
    Ablation(("elects_only_heard",), DISK, ""),
    Ablation(("isr_only_heard",), DISK, ""),
    Ablation(("old_epoch_never_leads",), RESTORED, ""),
    Ablation(("epoch_above_told",), RESTORED, ""),
    Ablation(("refusals_are_told",), RESTORED, ""),
    Ablation(("sealed_is_synced",), SEALED, ""),
    Ablation(("seal_tells_its_end",), SEALED, ""),
)
"""Rules without which nothing is found, since another one stands behind each: whoever is not elected stays eligible, and of
"the epoch is above all that is told", "a refusal is told" and "nobody leads in an old epoch" two are enough here."""

SLOW = (DISAGREED, ZOMBIE)
"""What is left to the command line also when a rule is taken out."""
