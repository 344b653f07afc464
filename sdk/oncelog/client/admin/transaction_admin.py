"""Administration of transactions: a part of `client.admin`.

Rule: a list is complete or an error (`shard_listing`); a leader that does not answer is named, never passed over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Final

from oncelog.client.admin.admin_base import AdminBase
from oncelog.client.admin.descriptions import (
    HangingTransaction,
    ProducerDescription,
    TopicDescription,
    TransactionDescription,
)
from oncelog.client.admin.shard_listing import ShardListing
from oncelog.core.names import check_topic_name, check_transactional_id
from oncelog.errors import UnknownTopicError
from oncelog.types import PartitionId
from oncelog.v1 import coordinator_pb2 as co
from oncelog.v1 import partition_pb2 as pb
from oncelog.wire import methods

HANGING_AGE_MS: Final = 1_200_000
"""The coordinators' largest transaction time-out by default (15 minutes), and five minutes for healing."""
_AT_ONCE: Final = 16
_DEFAULT_TIMEOUT_MS: Final = 60_000
_OPEN: Final = "ONGOING"


class TransactionAdmin(AdminBase):
    """See the module."""

    async def list_transactions(self, states: Iterable[str] = ()) -> list[TransactionDescription]:
        """Every transactional id, by name; only these states when any is given.

        Complete: a shard that moves or loads is waited for. Raises `CoordinatorNotAvailableError` when one of them
        does not answer until the deadline.
        """
        wanted = list(states)
        found = await ShardListing(self._context, self._metadata).collect(
            "transaction",
            methods.LIST_TRANSACTIONS,
            lambda shards: co.ListTransactionsRequest(states=wanted, shards=shards),
            lambda reply: ((info.txn_shard, _transaction(info)) for info in reply.transactions),
        )
        return sorted(found, key=lambda t: t.transactional_id)

    async def describe_transaction(self, transactional_id: str) -> TransactionDescription:
        """Returns one transactional id. Raises `InvalidPidMappingError` for one that is not known."""
        request = co.DescribeTransactionRequest(transactional_id=check_transactional_id(transactional_id))
        reply = await self._caller.to_txn_coordinator(transactional_id, methods.DESCRIBE_TRANSACTION, request)
        return _transaction(reply.transaction)

    async def abort_transaction(self, transactional_id: str) -> int:
        """Aborts the open transaction by an operator's word; returns its number, 0 when none was open.

        Only the one that is open now, or may be at a leader: what begins later is not touched, however late the call arrives.
        """
        name = check_transactional_id(transactional_id)
        asked = co.DescribeTransactionRequest(transactional_id=name)
        found = await self._caller.to_txn_coordinator(name, methods.DESCRIBE_TRANSACTION, asked)
        info = found.transaction
        number = info.txn_no if info.state == _OPEN else info.may_be_open
        if not number:
            return 0
        request = co.ForceAbortRequest(transactional_id=name, txn_no=number)
        reply = await self._caller.to_txn_coordinator(transactional_id, methods.FORCE_ABORT, request)
        return reply.txn_no

    async def fence_producer(self, transactional_id: str) -> int:
        """Begins a session that no producer has: aborts what is open, and the producer that wrote under this id is fenced.

        Returns the new producer epoch. Raises `InvalidPidMappingError` for an id that is not known.
        """
        known = await self.describe_transaction(transactional_id)
        request = co.InitProducerIdRequest(
            transactional_id=transactional_id,
            # A Spark run's is the bound of its open transaction, not a session's.
            transaction_timeout_ms=_DEFAULT_TIMEOUT_MS if known.owner_run else known.timeout_ms or _DEFAULT_TIMEOUT_MS,
            nonce=self._context.nonce(),
        )
        reply = await self._caller.to_txn_coordinator(transactional_id, methods.INIT_PRODUCER_ID, request)
        return reply.producer_epoch

    # ------------------------------------------------------------ on the partitions

    async def describe_producers(self, topic: str, partition: int) -> list[ProducerDescription]:
        """Returns the writers of a partition, as its leader knows them: transactional ones last. Raises `UnknownTopicError`."""
        found = await self._metadata.topic(check_topic_name(topic), self._context.deadline_ms())
        if not 0 <= partition < found.partitions:
            raise UnknownTopicError(f"{topic} has the partitions 0 to {found.partitions - 1}", partition=partition)
        reply = await self._producers(PartitionId(found.topic_id, partition))
        return [
            ProducerDescription(
                topic=topic,
                partition=partition,
                producer_id=p.producer_id,
                producer_epoch=p.producer_epoch,
                last_sequence=p.last_sequence,
                last_timestamp_ms=p.last_timestamp_ms,
                coordinator_epoch=p.coordinator_epoch,
                txn_start_offset=p.txn_start_offset,
                txn_producer_id=p.txn_producer_id,
                txn_no=p.txn_no,
            )
            for p in reply.producers
        ]

    async def _producers(self, where: PartitionId) -> pb.DescribeProducersReply:
        request = pb.DescribeProducersRequest(topic_id=where.topic_id, partition=where.partition)
        return await self._caller.to_leader(where, methods.DESCRIBE_PRODUCERS, request)

    async def find_hanging(
        self, topics: Sequence[TopicDescription], min_age_ms: int = HANGING_AGE_MS
    ) -> list[HangingTransaction]:
        """Transactions that are open on a partition of these topics for `min_age_ms`, and not at their coordinator.

        The partitions are asked first: what ends in between is not taken for hanging. Raises when a leader or a shard
        does not answer until the deadline: "nothing hangs" is never said of what was not looked at.
        """
        await self._metadata.refresh(self._context.deadline_ms())
        for topic in topics:
            await self._metadata.topic(topic.name, self._context.deadline_ms())
        slots = asyncio.Semaphore(_AT_ONCE)

        async def look(topic: TopicDescription, partition: int) -> list[tuple[str, int, pb.OpenTransaction]]:
            async with slots:
                reply = await self._producers(PartitionId(topic.topic_id, partition))
            return [(topic.name, partition, item) for item in reply.transactions]

        looks = [look(topic, p.partition) for topic in topics for p in topic.partitions]
        now_ms = self._context.clock.now_ms()
        opened = [
            item
            for found in await asyncio.gather(*looks)
            for item in found
            if now_ms - item[2].open_since_ms >= min_age_ms
        ]
        if not opened:
            return []
        known = {t.producer_id: t for t in await self.list_transactions()}
        return [
            _hanging(topic, partition, item, known.get(item.txn_producer_id), reason)
            for topic, partition, item in opened
            if (reason := _why_hanging(item, known.get(item.txn_producer_id)))
        ]


