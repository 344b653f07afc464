"""The committed offsets of one group shard: a pure core of the same shape as `transactions.transaction_table`.

The shard's owner is the participant of a transaction (hole 14): it has the group enrolled, keeps the offsets pending
under the name (producer id, n), writes the marker's effect into its own log in its own epoch, applies it, answers, and asks
the transaction shard for the outcome when no marker arrives in time.

Late copies are refused by these rules (hole 13):
- plain commits of a member: the sequence is at or below the newest one of the same member epoch on that partition, or
  the member epoch is older; an exact retry succeeds.  A simple group has no members and so no such order: the last
  commit wins.
- commits of a transaction: the sequence per transaction and group; and every commit after the marker (`EndedLedger`).

Membership, assignment and heartbeats belong to `core/groups`; it says by `Members` who may commit what.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Protocol

from oncelog.core.names import TOPIC_NAMES, is_partition_id, is_topic_name
from oncelog.errors import (
    CoordinatorFencedError,
    FencedMemberEpochError,
    InvalidRequestError,
    OffsetCommitStaleError,
    OffsetMetadataTooLargeError,
    OncelogError,
    ProducerFencedError,
    StaleMemberEpochError,
    TxnEndedError,
    UnstableOffsetCommitError,
)
from oncelog.types import PartitionId
from oncelog_coordinator.core.decision import Command, Decision, Effect, LogRecord, Note
from oncelog_coordinator.core.limits import Limits
from oncelog_coordinator.core.offsets.ended_transactions import EndedLedger, LookedAtEnded
from oncelog_coordinator.core.offsets.gone_topics import GoneTopics, LookedAtTopics
from oncelog_coordinator.core.offsets.offset_commands import (
    CommitOffsets,
    DeleteOffsets,
    Enrolled,
    FetchOffsets,
    GroupMarker,
    Member,
    OffsetError,
    SendOffsets,
)
from oncelog_coordinator.core.offsets.offset_records import (
    CommittedOffset,
    EndedTransactions,
    GroupLogRecord,
    OffsetValue,
    PendingOffset,
    PendingOffsets,
    Writer,
    decode_group_record,
    offset_bytes,
    offset_key,
    parse_ended_key,
    parse_offset_key,
    pending_key,
)
from oncelog_coordinator.core.offsets.outcome_waits import Asked, OutcomeWaits
from oncelog_coordinator.core.topology import TopicsSeen
from oncelog_coordinator.core.transactions.commands import Tick, TxnName
from oncelog_coordinator.core.transactions.records import EpochRecord, Tombstone

TxnKey = tuple[int, int]
"""(txn_producer_id, txn_no)"""


@dataclass(slots=True)
class Group:
    """The state of one group: committed offsets, pending offsets by transaction, and ended transactions by producer id."""

    offsets: dict[PartitionId, CommittedOffset] = field(default_factory=dict)
    pending: dict[TxnKey, PendingOffsets] = field(default_factory=dict)
    ended: dict[int, EndedTransactions] = field(default_factory=dict)


class Members(Protocol):
    """The interface of the core that knows the members of groups."""

    def require_member(self, member: Member) -> None:
        """Raises the named error unless this member may commit offsets of its group."""
        ...

    def refusal(self, member: Member, partition: PartitionId) -> OncelogError | None:
        """Returns why a member that may commit may not commit for this partition; None = it may."""
        ...


class AnyMember:
    """Accepts every member: for a table of offsets alone."""

    def require_member(self, member: Member) -> None:
        """Accepts it."""

    def refusal(self, member: Member, partition: PartitionId) -> OncelogError | None:
        """Finds nothing to refuse."""
        del member, partition
        return None


def _check_value(value: OffsetValue, limits: Limits) -> None:
    if value.offset < 0 or not is_partition_id(value.topic_id, value.partition):
        raise InvalidRequestError(
            "an offset of 0 and above, a topic id of 32 hex digits and a partition are needed", offset=value.offset
        )
    if value.topic and not is_topic_name(value.topic):
        raise InvalidRequestError(TOPIC_NAMES, topic=ascii(value.topic[:64]))
    if len(value.metadata.encode()) > limits.offset_metadata_max_bytes:
        raise OffsetMetadataTooLargeError(limit=limits.offset_metadata_max_bytes)


class OffsetTable:
    """Holds all groups of one shard.

    It has 30 methods: those of every core, one for each command and each kind of record, and their checks.
    """

    def __init__(self, limits: Limits | None = None, members: Members | None = None) -> None:
        self.limits = limits or Limits()
        self.groups: dict[str, Group] = {}
        self._members = members or AnyMember()
        self.waiting = OutcomeWaits(self.limits.group_resolve_after_ms)
        self._ended = EndedLedger(self._find_ended, self.limits.ended_retention_ms)
        self._gone = GoneTopics(self.limits)
        self._next_order = 1

    # ------------------------------------------------------------ reading

    def decide(self, command: Command[object], now_ms: int) -> Decision:
        """Decides about a command. Raises `OncelogError` to refuse it."""
        if isinstance(command, CommitOffsets):
            return self._commit(command, now_ms)
        if isinstance(command, FetchOffsets):
            return self._fetch(command)
        if isinstance(command, SendOffsets):
            return self._send(command, now_ms)
        if isinstance(command, GroupMarker):
            return self._marker(command, now_ms)
        if isinstance(command, DeleteOffsets):
            return self._delete(command)
        assert isinstance(command, Tick)
        return self._tick(now_ms)

    def is_enrolled(self, group_id: str, txn_producer_id: int, txn_no: int) -> bool:
        """True when the group already has offsets in this transaction, so that it need not be enrolled again."""
        group = self.groups.get(group_id)
        return group is not None and (txn_producer_id, txn_no) in group.pending

    def pending(self, now_ms: int) -> tuple[Effect, ...]:
        """Returns no effects: a `Tick` asks for the outcome of transactions that stay pending too long."""
        del now_ms
        return ()

    def next_deadline_ms(self) -> int | None:
        """Returns the earliest time at which a `Tick` may find something to do; None = never."""
        due = (self.waiting.next_ms, self._ended.next_ms, self._gone.next_ms)
        return min((one for one in due if one is not None), default=None)

    @property
    def forgotten(self) -> int:
        """How many records of ended transactions have gone in this life of the shard."""
        return self._ended.forgotten

    # ------------------------------------------------------------ plain commits

    def _commit(self, command: CommitOffsets, now_ms: int) -> Decision:
        self._check_request(command.member, command.offsets)
        group = self.groups.get(command.member.group_id, Group())
        records: list[CommittedOffset] = []
        failed: list[OffsetError] = []
        writer = Writer(command.member.member_id, command.member.member_epoch, command.sequence)
        order = self._next_order
        for value in command.offsets:
            try:
                _check_value(value, self.limits)
                self._require_owner(command.member, value)
                if not _is_repeat(group.offsets.get(value.id), value, writer):
                    records.append(CommittedOffset(command.member.group_id, value, order, writer, now_ms))
                    order += 1
            except (OffsetMetadataTooLargeError, InvalidRequestError, StaleMemberEpochError) as error:
                if command.all_or_nothing:
                    raise
                failed.append(OffsetError(value, error))
        self._require_fits(command.member.group_id, (record.value for record in records))
        return Decision(reply=tuple(failed), records=tuple(records))

    def _require_fits(self, group_id: str, values: Iterable[OffsetValue]) -> None:
        limit = self.limits.max_offsets_bytes
        if sum(offset_bytes(group_id, value) for value in values) > limit:
            raise InvalidRequestError(
                "these offsets are too many bytes together: commit them in several requests, or with less metadata; "
                "in a transaction, send fewer",
                limit_bytes=limit,
            )

    def _check_request(self, member: Member, offsets: tuple[OffsetValue, ...]) -> None:
        if len(offsets) > self.limits.max_offsets_per_commit:
            raise InvalidRequestError("too many offsets in one commit", limit=self.limits.max_offsets_per_commit)
        if len({value.id for value in offsets}) != len(offsets):
            raise InvalidRequestError("a partition stands twice in one commit")
        if len(member.member_id.encode()) > self.limits.member_id_max_bytes:
            raise InvalidRequestError("a member id is too long", limit=self.limits.member_id_max_bytes)
        if bool(member.member_id) != (member.member_epoch >= 0):
            raise InvalidRequestError("a simple group has no member id and epoch -1; a member has both")
        self._members.require_member(member)

    def _require_owner(self, member: Member, value: OffsetValue) -> None:
        refusal = self._members.refusal(member, value.id)
        if refusal is not None:
            raise refusal

    # ------------------------------------------------------------ transactional commits

    def _send(self, command: SendOffsets, now_ms: int) -> Decision:
        name, member = command.name, command.member
        self._check_request(member, command.offsets)
        for value in command.offsets:
            _check_value(value, self.limits)
            self._require_owner(member, value)
        if command.sequence < 1 or name.txn_no < 1:
            raise InvalidRequestError("transaction numbers and commit sequences begin at 1")
        group = self.groups.get(member.group_id, Group())
        before = group.pending.get((name.txn_producer_id, name.txn_no))
        self.require_open(member.group_id, name, command.txn_shard, None if before is not None else command.enrolled)
        if before is not None and not _is_newer_send(before, command):
            return Decision()
        merged = self._merged(before, command, now_ms)
        self._require_fits(member.group_id, (item.value for item in merged.offsets))  # as its marker writes them
        return Decision(records=(merged,))

    def require_open(self, group_id: str, name: TxnName, txn_shard: int, enrolled: Enrolled | None) -> None:
        """Raises when the transaction has ended in this group, or may have. `enrolled`: how the group was enrolled in it;
        None = the group takes part in it, by what is pending here.
        """
        ended = self.groups.get(group_id, Group()).ended.get(name.txn_producer_id)
        if ended is not None and name.txn_no <= ended.ended_up_to:
            raise TxnEndedError("the transaction is decided; what takes part cannot change", txn_no=name.txn_no)
        late = None if enrolled is None else self._ended.late(txn_shard, enrolled)
        if late is not None:
            raise late

    def _merged(self, before: PendingOffsets | None, command: SendOffsets, now_ms: int) -> PendingOffsets:
        merged = {} if before is None else {item.value.id: item for item in before.offsets}
        for order, value in enumerate(command.offsets, self._next_order):
            merged[value.id] = PendingOffset(value, order)
        return PendingOffsets(
            group_id=command.member.group_id,
            txn_producer_id=command.name.txn_producer_id,
            txn_no=command.name.txn_no,
            producer_epoch=command.name.producer_epoch,
            txn_shard=command.txn_shard,
            sequence=command.sequence,
            since_ms=now_ms if before is None else before.since_ms,
            offsets=tuple(merged[key] for key in sorted(merged)),
        )

    def _marker(self, command: GroupMarker, now_ms: int) -> Decision:
        """Always writes a record: an answer from memory could come from a deposed owner (hole 12)."""
        known = self._ended.epoch(command.txn_shard)
        if known is not None and command.coordinator_epoch < known:
            raise CoordinatorFencedError(
                "a newer coordinator owns the transaction shard",
                coordinator_epoch=command.coordinator_epoch,
                known_epoch=known,
            )
        group = self.groups.get(command.group_id, Group())
        records: list[LogRecord] = []
        pending = group.pending.get((command.txn_producer_id, command.txn_no))
        if pending is not None:
            if command.committed:
                records += _winning(group, pending, now_ms)
            records.append(Tombstone(pending.key))
        ended = group.ended.get(command.txn_producer_id)
        up_to = command.txn_no if ended is None else max(ended.ended_up_to, command.txn_no)
        records.append(
            EndedTransactions(
                command.group_id, command.txn_producer_id, up_to, command.txn_shard, command.coordinator_epoch, now_ms
            )
        )
        return Decision(records=tuple(records))

    # ------------------------------------------------------------ operators

    def _delete(self, command: DeleteOffsets) -> Decision:
        """Refuses offsets that an open transaction may write again. The records of ended transactions stay."""
        group = self.groups.get(command.group_id, Group())
        wanted = set(group.offsets) if command.partitions is None else set(command.partitions)
        for pending in group.pending.values():
            if command.partitions is None or any(item.value.id in wanted for item in pending.offsets):
                raise _unstable(pending)
        gone = sorted(wanted & set(group.offsets))
        records = tuple(Tombstone(offset_key(command.group_id, partition)) for partition in gone)
        return Decision(reply=len(gone), records=records, confirm=True)

    def used(self) -> list[str]:
        """Returns the ids of all groups with an offset, committed or pending."""
        return sorted(group_id for group_id, group in self.groups.items() if group.offsets or group.pending)

    def expiry_of(self, group_id: str, before_ms: int) -> tuple[LogRecord, ...] | None:
        """Returns the records that remove every offset of a group; None while a transaction holds one, or one was
        committed after `before_ms`.
        """
        group = self.groups.get(group_id, Group())
        if group.pending or any(offset.committed_ms > before_ms for offset in group.offsets.values()):
            return None
        return tuple(Tombstone(offset_key(group_id, partition)) for partition in sorted(group.offsets))

    def begun(self, group_id: str, partitions: Mapping[PartitionId, str], now_ms: int) -> tuple[LogRecord, ...]:
        """Returns the records that let a group begin at the first record of these partitions, each with the name of its topic,
        as many as one append takes; none where the group has an offset, committed or pending.
        """
        group = self.groups.get(group_id, Group())
        held = {item.value.id for pending in group.pending.values() for item in pending.offsets} | group.offsets.keys()
        values = [OffsetValue(p.topic_id, name, p.partition, 0) for p, name in partitions.items() if p not in held]
        sizes = accumulate(offset_bytes(group_id, value) for value in values)
        room = bisect_right([*sizes], self.limits.max_offsets_bytes)
        return tuple(
            CommittedOffset(group_id, value, order, committed_ms=now_ms)
            for order, value in enumerate(values[: min(room, self.limits.max_offsets_per_commit)], self._next_order)
        )

    def used_ms(self, group_id: str) -> int | None:
        """Returns when the newest of a group's offsets was committed, 0 without any; None while a transaction holds one."""
        group = self.groups.get(group_id, Group())
        if group.pending:
            return None
        return max((offset.committed_ms for offset in group.offsets.values()), default=0)

    def committed_of(self, group_id: str) -> tuple[CommittedOffset, ...]:
        """Returns a group's committed offsets, by partition."""
        offsets = self.groups.get(group_id, Group()).offsets
        return tuple(offsets[key] for key in sorted(offsets))

    def pending_of(self, group_id: str) -> tuple[PendingOffsets, ...]:
        """Returns a group's offsets in open transactions, by transaction."""
        pending = self.groups.get(group_id, Group()).pending
        return tuple(pending[key] for key in sorted(pending))

    # ------------------------------------------------------------ reads and time

    def _fetch(self, command: FetchOffsets) -> Decision:
        group = self.groups.get(command.group_id, Group())
        wanted = None if command.partitions is None else set(command.partitions)
        if command.require_stable:
            for pending in group.pending.values():
                if wanted is None or any(item.value.id in wanted for item in pending.offsets):
                    raise _unstable(pending)
        found = tuple(group.offsets[key].value for key in sorted(group.offsets) if wanted is None or key in wanted)
        return Decision(reply=found, confirm=True)

    def _tick(self, now_ms: int) -> Decision:
        note, asked = self.waiting.due(now_ms, self.limits.expire_per_tick, self._ended.epoch)
        looked, forgotten = self._ended.due(now_ms, self.limits.expire_per_tick)
        looked_at_topics, gone = self._of_gone_topics(now_ms)
        notes = (note, looked, looked_at_topics)
        return Decision(records=(*forgotten, *gone), notes=notes, effects=asked)

    def _of_gone_topics(self, now_ms: int) -> tuple[LookedAtTopics, list[Tombstone]]:
        """Finds the old offsets of topics that are gone, as many as one `Tick` may remove."""
        topic_ids, found = self._gone.due(now_ms), list[Tombstone]()
        again_ms: list[int] = []
        for topic_id in topic_ids:
            goes_ms = 0
            for group_id in self._gone.groups_of(topic_id) if self._gone.is_gone(topic_id, now_ms) else ():
                for partition, offset in self.groups[group_id].offsets.items():
                    if partition.topic_id != topic_id:
                        continue
                    at_ms = self._gone.goes_ms(offset)
                    if at_ms <= now_ms and len(found) < self.limits.expire_per_tick:
                        found.append(Tombstone(offset.key))
                    else:
                        goes_ms = min(goes_ms or at_ms, at_ms)
            again_ms.append(goes_ms)
        return LookedAtTopics(tuple(topic_ids), tuple(again_ms), now_ms), found

    # ------------------------------------------------------------ writing

    def decode(self, key: str, value: bytes | None) -> GroupLogRecord:
        """Decodes a record of the log, for `apply`."""
        return decode_group_record(key, value)

    def loaded(self, now_ms: int) -> None:
        """Sets the deadlines when the replay is complete."""
        self.waiting.loaded(now_ms)
        self._ended.loaded((record.key for record in self._all_ended()), now_ms)

    def apply(self, record: LogRecord | Note) -> None:
        """Applies a record, from `decide` or from the log, or a note."""
        if isinstance(record, CommittedOffset):
            offsets = self._group(record.group_id).offsets
            if record.value.id not in offsets:
                self._gone.put(record.group_id, record.value.topic_id)
            offsets[record.value.id] = record
            self._next_order = max(self._next_order, record.order + 1)
        elif isinstance(record, PendingOffsets):
            self._apply_pending(record)
        elif isinstance(record, EndedTransactions):
            self._group(record.group_id).ended[record.txn_producer_id] = record
            self._ended.take(record)
        elif isinstance(record, Tombstone):
            self._apply_tombstone(record.key)
        elif isinstance(record, Asked):
            self.waiting.asked(record)
        elif isinstance(record, LookedAtEnded):
            self._ended.looked(record)
        elif isinstance(record, LookedAtTopics):
            self._gone.looked(record)
        elif isinstance(record, TopicsSeen):
            self._gone.see(record.topology.partitions)
        else:
            assert isinstance(record, EpochRecord), f"unknown record {record!r}"

    def _apply_tombstone(self, key: str) -> None:
        if (offset := parse_offset_key(key)) is not None:
            group_id, partition = offset
            if self._group(group_id).offsets.pop(partition, None) is not None:
                self._gone.drop(group_id, partition.topic_id)
        elif (ended := parse_ended_key(key)) is not None:
            group_id, producer_id = ended
            if self._group(group_id).ended.pop(producer_id, None) is not None:
                self._ended.forget()
        elif (pending := self.waiting.drop(key)) is not None:
            group_id = pending.group_id
            del self.groups[group_id].pending[pending.txn_producer_id, pending.txn_no]
        else:
            return
        if self.groups[group_id] == Group():
            del self.groups[group_id]

    def _find_ended(self, key: str) -> EndedTransactions | None:
        parsed = parse_ended_key(key)
        assert parsed is not None, f"{key} names no ended transaction"
        group = self.groups.get(parsed[0])
        return None if group is None else group.ended.get(parsed[1])

    def _all_ended(self) -> Iterator[EndedTransactions]:
        for group in self.groups.values():
            yield from group.ended.values()

    def _group(self, group_id: str) -> Group:
        return self.groups.setdefault(group_id, Group())

    def _apply_pending(self, record: PendingOffsets) -> None:
        self._group(record.group_id).pending[record.txn_producer_id, record.txn_no] = record
        self.waiting.put(record)
        self._next_order = max([self._next_order, *(item.order + 1 for item in record.offsets)])

    # ------------------------------------------------------------ checking

    def check(self) -> None:
        """Asserts every invariant."""
        for group_id, group in self.groups.items():
            for partition, committed in group.offsets.items():
                assert committed.value.id == partition
                assert committed.order < self._next_order
            for (producer_id, txn_no), pending in group.pending.items():
                assert self.waiting.find(pending_key(group_id, producer_id, txn_no)) is pending
                assert all(item.order < self._next_order for item in pending.offsets)
        self._ended.check(self._all_ended())
        self._gone.check((name, where.topic_id) for name, group in self.groups.items() for where in group.offsets)
        self.waiting.check()


