"""An operator sees what was delivered and is not settled."""

from __future__ import annotations

import pytest

from oncelog_partition_leader.core.channels.delivery import Delivery, PendingRecord
from oncelog_partition_leader.core.channels.settlement import Settlement, Verdict
from oncelog_partition_leader.core.producers.transactions import TxnName
from tests.unit.partition_leader.core.channels.channel_rig import NOW, WAIT, channel, say


def busy() -> Delivery:
    """0 waits, 1 is in a transaction, 2 is with ann, 3 with bob, 4 settled but not confirmed, 5 dead, 6 to 9 new."""
    delivery = channel(dead_letter_topic="letters")
    delivery.take("ann", 3, NOW)
    delivery.take("bob", 3, NOW + 50)
    say(delivery, Verdict.NACK, 0, delay_ms=500)
    delivery.enter_transaction("ann", TxnName(7, 1), [Settlement(1, 1, 1)], NOW)
    say(delivery, Verdict.ACK, 4, worker="bob")
    say(delivery, Verdict.REJECT, 5, worker="bob")
    return delivery


ALL = [
    PendingRecord(0, "", 100, 1, 400, False),
    PendingRecord(1, "ann", 100, 1, 0, True),
    PendingRecord(2, "ann", 100, 1, WAIT - 100, False),
    PendingRecord(3, "bob", 50, 1, WAIT - 50, False),
    PendingRecord(5, "", 50, 1, 0, False, dead=True),
]


def test_each_is_told_with_owner_idle_time_and_count() -> None:
    assert busy().pending(NOW + 100, 10) == ALL


@pytest.mark.parametrize(
    ("question", "told"),
    [
        ({"most": 2}, ALL[:2]),
        ({"most": 9, "worker_id": "ann"}, ALL[1:3]),
        ({"most": 9, "worker_id": "bob"}, ALL[3:4]),
        ({"most": 9, "min_idle_ms": 51}, ALL[:3]),
        ({"most": 9, "from_offset": 2}, ALL[2:]),
        ({"most": 0}, []),
    ],
)
def test_it_can_be_asked_for_some(question: dict[str, object], told: list[PendingRecord]) -> None:
    assert busy().pending(NOW + 100, **question) == told  # type: ignore[arg-type]


def test_a_dead_record_is_told_with_what_keeps_its_letter_from_being_written() -> None:
    delivery = busy()
    assert [dead.offset for dead in delivery.to_bury()] == [5]
    delivery.bury_later(5, 500, NOW + 100, "too large")
    (told,) = delivery.pending(NOW + 150, 10, from_offset=5)
    assert told == PendingRecord(5, "", 100, 1, 450, False, dead=True, trouble="too large")
    delivery.check()
    delivery.buried(5)
    assert delivery.pending(NOW + 150, 10, from_offset=5) == []
    delivery.check()


def test_counts_say_the_same() -> None:
    counts = busy().describe(NOW)
    assert (counts.depth, counts.in_flight, counts.in_transaction, counts.waiting) == (9, 2, 1, 1)
    assert (counts.delivered, counts.redelivered, counts.acknowledged, counts.dead, counts.expired) == (6, 0, 1, 1, 0)
