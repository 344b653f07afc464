"""Brings queued records to the leaders: does what `ProducerCore` decides, and nothing else.

Theory of operation. A sender is the shell around three pure objects that share one `Deliveries`: `ProducerCore` (what may go
out), `RecoveryCore` (what follows a failure) and one `ProducerWindow` for each partition (order and doubt). This file has the
event loop; it has no `if` about the protocol. It is made of one turn that repeats:

    put_row    a caller's record goes into the core. It answers which batch the record is in, and that is all the caller
               waits for. When a partition is due, `_drain_soon` has the loop call `_drain` in its next turn.
    _drain     asks the core for the actions of this moment (`tick`), without awaiting anything, and does them.
    _act       does actions in order. A `Send` becomes a task of `ProduceCalls`; an `AskState`, a `RenewIdentity` and a
               `Refresh` become tasks of `Recovery`; a `WakeAt` becomes a timer; an outcome goes to those who await it.
    _answered  hands the answer of a call to the core, does what it decides, and the partition is due again.

So a batch goes: `put_row`, some turns of the loop in which more records join it, `_drain`, a call, `_answered`, and then
either its outcome or another `_drain`. Twice a second, while anything is open, `_sweep` looks at deadlines and slow calls,
because a partition without a leader and a call without an answer wake nothing.

Several callers add records at the same time, but all of them are on one event loop, and neither the core nor `_act` ever
awaits: every decision sees a state that no other task changes meanwhile. Records of other threads come in through `Handover`.
Callers who find the memory full wait in `Room`, outside of the core. What happens to batches can be watched: `SendObserver`.

A plain producer lives as long as its sender. A transactional producer has one sender too: each of its transactions begins
with `reset`, which drops what the former one left behind and takes the new identity.

Rule 1: a request holds at most one batch per partition and everything for its broker that is ready; nothing waits for
        more to come except by `linger_ms`.
Rule 2: nothing here is done twice at once: `_drain` runs on the loop without awaiting, tasks only carry one call each.
Rule 3: nothing goes to a broker that said to wait because of a quota: batches fill meanwhile, and `delivery_timeout_ms` runs.
Rule 4: inside a transaction the first failure is kept in `failure`, and everything after it is refused until `reset`.
Rule 5: a defect of ours ends the producer with an error that says so: no caller waits for an outcome that never comes.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence

from oncelog import errors
from oncelog.client.home.context import Context, now_ms
from oncelog.client.produce.alarms import Alarms
from oncelog.client.produce.delivery import wait_done
from oncelog.client.produce.facts import ClientFacts
from oncelog.client.produce.observer import SendObserver
from oncelog.client.produce.produce_calls import ProduceCalls
from oncelog.client.produce.recovery import Hands, Recovery, Renew
from oncelog.client.produce.room import Room
from oncelog.client.produce.send_trace import observer_of
from oncelog.client.routing.calls import Caller
from oncelog.client.routing.metadata import Metadata, Topic
from oncelog.config import ProducerConfig
from oncelog.core.batch.identity import Identity
from oncelog.core.produce import obstacles
from oncelog.core.produce.accumulator import ArrowRows, Batch, Row
from oncelog.core.produce.actions import (
    Acknowledged,
    Action,
    AskState,
    Failed,
    Refresh,
    RenewIdentity,
    Send,
    WaitForCall,
    WakeAt,
)
from oncelog.core.produce.deliveries import Deliveries
from oncelog.core.produce.producer_core import ProducerCore
from oncelog.types import PartitionId

_SWEEP_MS = 500


class Sender:
    """See the module. One per producer or participant; `renew` gets a new identity (None: the identity is fixed).

    Half of its 24 methods are doors of one to five lines, for writers and for the producer.
    """

    def __init__(
        self, context: Context, metadata: Metadata, caller: Caller, config: ProducerConfig, renew: Renew | None
    ) -> None:
        import oncelog.core.batch.batch  # noqa: F401 now, and not in the midst of the loop's work: it loads pyarrow

        self.observer: SendObserver = observer_of(context)
        """Sees what happens to the batches."""
        self._calls = ProduceCalls(
            context,
            config.acks_number,
            on_answer=self._answered,
            on_free=self._wake,
            on_crash=self._crashed,
            observer=self.observer,
        )
        facts = ClientFacts(context, metadata, self._calls)
        self.deliveries = Deliveries(config, facts, context.home, can_renew=renew is not None)
        """Batches that were taken and not delivered yet; for others to read."""
        self._core = ProducerCore(config, self.deliveries)
        hands = Hands(self._act, self._crashed)
        self._recovery = Recovery(context, metadata, caller, self._calls, self._core, self.deliveries, renew, hands)
        self.room = Room(config, self.deliveries)
        """Where records wait until there is memory for them."""
        self._alarms = Alarms(lambda partition: self._wake((partition,)))
        self._todo: deque[Action] = deque()
        self._is_draining = False
        self._sweep_timer: asyncio.TimerHandle | None = None
        self._is_closed = False

    # ------------------------------------------------------------ adding

    def put_row(self, topic: Topic, partition: int, row: Row) -> tuple[Batch, int]:
        """Queues a row for which there is room; the batch that it is in, and its index there."""
        placed = self._core.add(PartitionId(topic.topic_id, partition), row, now_ms())
        if self.deliveries.due and not self._is_draining:
            self._drain_soon()
        return placed

    def put_rows(self, topic: Topic, partition: int, rows: Sequence[Row]) -> tuple[Batch, int, int]:
        """Queues the first of the rows, for all of which there is room. See `Accumulator.add_rows`."""
        placed = self._core.add_rows(PartitionId(topic.topic_id, partition), rows, now_ms())
        if self.deliveries.due and not self._is_draining:
            self._drain_soon()
        return placed

    def put_arrow(self, topic: Topic, partition: int, rows: ArrowRows, size: int, timestamp_ms: int) -> Batch:
        """Queues an Arrow record batch for which there is room, as one batch."""
        where = PartitionId(topic.topic_id, partition)
        batch = self._core.add_arrow(where, topic.name, rows, size, timestamp_ms, now_ms())
        self._drain_soon()
        return batch

    def has_filled(self, batch: Batch) -> bool:
        """A batch of rows is full: this one, or the one before it, so that this one was begun."""
        return self._core.has_filled(batch)

    def note_failure(self, batch: Batch, error: errors.OncelogError) -> None:
        """Records that were accepted failed with this, before they were queued."""
        self.deliveries.note_failure(batch, error)
        self._act(self.deliveries.taken())

    # ------------------------------------------------------------ waiting

    async def flush(self) -> None:
        """Sends everything that was added before this call, and waits until each outcome is known; raises nothing."""
        added = self._core.begin_flush()
        try:
            self._drain_soon()
            await wait_done(added)
        finally:
            self._core.end_flush()

    def reset(self, identity: Identity, error: errors.OncelogError) -> None:
        """Forgets everything of the former transaction (open deliveries fail with `error`), and begins as `identity`."""
        self._cancel_all()
        self.deliveries.reset(identity, error)
        self._act(self.deliveries.taken())

    def drop(self, error: errors.OncelogError | None) -> None:
        """Fails everything that is not resolved, and ends the calls in flight: their answers no longer matter.

        None: each batch fails with what stood in its way.
        """
        now = now_ms()
        self._cancel_all()
        self.deliveries.drop(
            lambda batch: error or obstacles.closed_too_early(batch, self.deliveries.obstacle(batch, now))
        )
        self._act(self.deliveries.taken())

    def fail(self, error: errors.OncelogError) -> None:
        """`drop`; every further record is refused with the same error."""
        self.deliveries.failure = error
        self.drop(error)

    async def close(self, timeout_ms: int) -> None:
        """Waits for what is on its way, at most this long, then drops it. Takes nothing more from now on. Idempotent."""
        self.room.close()
        try:
            if timeout_ms:
                async with asyncio.timeout(timeout_ms / 1000):
                    await self.flush()
        except TimeoutError:
            pass
        finally:
            self.end()

    def end(self) -> None:
        """Drops what is on its way: a close without patience. Idempotent."""
        self._is_closed = True
        self.room.close()
        self._recovery.close()
        self.drop(None)
        self._alarms.cancel()
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
        self.room.admit()

    # ------------------------------------------------------------ turns of the loop

    def _wake(self, partitions: Iterable[PartitionId]) -> None:
        self.deliveries.wake(partitions)
        self._drain_soon()

    def _drain_soon(self) -> None:
        """The partitions that are due are looked at in the loop's next turn."""
        if self._is_draining or not self.deliveries.due:
            return
        self._is_draining = True
        asyncio.get_running_loop().call_soon(self._drain)
        self._sweep_later()

    def _drain(self) -> None:
        self._is_draining = False
        if self._is_closed:
            return
        try:
            actions = self._core.tick(now_ms())
            self._drain_soon()  # before the calls begin: then those of the next look are in the same envelope as these
            self._act(actions)
            self._sweep_later()  # the last one may have found nothing open, just before this look
        except Exception as error:
            self._crashed(error)

    def _sweep_later(self) -> None:
        if self._sweep_timer is None and self.deliveries.open and not self._is_closed:
            self._sweep_timer = asyncio.get_running_loop().call_later(_SWEEP_MS / 1000, self._sweep)

    def _sweep(self) -> None:
        self._sweep_timer = None
        if not self._is_closed:
            self._act(self._core.sweep(now_ms()))
            self._recovery.look_at_slow_calls()
            self._sweep_later()

    # ------------------------------------------------------------ actions

    def _answered(self, batch: Batch, error: errors.OncelogError | None, base_offset: int) -> None:
        self._act(self._core.answered(batch, error, base_offset, now_ms()))

    def _act(self, actions: Iterable[Action]) -> None:
        """Does them in order. What an exception leaves behind is done by the next call."""
        self._todo.extend(actions)
        while self._todo:
            self._do(self._todo.popleft())
        self._drain_soon()

    def _do(self, action: Action) -> None:
        match action:
            case Acknowledged(batch):
                self._tell(batch)
                self.observer.acknowledged(batch)
            case Failed(batch, error):
                self._tell(batch)
                self.observer.failed(batch, error)
            case Send():
                self._send(action)
            case WakeAt(partition, at_ms):
                self._alarms.set(partition, at_ms)
            case WaitForCall(partition, address):
                self._calls.lane(address).blocked[partition] = None
            case AskState():
                self._recovery.ask(action)
            case RenewIdentity():
                self._recovery.renew_identity()
            case Refresh():
                self._recovery.refresh()

    def _tell(self, batch: Batch) -> None:
        batch.tell()
        self.room.admit()

    def _send(self, action: Send) -> None:
        request = self._calls.prepare(self._calls.lane(action.address))
        for batch in action.batches:
            request.add(batch)
        self._calls.start(request)

    def _cancel_all(self) -> None:
        self._calls.cancel_all()
        self._recovery.cancel_all()

    def _crashed(self, error: BaseException) -> None:
        """A defect of ours: nothing that waits may hang because of it."""
        self._cancel_all()
        self._todo = deque(action for action in self._todo if isinstance(action, Acknowledged | Failed))
        self.deliveries.crash(error)
        self._act(self.deliveries.taken())
