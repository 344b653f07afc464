"""What a sender does after a failure: looks for the leader, asks what became of a batch, gives up a topic that is gone.

Rule 1: until the leader has answered for a batch in doubt, or refused to for good, nobody writes behind it.
Rule 2: what was certainly never written to a topic that was deleted goes to the topic that has its name now; the rest fails.
Rule 3: one refresh of metadata runs at a time; while a partition has no leader, the next one is begun after a pause.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple, Protocol

from oncelog import errors
from oncelog.client.home.context import Context, now_ms
from oncelog.client.produce.produce_calls import ProduceCalls, Request
from oncelog.client.routing.calls import Caller
from oncelog.client.routing.metadata import Metadata
from oncelog.core.batch.sequence import last_sequence
from oncelog.core.produce.accumulator import Accumulator, Batch
from oncelog.core.produce.producer_window import ProducerWindow, Resolved
from oncelog.types import PartitionId
from oncelog.v1 import partition_pb2 as pb
from oncelog.wire import methods

_SUSPICIOUS_MS = 1_000
"""A call that takes longer makes us look whether its partitions have another leader by now."""
_SETTLE_TIMEOUT_MS = 5_000


class Settle(Protocol):
    """Tells the outcome of batches that were resolved, and the offset of one that was written."""

    def __call__(self, resolved: Resolved, base_offset: int = -1, /) -> None: ...


class Hands(NamedTuple):
    """What a recovery lets its sender do."""

    settle: Settle
    """Tells outcomes."""
    wake: Callable[[PartitionId], None]
    """Looks at a partition soon."""
    wake_at: Callable[[PartitionId, int], None]
    """Looks at it at this time, in the loop's milliseconds."""
    spawn: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]
    """Owns the task."""


