"""Weaknesses of Kafka's protocol (KIP-98, KIP-890) that this one has to avoid, by number, and the tests that show it."""

from __future__ import annotations

from typing import Final

from tests.conformance.table.cases import CASES, HOLES, Case
from tests.conformance.table.cases_later import LATER
from tests.conformance.table.cases_outcomes import OUTCOMES

_COURIER: Final = "unit/coordinator/effects/test_marker_courier.py::"
_ENTRY: Final = "unit/partition_leader/core/producers/test_producer_entry.py::"
_STATE: Final = "unit/partition_leader/core/producers/test_producer_state.py::"
_MARKERS: Final = "unit/coordinator/effects/test_markers.py::"


_TABLES: Final = {**CASES, **LATER, **OUTCOMES, **{f"hole {number}": case for number, case in HOLES.items()}}


def _as(title: str, *names: str, tests: tuple[str, ...] = ()) -> Case:
    """Shown by the tests of these cases, and by more."""
    return Case(title, tuple(dict.fromkeys([*(test for name in names for test in _TABLES[name].tests), *tests])))


WEAKNESSES: Final[dict[str, Case]] = {
    "W1": _as("a delayed END or marker acts on a later transaction (KAFKA-17754)", "C88", "C89"),
    "W2": Case(
        "the repair of KIP-890 needs a new client, which many languages do not have",
        reason="there is one protocol version and no older mode: every client names its transactions",
    ),
    "W3": _as("a transaction that hangs until an operator ends it (KAFKA-12671)", "C93"),
    "W4": _as("a commit is acknowledged before it can be read", "D120"),
    "W5": _as("the next transaction waits for the markers of the last one", "C89", "A21"),
    "W6": _as("a client rewrites the sequences of batches that may be written (KAFKA-14034)", "B47"),
    "W7": _as("a window of five batches, and of one after a restart", "B48"),
    "W8": _as("a leader without state accepts any sequence", "B38"),
    "W9": Case(
        "a 16-bit producer epoch that each transaction raises and that runs out",
        reason="the transaction number has 64 bits, the session epoch 32, and no transaction raises it",
    ),
    "W10": _as(
        "errors that do not say what to do, and time-outs that are the last word",
        "C66",
        "outcome 4",
    ),
    "W11": _as("a batch that lands on another topic (KAFKA-19012)", "B50"),
    "W12": _as("a coordinator that serves a log which it has read in part", "C80"),
    "W13": _as(
        "a marker that is skipped because metadata does not show its partition",
        "C92",
        tests=(_COURIER + "test_only_proof_of_deletion_ends_a_marker",),
    ),
    "W14": Case(
        "one slow transaction holds back every read_committed reader of its partitions",
        reason="it is so here, too: the last stable offset waits for the oldest open transaction, which ends within a bound",
    ),
    "W15": _as(
        "a commit that has to come from the process that wrote",
        "K178",
    ),
    "W16": _as(
        "no Spark sink that writes exactly once (SPARK-28908)",
        "K179",
    ),
    "W17": _as(
        "offsets of a transaction are answered before they are applied (KAFKA-17507)",
        "hole 14",
    ),
    "W18": Case(
        "a commit of offsets is fenced by member and not by partition (KIP-1251)",
        reason="groups assign no partitions yet, so no commit can come from a member that has lost one",
    ),
    "W19": _as(
        "the state of many short-lived producers fills the memory",
        "B39",
        tests=(_ENTRY + "test_expiry_follows_the_logs_own_time",),
    ),
    "W20": _as("a clock that steps back breaks a transition", "C71"),
    "W21": _as(
        "the last known leader is elected though it is gone (KAFKA-19522)",
        "F143",
    ),
    "W22": _as(
        "an acknowledgement does not mean that anything is on disk",
        "hole 4",
    ),
    "W23": _as("a retry is not recognised after a fail-over (KAFKA-20357)", "A15", "C60"),
    "W24": _as("bookkeeping of two transactions collides (KAFKA-16352)", "C89"),
}
