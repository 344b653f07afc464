"""Brings queued records to the leaders: gathers, pipelines, tries again. What a failure asks for is done by `Recovery`.

Rule 1: a request holds at most one batch per partition and everything for its broker that is ready; nothing waits for
        more to come except by `linger_ms`.
Rule 2: what may be sent, sent again, failed or asked about is decided by `ProducerWindow`; this file only does it.
Rule 3: nothing here is done twice at once: `_drain` runs on the loop without awaiting, tasks only carry one call each.
Rule 4: nothing goes to a broker that said to wait because of a quota: batches fill meanwhile, and `delivery_timeout_ms` runs.
Rule 5: inside a transaction the first failure is kept in `failure`, and everything after it is refused until `reset`.
"""

from __future__ import annotations

import asyncio
import traceback
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from typing import Any

from oncelog import errors
from oncelog.client.home.context import Context, now_ms
from oncelog.client.produce import obstacles
from oncelog.client.produce.delivery import wait_done
from oncelog.client.produce.produce_calls import Lane, ProduceCalls, Request
from oncelog.client.produce.recovery import Hands, Recovery
from oncelog.client.produce.send_trace import SendTraces
from oncelog.client.routing.calls import Caller
from oncelog.client.routing.metadata import Metadata, Topic
from oncelog.config import ProducerConfig
from oncelog.core.batch.header import CODECS, reseal
from oncelog.core.batch.identity import NOBODY, Identity
from oncelog.core.causes import because
from oncelog.core.produce.accumulator import Accumulator, Batch, Row
from oncelog.core.produce.producer_window import ProducerWindow, Resolved, timed_out
from oncelog.core.produce.unseen_failures import UnseenFailures
from oncelog.types import PartitionId
from oncelog.wire import methods

_SWEEP_MS = 500

Renew = Callable[[], Awaitable[Identity]]


