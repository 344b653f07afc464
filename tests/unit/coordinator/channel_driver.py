"""Drives what is remembered of channels as leaders, markers and the clock do, on a shard of `group_driver`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from oncelog_coordinator.core.channels.channel_commands import (
    ChannelView,
    Leader,
    OpenChannelPartition,
    SeeChannels,
    SendChannelAcks,
    WriteChannelState,
)
from oncelog_coordinator.core.channels.channel_partition import ChannelPartition
from oncelog_coordinator.core.channels.channel_records import ChannelPartitionId, Retry
from oncelog_coordinator.core.channels.offset_ranges import OffsetRange
from oncelog_coordinator.core.offsets.offset_commands import Enrolled, GroupMarker
from oncelog_coordinator.core.transactions.commands import TxnName
from tests.unit.coordinator.group_driver import Groups

CHANNEL = "c" * 32
OTHER = "d" * 32
TOPIC = "a" * 32
SHARD = 3
"""The shard of every transaction here."""


def ranges(*items: tuple[int, int]) -> tuple[OffsetRange, ...]:
    return tuple(OffsetRange(first, last) for first, last in items)


@dataclass
class Led:
    """One channel on one partition, as its leader knows it: the leader's epoch, the last write and the number of seeks."""

    groups: Groups
    channel_id: str = CHANNEL
    partition: int = 0
    epoch: int = 1
    write_no: int = 0
    seeks: int = 0

    @property
    def where(self) -> ChannelPartitionId:
        return ChannelPartitionId(self.channel_id, self.partition)

    @property
    def leader(self) -> Leader:
        return Leader(self.where, TOPIC, self.epoch)

    @property
    def state(self) -> ChannelPartition | None:
        """What the shard holds."""
        return self.groups.table.channels.find(self.where)

    def open(self, *blocks: int) -> ChannelView:
        view: ChannelView = self.groups.do(OpenChannelPartition(self.leader, blocks))
        self.write_no, self.seeks = view.write_no, view.seeks
        return view

    def begin(self, offset: int = 0) -> Led:
        """The first leader opens the channel and writes where it begins."""
        assert not self.open().known
        self.write(offset)
        return self

    def write(self, before: int = 0, *settled: tuple[int, int], retried: tuple[Retry, ...] = (), **more: Any) -> None:
        command = WriteChannelState(self.leader, self.write_no + 1, before, ranges(*settled), retried, **more)
        self.groups.do(command)
        self.write_no += 1

    def seek(self, offset: int) -> None:
        self.write(offset, seek=True)
        self.seeks += 1

    def acks(self, n: int, *acknowledged: tuple[int, int], pid: int = 7, producer_epoch: int = 0) -> SendChannelAcks:
        """A request of the leader, once the transaction's shard has enrolled the channel's group."""
        table = self.groups.table
        is_known = table.channels.is_enrolled(self.where.group_id, pid, n)
        enrolled = Enrolled(None if is_known else 1, table.offsets.forgotten)
        name = TxnName("t", pid, n, producer_epoch)
        return SendChannelAcks(name, SHARD, self.leader, self.seeks, ranges(*acknowledged), enrolled)

    def ack(self, n: int, *acknowledged: tuple[int, int], **more: Any) -> None:
        self.groups.do(self.acks(n, *acknowledged, **more))

    def mark(self, n: int, *, commit: bool, pid: int = 7, epoch: int = 1) -> None:
        self.groups.do(GroupMarker(self.where.group_id, pid, n, commit, SHARD, epoch))


def see_channels(groups: Groups, *channel_ids: str) -> None:
    """The shard sees these channels from now on."""
    groups.do(SeeChannels(frozenset(channel_ids)))


def outcome(view: ChannelView) -> tuple[int, set[int]]:
    """How far everything is settled, and which offsets beyond that are."""
    found = {block.first_offset + place for block in view.blocks for place in range(1024) if block.settled >> place & 1}
    return view.settled_before, found


def retried(view: ChannelView) -> dict[int, tuple[int, int]]:
    """Deliveries and time of each record that was given back."""
    return {item.offset: (item.deliveries, item.not_before_ms) for block in view.blocks for item in block.retried}
