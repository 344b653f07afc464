"""The end of a delivery: counted, and on its way to the coordinator in the same step."""

from __future__ import annotations

import pytest

from oncelog_partition_leader.core.channels.record.entry import Entry
from oncelog_partition_leader.core.channels.record.fates import Fates
from oncelog_partition_leader.core.channels.record.record_states import RecordState
from oncelog_partition_leader.core.channels.record.records import Records
from oncelog_partition_leader.core.channels.writing import WriteQueue
from oncelog_runtime.metadata.channel_values import ChannelOptions


class Rig:
    """Fates over one record, number 3, in flight for the n-th time."""

    def __init__(self, deliveries: int = 1, **options: object) -> None:
        self.records = Records(order_by_key=False)
        self.writes = WriteQueue(0)
        self.fates = Fates(ChannelOptions(**options), self.records, self.writes)  # type: ignore[arg-type]
        self.entry = Entry(3, deliveries=deliveries - 1)
        self.records.add(self.entry)
        if deliveries == 1:
            self.records.take_fresh(1, "ann", 90, 10)
            self.entry = self.records.entries[3]
        else:
            self.records.deliver(self.entry, "ann", 90, 10)
        self.records.deadlines.add(90, 3, 3)

    def written(self) -> tuple[list[tuple[int, int]], list[int]]:
        """What waits to be written."""
        draft = self.writes.begin()
        assert draft is not None
        return list(draft.settled), list(draft.retried)


def test_an_acknowledged_record_is_written() -> None:
    rig = Rig()
    rig.fates.acknowledge([rig.entry])
    assert rig.entry.state is RecordState.SETTLING
    assert rig.written() == ([(3, 3)], [])
    assert rig.fates.acknowledged == 1


def test_records_with_others_between_them_are_not_acknowledged_together() -> None:
    """The write names the first and the last one: it would settle what lies between, on which no one has worked."""
    rig = Rig()
    with pytest.raises(AssertionError, match="no offset lies between"):
        rig.fates.acknowledge([rig.entry, Entry(7)])
    assert rig.entry.state is RecordState.IN_FLIGHT
    assert rig.fates.acknowledged == 0


@pytest.mark.parametrize(("deliveries", "pause_ms"), [(1, 100), (2, 200), (3, 400), (4, 500)])
def test_a_failed_delivery_has_the_pause_of_the_channel(deliveries: int, pause_ms: int) -> None:
    rig = Rig(deliveries, retry_backoff_ms=100, retry_backoff_max_ms=500)
    rig.fates.fail(rig.entry, now_ms=20)
    assert rig.entry.due_ms == 20 + pause_ms
    assert rig.written() == ([], [3])
    rig.records.check()


def test_a_released_delivery_leaves_nothing() -> None:
    rig = Rig()
    rig.fates.release(rig.entry)
    assert not rig.writes.has_news
    assert list(rig.records.fresh) == [(3, 3)]


@pytest.mark.parametrize(("deliveries", "dies"), [(2, False), (3, True), (4, True)])
def test_a_record_dies_of_its_last_delivery(deliveries: int, dies: bool) -> None:
    rig = Rig(deliveries, max_deliveries=3)
    rig.fates.fail(rig.entry, now_ms=20)
    assert rig.fates.dead == dies
    assert rig.entry.state is (RecordState.SETTLING if dies else RecordState.AVAILABLE)


def test_without_a_bound_none_dies() -> None:
    rig = Rig(1_000)
    assert not rig.fates.is_exhausted(rig.entry)


def test_a_dead_record_waits_for_its_letter() -> None:
    rig = Rig(dead_letter_topic="letters")
    rig.fates.die(rig.entry, "poison")
    assert rig.fates.burial.reasons == {3: "poison"}
    rig.fates.buried(rig.entry)
    assert rig.fates.burial.reasons == {}
    assert rig.written() == ([(3, 3)], [3])


def test_a_dead_record_that_the_log_has_lost_needs_no_letter() -> None:
    rig = Rig(dead_letter_topic="letters")
    rig.fates.die(rig.entry, "poison")
    rig.fates.expire(rig.entry)
    assert rig.fates.burial.take() == []
    assert not rig.records.entries


def test_a_committed_record_is_not_written() -> None:
    rig = Rig()
    rig.records.move(rig.entry, RecordState.IN_TXN)
    rig.fates.commit(rig.entry)
    assert not rig.writes.has_news
    assert rig.fates.acknowledged == 1
