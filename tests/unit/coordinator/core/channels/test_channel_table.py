"""Leaders of older epochs confirm nothing, what is settled stays settled, and acknowledgements count with their transaction."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog import errors
from oncelog_coordinator.core.channels.channel_commands import ChannelView, Leader, OpenChannelPartition
from oncelog_coordinator.core.channels.channel_records import ChannelPartitionId, PendingAcks, Retry
from oncelog_coordinator.core.channels.channel_table import ChannelTable
from oncelog_coordinator.core.limits import Limits
from oncelog_coordinator.core.offsets.offset_commands import AskOutcome, CommitOffsets, Member, SendOffsets
from oncelog_coordinator.core.transactions.commands import TxnName
from oncelog_coordinator.core.transactions.records import Tombstone
from tests.unit.coordinator.channel_driver import (
    CHANNEL,
    OTHER,
    SHARD,
    TOPIC,
    Led,
    outcome,
    ranges,
    retried,
    see_channels,
)
from tests.unit.coordinator.group_driver import Groups, part, value

DAY_MS = 86_400_000


def led(**limits: Any) -> Led:
    """A channel that begins at 0, and its leader."""
    return Led(Groups(Limits(**limits))).begin()


def refused(groups: Groups) -> errors.OncelogError:
    """The refusal of the last command, which another owner of the shard could give wrongly: so it is confirmed."""
    assert groups.last.confirm
    assert isinstance(groups.last.reply, errors.OncelogError)
    return groups.last.reply


# ---------------------------------------------------------------- leaders


def test_nothing_is_known_until_a_leader_has_written_where_the_channel_begins() -> None:
    here = Led(Groups())
    assert here.open() == ChannelView(known=False, settled_before=0, write_no=0, seeks=0)
    assert not here.open().known, "asking does not make it known"
    here.write(100)
    assert here.open() == ChannelView(known=True, settled_before=100, write_no=1, seeks=0, written_epoch=1)


def test_an_older_leader_is_refused_as_soon_as_a_newer_one_was_answered() -> None:
    old = led()
    new = Led(old.groups, epoch=2)
    new.open()
    assert [key for key, _ in old.groups.log][-1] == old.state.head.key, "the epoch is durable before the answer"  # type: ignore[union-attr]
    for asked in (old.open, lambda: old.write(0, (3, 3)), lambda: old.ack(1, (3, 3))):
        with pytest.raises(errors.FencedLeaderEpochError):
            asked()
    old.groups.fail_over()
    with pytest.raises(errors.FencedLeaderEpochError):
        old.write(0, (3, 3))


def test_asking_again_is_confirmed_and_writes_nothing() -> None:
    here = led()
    written = len(here.groups.log)
    here.open()
    assert here.groups.last.confirm
    assert len(here.groups.log) == written


@pytest.mark.parametrize("known", [True, False])
def test_a_leader_that_has_not_opened_the_channel_writes_nothing(known: bool) -> None:
    here = led() if known else Led(Groups())
    here.epoch = 2
    here.write(0, (1, 1))
    assert isinstance(refused(here.groups), errors.FencedLeaderEpochError)
    here.ack(1, (1, 1))
    assert isinstance(refused(here.groups), errors.FencedLeaderEpochError)
    here.epoch, here.write_no = 1, 0
    assert outcome(here.open()) == (0, set())


def test_names_that_are_none_are_refused() -> None:
    groups = Groups()
    where = ChannelPartitionId(CHANNEL, 0)
    for leader in (
        Leader(ChannelPartitionId("x", 0), TOPIC, 1),
        Leader(ChannelPartitionId(CHANNEL, -1), TOPIC, 1),
        Leader(where, "x", 1),
        Leader(where, TOPIC, -1),
    ):
        with pytest.raises(errors.InvalidRequestError):
            groups.do(OpenChannelPartition(leader))
    led_here = Led(groups).begin()
    with pytest.raises(errors.InvalidRequestError, match="another topic"):
        groups.do(OpenChannelPartition(Leader(led_here.where, "b" * 32, 1)))


def test_a_shard_has_room_for_so_many_partitions() -> None:
    here = led(max_channel_partitions=1)
    with pytest.raises(errors.ResourceExhaustedError):
        Led(here.groups, partition=1).open()
    here.open()


# ---------------------------------------------------------------- writes


def test_a_copy_of_a_write_is_answered_and_changes_nothing() -> None:
    here = led()
    here.write(0, (5, 6))
    here.write_no -= 1
    here.write(0, (7, 9))
    assert here.groups.last.confirm
    assert outcome(here.open()) == (0, {5, 6})


def test_a_write_that_leaves_one_out_is_refused() -> None:
    here = led()
    here.write_no += 1
    with pytest.raises(errors.InvalidRequestError, match="missing"):
        here.write(0, (5, 6))


def test_a_lower_settled_before_leaves_it_as_it_is() -> None:
    here = led()
    here.write(10)
    here.write(3, (12, 12))
    assert outcome(here.open()) == (10, {12})


def test_only_the_blocks_that_are_named_are_told() -> None:
    here = led()
    here.write(0, (5, 5), (1_030, 1_030), (3_000, 3_000))
    assert [block.first_offset for block in here.open().blocks] == [0, 1_024, 2_048]
    assert [block.first_offset for block in here.open(1_024, 4_096).blocks] == [1_024]
    with pytest.raises(errors.InvalidRequestError):
        here.open(1_000)


# ---------------------------------------------------------------- seeks


def test_a_seek_forgets_everything_and_goes_back() -> None:
    here = led()
    here.write(100, (105, 110), retried=(Retry(101, 3),))
    here.ack(1, (102, 103))
    here.seek(40)
    view = here.open()
    assert (outcome(view), retried(view), view.pending, view.seeks) == ((40, set()), {}, (), 1)
    here.mark(1, commit=True)
    assert outcome(here.open()) == (40, set()), "what was acknowledged before counts no more"


def test_what_a_seek_has_outdated_is_removed_by_and_by_and_is_not_there_after_a_fail_over() -> None:
    here = led(expire_per_tick=2)
    for block in range(5):
        here.write(0, (block * 1_024 + 7, block * 1_024 + 7))
    here.seek(0)
    here.write(0, (9, 9))
    here.groups.fail_over()
    assert outcome(here.open()) == (0, {9})
    here.groups.wait(10)
    assert here.state is not None
    assert not here.state.outdated
    here.groups.fail_over()
    assert outcome(here.open()) == (0, {9}), "and no tombstone has met the new block"


def test_late_acknowledgements_from_before_a_seek_are_refused() -> None:
    here = led()
    late = here.acks(1, (3, 4))
    here.seek(0)
    with pytest.raises(errors.OffsetCommitStaleError):
        here.groups.do(late)


# ---------------------------------------------------------------- transactions


def test_acknowledgements_count_when_their_transaction_commits() -> None:
    here, other = led(), led()
    other = Led(here.groups, partition=1).begin()
    here.ack(1, (0, 2))
    here.ack(1, (2, 4), (9, 9))
    other.ack(1, (7, 7))
    (pending,) = here.open().pending
    assert (pending.txn_producer_id, pending.txn_no, pending.txn_shard) == (7, 1, SHARD)
    assert pending.ranges == ranges((0, 4), (9, 9))
    assert outcome(here.open()) == (0, set())
    here.groups.fail_over()
    here.mark(1, commit=True)
    assert (outcome(here.open()), outcome(other.open())) == ((5, {9}), (0, {7})), "one marker for all partitions"
    assert here.open().pending == other.open().pending == ()
    here.groups.fail_over()
    assert outcome(here.open()) == (5, {9})


def test_the_newest_leader_that_wrote_or_sent_acknowledgements_is_told() -> None:
    here = led()
    assert here.open().written_epoch == 1
    here.epoch = 2
    assert here.open().written_epoch == 1, "to ask is not to write"
    here.ack(1, (3, 4))
    assert here.open().written_epoch == 2
    here.epoch = 3
    here.open()
    here.mark(1, commit=True)
    assert here.open().written_epoch == 2, "the marker brings nothing that was not said before"
    here.groups.fail_over()
    assert here.open().written_epoch == 2
    here.write(0, (9, 9))
    assert here.open().written_epoch == 3


def test_acknowledgements_of_an_aborted_transaction_are_forgotten() -> None:
    here = led()
    here.ack(1, (0, 2))
    here.mark(1, commit=False)
    view = here.open()
    assert (outcome(view), view.pending) == ((0, set()), ())


def test_one_marker_settles_offsets_and_acknowledgements_of_a_group() -> None:
    here = led()
    group = here.where.group_id
    here.ack(1, (0, 2))
    here.groups.do(SendOffsets(TxnName("t", 7, 1, 0), SHARD, Member(group), 1, (value(part("t", 0), 5),)))
    here.mark(1, commit=True)
    assert outcome(here.open()) == (3, set())
    offsets = here.groups.table.offsets.groups[group].offsets
    assert [committed.value.offset for committed in offsets.values()] == [5]


def test_a_transaction_that_has_ended_takes_nothing() -> None:
    here = led()
    late = here.acks(1, (3, 4))
    here.mark(1, commit=True)
    with pytest.raises(errors.TxnEndedError):
        here.groups.do(late)


def test_nothing_is_taken_when_the_end_of_the_transaction_may_have_been_forgotten() -> None:
    here = led(ended_retention_ms=1_000)
    late = here.acks(1, (3, 4))
    here.mark(1, commit=True)
    here.mark(1, commit=True, pid=8)  # this record is the witness now
    here.groups.wait(5_000)
    with pytest.raises(errors.CoordinatorNotAvailableError, match="ask again"):
        here.groups.do(late)


def test_a_marker_of_a_deposed_owner_changes_nothing() -> None:
    here = led()
    here.ack(2, (3, 4))
    here.mark(1, commit=True, epoch=5)
    with pytest.raises(errors.CoordinatorFencedError):
        here.mark(2, commit=True, epoch=4)
    assert here.open().pending


def test_another_session_of_the_transactional_id_adds_nothing() -> None:
    here = led()
    here.ack(1, (3, 4), producer_epoch=1)
    with pytest.raises(errors.ProducerFencedError):
        here.ack(1, (5, 5), producer_epoch=2)


def test_the_outcome_is_asked_for_once_when_no_marker_comes() -> None:
    here, resolve_ms = led(), Limits().group_resolve_after_ms
    other = Led(here.groups, partition=1).begin()
    here.ack(1, (3, 4))
    other.ack(1, (3, 4))
    here.groups.wait(resolve_ms + 1)
    asked = AskOutcome(here.where.group_id, 7, 1, SHARD, 0)
    assert here.groups.effects == [asked]
    here.groups.fail_over()
    here.groups.wait(1)
    assert here.groups.effects == [asked, asked], "the next owner asks too"
    here.mark(1, commit=False)
    here.groups.wait(2 * resolve_ms)
    assert here.groups.effects == [asked, asked]


def test_acknowledgements_need_a_beginning_and_a_transaction() -> None:
    here = Led(Groups())
    here.open()
    with pytest.raises(errors.InvalidRequestError, match="begins"):
        here.ack(1, (0, 0))
    here.write(0)
    for n, items in ((0, ((0, 0),)), (1, ()), (1, ((3, 2),)), (1, ((-1, 2),)), (1, ((0, 2_000_001),))):
        with pytest.raises(errors.InvalidRequestError):
            here.ack(n, *items)
    here.ack(1, (1_999_000, 2_000_000))


# ---------------------------------------------------------------- bounds of transactions


def test_so_many_open_transactions_have_room_on_a_partition() -> None:
    here = led(max_channel_pending=2)
    here.ack(1, (0, 0))
    here.ack(1, (1, 1), pid=8)
    with pytest.raises(errors.ResourceExhaustedError):
        here.ack(1, (2, 2), pid=9)
    here.ack(1, (2, 2))
    here.mark(1, commit=True, pid=8)
    here.ack(1, (2, 2), pid=9)


def test_so_many_ranges_are_pending_on_a_partition() -> None:
    here = led(max_channel_pending_ranges=3)
    here.ack(1, (0, 0), (2, 2))
    with pytest.raises(errors.ResourceExhaustedError):
        here.ack(1, (4, 4), (6, 6), pid=8)
    here.ack(1, (1, 1))
    here.ack(1, (4, 4), (6, 6), pid=8)


def test_a_transaction_acknowledges_so_much() -> None:
    here = led(max_channel_ranges=2)
    here.ack(1, (0, 0), (2, 2))
    with pytest.raises(errors.InvalidRequestError, match="too much"):
        here.ack(1, (4, 4))
    wide = led(max_channel_txn_bytes=5_000)
    wide.ack(1, (0, 3_000))
    with pytest.raises(errors.InvalidRequestError, match="too much"):
        Led(wide.groups, partition=1).begin().ack(1, (0, 3_000))


def test_the_records_of_a_marker_stay_below_what_was_reckoned() -> None:
    here = led(max_channel_txn_bytes=40_000)
    here.write(0, *((n * 1_024 + 1, n * 1_024 + 1_023) for n in range(55)), retried=())
    here.ack(1, (0, 55 * 1_024 - 2))
    at = len(here.groups.log)
    here.mark(1, commit=True)
    assert sum(len(key) + len(data or b"") for key, data in here.groups.log[at:]) <= 40_000


# ---------------------------------------------------------------- channels that are gone


def test_a_channel_that_was_deleted_is_forgotten_after_a_day() -> None:
    here = led(expire_per_tick=3)
    other = Led(here.groups, OTHER).begin()
    for partition in range(1, 6):
        Led(here.groups, partition=partition).begin().write(0, (5, 5))
    here.write(0, (5, 5), retried=(Retry(2, 1),))
    here.ack(1, (7, 7))
    see_channels(here.groups, OTHER)
    here.groups.wait(DAY_MS - 1_000)
    assert here.state is not None
    see_channels(here.groups, CHANNEL, OTHER)
    see_channels(here.groups, OTHER)
    here.groups.wait(2_000)
    assert here.state is not None, "it was seen again in between"
    here.groups.wait(DAY_MS)
    assert set(here.groups.table.channels.channels) == {OTHER}
    here.groups.fail_over()
    assert set(here.groups.table.channels.channels) == {OTHER}
    assert other.open().known


def test_nothing_is_gone_for_a_shard_that_has_seen_no_channels() -> None:
    here = led()
    here.groups.wait(30 * DAY_MS)
    assert here.open().known


def test_an_older_state_is_removed_before_a_leader_begins_anew() -> None:
    here = led(expire_per_tick=1)
    here.write(0, (5, 5))
    table = here.groups.table
    assert here.state is not None
    assert here.state.head is not None
    table.apply(Tombstone(here.state.head.key))
    with pytest.raises(errors.CoordinatorNotAvailableError):
        here.open()
    here.groups.wait(10)
    assert not here.open().known


def test_plain_commits_go_on_beside_channels() -> None:
    here = led()
    here.groups.do(CommitOffsets(Member("g"), 0, (value(part("t", 0), 3),)))
    here.groups.fail_over()
    assert here.open().known


def test_a_table_alone_knows_its_keys() -> None:
    assert ChannelTable.knows_key(PendingAcks(ChannelPartitionId(CHANNEL, 0), 7, 1, 0, 3, 0, 0, ()).key)
    assert not ChannelTable.knows_key("ended:7:__channel.x")
