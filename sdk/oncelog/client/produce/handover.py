"""Records that any thread gives to a producer without waiting for its event loop to take each of them.

Rule 1: a record is checked at once, in the thread that gives it; the loop takes many at a time, in their order.
Rule 2: a record that would have to wait (for metadata, for room, for a transaction to begin), or whose partition a function of
        the caller's chooses, is not taken here: `put` waits, and raises at the caller.
Rule 3: whatever is given to the loop after a record finds that record taken: a flush, a commit, a wait for its outcome. So a
        thread leaves the call to another one only when that call was made already, for the turn in which its record waits, and
        one that is interrupted before it calls takes its record back.
Rule 4: a record that was taken and can no longer be written has that as its outcome; a flush raises it as any other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from threading import RLock
from typing import Final

from oncelog.client.produce.delivery import Delivery, RecordMetadata
from oncelog.client.produce.sender import Sender
from oncelog.client.produce.writer import Writer
from oncelog.client.routing.metadata import Metadata, Topic
from oncelog.core.produce.accumulator import Batch, Row
from oncelog.errors import IllegalStateError, InvalidRecordError, OncelogError
from oncelog.types import PartitionId
from oncelog.value_types import Headers

_NOT_TAKEN: Final = Batch(PartitionId("", -1), "", 0, 0)
"""Where a record is until the loop has taken it: its outcome is not known, and never set."""
_RUN_ROWS: Final = 1_024
"""So many rows are queued in one go: where each batch takes one row, the rest of a run is copied for each of them."""
_NO_ROW: Final = Row("", None, None, None, 0, (), 0)
"""Stands for a record that the loop has taken: its bytes are the batch's, and are free when that is written."""


class Given(Delivery):
    """A record on its way to the loop, then from there on."""

    __slots__ = ("known_topic", "row")

    known_topic: Topic
    """Its topic, as it was known when the record was offered."""

    def __init__(self, row: Row) -> None:
        self._batch = _NOT_TAKEN
        self._index = 0
        self.row = row
        """The record, until the loop has taken it."""

    def taken(self, batch: Batch, index: int) -> None:
        """The loop has it in this batch."""
        self._batch = batch
        self._index = index
        self.row = _NO_ROW

    def refused(self, error: OncelogError) -> Batch:
        """It is never written. Returns the batch that stands for it."""
        row = self.row
        where = PartitionId(self.known_topic.topic_id, -1 if row.partition is None else row.partition)
        batch = Batch(where, row.topic, 0, 0)
        batch.record_count = 1
        batch.resolve(error)
        self.taken(batch, 0)
        return batch

    def __await__(self) -> Generator[object, None, RecordMetadata]:
        """As any delivery's. Raises `IllegalStateError` where it would wait for a batch that is never resolved."""
        self._check_taken()
        return super().__await__()

    def add_done_callback(self, function: Callable[[Delivery], object]) -> None:
        """As any delivery's. Raises as `__await__`."""
        self._check_taken()
        super().add_done_callback(function)

    def _check_taken(self) -> None:
        """On the loop, where rule 3 holds."""
        if self._batch is _NOT_TAKEN:
            raise IllegalStateError("the record never reached the event loop: it is not written; send it again")


