"""Decides what a producer sends, when and where, without any I/O: records go in, actions come out.

Theory of operation. A record is added to the open batch of its partition. From then on the core works by partitions, not by
records: whatever happens (a batch was begun or is full, an answer came, a pause ended) wakes one partition, and the next
`tick` looks at all that are awake. For one partition it takes the first of these steps that applies:

    1. the oldest batch has no time left, and its outcome is certain: it fails, and what stands behind it fails with it
    2. the outcome of the oldest batch is not certain, and it has no time left or was refused: the leader is asked
    3. no leader is known: the metadata is asked for
    4. the leader said to wait because of a quota: the partition is woken when it ends
    5. as many calls to the leader as allowed are under way: the partition is woken when one of them ends
    6. the oldest batch waits to be sent again: it goes now, or the partition is woken when its pause ends
    7. another batch may follow what is in flight, and is full or has lingered: it gets its sequence and its bytes, and goes.
       While `_FEW` are under way, a batch that can grow does so instead: its records cost less then

The batches that a tick has found for one broker travel in one call, at most one for each partition, as far as
`max_request_size` lets them. Order and doubt within one partition are `ProducerWindow`'s; what failed calls ask for beside
another try (a new leader, a question, a topic that is gone) is `RecoveryCore`'s. All three share one `Deliveries`.

The shell gives times in milliseconds of one monotonic clock, does the actions that each call returns, and calls `tick` soon
while `is_due`. It may do that as late as it likes: nothing but speed depends on it.

Rule 1: nothing waits for more to come except by `linger_ms`, or while `_FEW` are under way, and not even then during a flush.
Rule 2: a batch is encoded when it gets its sequence, so that its bytes never change.
Rule 3: a batch that cannot be encoded fails alone: it has no sequence yet, so it leaves no hole.
Rule 4: a batch that was tried `retries` times more than once has no time left.
"""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from typing import Final

from oncelog.config import ProducerConfig
from oncelog.core.batch.header import CODECS, reseal
from oncelog.core.batch.identity import Identity
from oncelog.core.produce import obstacles
from oncelog.core.produce.accumulator import ArrowRows, Batch, Row
from oncelog.core.produce.actions import Action, AskState, Refresh, RenewIdentity, Send, WaitForCall, WakeAt
from oncelog.core.produce.attempt import Incident
from oncelog.core.produce.deliveries import Deliveries
from oncelog.core.produce.leader_search import may_have_moved
from oncelog.core.produce.producer_window import ProducerWindow, timed_out
from oncelog.errors import MessageTooLargeError, OncelogError
from oncelog.types import PartitionId

_FEW: Final = 5
"""Batches or calls that keep a broker busy: more at a time only make open batches smaller. Kafka's default."""
_FEW_BYTES: Final = 2 << 20
"""Bytes that keep a partition's leader busy: what goes beyond that, and beyond `_FEW`, only waits there instead of here."""
_QUOTA_MS: Final = 5_000
"""So long after a broker made us wait because of a quota, it would hold what goes beyond `_FEW`."""

Plan = dict[str, Send]
"""The call that is being filled, by the address of its broker."""


