"""Remembers the state of all channels of one group shard: a pure core of the same shape as `offsets.offset_table`.

Rule 1: the newest leader epoch that has asked is noted before it is answered, and older leaders are refused from then on. So a
        new leader knows all that an older one was confirmed (docs/internals/channels.md#how-the-state-survives).
Rule 2: writes of a partition are numbered; only the next one is applied, and a copy is answered. What is settled is a union,
        and `settled_before` never goes back but by a seek, or where the log has lost records.
Rule 3: acknowledgements of a transaction are pending under (producer id, n) until the marker comes. They are taken from the
        newest leader, since the newest seek, and while the transaction is open in this group (`Transactions`).
Rule 4: every append is bounded: what a marker will write is bounded when the acknowledgements come, and what counts no more is
        removed some at a time.
Rule 5: what was remembered of a channel goes when this life of the shard has seen the cluster without the channel for
        `gone_topic_ms`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain, islice
from typing import Protocol

from oncelog.core.names import is_partition_id
from oncelog.errors import (
    CoordinatorNotAvailableError,
    FencedLeaderEpochError,
    InvalidRequestError,
    OffsetCommitStaleError,
    OncelogError,
    ProducerFencedError,
    ResourceExhaustedError,
)
from oncelog_coordinator.core.channels.channel_commands import (
    ChannelsSeen,
    Leader,
    LookedAtChannels,
    OpenChannelPartition,
    SeeChannels,
    SendChannelAcks,
    WriteChannelState,
)
from oncelog_coordinator.core.channels.channel_partition import ChannelPartition
from oncelog_coordinator.core.channels.channel_records import (
    BLOCK_BYTES,
    UNKNOWN,
    ChannelHead,
    ChannelLogRecord,
    ChannelPartitionId,
    PendingAcks,
    RetriedBlock,
    SettledBlock,
    decode_channel_record,
    is_channel_key,
    parse_channel_key,
)
from oncelog_coordinator.core.channels.channel_writes import (
    check_blocks,
    check_ranges,
    check_write,
    committed,
    view_of,
    written,
)
from oncelog_coordinator.core.channels.offset_ranges import OffsetRange, number_of_blocks, union
from oncelog_coordinator.core.decision import Decision, LogRecord, Note
from oncelog_coordinator.core.limits import Limits
from oncelog_coordinator.core.offsets.gone_topics import GoneTopics, LookedAtTopics
from oncelog_coordinator.core.offsets.offset_commands import Enrolled, GroupMarker
from oncelog_coordinator.core.offsets.outcome_waits import OutcomeWaits
from oncelog_coordinator.core.transactions.commands import Tick, TxnName
from oncelog_coordinator.core.transactions.records import Tombstone

ChannelCommand = OpenChannelPartition | WriteChannelState | SendChannelAcks | SeeChannels | Tick
_InGroup = tuple[str, int, int]
"""(group_id, txn_producer_id, txn_no)"""


class Transactions(Protocol):
    """The interface of the core that knows which transactions have ended in a group, and asks for outcomes."""

    waiting: OutcomeWaits

    def require_open(self, group_id: str, name: TxnName, txn_shard: int, enrolled: Enrolled | None) -> None:
        """See `OffsetTable.require_open`."""
        ...


class ChannelTable:
    """Holds all channels of one shard. It has many methods, one for each question of the rules about channels."""

    def __init__(self, limits: Limits, transactions: Transactions) -> None:
        self.limits = limits
        self.channels: dict[str, dict[int, ChannelPartition]] = {}
        """Channel id -> partition -> state."""
        self._transactions = transactions
        self._in_group: dict[_InGroup, dict[ChannelPartitionId, int]] = {}
        """Open transaction -> the partitions on which it has acknowledged, with the bytes that its marker writes at most."""
        self._outdated: dict[ChannelPartitionId, None] = {}
        """Partitions with records that count no more."""
        self._gone = GoneTopics(limits)
        self._partitions = 0

    # ------------------------------------------------------------ reading

    def decide(self, command: ChannelCommand, now_ms: int) -> Decision:
        """Decides about a command. Raises `OncelogError` to refuse it."""
        if isinstance(command, OpenChannelPartition):
            return self._open(command)
        if isinstance(command, WriteChannelState):
            return self._write(command)
        if isinstance(command, SendChannelAcks):
            return self._send(command, now_ms)
        if isinstance(command, SeeChannels):
            return Decision(notes=(ChannelsSeen(command.channel_ids),))
        return self._tick(now_ms)

    def is_enrolled(self, group_id: str, txn_producer_id: int, txn_no: int) -> bool:
        """True when the channel has acknowledgements in this transaction, so that its group need not be enrolled again."""
        return (group_id, txn_producer_id, txn_no) in self._in_group

    def next_deadline_ms(self) -> int | None:
        """Returns the earliest time at which a `Tick` may find something to do; None = never."""
        return 0 if self._outdated else self._gone.next_ms

    def find(self, where: ChannelPartitionId) -> ChannelPartition | None:
        """Returns the state of a channel on a partition."""
        return self.channels.get(where.channel_id, {}).get(where.partition)

    # ------------------------------------------------------------ leaders

    def _open(self, command: OpenChannelPartition) -> Decision:
        leader = command.leader
        check_blocks(command.blocks, self.limits)
        here = self._known(leader)
        if here is None or here.head is None:
            self._require_room(here)
            head = ChannelHead(leader.id, leader.topic_id, leader.leader_epoch)
            return Decision(reply=view_of(ChannelPartition(leader.id), ()), records=(head,))
        _refuse_older(leader, here.head)
        reply = view_of(here, command.blocks)
        if leader.leader_epoch == here.head.leader_epoch:
            return Decision(reply=reply, confirm=True)
        return Decision(reply=reply, records=(replace(here.head, leader_epoch=leader.leader_epoch),))

    def _known(self, leader: Leader) -> ChannelPartition | None:
        """Returns the state that the leader asks about. Raises `InvalidRequestError` for names that are none."""
        is_named = is_partition_id(*leader.id) and is_partition_id(leader.topic_id, leader.id.partition)
        if not is_named or leader.leader_epoch < 0:
            raise InvalidRequestError("a channel's and a topic's id of 32 hex digits, a partition and a leader epoch")
        here = self.find(leader.id)
        if here is not None and here.head is not None and here.head.topic_id != leader.topic_id:
            raise InvalidRequestError("the channel belongs to another topic", topic_id=here.head.topic_id)
        return here

    def _require_room(self, here: ChannelPartition | None) -> None:
        if here is not None:
            raise CoordinatorNotAvailableError("an older state of the channel is being removed", retry_after_ms=100)
        if self._partitions >= self.limits.max_channel_partitions:
            raise ResourceExhaustedError(
                "too many channels in this shard: delete some", limit=self.limits.max_channel_partitions
            )

    def _write(self, command: WriteChannelState) -> Decision:
        here = self._known(command.leader)
        if here is None or here.head is None or _is_newer(command.leader, here.head):
            return _not_opened(command.leader)
        head = here.head
        _refuse_older(command.leader, head)
        if command.write_no <= head.write_no:
            return Decision(confirm=True)
        if command.write_no != head.write_no + 1:
            raise InvalidRequestError("a write is missing", write_no=command.write_no, last_write_no=head.write_no)
        check_write(command, UNKNOWN if command.seek else head.settled_before, self.limits)
        return Decision(records=tuple(written(here, head, command, self.limits)))

    # ------------------------------------------------------------ transactions

    def _send(self, command: SendChannelAcks, now_ms: int) -> Decision:
        name, here = command.name, self._known(command.leader)
        if name.txn_no < 1 or name.txn_producer_id < 0:
            raise InvalidRequestError("transaction numbers begin at 1")
        if here is None or here.head is None or _is_newer(command.leader, here.head):
            return _not_opened(command.leader)
        head = here.head
        _refuse_older(command.leader, head)
        if command.seeks != head.seeks:
            raise OffsetCommitStaleError("the channel was sought since", seeks=command.seeks, newest=head.seeks)
        if head.settled_before == UNKNOWN:
            raise InvalidRequestError("a leader writes where the channel begins before anything is acknowledged")
        if not command.acknowledged:
            raise InvalidRequestError("no acknowledgements")
        check_ranges(command.acknowledged, head.settled_before + 2 * self.limits.max_channel_window, self.limits)
        group_id = here.id.group_id
        is_known = self.is_enrolled(group_id, name.txn_producer_id, name.txn_no)
        self._transactions.require_open(group_id, name, command.txn_shard, None if is_known else command.enrolled)
        return self._acknowledged(here, head, command, now_ms)

    def _acknowledged(
        self, here: ChannelPartition, head: ChannelHead, command: SendChannelAcks, now_ms: int
    ) -> Decision:
        name = command.name
        before = here.pending.get((name.txn_producer_id, name.txn_no))
        if before is not None and before.producer_epoch != name.producer_epoch:
            raise ProducerFencedError(producer_epoch=name.producer_epoch, current_epoch=before.producer_epoch)
        known = () if before is None else before.ranges
        record = PendingAcks(
            id=here.id,
            txn_producer_id=name.txn_producer_id,
            txn_no=name.txn_no,
            producer_epoch=name.producer_epoch,
            txn_shard=command.txn_shard,
            seeks=head.seeks,
            since_ms=now_ms if before is None else before.since_ms,
            ranges=union((*known, *command.acknowledged)),
        )
        if record == before:
            return Decision(confirm=True)
        self._require_fits(here, record, known)
        noted = replace(head, written_epoch=head.leader_epoch)
        return Decision(records=(record,) if noted == head else (noted, record))

    def _require_fits(self, here: ChannelPartition, record: PendingAcks, known: tuple[OffsetRange, ...]) -> None:
        """Raises when the marker would write too much, or too much is pending on the partition (rule 4)."""
        group = self._in_group.get(_in_group(record), {})
        size = sum(group.values()) - group.get(here.id, 0) + _marker_bytes(record)
        if len(record.ranges) > self.limits.max_channel_ranges or size > self.limits.max_channel_txn_bytes:
            raise InvalidRequestError(
                "the transaction acknowledges too much of the channel: commit after fewer records",
                limit_ranges=self.limits.max_channel_ranges,
                limit_bytes=self.limits.max_channel_txn_bytes,
            )
        ranges = here.pending_ranges() - len(known) + len(record.ranges)
        transactions = len(here.pending) + (not known)
        if transactions > self.limits.max_channel_pending or ranges > self.limits.max_channel_pending_ranges:
            raise ResourceExhaustedError(
                "too many acknowledgements of open transactions: try again when some have ended", retry_after_ms=100
            )

    def marked(self, command: GroupMarker) -> list[LogRecord]:
        """Returns the records of a transaction's outcome. Whether its marker is a late one was asked before."""
        records: list[LogRecord] = []
        for where in self._in_group.get((command.group_id, command.txn_producer_id, command.txn_no), ()):
            here = self.find(where)
            assert here is not None, "a transaction waits on partitions that there are"
            pending = here.pending[command.txn_producer_id, command.txn_no]
            if command.committed:
                records += committed(here, pending.ranges)
            records.append(Tombstone(pending.key))
        return records

    # ------------------------------------------------------------ time

    def _tick(self, now_ms: int) -> Decision:
        looked, gone = self._of_gone_channels(now_ms)
        keys = chain.from_iterable(here.outdated for here in map(self.find, self._outdated) if here is not None)
        removed = [Tombstone(key) for key in islice(keys, self.limits.expire_per_tick)]
        return Decision(records=(*gone, *removed), notes=(looked,))

    def _of_gone_channels(self, now_ms: int) -> tuple[LookedAtChannels, list[Tombstone]]:
        """Finds the heads of channels that are gone, as many as one `Tick` may remove."""
        ids = self._gone.due(now_ms)
        gone = (
            found for name in ids if self._gone.is_gone(name, now_ms) for found in self.channels.get(name, {}).values()
        )
        heads = islice((here.head for here in gone if here.head is not None), self.limits.expire_per_tick)
        looked = LookedAtTopics(tuple(ids), (0,) * len(ids), now_ms)
        return LookedAtChannels(looked), [Tombstone(head.key) for head in heads]

    # ------------------------------------------------------------ writing

    @staticmethod
    def knows_key(key: str) -> bool:
        """True for the key of a record of this core."""
        return is_channel_key(key)

    @staticmethod
    def decode(key: str, value: bytes | None) -> ChannelLogRecord:
        """Decodes a record of the log, for `apply`."""
        return decode_channel_record(key, value)

    def loaded(self) -> None:
        """Forgets what has no head when the replay is complete."""
        for here in [here for partitions in self.channels.values() for here in partitions.values()]:
            self._changed(here, here.loaded())

    def apply(self, record: LogRecord | Note) -> None:
        """Applies a record, from `decide` or from the log, or a note."""
        if isinstance(record, ChannelHead):
            self._apply_head(record)
        elif isinstance(record, SettledBlock | RetriedBlock):
            here = self._there(record.id)
            here.put_block(record)
            self._changed(here)
        elif isinstance(record, PendingAcks):
            self._apply_pending(record)
        elif isinstance(record, Tombstone):
            self._apply_tombstone(record.key)
        elif isinstance(record, ChannelsSeen):
            self._gone.see(dict.fromkeys(record.channel_ids, 0))
        else:
            assert isinstance(record, LookedAtChannels), f"unknown record {record!r}"
            self._gone.looked(record.looked)

    def _there(self, where: ChannelPartitionId) -> ChannelPartition:
        partitions = self.channels.setdefault(where.channel_id, {})
        if where.partition not in partitions:
            partitions[where.partition] = ChannelPartition(where)
            self._partitions += 1
        return partitions[where.partition]

    def _apply_head(self, head: ChannelHead) -> None:
        here = self._there(head.id)
        if here.head is None:
            self._gone.put(str(head.id.partition), head.id.channel_id)
        self._changed(here, here.put_head(head))

    def _apply_pending(self, record: PendingAcks) -> None:
        here = self._there(record.id)
        if here.put_pending(record):
            self._in_group.setdefault(_in_group(record), {})[record.id] = _marker_bytes(record)
            self._transactions.waiting.put(record)
        self._changed(here)

    def _apply_tombstone(self, key: str) -> None:
        parsed = parse_channel_key(key)
        assert parsed is not None, f"{key} is another core's"
        here = self.find(parsed[0])
        if here is None:
            return
        if here.head is not None and here.head.key == key:
            self._gone.drop(str(here.id.partition), here.id.channel_id)
            self._changed(here, here.drop_head())
        else:
            self._changed(here, here.drop(key))

    def _changed(self, here: ChannelPartition, forgotten: Iterable[PendingAcks] = ()) -> None:
        """Follows a change of a partition by which these acknowledgements were forgotten."""
        for record in forgotten:
            self._transactions.waiting.drop(record.key)
            partitions = self._in_group[_in_group(record)]
            del partitions[here.id]
            if not partitions:
                del self._in_group[_in_group(record)]
        if here.outdated:
            self._outdated[here.id] = None
        else:
            self._outdated.pop(here.id, None)
        if here.is_empty:
            del self.channels[here.id.channel_id][here.id.partition]
            self._partitions -= 1
            if not self.channels[here.id.channel_id]:
                del self.channels[here.id.channel_id]

    # ------------------------------------------------------------ checking

    def check(self) -> None:
        """Asserts every invariant."""
        found: dict[_InGroup, dict[ChannelPartitionId, int]] = {}
        count = 0
        for here in self._all():
            here.check()
            count += 1
            assert (here.id in self._outdated) == bool(here.outdated)
            for record in here.pending.values():
                assert self._transactions.waiting.find(record.key) is record, "nobody would ask for the outcome"
                found.setdefault(_in_group(record), {})[here.id] = _marker_bytes(record)
        assert found == self._in_group
        assert count == self._partitions
        heads = ((str(here.id.partition), here.id.channel_id) for here in self._all() if here.head is not None)
        self._gone.check(heads)

    def _all(self) -> Iterator[ChannelPartition]:
        for channel_id, partitions in self.channels.items():
            for number, here in partitions.items():
                assert here.id == (channel_id, number)
                yield here


def _in_group(record: PendingAcks) -> _InGroup:
    return record.group_id, record.txn_producer_id, record.txn_no


def _marker_bytes(record: PendingAcks) -> int:
    """Returns an upper bound for the bytes that a marker writes: the blocks, the head, and the tombstone."""
    return (number_of_blocks(record.ranges) + 2) * BLOCK_BYTES


def _refuse_older(leader: Leader, head: ChannelHead) -> None:
    if leader.leader_epoch < head.leader_epoch:
        raise FencedLeaderEpochError(
            "a newer leader of the partition has asked about the channel",
            leader_epoch=leader.leader_epoch,
            newest_epoch=head.leader_epoch,
        )


def _is_newer(leader: Leader, head: ChannelHead) -> bool:
    return leader.leader_epoch > head.leader_epoch


def _not_opened(leader: Leader) -> Decision:
    """Refuses a leader whose epoch is not known. It is confirmed, since a deposed owner would not know of it."""
    error: OncelogError = FencedLeaderEpochError(
        "this leader has not opened the channel, or what was remembered is gone: open it",
        leader_epoch=leader.leader_epoch,
    )
    return Decision(reply=error, confirm=True)
