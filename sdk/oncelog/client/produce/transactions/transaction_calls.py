"""The calls that a transaction makes to its coordinator, and to that of a group: every request names the transaction.

Rule: these calls may be repeated. The name, and the sequence of a commit of offsets, make a late copy harmless.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from oncelog import errors
from oncelog.client.consume.offsets import GroupMetadata
from oncelog.client.produce.transactions.txn_names import name_of
from oncelog.client.routing.calls import Caller
from oncelog.client.routing.metadata import Metadata
from oncelog.client.work.message import ChannelMessage, Settles
from oncelog.core.batch.identity import Identity
from oncelog.core.causes import because
from oncelog.types import PartitionId
from oncelog.v1 import coordinator_pb2 as co
from oncelog.v1 import types_pb2
from oncelog.wire import methods


class TransactionCalls:
    """See the module. One per transaction; before it begins the identity is empty, and no call is made."""

    def __init__(self, caller: Caller, metadata: Metadata, identity: Identity) -> None:
        self._caller = caller
        self._metadata = metadata
        self._identity = identity

    async def enrol(self, partitions: Iterable[PartitionId]) -> None:
        """Makes these partitions part of the transaction before they are written."""
        named = [self._named(partition) for partition in partitions]
        request = co.EnrolPartitionsRequest(name=name_of(self._identity), partitions=named)
        await self._caller.to_txn_coordinator(self._identity.transactional_id, methods.ENROL_PARTITIONS, request)

    def _named(self, partition: PartitionId) -> types_pb2.TopicPartition:
        topic = self._metadata.topic_name(partition.topic_id) or ""
        return types_pb2.TopicPartition(topic=topic, partition=partition.partition, topic_id=partition.topic_id)

    async def send_offsets(self, group: GroupMetadata, sequence: int, entries: list[co.OffsetEntry]) -> None:
        """Commits offsets of a group with the transaction."""
        request = co.SendOffsetsRequest(
            name=name_of(self._identity), member=group.to_proto(), commit_sequence=sequence, offsets=entries
        )
        await self._caller.to_group_coordinator(group.group_id, methods.SEND_OFFSETS, request)

    async def ack(self, worker: Settles, messages: Sequence[ChannelMessage]) -> None:
        """Acknowledges messages of a worker with the transaction."""
        await worker._acknowledge_in(messages, name_of(self._identity))

    async def commit(self, counts: Mapping[PartitionId, int], wait: co.EndWait) -> co.EndTransactionReply:
        """Asks for the commit until the answer is definite, or the deadline passes. `counts`: records of each partition."""
        request = co.EndTransactionRequest(
            name=name_of(self._identity),
            outcome=types_pb2.TRANSACTION_OUTCOME_COMMITTED,
            wait=wait,
            counts=[
                co.PartitionCount(topic_id=p.topic_id, partition=p.partition, records=records)
                for p, records in counts.items()
            ],
        )
        return await self._end(request)

    async def abort(self) -> co.EndTransactionReply:
        """As `commit`, for an abort."""
        request = co.EndTransactionRequest(
            name=name_of(self._identity), outcome=types_pb2.TRANSACTION_OUTCOME_ABORTED, wait=co.END_WAIT_DECIDED
        )
        return await self._end(request)

    async def _end(self, request: co.EndTransactionRequest) -> co.EndTransactionReply:
        transactional_id = self._identity.transactional_id
        return await self._caller.end_at_txn_coordinator(transactional_id, methods.END_TRANSACTION, request)

    async def wait_visible(self) -> bool:
        """It is committed, by a call that may not have waited for the markers: asked again, it changes nothing but waits.

        Raises why it is not known whether they are in; the message says that the transaction is committed.
        """
        request = co.EndTransactionRequest(
            name=name_of(self._identity), outcome=types_pb2.TRANSACTION_OUTCOME_COMMITTED, wait=co.END_WAIT_VISIBLE
        )
        transactional_id = self._identity.transactional_id
        try:
            reply = await self._caller.to_txn_coordinator(transactional_id, methods.END_TRANSACTION, request)
        except errors.OncelogError as error:
            told = type(error)(
                f"the transaction is committed, but nobody said that all markers are in: {error.message}"
            )
            told.context = dict(error.context)
            raise because(told, error) from error
        return reply.visible
