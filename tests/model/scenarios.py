"""The bounds within which the protocol is explored: who runs, over how many partitions, and what the adversary may do.

Rules of this file: a scenario says what it is there to show.  It must be complete in seconds with all rules on; a hole
that needs a rare meeting of faults gets a scenario of its own in which just those faults are allowed.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

from tests.model.clients import Client, Producer, spark_job
from tests.model.state import Budget, Outcome

OUTCOMES: tuple[Outcome, ...] = ("COMMITTED", "ABORTED")


@dataclass(frozen=True)
class Scenario:
    """One bound.  Each of `starts` is a set of clients to begin with; `keep` is how many outcomes a shard remembers."""

    name: str
    starts: tuple[tuple[Client, ...], ...]
    budget: Budget
    partitions: int = 1
    keep: int = 4


def _producers(partitions: int, transactions: int) -> tuple[tuple[Client, ...], ...]:
    """One session, which asks for each sequence of outcomes in one of the starts."""
    return tuple((Producer(1, partitions, wants),) for wants in product(OUTCOMES, repeat=transactions))


def _sessions(transactions: int) -> tuple[tuple[Client, ...], ...]:
    """A session, and a later one which takes the transactional id from it at any moment."""
    wants: tuple[Outcome, ...] = ("COMMITTED",)
    return tuple((Producer(1, 1, first), Producer(2, 1, wants, n=0)) for first in product(OUTCOMES, repeat=transactions))


EVERYTHING = Scenario(
    "everything",
    _producers(partitions=2, transactions=2),
    Budget(faults=2, repeats=2, losses=2, slow_markers=1, time_outs=1, failovers=1, elections=1, give_ups=1),
    partitions=2,
)
"""Two transactions over two partitions, and any two faults of any kind."""

ONE_PARTITION = Scenario(
    "one partition, three faults",
    _producers(partitions=1, transactions=2),
    Budget(faults=3, repeats=3, losses=3, slow_markers=1, time_outs=1, failovers=1, elections=1, give_ups=1),
)
"""A smaller system under a stronger adversary."""

SESSIONS = Scenario(
    "two sessions",
    _sessions(transactions=2),
    Budget(faults=2, repeats=1, losses=1, slow_markers=1, time_outs=1, failovers=1, elections=1),
)
"""A zombie runs on while its successor works (holes 15 and 6: sessions)."""

SHORT_LIST = Scenario(
    "an outcome list of one",
    _producers(partitions=1, transactions=3),
    Budget(faults=2, repeats=1, losses=1, slow_markers=1, time_outs=1, elections=1),
    keep=1,
)
"""More transactions than remembered outcomes (hole 15: the list)."""

SPECULATION = Scenario(
    "a loser writes too",
    ((spark_job((("W", 0), ("Z", 0)), chosen="W", attempts=2),),),
    Budget(faults=2, repeats=1, losses=1, slow_markers=1, time_outs=1, failovers=1, elections=1, crashes=1),
)
"""Winner W and its speculative copy Z write to one partition (hole 5)."""

TWO_TASKS = Scenario(
    "two tasks, one commit",
    ((spark_job((("A", 0), ("B", 0)), chosen="AB", attempts=2),),),
    Budget(faults=2, repeats=1, losses=1, slow_markers=1, time_outs=1, failovers=1, crashes=1),
)
"""Both tasks' rows belong to the micro-batch, whatever ends in between (holes 11 and 16)."""

SCENARIOS = (EVERYTHING, ONE_PARTITION, SESSIONS, SHORT_LIST, SPECULATION, TWO_TASKS)