class Handover:
    """See the module. One per producer, transaction or participant.

    `is_open`: records may be taken now; it only looks. `check`: raises why none may be; on the loop.
    """

    def __init__(
        self,
        writer: Writer,
        sender: Sender,
        metadata: Metadata,
        is_open: Callable[[], bool],
        check: Callable[[], object],
    ) -> None:
        self._writer = writer
        self._sender = sender
        self._room = sender.room
        self._metadata = metadata
        self._is_open = is_open
        self._check = check
        self._topics: dict[str, Topic] = {}
        self._given: list[Given] = []
        self._bytes = 0  # of what was given
        self._taking_bytes = 0  # of what the loop is queuing: it counts until all of it counts in the sender
        self._turn = 0  # how often records were taken
        self._told_turn = -1  # for which of them the loop was called
        self._lock = RLock()  # a signal handler may send, in the midst of a send of the same thread

    def given(
        self, topic: str, value: object, key: object, partition: int | None, timestamp_ms: int | None, headers: Headers
    ) -> Given | None:
        """A record, checked. None: it is traced, and its span begins on the loop. Raises as `Writer.checked`."""
        if self._sender.observer.records_origins:
            return None
        return Given(self._writer.checked(topic, value, key, partition, timestamp_ms, headers))

    def expiring(self, headers: Headers, ttl_ms: int) -> Headers:
        """The headers of a record with a time to live. From any thread. Raises `InvalidDelayError`."""
        return self._writer.expiring(headers, ttl_ms)

    def offer(self, given: Given, soon: Callable[[Callable[[], object]], None]) -> bool:
        """From any thread. False: it has to wait, so `put` takes it. `soon` calls something on the loop, in the order of calls.

        Raises `MessageTooLargeError`, or what stopped this producer.
        """
        name, partition, _, _, _, _, size = given.row
        topic = self._topics.get(name)
        if topic is None or not self._is_open():
            return False
        if partition is None:
            if self._writer.asks_caller:
                return False  # what the function raises is for the caller
        elif not 0 <= partition < topic.partitions:
            return False
        if not self._room.may_add(size, self._bytes + self._taking_bytes):
            return False
        given.known_topic = topic
        try:
            with self._lock:
                self._given.append(given)
                self._bytes += size
                turn = self._turn
            if self._told_turn != turn:  # two threads may both call: that is harmless, and no call would not be
                soon(self._take)
                self._told_turn = turn
        except BaseException:  # a Ctrl-C: perhaps the loop was not called
            self._withdraw(given)
            raise
        return True

    def _withdraw(self, given: Given) -> None:
        """The record is not sent, unless the loop has it already."""
        with self._lock:
            if given in self._given:
                self._given.remove(given)
                self._bytes -= given.row.size

    async def put(self, given: Given) -> None:
        """On the loop: waits for metadata and room. Raises as `Writer.send`."""
        self._check()
        row = given.row
        given.taken(*await self._writer.queue(row))
        if (topic := self._metadata.known_topic(row.topic)) is not None:
            self._topics[row.topic] = topic

    def _take(self) -> None:
        with self._lock:
            given, self._given = self._given, []
            # In this order: `offer` reads them in the opposite one, without the lock.
            self._taking_bytes = self._bytes
            self._bytes = 0
            self._turn += 1
        try:
            self._queue(given)
        finally:
            self._taking_bytes = 0

    def _queue(self, given: list[Given]) -> None:
        try:
            self._check()
            self._room.refuse_when_over()
        except OncelogError as error:
            for item in given:  # it ends nothing: that would be the next transaction by now
                self._sender.deliveries.failures.add(item.refused(error))
            return
        rest = deque(given)
        topics: dict[str, Topic] = {}
        while rest:
            self._take_run(_next_run(rest), topics)

    def _take_run(self, run: list[Given], topics: dict[str, Topic]) -> None:
        """Queues them; whatever is wrong with these keeps nothing else from being queued."""
        taken = 0
        try:
            topic = topics.get(run[0].row.topic) or self._look_up(run[0], topics)
            rows = [given.row for given in run]
            while taken < len(run):
                batch, index, count = self._writer.put_rows(topic, rows[taken:])
                for i in range(count):
                    run[taken + i].taken(batch, index + i)
                taken += count
        except Exception as error:
            why = error if isinstance(error, OncelogError) else _defect(error)
            for given in run[taken:]:
                self._sender.note_failure(given.refused(why), why)

    def _look_up(self, given: Given, topics: dict[str, Topic]) -> Topic:
        """Its topic as it is known by now, else as it was when it was offered; then the next record waits to hear of it."""
        name = given.row.topic
        known = self._metadata.known_topic(name)
        if known is None:
            self._topics.pop(name, None)
        else:
            self._topics[name] = known
        topics[name] = known or given.known_topic
        return topics[name]


def _next_run(rest: deque[Given]) -> list[Given]:
    """Takes from the front what can go into one batch: one record with a key, or neighbours of one topic without."""
    first = rest.popleft()
    run = [first]
    topic, partition, key = first.row[:3]
    if partition is None and key is not None:
        return run
    while rest and len(run) < _RUN_ROWS:
        row = rest[0].row
        if row.topic != topic or row.partition != partition or (partition is None and row.key is not None):
            break
        run.append(rest.popleft())
    return run


def _defect(cause: Exception) -> OncelogError:
    """The error of a record that could not be queued for a reason that was not foreseen."""
    error = InvalidRecordError(f"the record could not be queued: {cause!r}")
    error.__cause__ = cause
    return error