class ProducerCore:
    """See the module. One per producer or participant. Its 27 methods are the steps above and the events that come in."""

    def __init__(self, config: ProducerConfig, deliveries: Deliveries) -> None:
        self._config = config
        self._codec: Final = CODECS[config.compression_type]
        self._batch_size = config.full_batch_bytes
        self._deliveries = deliveries
        self._queues = deliveries.queues
        self._asked: dict[PartitionId, None] = {}
        self._flushes = 0

    # ------------------------------------------------------------ adding

    @property
    def is_due(self) -> bool:
        """The next `tick` has something to look at."""
        return bool(self._deliveries.due)

    def add(self, partition: PartitionId, row: Row, now_ms: int) -> tuple[Batch, int]:
        """Queues a row for which there is room; the batch that it is in, and its index there."""
        batch, index = self._queues.add_row(partition, row, now_ms)
        if index == 0:
            self._deliveries.enter(batch)
        elif batch.size_bytes >= self._batch_size:
            self._deliveries.due[partition] = None
        return batch, index

    def add_rows(self, partition: PartitionId, rows: Sequence[Row], now_ms: int) -> tuple[Batch, int, int]:
        """Queues the first of the rows, for all of which there is room. See `Accumulator.add_rows`."""
        batch, index, count = self._queues.add_rows(partition, rows, now_ms)
        if index == 0:
            self._deliveries.enter(batch)
        elif batch.size_bytes >= self._batch_size:
            self._deliveries.due[partition] = None
        return batch, index, count

    def add_arrow(
        self, partition: PartitionId, topic: str, rows: ArrowRows, size: int, timestamp_ms: int, now_ms: int
    ) -> Batch:
        """Queues an Arrow record batch for which there is room, as one batch."""
        batch = self._queues.add_arrow(partition, topic, rows, rows.num_rows, size, timestamp_ms, now_ms)
        self._deliveries.enter(batch)
        return batch

    def has_filled(self, batch: Batch) -> bool:
        """A batch of rows is full: this one, or the one before it, so that this one was begun."""
        return batch.size_bytes >= self._batch_size or self._queues.has_several(batch.partition)

    # ------------------------------------------------------------ time

    def tick(self, now_ms: int) -> list[Action]:
        """Looks at every partition that was woken."""
        due, self._deliveries.due = self._deliveries.due, {}
        plan: Plan = {}
        for partition in due:
            self._look_at(partition, now_ms, plan)
        for send in plan.values():
            self._deliveries.do(send)
        return self._deliveries.taken()

    def sweep(self, now_ms: int) -> list[Action]:
        """Fails what waited too long for its first try, and wakes all that has an attempt under way. To be called twice a
        second while anything is open.
        """
        late = self._queues.expired(now_ms)
        whole = [(batch, timed_out(batch, self._deliveries.obstacle(batch, now_ms))) for batch in late]
        self._deliveries.fail(whole, Incident.EXPIRED)
        self._deliveries.wake(
            partition for partition, window in self._deliveries.windows.items() if not window.is_empty
        )
        return self._deliveries.taken()

    def begin_flush(self) -> list[Batch]:
        """Nothing lingers until `end_flush`. All batches whose outcome is not known."""
        self._flushes += 1
        self._deliveries.wake(self._queues.waiting())
        return list(self._deliveries.open)

    def end_flush(self) -> None:
        """The flush ended, whichever way."""
        self._flushes -= 1

    # ------------------------------------------------------------ one partition

    def _look_at(self, partition: PartitionId, now_ms: int, plan: Plan) -> None:
        window = self._window(partition)
        if window is None:
            return
        if (oldest := window.overdue(now_ms)) is not None:
            obstacle = self._deliveries.obstacle(oldest, now_ms)
            self._deliveries.settle(window.expire(now_ms, obstacle))
        if (doubtful := window.in_question(now_ms)) is not None:
            self._ask_about(partition, doubtful)
            return
        address = self._road(partition, window, now_ms, plan)
        if address is None:
            return
        batch = self._next_batch(partition, window, address, now_ms)
        if batch is None:
            return
        self._put(batch, address, plan)
        if window.may_send_new() and self._queues.peek(partition) is not None:
            self._deliveries.due[partition] = None

    def _window(self, partition: PartitionId) -> ProducerWindow | None:
        """The partition's window; None when there is nothing to do for it."""
        window = self._deliveries.windows.get(partition)
        if window is None and self._queues.peek(partition) is not None:
            in_flight = self._config.max_in_flight_requests_per_connection
            window = ProducerWindow(in_flight, at_most_once=self._config.acks_number == 0)
            self._deliveries.windows[partition] = window
        return window

    def _ask_about(self, partition: PartitionId, batch: Batch) -> None:
        """One question per partition at a time."""
        if partition not in self._asked:
            self._asked[partition] = None
            self._deliveries.do(AskState(partition, batch))

    def question_over(self, partition: PartitionId) -> None:
        """The task of an `AskState` has ended, whichever way: another question may be asked."""
        self._asked.pop(partition, None)
        self._deliveries.wake((partition,))

    def _road(self, partition: PartitionId, window: ProducerWindow, now_ms: int, plan: Plan) -> str | None:
        """Address of the broker to which the partition's next batch may go now; None: there is no batch, or it waits."""
        if window.is_empty and self._queues.peek(partition) is None:
            return None
        address = self._deliveries.leaders.address_of(partition)
        if address is None:
            self._deliveries.do(Refresh())
            return None
        if (until_ms := self._deliveries.facts.held_until_ms(address, now_ms)) > 0:
            self._deliveries.do(WakeAt(partition, until_ms))
            return None
        if address not in plan and self._deliveries.facts.calls_in_flight(address) >= self._calls_max(
            partition, window
        ):
            self._deliveries.do(WaitForCall(partition, address))
            return None
        return address

    def _calls_max(self, partition: PartitionId, window: ProducerWindow) -> int:
        """The number of calls to a broker at which this partition has to wait. It is low only for a batch that follows others
        of its partition and can grow: one that is the only one, or is sent again, has nothing to gain.
        """
        most = self._config.max_in_flight_requests_per_connection
        follows = not window.is_empty and window.may_send_new()
        return min(most, _FEW) if follows and self._grows(partition) else most

    def _gains_nothing(self, partition: PartitionId, window: ProducerWindow, address: str, now_ms: int) -> bool:
        """Beside `_FEW` under way, another batch would only be smaller, or wait at the leader instead of here."""
        if self._grows(partition) or window.in_flight_bytes >= _FEW_BYTES:
            return True
        return self._deliveries.facts.was_held_since(address, now_ms - _QUOTA_MS)

    def _grows(self, partition: PartitionId) -> bool:
        """The partition's next new batch takes more records for as long as it waits."""
        return not self._flushes and self._queues.can_grow(partition)

    def _put(self, batch: Batch, address: str, plan: Plan) -> None:
        """Into the call that is being filled, or into the next one."""
        send = plan.get(address)
        if send is None or send.size_bytes + len(batch.encoded) > self._config.max_request_size:
            if send is not None:
                self._deliveries.do(send)
            send = plan[address] = Send(address)
        send.add(batch)

    def _next_batch(self, partition: PartitionId, window: ProducerWindow, address: str, now_ms: int) -> Batch | None:
        """The batch to send now, in flight from here on."""
        batch = window.resend(now_ms)
        if batch is not None:
            return batch
        resend_at_ms = window.resend_at_ms(now_ms)
        if resend_at_ms is not None:
            self._deliveries.do(WakeAt(partition, resend_at_ms))
            return None
        while window.may_send_new() and (ready_at_ms := self._queues.ready_at_ms(partition)) is not None:
            if ready_at_ms > now_ms and not self._flushes:
                self._deliveries.do(WakeAt(partition, ready_at_ms))
                return None
            if window.in_flight >= _FEW and self._gains_nothing(partition, window, address, now_ms):
                return None  # it is looked at again with the next answer, or when the batch is full
            if window.needs_identity and not self._has_identity(partition, window):
                return None
            batch = self._queues.take(partition)
            if self._seal(batch, window):
                window.send_new(batch)
                return batch
        return None

    def _has_identity(self, partition: PartitionId, window: ProducerWindow) -> bool:
        identities = self._deliveries.identities
        if identities.give(partition, window):
            return True
        if identities.begin_renewal():
            self._deliveries.do(RenewIdentity())
        return False

    # ------------------------------------------------------------ bytes

    def _seal(self, batch: Batch, window: ProducerWindow) -> bool:
        """Makes the batch's bytes. False: it cannot be encoded, and has failed; no other batch has to wait for that."""
        try:
            batch.seal(self._encoded(batch, window))
        except Exception as error:
            if not isinstance(error, OncelogError):
                traceback.clear_frames(error.__traceback__)  # else the error would hold all records of the batch
            self._deliveries.fail([(batch, obstacles.not_encoded(error))])
            return False
        return True

    def _encoded(self, batch: Batch, window: ProducerWindow) -> bytes:
        from oncelog.core.batch import batch as codec  # it loads pyarrow, which `import oncelog` must not

        assert window.identity is not None
        identity = codec.batch_identity(window.identity, window.next_sequence, batch.partition)
        times = batch.timestamps_ms
        if batch.encoded:  # it was meant for a topic that is gone: see `RecoveryCore`
            encoded = reseal(batch.encoded, identity)
        elif batch.arrow is not None:
            encoded = codec.encode_arrow(batch.arrow, identity, timestamp_ms=times[0], codec=self._codec)
        else:
            rows = (batch.keys, batch.values)
            encoded = codec.encode_rows(*rows, identity, timestamps_ms=times, headers=batch.headers, codec=self._codec)
        limit = self._config.max_request_size
        if len(encoded) > limit:
            raise MessageTooLargeError(
                "the batch is larger than max_request_size", bytes=len(encoded), max_request_size=limit
            )
        return encoded

    # ------------------------------------------------------------ answers

    def answered(self, batch: Batch, error: OncelogError | None, base_offset: int, now_ms: int) -> list[Action]:
        """The answer to the try that is in flight, or why there is none. `base_offset` -1: not known."""
        window = self._deliveries.windows.get(batch.partition)
        if window is None:
            return []
        retry_at_ms = now_ms
        if error is not None:
            retry_at_ms += self._deliveries.facts.delay_ms(batch.attempt.tries, error.retry_after_ms)
            if batch.attempt.tries > self._config.retries:
                batch.deadline_ms = min(batch.deadline_ms, now_ms)
        resolved = window.answered(batch, error, retry_at_ms)
        self._deliveries.settle(resolved, -1 if error is not None else base_offset)
        if error is not None and batch.error in (None, error) and may_have_moved(error):  # also with acks=0
            self._deliveries.do(Refresh())
        self._deliveries.due[batch.partition] = None
        return self._deliveries.taken()

    def renewed(self, identity: Identity) -> None:
        """New batches are written as this identity."""
        self._deliveries.identities.current = identity

    def renewal_failed(self, error: OncelogError) -> list[Action]:
        """A new identity was refused. What waits for its first try fails with that, unless it may be asked for again."""
        self._deliveries.identities.error = error
        if not error.retriable:
            self._deliveries.fail_queued(error)
        return self._deliveries.taken()

    def renewal_over(self) -> None:
        """The task of a `RenewIdentity` has ended, whichever way."""
        self._deliveries.wake(self._deliveries.identities.end_renewal())
