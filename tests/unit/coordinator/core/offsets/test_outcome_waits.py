"""An outcome is asked for when no marker came for a while, each transaction of a group once, and again later."""

from __future__ import annotations

from typing import NamedTuple

from oncelog_coordinator.core.offsets.offset_commands import AskOutcome
from oncelog_coordinator.core.offsets.outcome_waits import Asked, OutcomeWaits


class Record(NamedTuple):
    """Something that waits for a marker."""

    key: str
    group_id: str = "g"
    txn_producer_id: int = 7
    txn_no: int = 1
    txn_shard: int = 3
    since_ms: int = 1_000


ASKED = AskOutcome("g", 7, 1, 3, 5)


def ask(waits: OutcomeWaits, now_ms: int, limit: int = 10) -> tuple[AskOutcome, ...]:
    note, effects = waits.due(now_ms, limit, {3: 5}.get)
    waits.asked(note)
    waits.check()
    return effects


def test_it_is_asked_for_after_a_while_and_again() -> None:
    waits = OutcomeWaits(100)
    waits.put(Record("a"))
    assert waits.next_ms == 1_100
    assert [ask(waits, now_ms) for now_ms in (1_099, 1_100, 1_101, 1_199, 1_200)] == [(), (ASKED,), (), (), (ASKED,)]


def test_records_of_one_transaction_are_one_question() -> None:
    waits = OutcomeWaits(100)
    for key in ("a", "b"):
        waits.put(Record(key))
    waits.put(Record("c", txn_no=2, txn_shard=4))
    assert set(ask(waits, 1_100)) == {ASKED, AskOutcome("g", 7, 2, 4, 0)}


def test_many_are_asked_for_some_at_a_time() -> None:
    waits = OutcomeWaits(100)
    for n in range(5):
        waits.put(Record(f"{n}", txn_no=n))
    assert [len(ask(waits, 1_100, limit=2)) for _ in range(4)] == [2, 2, 1, 0]


def test_nobody_asks_for_what_is_over() -> None:
    waits = OutcomeWaits(100)
    record = Record("a")
    waits.put(record)
    assert waits.find("a") is record
    assert waits.drop("a") is record
    assert waits.drop("a") is None
    assert ask(waits, 1_100) == ()
    assert waits.next_ms is None


def test_a_clock_that_was_ahead_keeps_nothing_waiting() -> None:
    waits = OutcomeWaits(100)
    waits.put(Record("a", since_ms=1_000_000))
    waits.loaded(2_000)
    assert waits.next_ms == 2_100
    note, effects = waits.due(2_100, 10, lambda _: None)
    assert note == Asked(("a",), 2_100)
    assert len(effects) == 1
