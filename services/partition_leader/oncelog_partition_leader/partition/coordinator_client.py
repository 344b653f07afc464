"""A leader's calls to coordinators: enrolment before it opens a transaction, resolution of one that stays open.

Rule 1: answers carry the shard's epoch. An answer with a lower epoch than the highest known of that shard is refused,
        whichever process sent it (hole 6).
Rule 2: a leader enrols only for a batch whose session token it has checked, and sends a token that it computes itself.
Rule 3: when a coordinator does not answer an enrolment, the producer gets a retriable error: nothing was written.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from oncelog.core.batch.control import NOT_COUNTED, Marker
from oncelog.errors import (
    CoordinatorFencedError,
    CoordinatorNotAvailableError,
    ErrorCode,
    InvalidPidMappingError,
    OncelogError,
)
from oncelog.ports import Transport
from oncelog.types import PartitionId
from oncelog.v1 import coordinator_pb2 as co
from oncelog.v1 import types_pb2
from oncelog.wire import methods
from oncelog_partition_leader.core.producers.transactions import OpenTransaction, TxnSession
from oncelog_runtime.metadata.cluster_keys import KIND_TXN
from oncelog_runtime.metadata.cluster_view import ClusterView
from oncelog_runtime.process.bugs import Bugs
from oncelog_runtime.process.tasks import TaskOwner
from oncelog_runtime.serving.session_tokens import SessionTokens

_NO_ANSWER = (ErrorCode.NETWORK_ERROR, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.UNKNOWN_ERROR)


_Enrolment = tuple[TxnSession, int, str]
"""(transaction and session, shard, transactional id)."""


class EnrolmentAsker(Protocol):
    """A leadership that waits for an enrolment."""

    @property
    def partition(self) -> PartitionId: ...
    @property
    def topic(self) -> str: ...
    def enrolled(self, session: TxnSession, error: OncelogError | None) -> None:
        """Is called with the coordinator's own answer; `error` None = enrolled."""
        ...


class Coordinators:
    """Calls to the owners of transaction shards."""

    def __init__(
        self,
        transport: Transport,
        view: ClusterView,
        tasks: TaskOwner,
        timeout_ms: int,
        bugs: Bugs,
        tokens: SessionTokens,
    ) -> None:
        self.tokens = tokens
        """The session token that proves whose transaction it is."""
        self._transport = transport
        self._view = view
        self._tasks = tasks
        self._bugs = bugs
        self._timeout_ms = timeout_ms
        self._asking: dict[_Enrolment, list[EnrolmentAsker]] = {}
        self._epochs: dict[int, int] = {}

    def known_epoch(self, shard: int) -> int:
        """Returns the highest epoch of a transaction shard that this broker knows, from answers or from etcd."""
        return max(self._epochs.get(shard, 0), self._view.shard_epochs.get((KIND_TXN, shard), 0))

    def heard(self, shard: int, epoch: int) -> None:
        """Notes the epoch of a coordinator's message. Raises `CoordinatorFencedError` when a newer one is known."""
        known = self.known_epoch(shard)
        if epoch < known:
            raise CoordinatorFencedError(txn_shard=shard, coordinator_epoch=epoch, known_epoch=known)
        self._epochs[shard] = epoch

    def enrol_soon(self, asker: EnrolmentAsker, session: TxnSession, shard: int, transactional_id: str) -> None:
        """Asks for the enrolment of one partition; requests for the same transaction at the same time go in one call."""
        key = (session, shard, transactional_id)
        asking = self._asking.setdefault(key, [])
        asking.append(asker)
        if len(asking) == 1:
            asyncio.get_running_loop().call_soon(self._start, key)

    def _start(self, key: _Enrolment) -> None:
        self._tasks.spawn(self._enrol(key, self._asking.pop(key)), "enrol")

    async def _enrol(self, key: _Enrolment, askers: list[EnrolmentAsker]) -> None:
        refusal: OncelogError | None = None
        try:
            await self._call_enrol(key, askers)
        except OncelogError as error:
            refusal = error
        except Exception as error:  # the batches that wait for this enrolment must be answered
            refusal = self._bugs.met("task", error, "enrolment")
        for asker in askers:
            try:
                asker.enrolled(key[0], refusal)
            except Exception as error:  # the others still wait
                self._bugs.met("task", error, "enrolment")

    async def _call_enrol(self, key: _Enrolment, askers: list[EnrolmentAsker]) -> None:
        """Returns when the coordinator has durably enrolled the partitions. Raises the error for the producer."""
        session, shard, transactional_id = key
        request = co.EnrolPartitionsRequest(
            name=co.TransactionName(
                transactional_id=transactional_id,
                txn_shard=shard,
                txn_producer_id=session.txn_producer_id,
                txn_no=session.txn_no,
                producer_epoch=session.session_epoch,
                session_token=self.tokens.of_session(transactional_id, session.txn_producer_id, session.session_epoch),
            )
        )
        for asker in askers:
            topic_id, partition = asker.partition
            request.partitions.add(topic=asker.topic, topic_id=topic_id, partition=partition)
        try:
            reply, _ = await methods.ENROL_PARTITIONS.call(
                self._transport, self._owner(shard), request, self._timeout_ms
            )
            self.heard(shard, reply.coordinator_epoch)
        except OncelogError as error:
            raise _to_producer(error) from error

    async def resolve(self, partition: PartitionId, opened: OpenTransaction) -> Marker | None:
        """Asks for the marker that ends an open transaction; None while it is ongoing. Raises `OncelogError`."""
        shard = opened.txn_shard
        request = co.ResolveTransactionRequest(
            txn_shard=shard,
            txn_producer_id=opened.name.txn_producer_id,
            txn_no=opened.name.txn_no,
            topic_id=partition.topic_id,
            partition=partition.partition,
            known_coordinator_epoch=self.known_epoch(shard),
        )
        reply, _ = await methods.RESOLVE_TRANSACTION.call(
            self._transport, self._owner(shard), request, self._timeout_ms
        )
        self.heard(shard, reply.coordinator_epoch)
        if reply.outcome not in (types_pb2.TRANSACTION_OUTCOME_COMMITTED, types_pb2.TRANSACTION_OUTCOME_ABORTED):
            return None
        committed = reply.outcome == types_pb2.TRANSACTION_OUTCOME_COMMITTED
        return Marker(
            committed=committed,
            coordinator_epoch=reply.coordinator_epoch,
            session_epoch=max(reply.session_epoch, opened.session_epoch),
            winners=tuple(reply.winners) if committed and reply.has_winners else None,
            expected_records=reply.expected_records if committed else NOT_COUNTED,
        )

    def _owner(self, shard: int) -> str:
        known = self._view.cluster
        if known is not None and not 0 <= shard < known.transaction_shards:
            raise InvalidPidMappingError(
                "there is no such transaction shard", txn_shard=shard, transaction_shards=known.transaction_shards
            )
        owner = self._view.owner_of(KIND_TXN, shard)
        if owner is None:
            raise CoordinatorNotAvailableError("nobody owns the transaction shard", txn_shard=shard)
        return owner.address


def _to_producer(error: OncelogError) -> OncelogError:
    """Makes a failed call to the coordinator retriable for the producer: nothing was written."""
    if error.code in _NO_ANSWER or error.code == ErrorCode.TRANSACTION_COORDINATOR_FENCED:
        return CoordinatorNotAvailableError("the coordinator did not answer the enrolment")
    return error