class Sender:
    """See the module. One per producer or participant; `renew` gets a new identity (None: the identity is fixed)."""

    def __init__(
        self, context: Context, metadata: Metadata, caller: Caller, config: ProducerConfig, renew: Renew | None
    ) -> None:
        import oncelog.core.batch.batch  # noqa: F401 now, and not in the midst of the loop's work: it loads pyarrow

        self._context = context
        self._metadata = metadata
        self._config = config
        self._codec = CODECS[config.compression_type]
        self._renew = renew
        self._accumulator = Accumulator(
            config.batch_size, config.linger_ms, config.buffer_memory, config.delivery_timeout_ms
        )
        self._windows: dict[PartitionId, ProducerWindow] = {}
        self._outstanding: dict[Batch, None] = {}
        tracer = context.tracer
        self.traces = None if tracer is None else SendTraces(tracer, context.config.client_id)
        self._calls = ProduceCalls(
            context,
            config.acks_number,
            config.max_in_flight_requests_per_connection,
            on_answer=self._answered,
            on_free=self._wake_all,
            on_crash=self._crashed,
            traces=self.traces,
        )
        self._recovery = Recovery(
            context,
            metadata,
            caller,
            self._calls,
            self._accumulator,
            self._windows,
            self._outstanding,
            Hands(self._settle_resolved, self._wake, self._wake_at, self._spawn),
        )
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._dirty: dict[PartitionId, None] = {}
        self._is_draining = False
        self._timers: dict[PartitionId, asyncio.TimerHandle] = {}
        self._without_identity: dict[PartitionId, None] = {}
        self._is_renewing = False
        self._renewal_error: errors.OncelogError | None = None
        self._sweep_timer: asyncio.TimerHandle | None = None
        self._room: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._flushes = 0
        self.failures = UnseenFailures()
        """What a flush of a plain producer raises unless somebody awaits it."""
        self._is_closed = False
        self._is_closing = False  # what is on its way is waited for, and nothing new is taken
        self.identity: Identity | None = None if config.enable_idempotence else NOBODY
        self.failure: errors.OncelogError | None = None
        self.acked: dict[PartitionId, int] = {}
        """Acknowledged records per partition since the last `reset`."""

    # ------------------------------------------------------------ adding

    def may_add(self, size: int, beside: int = 0) -> bool:
        """There is room for a record now, and for `beside` bytes more. It only looks, from any thread.

        Raises `MessageTooLargeError`, or what stopped this producer.
        """
        if self._is_closing or self.failure is not None:  # `_is_over`, without a call for each record
            self.refuse_when_over()
        if size > self._config.max_request_size:
            raise errors.MessageTooLargeError(
                "the record is larger than max_request_size", bytes=size, max_request_size=self._config.max_request_size
            )
        return not self._room and self._accumulator.has_room(size, beside)

    async def reserve(self, size: int) -> None:
        """Waits for room; the caller adds its record before it waits for anything else.

        Raises `MessageTooLargeError`, `BufferExhaustedError`, or what stopped this producer.
        """
        if not self.may_add(size):
            await self._wait_for_room(size)
            self.refuse_when_over()

    def put_row(self, topic: Topic, partition: int, row: Row) -> tuple[Batch, int]:
        """Queues a row for which there is room; the batch that it is in, and its index there."""
        where = PartitionId(topic.topic_id, partition)
        batch, index = self._accumulator.add_row(where, row, now_ms())
        self._queued(batch, index)
        return batch, index

    def put_rows(self, topic: Topic, partition: int, rows: Sequence[Row]) -> tuple[Batch, int, int]:
        """Queues the first of the rows, for all of which there is room. See `Accumulator.add_rows`."""
        where = PartitionId(topic.topic_id, partition)
        batch, index, count = self._accumulator.add_rows(where, rows, now_ms())
        self._queued(batch, index)
        return batch, index, count

    def has_filled(self, batch: Batch) -> bool:
        """A batch of rows is full: this one, or the one before it, so that this one was begun."""
        return batch.size_bytes >= self._config.batch_size or self._accumulator.has_several(batch.partition)

    def _queued(self, batch: Batch, index: int) -> None:
        """Rows from `index` on are new in this batch."""
        if index == 0:
            self._enter(batch)
        elif batch.size_bytes >= self._config.batch_size:
            self._wake(batch.partition)

    def put_arrow(self, topic: Topic, partition: int, rows: Any, size: int, timestamp_ms: int) -> Batch:
        """Queues an Arrow record batch for which there is room, as one batch."""
        where = PartitionId(topic.topic_id, partition)
        batch = self._accumulator.add_arrow(where, topic.name, rows, rows.num_rows, size, timestamp_ms, now_ms())
        self._enter(batch)
        return batch

    def _enter(self, batch: Batch) -> None:
        batch.home = self._context.home
        self._outstanding[batch] = None
        self._wake(batch.partition)
        if self._sweep_timer is None:
            self._sweep_timer = asyncio.get_running_loop().call_later(_SWEEP_MS / 1000, self._sweep)

    async def _wait_for_room(self, size: int) -> None:
        """First come, first served. Who is admitted has its room counted until it adds its record."""
        freed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry = (size, freed)
        self._room.append(entry)
        try:
            async with asyncio.timeout(self._config.max_block_ms / 1000):
                await freed
        except BaseException as error:
            if entry in self._room:
                self._room.remove(entry)
            else:
                self._accumulator.used_bytes -= size
            self._admit()
            if not isinstance(error, TimeoutError):
                raise
            full = self._full()
            raise full from full.__cause__
        self._accumulator.used_bytes -= size
        if self._room:  # once the caller has added its record, or could not: then the room is the next one's
            asyncio.get_running_loop().call_soon(self._admit)

    def _admit(self) -> None:
        """Admits waiters in order while there is room; all of them once this producer is over."""
        while self._room and (self._is_over() or self._accumulator.has_room(self._room[0][0])):
            size, freed = self._room.popleft()
            self._accumulator.used_bytes += size
            if not freed.done():
                freed.set_result(None)

    def _full(self) -> errors.BufferExhaustedError:
        oldest = next(iter(self._outstanding), None)
        obstacle = None if oldest is None else self._obstacle(oldest)
        return obstacles.no_room(self._config.max_block_ms, self._config.buffer_memory, oldest, obstacle)

    def _is_over(self) -> bool:
        return self._is_closing or self.failure is not None

    def refuse_when_over(self) -> None:
        """Raises `IllegalStateError` once its close has begun, or what stopped this producer."""
        if self._is_closing:
            raise errors.IllegalStateError("the producer is closed")
        if self.failure is not None:
            # It is raised again and again: with each raise it would grow, and hold what its callers had in hand.
            raise self.failure.with_traceback(None)

    # ------------------------------------------------------------ waiting

    async def flush(self) -> None:
        """Sends everything that was added before this call, and waits until each outcome is known; raises nothing."""
        self._flushes += 1
        try:
            self._wake_all(self._accumulator.waiting())
            await wait_done(list(self._outstanding))
        finally:
            self._flushes -= 1

    def open_batches(self) -> list[Batch]:
        """Everything whose outcome is not known, in the order in which it was added."""
        return list(self._outstanding)

    def reset(self, identity: Identity, error: errors.OncelogError) -> None:
        """Forgets everything of the former transaction (open deliveries fail with `error`), and begins as `identity`."""
        self.drop(error)
        self.identity = identity
        self.failure = None
        self.acked = {}
        self.failures.forget()

    def drop(self, error: errors.OncelogError | None) -> None:
        """Fails everything that is not resolved, and ends the calls in flight: their answers no longer matter.

        None: each batch fails with what stood in its way.
        """
        self._drop(lambda batch: error or obstacles.closed_too_early(batch, self._obstacle(batch)))

    def _drop(self, why: Callable[[Batch], errors.OncelogError]) -> None:
        failed = [(batch, why(batch)) for batch in self._outstanding]
        self._calls.cancel_all()
        for task in list(self._tasks):
            task.cancel()
        for window in self._windows.values():
            window.drop()
        self._windows.clear()
        self._accumulator.drop()
        self._settle_resolved(list(failed))

    async def close(self, timeout_ms: int) -> None:
        """Waits for what is on its way, at most this long, then drops it. Takes nothing more from now on. Idempotent."""
        self._is_closing = True
        self._admit()
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await self.flush()
        except TimeoutError:
            pass
        finally:
            self.end()

    def end(self) -> None:
        """Drops what is on its way: a close without patience. Idempotent."""
        self._is_closing = self._is_closed = True
        self._recovery.close()
        self.drop(None)
        for timer in (*self._timers.values(), self._sweep_timer):
            if timer is not None:
                timer.cancel()
        self._admit()

    # ------------------------------------------------------------ draining

    def _wake(self, partition: PartitionId) -> None:
        self._dirty[partition] = None
        if not self._is_draining:
            self._is_draining = True
            asyncio.get_running_loop().call_soon(self._drain)

    def _wake_all(self, partitions: Iterable[PartitionId]) -> None:
        for partition in partitions:
            self._wake(partition)

    def _wake_at(self, partition: PartitionId, when_ms: int) -> None:
        timer = self._timers.pop(partition, None)
        if timer is not None:
            timer.cancel()
        loop = asyncio.get_running_loop()
        when_s = max((when_ms + 1) / 1000, loop.time() + 0.001)  # never now: that would turn round without end
        self._timers[partition] = loop.call_at(when_s, self._timer_fired, partition)

    def _timer_fired(self, partition: PartitionId) -> None:
        self._timers.pop(partition, None)
        self._wake(partition)

    def _drain(self) -> None:
        self._is_draining = False
        if self._is_closed:
            return
        dirty, self._dirty = self._dirty, {}
        now = now_ms()
        requests: dict[Lane, Request] = {}
        try:
            for partition in dirty:
                self._look_at(partition, now, requests)
        except Exception as error:
            self._crashed(error)
        for request in requests.values():
            self._calls.start(request)

    def _look_at(self, partition: PartitionId, now: int, requests: dict[Lane, Request]) -> None:
        window = self._window(partition)
        if window is None:
            return
        if (oldest := window.overdue(now)) is not None:
            self._settle_resolved(window.expire(now, self._obstacle(oldest)))
        doubtful = window.in_question(now)
        if doubtful is not None:
            self._recovery.ask_about(partition, window, doubtful)
            return
        lane = self._lane_for(partition, window)
        if lane is None:
            return
        if (until := self._context.throttles.until_ms(lane.address, methods.PRODUCE.name, now)) > 0:
            self._wake_at(partition, until)
            return
        request = requests.get(lane)
        if request is None and not self._calls.has_room(lane):
            lane.blocked[partition] = None
            return
        batch = self._next_batch(partition, window, now)
        if batch is None:
            return
        if request is None or request.size + len(batch.encoded) > self._config.max_request_size:
            if request is not None:
                self._calls.start(request)
            request = requests[lane] = self._calls.prepare(lane)
        request.add(batch)
        if window.may_send_new() and self._accumulator.peek(partition) is not None:
            self._wake(partition)

    def _window(self, partition: PartitionId) -> ProducerWindow | None:
        """The partition's window; None when there is nothing to do for it."""
        window = self._windows.get(partition)
        if window is None and self._accumulator.peek(partition) is not None:
            in_flight = self._config.max_in_flight_requests_per_connection
            window = ProducerWindow(in_flight, at_most_once=self._config.acks_number == 0)
            self._windows[partition] = window
        return window

    def _lane_for(self, partition: PartitionId, window: ProducerWindow) -> Lane | None:
        """Where to send; None, and a refresh on its way, when nobody leads the partition."""
        if window.is_empty and self._accumulator.peek(partition) is None:
            return None
        address = self._recovery.leader_of(partition)
        return None if address is None else self._calls.lane(address)

    def _next_batch(self, partition: PartitionId, window: ProducerWindow, now: int) -> Batch | None:
        batch = window.resend(now)
        if batch is not None:
            return batch
        resend_at = window.resend_at_ms(now)
        if resend_at is not None:
            self._wake_at(partition, resend_at)
            return None
        while window.may_send_new() and (ready_at := self._accumulator.ready_at_ms(partition)) is not None:
            if ready_at > now and not self._flushes:
                self._wake_at(partition, ready_at)
                return None
            if window.needs_identity and not self._give_identity(partition, window):
                return None
            batch = self._accumulator.take(partition)
            try:
                batch.encoded = self._encode(batch, window)
            except Exception as error:  # whatever is wrong with this batch keeps no other from being sent
                self._settle_resolved([(batch, _not_encoded(error))])
                continue
            batch.drop_content()
            window.send_new(batch)
            return batch
        return None

    def _encode(self, batch: Batch, window: ProducerWindow) -> bytes:
        from oncelog.core.batch import batch as codec

        assert window.identity is not None
        identity = codec.batch_identity(window.identity, window.next_sequence, batch.partition)
        times = batch.timestamps_ms
        if batch.encoded:  # it was meant for a topic that is gone: see `Recovery`
            encoded = reseal(batch.encoded, identity)
        elif batch.arrow is not None:
            encoded = codec.encode_arrow(batch.arrow, identity, timestamp_ms=times[0], codec=self._codec)
        else:
            rows = (batch.keys, batch.values)
            encoded = codec.encode_rows(*rows, identity, timestamps_ms=times, headers=batch.headers, codec=self._codec)
        if len(encoded) > self._config.max_request_size:
            raise errors.MessageTooLargeError(
                "the batch is larger than max_request_size",
                bytes=len(encoded),
                max_request_size=self._config.max_request_size,
            )
        return encoded

    # ------------------------------------------------------------ answers

    def _answered(self, batch: Batch, error: errors.OncelogError | None, base_offset: int) -> None:
        window = self._windows.get(batch.partition)
        if window is None:
            return
        now = now_ms()
        retry_at = now
        if error is not None:
            retry_at += self._context.delay_ms(batch.attempts, error.retry_after_ms)
            if batch.attempts > self._config.retries:
                batch.deadline_ms = min(batch.deadline_ms, now)
        self._settle_resolved(window.answered(batch, error, retry_at), -1 if error is not None else base_offset)
        if error is not None and batch.error in (None, error):  # also with acks=0, where it is done with
            self._recovery.after_failure(error)
        self._wake(batch.partition)

    # ------------------------------------------------------------ outcomes

    def _settle_resolved(self, resolved: Resolved, base_offset: int = -1) -> None:
        for batch, error in resolved:
            if not batch.resolve(error, base_offset):
                continue
            self._outstanding.pop(batch, None)
            self._accumulator.release(batch)
            if self.traces is not None:
                self.traces.resolved(batch, error)
            if error is None:
                self.acked[batch.partition] = self.acked.get(batch.partition, 0) + batch.record_count
            else:
                self.note_failure(batch, error)
        if resolved and self._room:
            self._admit()

    def note_failure(self, batch: Batch, error: errors.OncelogError) -> None:
        """Records that were accepted failed with this."""
        self.failures.add(batch)
        if self.failure is None and (self._is_in_transaction() or isinstance(error, errors.ProducerFencedError)):
            self.failure = error
            queued = self._accumulator.drop()
            self._settle_resolved([(later, error) for later in queued])

    def _is_in_transaction(self) -> bool:
        return self.identity is not None and self.identity.is_transactional

    # ------------------------------------------------------------ tasks

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work, name="oncelog-sender")
        self._tasks[task] = None
        task.add_done_callback(self._task_done)
        return task

    def _task_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.pop(task, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._crashed(error)

    def _crashed(self, error: BaseException) -> None:
        """A defect of ours: nothing that waits may hang because of it."""
        kind = errors.InvalidTxnStateError if self._is_in_transaction() else errors.IllegalStateError
        message = f"the producer failed, and writes nothing more: close it, make a new one, and report this: {error!r}"
        defect = self.failure = because(kind(message), error)
        self._drop(lambda batch: obstacles.crashed(batch, defect))

    # ------------------------------------------------------------ identity

    def _give_identity(self, partition: PartitionId, window: ProducerWindow) -> bool:
        identity = self.identity
        if identity is not None and (identity != window.burnt or not identity.is_idempotent):
            window.adopt(identity)
            return True
        self._without_identity[partition] = None
        if self._renew is not None and not self._is_renewing:
            self._is_renewing = True
            self._spawn(self._renew_identity(self._renew)).add_done_callback(self._renewal_over)
        return False

    async def _renew_identity(self, renew: Renew) -> None:
        attempt = 0
        while True:
            try:
                self.identity = await renew()
                return
            except errors.OncelogError as error:
                self._renewal_error = error
                if not error.retriable:
                    self._settle_resolved([(batch, error) for batch in self._accumulator.drop()])
                    return
            attempt += 1
            await asyncio.sleep(self._context.delay_ms(attempt) / 1000)

    def _renewal_over(self, _: asyncio.Task[None]) -> None:
        """In a callback, since a task that is cancelled before its first step runs no `finally`."""
        self._is_renewing = False
        waiting, self._without_identity = self._without_identity, {}
        if not self._is_closed:
            self._wake_all(waiting)

    # ------------------------------------------------------------ obstacles and time

    def _obstacle(self, batch: Batch) -> errors.OncelogError | None:
        """What keeps this batch from being sent, where that is more than the answer to its last attempt."""
        partition = batch.partition
        if partition in self._without_identity and self._renewal_error is not None:
            return self._renewal_error
        address = self._metadata.leader(partition).address
        if address is None:
            return self._recovery.refresh_error or errors.LeaderNotAvailableError()
        if (quota := obstacles.quota_of(self._context, address, batch)) is not None:
            return quota
        first = next(iter(window.unresolved()), None) if (window := self._windows.get(partition)) else None
        return first.last_error if first is not None and first is not batch else None

    def _sweep(self) -> None:
        """Deadlines and suspicious calls, twice a second while anything is on its way."""
        self._sweep_timer = None
        if self._is_closed:
            return
        now = now_ms()
        late = [(batch, timed_out(batch, self._obstacle(batch))) for batch in self._accumulator.expired(now)]
        self._settle_resolved(list(late))
        for partition, window in self._windows.items():
            if not window.is_empty:
                self._wake(partition)
        self._recovery.look_at_slow_calls()
        if self._outstanding:
            self._sweep_timer = asyncio.get_running_loop().call_later(_SWEEP_MS / 1000, self._sweep)


def _not_encoded(error: Exception) -> errors.OncelogError:
    """Why a batch has no bytes; what nobody has foreseen becomes an `InvalidRecordError`, with it as its cause."""
    if isinstance(error, errors.OncelogError):
        return error
    traceback.clear_frames(error.__traceback__)  # else the error would hold all records of the batch
    return because(errors.InvalidRecordError(f"the records could not be encoded: {error!r}"), error)
