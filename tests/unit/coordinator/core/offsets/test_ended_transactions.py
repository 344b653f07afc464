"""The records of ended transactions go when nobody needs them, and no offset is taken late for that."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from oncelog import errors
from oncelog_coordinator.core.limits import Limits
from oncelog_coordinator.core.offsets.offset_commands import Enrolled, GroupMarker, Member, SendOffsets
from oncelog_coordinator.core.offsets.offset_records import EndedTransactions
from oncelog_coordinator.core.offsets.offset_table import OffsetTable
from oncelog_coordinator.core.transactions.commands import Tick, TxnName
from tests.unit.coordinator.core.offsets.test_offset_table import SIMPLE, Offsets, value

KEPT_MS = 1_000
LIMITS = Limits(ended_retention_ms=KEPT_MS, expire_per_tick=3)


@pytest.fixture
def offsets() -> Iterator[Offsets]:
    one = Offsets(LIMITS)
    yield one
    for compacted in (False, True):
        assert one.replayed(compacted=compacted).groups == one.table.groups, "a replay gives what was there"


def kept(offsets: Offsets) -> set[int]:
    """The producer ids of which a record is kept."""
    return {pid for group in offsets.table.groups.values() for pid in group.ended}


def pass_time(offsets: Offsets, ms: int) -> None:
    """With a `Tick` whenever one is due."""
    end_ms = offsets.now_ms + ms
    for _ in range(100):
        due_ms = offsets.table.next_deadline_ms()
        if due_ms is None or due_ms > end_ms:
            break
        offsets.now_ms = max(offsets.now_ms, due_ms)
        offsets.do(Tick())
    offsets.now_ms = end_ms


def replay(offsets: Offsets) -> None:
    """Another process owns the shard."""
    offsets.table = offsets.replayed(compacted=True)


def send(offsets: Offsets, n: int, enrolled: Enrolled, pid: int = 9) -> None:
    offsets.do(SendOffsets(TxnName("t", pid, n, 0), 3, SIMPLE, 1, (value(0, 50),), enrolled))


# ---------------------------------------------------------------- which go, and when


def test_records_go_some_time_after_the_last_marker_and_one_stays_for_the_epoch(offsets: Offsets) -> None:
    for pid in range(1, 9):
        offsets.marker(committed=True, pid=pid)
    pass_time(offsets, KEPT_MS - 1)
    assert len(kept(offsets)) == 8, "none goes early"
    pass_time(offsets, 1)
    assert kept(offsets) == {8}, "the newest one says which epoch the transaction shard has reached"
    assert offsets.table.forgotten == 7
    pass_time(offsets, 10 * KEPT_MS)
    assert kept(offsets) == {8}


def test_a_producer_that_goes_on_keeps_its_record(offsets: Offsets) -> None:
    for n in range(1, 5):
        offsets.marker(committed=True, n=n, pid=1)
        offsets.marker(committed=True, n=n, pid=2)
        pass_time(offsets, KEPT_MS - 1)
    assert kept(offsets) == {1, 2}
    with pytest.raises(errors.TxnEndedError):
        send(offsets, 4, Enrolled(1), pid=1)


def test_a_group_of_which_nothing_else_is_left_goes_with_its_record(offsets: Offsets) -> None:
    offsets.do(GroupMarker("other", 1, 1, False, 3, 1))
    offsets.marker(committed=True, pid=2)
    pass_time(offsets, KEPT_MS)
    assert set(offsets.table.groups) == {"g"}


def test_each_transaction_shard_keeps_one_witness_of_its_highest_epoch(offsets: Offsets) -> None:
    for pid, shard, epoch in ((1, 3, 5), (2, 3, 7), (3, 4, 2), (4, 3, 7)):
        offsets.do(GroupMarker("g", pid, 1, True, shard, epoch))
    pass_time(offsets, 5 * KEPT_MS)
    assert kept(offsets) == {3, 4}
    replay(offsets)
    for shard, newest in ((3, 7), (4, 2)):
        with pytest.raises(errors.CoordinatorFencedError):
            offsets.do(GroupMarker("g", 1, 2, True, shard, newest - 1))


def test_a_witness_goes_when_another_record_says_a_higher_epoch(offsets: Offsets) -> None:
    offsets.marker(committed=True, pid=1, epoch=5)
    pass_time(offsets, 3 * KEPT_MS)
    offsets.marker(committed=True, pid=2, epoch=6)
    pass_time(offsets, 2 * KEPT_MS)
    assert kept(offsets) == {2}


@pytest.mark.parametrize("said_ms", [0, 10**9])
def test_a_time_that_is_missing_or_to_come_counts_from_the_replay(said_ms: int) -> None:
    """An older version wrote none; the clock of an earlier owner was ahead."""
    offsets = Offsets(LIMITS)
    for pid in (1, 2):
        record = EndedTransactions("g", pid, 1, 3, 1, said_ms)
        offsets.log.append((record.key, record.encode()))
    replay(offsets)
    pass_time(offsets, KEPT_MS - 1)
    assert kept(offsets) == {1, 2}
    pass_time(offsets, 1)
    assert len(kept(offsets)) == 1
    pass_time(offsets, 5 * KEPT_MS)
    assert len(kept(offsets)) == 1, "the witness stays"


def test_a_record_says_when_it_was_written_and_an_older_one_does_not() -> None:
    record = EndedTransactions("g", 7, 3, 2, 6, 1_234)
    assert (
        EndedTransactions.decode({"group": "g", "pid": 7, "up_to": 3, "shard": 2, "epoch": 6, "at_ms": 1_234}) == record
    )
    assert EndedTransactions.decode({"group": "g", "pid": 7, "up_to": 3, "shard": 2, "epoch": 6}).ended_ms == 0


# ---------------------------------------------------------------- what comes late


@pytest.mark.case("hole 12")
def test_offsets_that_were_enrolled_before_a_record_went_are_refused_for_now(offsets: Offsets) -> None:
    """The request was enrolled in 1 and waited; meanwhile 1 ended, and its record went."""
    enrolled = Enrolled(1, offsets.table.forgotten)
    offsets.marker(committed=True, n=1)
    offsets.marker(committed=True, n=1, pid=2)
    pass_time(offsets, KEPT_MS)
    assert kept(offsets) == {2}
    with pytest.raises(errors.CoordinatorNotAvailableError, match="ask again") as refusal:
        send(offsets, 1, enrolled)
    assert refusal.value.retriable
    send(offsets, 2, Enrolled(1, offsets.table.forgotten))


@pytest.mark.case("hole 6")
def test_an_enrolment_by_a_deposed_owner_counts_for_nothing(offsets: Offsets) -> None:
    """The owner of epoch 5 has not heard that its successor has ended 1."""
    offsets.marker(committed=True, n=1, epoch=6)
    offsets.marker(committed=True, n=1, pid=2, epoch=6)
    pass_time(offsets, KEPT_MS)
    with pytest.raises(errors.CoordinatorNotAvailableError, match="deposed"):
        send(offsets, 1, Enrolled(5, offsets.table.forgotten))
    send(offsets, 2, Enrolled(6, offsets.table.forgotten))


def test_offsets_of_a_transaction_that_has_some_are_taken_whatever_was_forgotten(offsets: Offsets) -> None:
    send(offsets, 1, Enrolled(1))
    for pid in (1, 2, 3):
        offsets.marker(committed=True, pid=pid)
    pass_time(offsets, KEPT_MS)
    assert offsets.table.forgotten
    offsets.do(SendOffsets(TxnName("t", 9, 1, 0), 3, SIMPLE, 2, (value(0, 60),), Enrolled(None, 0)))
    offsets.marker(committed=True)
    assert offsets.fetch() == {0: 60}


def test_what_was_forgotten_is_counted_in_each_life() -> None:
    """A handler asks the life that it looked at, so counts of two lives never meet."""
    table = OffsetTable(LIMITS)
    assert table.forgotten == 0
    table.decide(SendOffsets(TxnName("t", 9, 1, 0), 3, Member("g"), 1, (value(0, 1),)), 0)
