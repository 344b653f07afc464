"""Asks the cluster what a producer's core wants to know after a failure: the leaders, the fate of a batch, a new identity.

Rule 1: one refresh of metadata runs at a time. A call that takes suspiciously long begins one too, and is given up when all
        its partitions have another leader by then.
Rule 2: the leader is asked about a batch until its answer is definite, or not needed any more.
Rule 3: each question ends in a callback, since a task that is cancelled before its first step runs no `finally`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Final, NamedTuple

from oncelog import errors
from oncelog.client.home.context import Context, now_ms
from oncelog.client.produce.produce_calls import ProduceCalls
from oncelog.client.routing.calls import Caller
from oncelog.client.routing.metadata import Metadata
from oncelog.core.batch.identity import Identity
from oncelog.core.batch.sequence import last_sequence
from oncelog.core.produce.accumulator import Batch
from oncelog.core.produce.actions import Action, AskState
from oncelog.core.produce.deliveries import Deliveries
from oncelog.core.produce.producer_core import ProducerCore
from oncelog.core.produce.recovery_core import RecoveryCore
from oncelog.types import PartitionId
from oncelog.v1 import partition_pb2 as pb
from oncelog.wire import methods

_SUSPICIOUS_MS: Final = 1_000
"""A call that takes longer makes us look whether its partitions have another leader by now."""
_SETTLE_TIMEOUT_MS: Final = 5_000

Renew = Callable[[], Awaitable[Identity]]


class Hands(NamedTuple):
    """The two things that a recovery lets its sender do."""

    act: Callable[[list[Action]], None]
    """Does what a core decided, and looks at the partitions that it woke."""
    crash: Callable[[BaseException], None]
    """Ends the producer because of a defect of ours."""


class Recovery:
    """See the module. One per sender; `renew` None: its identity is fixed."""

    def __init__(
        self,
        context: Context,
        metadata: Metadata,
        caller: Caller,
        calls: ProduceCalls,
        core: ProducerCore,
        deliveries: Deliveries,
        renew: Renew | None,
        sender: Hands,
    ) -> None:
        self._context = context
        self._metadata = metadata
        self._caller = caller
        self._calls = calls
        self._sending = core
        self._core = RecoveryCore(deliveries)
        self._leaders = deliveries.leaders
        self._renew = renew
        self._sender = sender
        self._refreshing: asyncio.Task[None] | None = None
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._is_closed = False

    def close(self) -> None:
        """No partition is woken from now on."""
        self._is_closed = True

    def cancel_all(self) -> None:
        """Ends every question."""
        for task in list(self._tasks):
            task.cancel()

    # ------------------------------------------------------------ metadata

    def refresh(self) -> None:
        """Asks who leads, unless that is under way."""
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = self._metadata.request_refresh()
            self._refreshing.add_done_callback(self._refreshed)

    def look_at_slow_calls(self) -> None:
        """Asks who leads when a call takes suspiciously long."""
        if self._calls.slow(_SUSPICIOUS_MS):
            self.refresh()

    def _refreshed(self, task: asyncio.Task[None]) -> None:
        if self._is_closed:
            return
        failure = None if task.cancelled() else task.exception()
        error = failure if isinstance(failure, errors.OncelogError) else None
        is_fresh = not task.cancelled() and failure is None
        self._sender.act(self._core.refreshed(error, is_fresh, now_ms()))
        for request in self._calls.slow(_SUSPICIOUS_MS):
            if self._leaders.is_deposed(request.lane.address, request.batches):
                self._calls.abandon(request)

    # ------------------------------------------------------------ doubt

    def ask(self, question: AskState) -> None:
        """Finds out whether a batch in doubt is written."""
        self._spawn(self._ask(question.batch), partial(self._asked, question.partition))

    def _asked(self, partition: PartitionId) -> None:
        self._sending.question_over(partition)
        self._act([])

    async def _ask(self, batch: Batch) -> None:
        request = _state_request(batch)
        partition = batch.partition
        timeout_ms = min(_SETTLE_TIMEOUT_MS, self._context.config.request_timeout_ms)
        attempt = 0
        while True:
            try:
                reply = await self._caller.to_leader(partition, methods.GET_PRODUCER_STATE, request, timeout_ms)
                self._act(self._core.state_known(batch, reply.written, reply.base_offset))
                return
            except errors.OncelogError as error:
                self._act(self._core.state_unanswered(batch, error))
            if not self._core.awaits_state(batch):
                return
            attempt += 1
            await asyncio.sleep(self._context.delay_ms(attempt) / 1000)

    # ------------------------------------------------------------ identity

    def renew_identity(self) -> None:
        """Gets a new producer id, with pauses between the tries, until it is there or refused for good."""
        assert self._renew is not None
        self._spawn(self._renew_identity(self._renew), self._renewal_over)

    async def _renew_identity(self, renew: Renew) -> None:
        attempt = 0
        while True:
            try:
                self._sending.renewed(await renew())
                return
            except errors.OncelogError as error:
                self._act(self._sending.renewal_failed(error))
                if not error.retriable:
                    return
            attempt += 1
            await asyncio.sleep(self._context.delay_ms(attempt) / 1000)

    def _renewal_over(self) -> None:
        self._sending.renewal_over()
        self._act([])

    # ------------------------------------------------------------ tasks

    def _act(self, actions: list[Action]) -> None:
        if not self._is_closed or actions:
            self._sender.act(actions)

    def _spawn(self, work: Coroutine[object, None, None], on_end: Callable[[], None]) -> None:
        task = asyncio.get_running_loop().create_task(work, name="oncelog-sender")
        self._tasks[task] = None
        task.add_done_callback(partial(self._ended, on_end))

    def _ended(self, on_end: Callable[[], None], task: asyncio.Task[None]) -> None:
        self._tasks.pop(task, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._sender.crash(error)
        on_end()


def _state_request(batch: Batch) -> pb.GetProducerStateRequest:
    return pb.GetProducerStateRequest(
        topic_id=batch.partition.topic_id,
        partition=batch.partition.partition,
        producer_id=batch.identity.producer_id,
        producer_epoch=batch.identity.producer_epoch,
        base_sequence=batch.base_sequence,
        last_sequence=last_sequence(batch.base_sequence, batch.record_count),
        settle=True,
        session_token=batch.identity.session_token,
    )
