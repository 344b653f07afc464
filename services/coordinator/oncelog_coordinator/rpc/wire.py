"""Converts wire messages to the values of the cores and back. Every field from outside is checked here or in a core only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from oncelog.core.names import check_group_id, check_transactional_id, is_partition_id
from oncelog.errors import InvalidRequestError
from oncelog.types import PartitionId
from oncelog.v1 import coordinator_pb2 as co
from oncelog.v1 import types_pb2
from oncelog_coordinator.core.group_shard.group_views import GroupView
from oncelog_coordinator.core.offsets.offset_commands import Member
from oncelog_coordinator.core.offsets.offset_records import CommittedOffset, OffsetValue, PendingOffsets
from oncelog_coordinator.core.transactions import commands as cmd
from oncelog_coordinator.core.transactions.states import TxnState
from oncelog_coordinator.core.transactions.transaction_state import Counts

_NONCE_MAX = 128


def partition_id(topic_id: str, partition: int) -> PartitionId:
    """Builds a partition id. Raises `InvalidRequestError` unless the id is 32 hex digits and the number not negative."""
    if not is_partition_id(topic_id, partition):
        raise InvalidRequestError(
            "a partition is named by a topic id of 32 hex digits and a number", partition=partition
        )
    return PartitionId(topic_id, partition)


def txn_name(name: co.TransactionName) -> cmd.TxnName:
    """Returns the name in a request; the transactional id may be empty."""
    if name.transactional_id:
        check_transactional_id(name.transactional_id)
    return cmd.TxnName(name.transactional_id, name.txn_producer_id, name.txn_no, name.producer_epoch)


def nonce(text: str) -> str:
    """Raises `InvalidRequestError` for a nonce above 128 characters: every later record of the id contains it."""
    if len(text) > _NONCE_MAX:
        raise InvalidRequestError("a nonce has at most 128 characters")
    return text


def counts(items: Iterable[co.PartitionCount]) -> Counts:
    """Returns records per partition. Raises `InvalidRequestError` for a repeated partition or a negative count."""
    found: dict[PartitionId, int] = {}
    for item in items:
        key = partition_id(item.topic_id, item.partition)
        if key in found or item.records < 0:
            raise InvalidRequestError(
                "a partition is counted twice, or with a negative number", partition=item.partition
            )
        found[key] = item.records
    return found


def is_commit(outcome: types_pb2.TransactionOutcome) -> bool:
    """True for COMMITTED. Raises `InvalidRequestError` unless COMMITTED or ABORTED."""
    if outcome not in (types_pb2.TRANSACTION_OUTCOME_COMMITTED, types_pb2.TRANSACTION_OUTCOME_ABORTED):
        raise InvalidRequestError("an outcome is COMMITTED or ABORTED")
    return outcome == types_pb2.TRANSACTION_OUTCOME_COMMITTED


def outcome_of(committed: bool | None) -> types_pb2.TransactionOutcome:
    """Returns the outcome; None = not decided yet."""
    if committed is None:
        return types_pb2.TRANSACTION_OUTCOME_ONGOING
    return types_pb2.TRANSACTION_OUTCOME_COMMITTED if committed else types_pb2.TRANSACTION_OUTCOME_ABORTED


def batch_name(token: co.CommitToken, write_attempt: str) -> cmd.BatchName:
    """Returns the batch that a join or a commit is about."""
    return cmd.BatchName(token.app_id, token.batch_id, write_attempt)


def winner(item: co.Winner) -> cmd.Winner:
    """Returns one winner."""
    return cmd.Winner(item.producer_id, item.rows, counts(item.counts))


def states(names: Iterable[str]) -> tuple[TxnState, ...]:
    """Returns the named states. Raises `InvalidRequestError` for an unknown one."""
    try:
        return tuple(TxnState(name) for name in names)
    except ValueError as error:
        raise InvalidRequestError("unknown state; one of " + ", ".join(TxnState)) from error


def member(item: co.GroupMember) -> Member:
    """Returns the member that commits offsets. An empty member id is a simple group, even if a caller left its epoch at 0."""
    check_group_id(item.group_id)
    return Member(item.group_id, item.member_id, item.member_epoch if item.member_id else -1)


def offset_value(item: co.OffsetEntry) -> OffsetValue:
    """Returns the value of one offset entry. A caller that does not say that it knows the epoch knows none."""
    leader_epoch = item.leader_epoch if item.epoch_known else -1
    return OffsetValue(item.topic_id, item.topic, item.partition, item.offset, leader_epoch, item.metadata)


def offset_entry(value: OffsetValue) -> co.OffsetEntry:
    """Returns the wire form of one offset."""
    return co.OffsetEntry(
        topic_id=value.topic_id,
        topic=value.topic,
        partition=value.partition,
        offset=value.offset,
        leader_epoch=value.leader_epoch,
        metadata=value.metadata,
        epoch_known=value.leader_epoch >= 0,
    )


def group_listing(view: GroupView, coordinator: str, shard: int) -> co.GroupListing:
    """Returns a group as shown in listings."""
    return co.GroupListing(
        group_id=view.group_id,
        group_shard=shard,
        state=view.membership.state.value,
        offsets=len(view.offsets),
        open_transactions=len(view.pending),
        coordinator=coordinator,
        members=len(view.membership.members),
    )


def group_offset(committed: CommittedOffset) -> co.GroupOffset:
    """Returns one committed offset with its time and member."""
    return co.GroupOffset(
        offset=offset_entry(committed.value),
        committed_ms=committed.committed_ms,
        member_id=committed.writer.member_id,
    )


def pending_offsets(pending: PendingOffsets) -> co.PendingGroupOffsets:
    """Returns the offsets that are pending in one transaction."""
    return co.PendingGroupOffsets(
        txn_producer_id=pending.txn_producer_id,
        txn_no=pending.txn_no,
        txn_shard=pending.txn_shard,
        since_ms=pending.since_ms,
        offsets=[offset_entry(item.value) for item in pending.offsets],
    )


def transaction_info(
    view: cmd.TransactionView, coordinator: str, shard: int, names: Mapping[str, str]
) -> co.TransactionInfo:
    """Returns an id as shown to operators. `names`: topic id -> name, for topics that exist."""
    return co.TransactionInfo(
        transactional_id=view.transactional_id,
        producer_id=view.producer_id,
        producer_epoch=view.producer_epoch,
        txn_no=view.txn_no,
        state=view.state.value,
        start_timestamp_ms=view.started_ms,
        timeout_ms=view.timeout_ms,
        partitions=[
            types_pb2.TopicPartition(topic=names.get(p.topic_id, ""), topic_id=p.topic_id, partition=p.partition)
            for p in view.partitions
        ],
        groups=view.groups,
        coordinator=coordinator,
        txn_shard=shard,
        owner_run=view.owner_run,
        tokens=[co.CommitToken(app_id=app, batch_id=batch) for app, batch in view.tokens],
        may_be_open=view.may_be_open,
    )