class Recovery:
    """See the module. One per sender, whose windows, batches and calls it sees and changes."""

    def __init__(
        self,
        context: Context,
        metadata: Metadata,
        caller: Caller,
        calls: ProduceCalls,
        accumulator: Accumulator,
        windows: dict[PartitionId, ProducerWindow],
        outstanding: dict[Batch, None],
        sender: Hands,
    ) -> None:
        self._context = context
        self._metadata = metadata
        self._caller = caller
        self._calls = calls
        self._accumulator = accumulator
        self._windows = windows
        self._outstanding = outstanding
        self._sender = sender
        self._settling: dict[PartitionId, None] = {}
        self._leaderless: dict[PartitionId, int] = {}
        self._refreshing: asyncio.Task[None] | None = None
        self._is_closed = False
        self.refresh_error: errors.OncelogError | None = None
        """Why the last refresh failed; None when it did not."""

    def close(self) -> None:
        """Nothing is woken from now on."""
        self._is_closed = True

    # ------------------------------------------------------------ leaders

    def leader_of(self, partition: PartitionId) -> str | None:
        """Address of the leader; None, and a refresh on its way, when nobody leads the partition."""
        address = self._metadata.leader(partition).address
        if address is None:
            self._leaderless[partition] = self._leaderless.get(partition, 0) + 1
            self._refresh()
            return None
        self._leaderless.pop(partition, None)
        return address

    def after_failure(self, error: errors.OncelogError) -> None:
        """Looks for the leader again where that may be the reason."""
        lost = isinstance(error, (errors.NetworkError, errors.RequestTimedOutError, errors.UnknownTopicError))
        if lost or error.action is errors.ErrorAction.REFRESH:
            self._refresh()

    def look_at_slow_calls(self) -> None:
        """Asks who leads when a call takes suspiciously long."""
        if self._calls.slow(_SUSPICIOUS_MS):
            self._refresh()

    def _refresh(self) -> None:
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = self._metadata.request_refresh()
            self._refreshing.add_done_callback(self._refreshed)

    def _refreshed(self, task: asyncio.Task[None]) -> None:
        if self._is_closed:
            return
        now = now_ms()
        failure = None if task.cancelled() else task.exception()
        self.refresh_error = failure if isinstance(failure, errors.OncelogError) else None
        is_fresh = not task.cancelled() and failure is None
        for partition in list(self._windows):
            if is_fresh and self._is_gone(partition) and not self._may_move_soon(partition):
                self._fail_partition(partition)
        for partition in list(self._leaderless):
            if self._metadata.leader(partition).address is not None:
                self._sender.wake(partition)
            else:
                self._sender.wake_at(partition, now + self._context.delay_ms(self._leaderless[partition]))
        for request in self._calls.slow(_SUSPICIOUS_MS):
            if self._is_deposed(request):
                self._calls.abandon(request)

    def _is_deposed(self, request: Request) -> bool:
        leaders = [self._metadata.leader(batch.partition).address for batch in request.batches]
        return all(address is not None and address != request.lane.address for address in leaders)

    # ------------------------------------------------------------ doubt

    def ask_about(self, partition: PartitionId, window: ProducerWindow, batch: Batch) -> None:
        """Finds out what became of a batch in doubt; one question per partition at a time."""
        if partition not in self._settling:
            self._settling[partition] = None
            task = self._sender.spawn(self._settle(partition, window, batch))
            task.add_done_callback(lambda _: self._asked(partition))  # also when it is cancelled before its first step

    def _asked(self, partition: PartitionId) -> None:
        self._settling.pop(partition, None)
        if not self._is_closed:
            self._sender.wake(partition)

    async def _settle(self, partition: PartitionId, window: ProducerWindow, batch: Batch) -> None:
        """Asks until the leader answers, or refuses to for good: until then nobody may write behind this batch."""
        request = pb.GetProducerStateRequest(
            topic_id=partition.topic_id,
            partition=partition.partition,
            producer_id=batch.identity.producer_id,
            producer_epoch=batch.identity.producer_epoch,
            base_sequence=batch.base_sequence,
            last_sequence=last_sequence(batch.base_sequence, batch.record_count),
            settle=True,
            session_token=batch.identity.session_token,
        )
        timeout_ms = min(_SETTLE_TIMEOUT_MS, self._context.config.request_timeout_ms)
        attempt = 0
        while True:
            try:
                reply = await self._caller.to_leader(partition, methods.GET_PRODUCER_STATE, request, timeout_ms)
                if self._windows.get(partition) is window:  # else the topic was deleted while we asked
                    self._sender.settle(window.settled(batch, reply.written), reply.base_offset)
                return
            except errors.OncelogError as error:
                if self._windows.get(partition) is not window:
                    return
                is_unknown = isinstance(error, errors.UnknownTopicError)
                if not error.retriable and not is_unknown:
                    self._sender.settle(window.unanswerable(batch, error))
                    return
                self._sender.settle(window.give_up(batch))
                if is_unknown and self._is_gone(partition):
                    self._fail_partition(partition)
                    return
            attempt += 1
            await asyncio.sleep(self._context.delay_ms(attempt) / 1000)

    # ------------------------------------------------------------ topics that are gone

    def _is_gone(self, partition: PartitionId) -> bool:
        return self._metadata.topic_name(partition.topic_id) is None

    def _may_move_soon(self, partition: PartitionId) -> bool:
        """The name belongs to a new topic, and the old one's leader is about to refuse what is in flight to it."""
        unresolved = self._windows[partition].unresolved()
        in_flight = [batch for batch in unresolved if batch.in_flight and not batch.in_doubt]
        return any(self._metadata.newer_topic(batch.topic, partition.topic_id) for batch in in_flight)

    def _fail_partition(self, partition: PartitionId) -> None:
        """The topic was deleted. What was certainly never written goes to the topic that has its name now, if any does:
        the sender named a name, and only our knowledge of it was old. The rest fails.
        """
        gone = [batch for batch in self._outstanding if batch.partition == partition]
        window = self._windows.pop(partition)
        window.drop()
        self._accumulator.drop(partition)
        self._leaderless.pop(partition, None)
        now = self._metadata.newer_topic(gone[0].topic, partition.topic_id) if gone else None
        moved: list[Batch] = []
        if now is not None and partition.partition < now.partitions:
            moved = [batch for batch in gone if not batch.in_doubt and not batch.in_flight]
        if moved:
            assert now is not None
            for batch in moved:
                batch.move_to(PartitionId(now.topic_id, partition.partition))
            self._accumulator.put_first(moved)
            self._sender.wake(moved[0].partition)
        failed = [batch for batch in gone if batch not in moved]
        self._sender.settle([(batch, errors.UnknownTopicError.named(batch.topic)) for batch in failed])