def _why_hanging(item: pb.OpenTransaction, known: TransactionDescription | None) -> str:
    """Empty: the coordinator has it open too."""
    if known is None:
        return "no coordinator knows this producer id"
    if item.txn_no > known.txn_no:
        return f"its coordinator knows numbers up to {known.txn_no} only"
    if item.txn_no == known.txn_no and known.state == _OPEN:
        return ""
    return "its coordinator has ended it, but there is no marker here"


def _hanging(
    topic: str, partition: int, item: pb.OpenTransaction, known: TransactionDescription | None, reason: str
) -> HangingTransaction:
    return HangingTransaction(
        topic=topic,
        partition=partition,
        txn_producer_id=item.txn_producer_id,
        txn_no=item.txn_no,
        txn_shard=item.txn_shard,
        first_offset=item.first_offset,
        open_since_ms=item.open_since_ms,
        records=item.records,
        transactional_id=known.transactional_id if known is not None else "",
        reason=reason,
    )


def _transaction(info: co.TransactionInfo) -> TransactionDescription:
    return TransactionDescription(
        transactional_id=info.transactional_id,
        producer_id=info.producer_id,
        producer_epoch=info.producer_epoch,
        txn_no=info.txn_no,
        state=info.state,
        start_timestamp_ms=info.start_timestamp_ms,
        timeout_ms=info.timeout_ms,
        partitions=tuple((p.topic or p.topic_id, p.partition) for p in info.partitions),
        groups=tuple(info.groups),
        coordinator=info.coordinator,
        txn_shard=info.txn_shard,
        owner_run=info.owner_run,
        tokens=tuple((t.app_id, t.batch_id) for t in info.tokens),
    )
