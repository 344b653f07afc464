"""Moves due records to their topic: one transaction over the topic's partition and the waiting one.

Rule 1: a mover has one session of its transactional id; beginning it fences the mover of an earlier leader and ends what it had
        open. So at most one mover of a partition can commit anything.
Rule 2: the end of a transaction is asked for until its outcome is known. When it stays unknown, `SessionLostError` ends the
        mover, and the next session settles it before the log is read again.
Rule 3: before the end is asked for, any failure aborts: then nothing of the move is ever visible.
Rule 4: the part of the waiting partition is written in the leadership of this mover alone (`own_log`). A broker that does not
        know yet that another one leads may begin the newest session, and would move again what the other one has moved.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple, Protocol, TypeVar

from oncelog.core.batch.hashing import shard_for
from oncelog.core.batch.header import BatchIdentity, partition_tag
from oncelog.errors import (
    CoordinatorNotAvailableError,
    ErrorCode,
    InvalidTransactionTimeoutError,
    LeaderNotAvailableError,
    OncelogError,
    TxnAbortedError,
)
from oncelog.ports import Transport, WallClock
from oncelog.types import PartitionId
from oncelog.v1 import coordinator_pb2 as co
from oncelog.v1 import partition_pb2 as pb
from oncelog.v1 import types_pb2
from oncelog.wire import methods
from oncelog.wire.wire_errors import from_detail
from oncelog_runtime.metadata.cluster_keys import KIND_TXN
from oncelog_runtime.metadata.cluster_view import ClusterView

CALL_TIMEOUT_MS: Final = 5_000
TRANSACTION_TIMEOUT_MS: Final = 60_000
"""Shorter if the coordinators allow no such time-out (`transaction_max_timeout_ms`)."""
_ACKS_ALL: Final = -1
_FIRST_PAUSE_MS: Final = 20
_PAUSE_MAX_MS: Final = 500
_CONCURRENT: Final = ErrorCode.CONCURRENT_TRANSACTIONS
_UNKNOWN: Final = (ErrorCode.NETWORK_ERROR, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.UNKNOWN_ERROR)

T = TypeVar("T")


class SessionLostError(Exception):
    """The session ended, or the outcome of its transaction is not known: a new session has to begin."""


class Place(NamedTuple):
    """A partition that takes part in a move."""

    partition: PartitionId
    topic: str


class Part(NamedTuple):
    """A batch for one partition. `encode` makes its bytes for the identity that it is given."""

    place: Place
    records: int
    encode: Callable[[BatchIdentity], bytes]
    is_own: bool = False
    """For the waiting partition itself."""


class Own(Protocol):
    """The log of the waiting partition, in the leadership in which this mover works; see `OwnLog`."""

    @property
    def is_over(self) -> bool:
        """True when the leadership has ended."""
        ...

    async def append(self, data: bytes, transactional_id: str, timeout_ms: int) -> None:
        """Returns when the batch is committed."""
        ...


class Mover:
    """One session. `begin`, then `move` one after the other. All that it repeats ends with the leadership of `own`."""

    def __init__(
        self, transport: Transport, view: ClusterView, clock: WallClock, own: Own, transactional_id: str, nonce: str
    ) -> None:
        self._transport = transport
        self._view = view
        self._clock = clock
        self._own = own
        self._id = transactional_id
        self._nonce = nonce
        self._timeout_ms = TRANSACTION_TIMEOUT_MS
        self._session = co.InitProducerIdReply()
        self._next_no = 0

    async def begin(self) -> None:
        """Begins the session; returns when it is there, however long that takes. Raises the last error once the leadership
        has ended: a session that began later would disturb that of the next leader.
        """
        try:
            self._session = await self._new_session()
        except InvalidTransactionTimeoutError as error:
            self._timeout_ms = int(error.context["maximum_ms"])
            self._session = await self._new_session()
        self._next_no = self._session.next_txn_no

    async def _new_session(self) -> co.InitProducerIdReply:
        request = co.InitProducerIdRequest(
            transactional_id=self._id, transaction_timeout_ms=self._timeout_ms, nonce=self._nonce
        )
        return await self._until_answered(
            lambda: self._coordinator_call(methods.INIT_PRODUCER_ID, request), deadline_ms=None
        )

    async def move(self, parts: Sequence[Part]) -> None:
        """Commits all parts. Raises `OncelogError` when none is visible, for certain, or `SessionLostError`."""
        name = co.TransactionName(
            transactional_id=self._id,
            txn_shard=self._session.txn_shard,
            txn_producer_id=self._session.producer_id,
            txn_no=self._next_no,
            producer_epoch=self._session.producer_epoch,
            session_token=self._session.session_token,
        )
        self._next_no += 1
        failure = await self._write_all(name, parts)
        if failure is not None:
            await self._end(name, types_pb2.TRANSACTION_OUTCOME_ABORTED, parts)
            raise failure
        await self._end(name, types_pb2.TRANSACTION_OUTCOME_COMMITTED, parts)

    # ------------------------------------------------------------ steps

    async def _write_all(self, name: co.TransactionName, parts: Sequence[Part]) -> OncelogError | None:
        """Enrols and writes everything; returns why that failed."""
        deadline_ms = self._clock.monotonic_ms() + self._timeout_ms // 2
        failed: list[OncelogError] = []
        try:
            await self._enrol(name, parts, deadline_ms)
            async with asyncio.TaskGroup() as group:
                for part in parts:
                    group.create_task(self._write(name, part, deadline_ms))
        except* OncelogError as errors:
            failed.append(_first(errors))
        return failed[0] if failed else None

    async def _enrol(self, name: co.TransactionName, parts: Sequence[Part], deadline_ms: float) -> None:
        request = co.EnrolPartitionsRequest(name=name)
        for part in parts:
            topic_id, partition = part.place.partition
            request.partitions.add(topic=part.place.topic, topic_id=topic_id, partition=partition)
        await self._until_answered(lambda: self._coordinator_call(methods.ENROL_PARTITIONS, request), deadline_ms)

    async def _write(self, name: co.TransactionName, part: Part, deadline_ms: float) -> None:
        topic_id, partition = part.place.partition
        identity = BatchIdentity(
            partition_tag(topic_id, partition),
            name.txn_producer_id,
            name.producer_epoch,
            0,
            name.txn_producer_id,
            name.txn_no,
            name.txn_shard,
        )
        data = part.encode(identity)
        if part.is_own:
            await self._until_answered(lambda: self._own.append(data, self._id, CALL_TIMEOUT_MS), deadline_ms)
            return
        item = pb.ProducePartition(
            topic_id=topic_id,
            partition=partition,
            length=len(data),
            transactional_id=self._id,
            session_token=name.session_token,
        )
        request = pb.ProduceRequest(acks=_ACKS_ALL, timeout_ms=CALL_TIMEOUT_MS, partitions=[item])
        await self._until_answered(lambda: self._produce(part.place.partition, request, data), deadline_ms)

    async def _produce(self, partition: PartitionId, request: pb.ProduceRequest, data: bytes) -> None:
        address = self._view.address_of(self._view.require_leader(partition).broker_id)
        if address is None:
            raise LeaderNotAvailableError(partition=partition.partition)
        reply, _ = await methods.PRODUCE.call(self._transport, address, request, CALL_TIMEOUT_MS, data)
        if reply.partitions[0].HasField("error"):
            raise from_detail(reply.partitions[0].error)

    async def _end(
        self, name: co.TransactionName, outcome: types_pb2.TransactionOutcome, parts: Sequence[Part]
    ) -> None:
        """Ends the transaction. Raises `SessionLostError`, and `TxnAbortedError` when a commit found it aborted."""
        request = co.EndTransactionRequest(name=name, outcome=outcome, wait=co.END_WAIT_DECIDED)
        if outcome == types_pb2.TRANSACTION_OUTCOME_COMMITTED:
            for part in parts:
                topic_id, partition = part.place.partition
                request.counts.add(topic_id=topic_id, partition=partition, records=part.records)
        deadline_ms = self._clock.monotonic_ms() + TRANSACTION_TIMEOUT_MS
        try:
            reply = await self._until_answered(
                lambda: self._coordinator_call(methods.END_TRANSACTION, request), deadline_ms
            )
        except OncelogError as error:
            raise SessionLostError(str(error)) from error
        if reply.outcome != outcome:
            raise TxnAbortedError("the transaction of a move was aborted", txn_no=name.txn_no)

    # ------------------------------------------------------------ calls

    async def _coordinator_call(
        self, method: methods.MethodSpec[methods.Req, methods.Rep], request: methods.Req
    ) -> methods.Rep:
        known = self._view.cluster
        if known is None:
            raise CoordinatorNotAvailableError("the cluster's metadata is not known yet")
        shard = shard_for(self._id, known.transaction_shards)
        owner = self._view.owner_of(KIND_TXN, shard)
        if owner is None:
            raise CoordinatorNotAvailableError("nobody owns the transaction shard", txn_shard=shard)
        reply, _ = await method.call(self._transport, owner.address, request, CALL_TIMEOUT_MS)
        return reply

    async def _until_answered(self, call: Callable[[], Awaitable[T]], deadline_ms: float | None) -> T:
        """Repeats a call while that may help. Raises its last error after the deadline or the leadership, or one that stays."""
        pause_ms = _FIRST_PAUSE_MS
        while True:
            try:
                return await call()
            except OncelogError as error:
                over = deadline_ms is not None and self._clock.monotonic_ms() + pause_ms >= deadline_ms
                if over or self._own.is_over or not (error.retriable or error.code in (*_UNKNOWN, _CONCURRENT)):
                    raise
            await asyncio.sleep(pause_ms / 1000)
            pause_ms = min(pause_ms * 2, _PAUSE_MAX_MS)


def _first(errors: BaseExceptionGroup[OncelogError]) -> OncelogError:
    found: BaseException = errors
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    assert isinstance(found, OncelogError)
    return found