def _unstable(pending: PendingOffsets) -> OncelogError:
    return UnstableOffsetCommitError(
        "an open transaction holds an offset of this group; it ends by itself at its time-out, or by `oncelog txn abort`",
        retry_after_ms=20,
        txn_producer_id=pending.txn_producer_id,
        txn_no=pending.txn_no,
    )


def _is_repeat(known: CommittedOffset | None, value: OffsetValue, writer: Writer) -> bool:
    """True for an exact retry. Raises for a late copy of an older commit, which refuses the whole commit."""
    if known is None or not writer.member_id:
        return False
    newest = known.writer
    if newest.member_epoch > writer.member_epoch:
        raise FencedMemberEpochError(member_epoch=writer.member_epoch, current_epoch=newest.member_epoch)
    if writer.sequence <= 0 or writer[:2] != newest[:2] or writer.sequence > newest.sequence:
        return False
    if writer.sequence == newest.sequence and value == known.value:
        return True
    raise OffsetCommitStaleError(sequence=writer.sequence, newest_sequence=newest.sequence)


def _is_newer_send(before: PendingOffsets, command: SendOffsets) -> bool:
    """False for an exact retry. Raises for a late copy of an older request, and for another session."""
    error: OncelogError | None = None
    if command.name.producer_epoch != before.producer_epoch:
        error = ProducerFencedError(producer_epoch=command.name.producer_epoch, current_epoch=before.producer_epoch)
    elif command.sequence < before.sequence or (command.sequence == before.sequence and not _same(before, command)):
        error = OffsetCommitStaleError(sequence=command.sequence, newest_sequence=before.sequence)
    if error is not None:
        raise error
    return command.sequence > before.sequence


def _same(before: PendingOffsets, command: SendOffsets) -> bool:
    known = {item.value for item in before.offsets}
    return all(value in known for value in command.offsets)


def _winning(group: Group, pending: PendingOffsets, now_ms: int) -> Iterable[CommittedOffset]:
    """Yields the offsets of a committed transaction that no later commit has replaced; the last plain writer is kept."""
    for item in pending.offsets:
        known = group.offsets.get(item.value.id)
        if known is None:
            yield CommittedOffset(pending.group_id, item.value, item.order, committed_ms=now_ms)
        elif known.order < item.order:
            yield replace(known, value=item.value, order=item.order, committed_ms=now_ms)
