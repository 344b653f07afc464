"""Calls that find their way: to a shard's owner, a partition's leader, the controller; tried again until a deadline.

Rule: every call made here may be repeated (what makes a copy of each harmless stands in docs/decisions/0022), so an unknown
outcome is resolved by asking again. At the deadline the last error is raised: its outcome is as unknown as it says. When it
says only that no process answered, what a server said before stands in it.
`once`: the request has a `call`, by which the process that executes it knows its copies, in the term that this try addresses.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from google.protobuf.message import Message

from oncelog import errors
from oncelog.client.home.context import Context, now_ms
from oncelog.client.routing.metadata import Metadata
from oncelog.core.causes import because, is_silence
from oncelog.types import PartitionId
from oncelog.v1 import coordinator_pb2 as co
from oncelog.v1 import types_pb2
from oncelog.wire.methods import MethodSpec

End = TypeVar("End", co.EndTransactionRequest, co.CommitTransactionRequest)
Req = TypeVar("Req", bound=Message)
Rep = TypeVar("Rep", bound=Message)
Locate = Callable[[int], Awaitable[str]]


class Caller:
    """See the module. One per client."""

    def __init__(self, context: Context, metadata: Metadata) -> None:
        self._context = context
        self._metadata = metadata

    async def to_txn_coordinator(
        self, transactional_id: str, spec: MethodSpec[Req, Rep], request: Req, timeout_ms: int | None = None
    ) -> Rep:
        """Calls the owner of the transactional id's shard."""
        return await self._call(
            lambda d: self._metadata.txn_coordinator(transactional_id, d), spec, request, timeout_ms
        )

    async def end_at_txn_coordinator(
        self, transactional_id: str, spec: MethodSpec[End, Rep], request: End, timeout_ms: int | None = None
    ) -> Rep:
        """Calls the owner of the transactional id's shard with a commit or an abort.

        With wait=VISIBLE half of the time is for the markers. Then the decision is asked for alone: a partition without a
        leader gets no marker, and a caller that waits for that would never hear that the commit is durable.

        Raises `CommitOutcomeUnknownError` for a commit that may have reached the coordinator and was not answered, also because
        the client was closed meanwhile.
        """
        deadline_ms = self._context.deadline_ms(timeout_ms)
        try:
            return await self._end_until(deadline_ms, transactional_id, spec, request)
        except errors.OncelogError as error:
            is_closed = isinstance(error, errors.IllegalStateError) and self._context.home.is_closed
            if not _is_commit(request) or not (error.retriable or is_closed):
                raise
            raise _unknown(request, error, is_closed) from error

    async def _end_until(
        self, deadline_ms: int, transactional_id: str, spec: MethodSpec[End, Rep], request: End
    ) -> Rep:
        if request.wait == co.END_WAIT_VISIBLE:
            half_ms = max(1, (deadline_ms - now_ms()) // 2)
            try:
                return await self.to_txn_coordinator(transactional_id, spec, request, half_ms)
            except errors.OncelogError as error:
                if not error.retriable:
                    raise
            request.wait = co.END_WAIT_DECIDED
        return await self.to_txn_coordinator(transactional_id, spec, request, max(1, deadline_ms - now_ms()))

    async def to_group_coordinator(
        self,
        group_id: str,
        spec: MethodSpec[Req, Rep],
        request: Req,
        timeout_ms: int | None = None,
        *,
        once: bool = False,
    ) -> Rep:
        """Calls the owner of the group's shard."""
        nonce = self._context.nonce() if once else ""

        async def locate(deadline_ms: int) -> str:
            address = await self._metadata.group_coordinator(group_id, deadline_ms)
            name_call(request, nonce, self._metadata.group_epoch(group_id))
            return address

        return await self._call(locate, spec, request, timeout_ms)

    async def to_any_coordinator(self, spec: MethodSpec[Req, Rep], request: Req, timeout_ms: int | None = None) -> Rep:
        """Calls some coordinator, another one at each try."""

        async def locate(deadline_ms: int) -> str:
            return self._context.random.choice(await self._metadata.coordinators(deadline_ms))

        return await self._call(locate, spec, request, timeout_ms)

    async def to_any_broker(self, spec: MethodSpec[Req, Rep], request: Req, timeout_ms: int | None = None) -> Rep:
        """Calls some broker, another one at each try."""

        async def locate(deadline_ms: int) -> str:
            if not self._metadata.broker_addresses():
                await self._metadata.refresh(deadline_ms)
            addresses = list(self._metadata.broker_addresses().values())
            if not addresses:
                raise errors.LeaderNotAvailableError("no broker is registered yet")
            return self._context.random.choice(addresses)

        return await self._call(locate, spec, request, timeout_ms)

    async def to_controller(
        self, spec: MethodSpec[Req, Rep], request: Req, timeout_ms: int | None = None, *, once: bool = False
    ) -> Rep:
        """Calls the broker that is the controller."""
        nonce = self._context.nonce() if once else ""

        async def locate(deadline_ms: int) -> str:
            if self._metadata.controller is None:
                await self._metadata.refresh(deadline_ms)
            if self._metadata.controller is None:
                raise errors.NotControllerError("the cluster has no controller at the moment")
            name_call(request, nonce, self._metadata.controller_term)
            return self._metadata.controller

        return await self._call(locate, spec, request, timeout_ms)

    async def to_leader(
        self,
        partition: PartitionId,
        spec: MethodSpec[Req, Rep],
        request: Req,
        timeout_ms: int | None = None,
        *,
        once: bool = False,
        check: Callable[[Rep], None] | None = None,
    ) -> Rep:
        """Calls the partition's leader. `check` raises what an answer says that is no answer yet; then it is asked for
        again.
        """
        nonce = self._context.nonce() if once else ""

        async def locate(deadline_ms: int) -> str:
            leader = self._metadata.leader(partition)
            if leader.address is None:
                raise errors.LeaderNotAvailableError(topic_id=partition.topic_id, partition=partition.partition)
            name_call(request, nonce, leader.leader_epoch)
            return leader.address

        return await self._call(locate, spec, request, timeout_ms, check)

    async def _call(
        self,
        locate: Locate,
        spec: MethodSpec[Req, Rep],
        request: Req,
        timeout_ms: int | None,
        check: Callable[[Rep], None] | None = None,
    ) -> Rep:
        deadline_ms = self._context.deadline_ms(timeout_ms)
        attempt = 0
        told: errors.OncelogError | None = None  # by a server, the last time that one spoke
        while True:
            try:
                address = await locate(deadline_ms)
                reply, _ = await spec.call(
                    self._context.transport, address, request, self._context.call_timeout_ms(deadline_ms)
                )
                if check is not None:
                    check(reply)
                return reply
            except errors.ClusterUnreachableError as error:
                raise error from told or error.__cause__
            except errors.OncelogError as error:
                if not error.retriable:
                    raise
                last = error
            attempt += 1
            told = told if is_silence(last) else last
            if not await self._again(last, told, attempt, deadline_ms):
                raise _after(last, told)

    async def _again(
        self, error: errors.OncelogError, told: errors.OncelogError | None, attempt: int, deadline_ms: int
    ) -> bool:
        """Waits, and looks again who is in charge. False: no time is left."""
        if now_ms() >= deadline_ms or not await self._context.pause(attempt, deadline_ms, error.retry_after_ms):
            return False
        if error.action is errors.ErrorAction.REFRESH or is_silence(error):
            try:
                await self._metadata.refresh(deadline_ms)
            except errors.ClusterUnreachableError as lost:
                raise lost from told or error
        return True


def _is_commit(request: co.EndTransactionRequest | co.CommitTransactionRequest) -> bool:
    if isinstance(request, co.EndTransactionRequest):
        return request.outcome == types_pb2.TRANSACTION_OUTCOME_COMMITTED
    return True


def _unknown(
    request: co.EndTransactionRequest | co.CommitTransactionRequest, error: errors.OncelogError, is_closed: bool
) -> errors.CommitOutcomeUnknownError:
    txn_no = request.name.txn_no if isinstance(request, co.EndTransactionRequest) else request.txn_no
    if is_closed:
        message = "the client was closed before the commit was answered: get_outcome() tells what became of it"
    else:
        message = f"no answer to the commit; commit again, it is idempotent: {error}"
    return errors.CommitOutcomeUnknownError(message, txn_no=txn_no)


def _after(last: errors.OncelogError, told: errors.OncelogError | None) -> errors.OncelogError:
    """The last error; when that is only silence, with what a server had said before."""
    if told is None or told is last:
        return last
    late = type(last)(f"{last.message}; before that: {told.code.name}, {told}")
    late.context = dict(last.context)
    return because(late, told)


def name_call(request: Any, nonce: str, term: int) -> None:
    """Gives the request its identity; none to a server of version 0.1, which tells no term and knows no identity."""
    if nonce and term:
        request.call.nonce, request.call.term = nonce, term
    elif nonce:
        request.ClearField("call")
