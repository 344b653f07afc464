"""Every step of the table happens, and no other one is taken."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest

from oncelog_partition_leader.core.channels.delivery import Delivery
from oncelog_partition_leader.core.channels.record.entry import Entry
from oncelog_partition_leader.core.channels.record.record_states import TRANSITIONS, RecordState, Trigger
from oncelog_partition_leader.core.channels.settlement import Claim, Settlement, Verdict
from oncelog_partition_leader.core.channels.stored_state import Retried, Stored, StoredPending
from oncelog_partition_leader.core.producers.transactions import TxnName
from oncelog_runtime.metadata.channel_values import ChannelOptions
from tests.unit.partition_leader.core.channels.channel_rig import NOW, WAIT, channel, say, write

S = RecordState
T = Trigger
TXN = TxnName(7, 1)
LETTERS = "letters"
Walk = Callable[[], Delivery]


def state(delivery: Delivery) -> RecordState:
    """The state of record 0."""
    entry = delivery._records.entries.get(0)
    if entry is not None:
        return entry.state
    return S.SETTLED if delivery.settled_before > 0 else S.AVAILABLE


def taken(worker: str = "ann", **options: Any) -> Delivery:
    delivery = channel(records=1, **options)
    delivery.take(worker, 1, NOW)
    return delivery


def in_txn(stored: Stored | None = None, **options: Any) -> Delivery:
    delivery = channel(stored, records=1, **options)
    number = delivery.take("ann", 1, NOW)[0].delivery
    delivery.enter_transaction("ann", TXN, [Settlement(0, 0, number)], NOW)
    return delivery


def acked() -> Delivery:
    delivery = taken()
    say(delivery, Verdict.ACK, 0)
    return delivery


def dying() -> Delivery:
    delivery = taken(dead_letter_topic=LETTERS)
    say(delivery, Verdict.REJECT, 0)
    return delivery


def given_back(**options: Any) -> Delivery:
    delivery = taken(**options)
    say(delivery, Verdict.NACK, 0)
    return delivery


def last_chance_lowered(topic: str) -> Delivery:
    delivery = given_back(dead_letter_topic=topic)
    delivery.configure(ChannelOptions(max_deliveries=1, dead_letter_topic=topic))
    return delivery


def without_letters() -> Delivery:
    delivery = dying()
    delivery.configure(ChannelOptions())
    return delivery


def told_pending() -> Delivery:
    """A record that an earlier leader has sent in a transaction, so its worker is not known."""
    return channel(Stored(0, pending=(StoredPending(TXN, ((0, 0),)),)), records=1)


LAST = Stored(0, retried=(Retried(0, 1, 0),))
"""The next delivery is the second one."""


def _settle(verdict: Verdict, **more: Any) -> Callable[[Delivery], object]:
    return lambda delivery: say(delivery, verdict, 0, **more)


WALKS: list[tuple[RecordState, RecordState, Trigger, Walk, Callable[[Delivery], object]]] = [
    (S.AVAILABLE, S.IN_FLIGHT, T.TAKEN, lambda: channel(records=1), lambda d: d.take("ann", 1, NOW)),
    (S.AVAILABLE, S.IN_FLIGHT, T.CLAIMED, given_back, lambda d: d.claim("bob", Claim((0,)), NOW)),
    (S.AVAILABLE, S.BURYING, T.EXHAUSTED, lambda: last_chance_lowered(LETTERS), lambda d: d.take("ann", 1, NOW)),
    (S.AVAILABLE, S.SETTLING, T.EXHAUSTED, lambda: last_chance_lowered(""), lambda d: d.take("ann", 1, NOW)),
    (S.AVAILABLE, S.SETTLED, T.EXPIRED, lambda: channel(records=1), lambda d: d.log_begins_at(1)),
    (S.IN_FLIGHT, S.IN_FLIGHT, T.TOUCH, taken, _settle(Verdict.TOUCH)),
    (S.IN_FLIGHT, S.IN_FLIGHT, T.CLAIMED, taken, lambda d: d.claim("bob", Claim(), NOW)),
    (S.IN_FLIGHT, S.AVAILABLE, T.NACK, taken, _settle(Verdict.NACK)),
    (S.IN_FLIGHT, S.AVAILABLE, T.RELEASE, taken, _settle(Verdict.RELEASE)),
    (S.IN_FLIGHT, S.AVAILABLE, T.DEADLINE, taken, lambda d: d.tick(NOW + WAIT)),
    (S.IN_FLIGHT, S.AVAILABLE, T.LEFT, taken, lambda d: d.worker_left("ann", NOW)),
    (S.IN_FLIGHT, S.SETTLING, T.ACK, taken, _settle(Verdict.ACK)),
    (S.IN_FLIGHT, S.SETTLING, T.REJECT, taken, _settle(Verdict.REJECT)),
    (S.IN_FLIGHT, S.SETTLING, T.EXHAUSTED, lambda: taken(max_deliveries=1), _settle(Verdict.NACK)),
    (S.IN_FLIGHT, S.BURYING, T.REJECT, lambda: taken(dead_letter_topic=LETTERS), _settle(Verdict.REJECT)),
    (
        S.IN_FLIGHT, S.BURYING, T.EXHAUSTED,
        lambda: taken(max_deliveries=1, dead_letter_topic=LETTERS), lambda d: d.tick(NOW + WAIT),
    ),
    (
        S.IN_FLIGHT, S.IN_TXN, T.TXN_ACK,
        taken, lambda d: d.enter_transaction("ann", TXN, [Settlement(0, 0, 1)], NOW),
    ),
    (S.IN_FLIGHT, S.SETTLED, T.EXPIRED, taken, lambda d: d.log_begins_at(1)),
    (S.IN_TXN, S.IN_FLIGHT, T.TXN_REFUSED, in_txn, lambda d: d.left_transaction(TXN, [(0, 0)], NOW)),
    (S.IN_TXN, S.AVAILABLE, T.TXN_REFUSED, told_pending, lambda d: d.left_transaction(TXN, [(0, 0)], NOW)),
    (S.IN_TXN, S.AVAILABLE, T.ABORTED, in_txn, lambda d: d.ended_transaction(TXN, [], NOW)),
    (
        S.IN_TXN, S.BURYING, T.EXHAUSTED,
        lambda: in_txn(LAST, max_deliveries=2, dead_letter_topic=LETTERS), lambda d: d.ended_transaction(TXN, [], NOW),
    ),
    (S.IN_TXN, S.SETTLING, T.EXHAUSTED, lambda: in_txn(LAST, max_deliveries=2), lambda d: d.ended_transaction(TXN, [], NOW)),
    (S.IN_TXN, S.SETTLED, T.COMMITTED, in_txn, lambda d: d.ended_transaction(TXN, [(0, 0)], NOW)),
    (S.IN_TXN, S.SETTLED, T.EXPIRED, in_txn, lambda d: d.log_begins_at(1)),
    (S.BURYING, S.SETTLING, T.BURIED, dying, lambda d: d.buried(0)),
    (S.BURYING, S.SETTLING, T.NO_LETTERS, without_letters, lambda d: d.to_bury()),
    (S.BURYING, S.SETTLED, T.EXPIRED, dying, lambda d: d.log_begins_at(1)),
    (S.SETTLING, S.SETTLED, T.CONFIRMED, acked, write),
    (S.SETTLING, S.SETTLED, T.EXPIRED, acked, lambda d: d.log_begins_at(1)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new", "begin", "step"),
    [pytest.param(old, new, begin, step, id=f"{old}-{new}-{trigger.name}") for old, new, trigger, begin, step in WALKS],
)
def test_each_step_happens(old: RecordState, new: RecordState, begin: Walk, step: Callable[[Delivery], object]) -> None:
    delivery = begin()
    assert state(delivery) is old
    step(delivery)
    assert state(delivery) is new
    delivery.check()


def test_every_step_of_the_table_is_walked() -> None:
    walked: dict[tuple[RecordState, RecordState], set[Trigger]] = {}
    for old, new, trigger, _, _ in WALKS:
        walked.setdefault((old, new), set()).add(trigger)
    assert walked == {step: set(triggers) for step, triggers in TRANSITIONS.items()}


@pytest.mark.parametrize(("old", "new"), [step for step in product(S, S) if step not in TRANSITIONS])
def test_no_other_step_is_taken(old: RecordState, new: RecordState) -> None:
    entry = Entry(0, state=old)
    with pytest.raises(AssertionError, match="no step leads"):
        entry.move(new)
    assert entry.state is old


def test_only_settled_is_final() -> None:
    assert {old for old, _ in TRANSITIONS} == set(S) - {S.SETTLED}
