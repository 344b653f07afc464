"""Records that wait to be sent: gathered into batches, one queue per partition, all within one bound of memory.

Rule 1: a batch closes when it is full; an open one is ready when `linger_ms` have passed, or on a flush.
Rule 2: batches of a partition are taken in the order in which they were filled.
Rule 3: memory is counted from the moment of adding until the batch is resolved, not until it is sent.
Rule 4: a batch is resolved once; later answers to older attempts change nothing.
Rule 5: what is encoded, or came as Arrow data, is closed: no row joins it (`_joins` says what does).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import NamedTuple, Protocol

from oncelog.core.batch.identity import NOBODY, Identity
from oncelog.core.batch.record import HeaderList
from oncelog.core.produce.attempt import Attempt, Incident
from oncelog.errors import OncelogError
from oncelog.types import PartitionId

RECORD_OVERHEAD_BYTES = 16
"""Counted for each record beside its own bytes: offsets and timestamp in the payload."""
BATCH_OVERHEAD_BYTES = 512
"""Counted for each batch: header and Arrow's metadata."""
MAX_BATCH_RECORDS = 1 << 20
"""Far below half of the sequence ring, whatever sixteen batches in flight add up to."""


class Row(NamedTuple):
    """A record that was checked: it can be queued as it is. `partition` None: the key decides, or any takes it."""

    topic: str
    partition: int | None
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: HeaderList
    size: int
    """The bytes that it counts against batch and buffer."""


class ArrowSchema(Protocol):
    """A `pyarrow.Schema`, as far as a producer looks at it."""

    @property
    def names(self) -> Sequence[str]:
        """The names of the columns."""
        ...


class ArrowRows(Protocol):
    """A `pyarrow.RecordBatch`, as far as a producer looks at it: pyarrow itself is not loaded before it is needed."""

    @property
    def num_rows(self) -> int:
        """The number of its rows."""
        ...

    @property
    def nbytes(self) -> int:
        """The bytes of its columns."""
        ...

    @property
    def schema(self) -> ArrowSchema:
        """Its columns."""
        ...

    def slice(self, offset: int, length: int) -> ArrowRows:
        """Some of its rows, without a copy."""
        ...


class ArrowTable(Protocol):
    """A `pyarrow.Table`, as far as a producer looks at it."""

    def to_batches(self) -> Iterable[ArrowRows]:
        """Its rows, as record batches."""
        ...


class Home(Protocol):
    """Where a batch is resolved: in one event loop, and nowhere else."""

    def check(self) -> object:
        """Raises unless this is the place."""
        ...


class Batch:
    """Records of one partition that travel together: gathered, sealed into bytes, then delivered once.

    Its content does not change after `seal`; how far the delivery has come is its `attempt`; what the callers see is its
    outcome. All three are one object with 22 fields, because a row is added with one attribute look-up, on the hottest path.
    """

    __slots__ = (
        *("arrow", "attempt", "base_offset", "base_sequence", "created_ms", "deadline_ms", "done", "encoded", "error"),
        *("headers", "home", "identity", "keys", "observed", "on_done", "partition", "record_count", "size_bytes"),
        *("takes_rows", "timestamps_ms", "topic", "values"),
    )

    def __init__(self, partition: PartitionId, topic: str, now_ms: int, deadline_ms: int) -> None:
        self.partition = partition
        self.topic = topic
        self.created_ms = now_ms
        self.deadline_ms = deadline_ms
        self.record_count = 0
        self.size_bytes = BATCH_OVERHEAD_BYTES
        # Content: rows, or an Arrow record batch. Dropped when `encoded` is there.
        self.keys: list[bytes | None] = []
        self.values: list[bytes | None] = []
        self.timestamps_ms: list[int] = []
        self.headers: list[HeaderList] | None = None
        self.arrow: ArrowRows | None = None
        self.takes_rows = True  # until it is encoded; Arrow data never do
        # Given once, and kept for as long as the batch exists.
        self.identity: Identity = NOBODY
        self.base_sequence = -1
        self.encoded: bytes = b""
        self.attempt = Attempt()
        # Outcome, as the callers see it.
        self.done = False
        self.error: OncelogError | None = None
        self.base_offset = -1
        self.observed = 0  # of so many records a caller awaits, or has seen, the outcome
        self.on_done: list[Callable[[Batch], None]] = []
        self.home: Home | None = None  # in any other event loop a wait would never end

    def add(self, row: Row) -> int:
        """Appends a row; returns its index."""
        _, _, key, value, timestamp_ms, headers, size = row
        index = self.record_count
        self.keys.append(key)
        self.values.append(value)
        self.timestamps_ms.append(timestamp_ms)
        if headers and self.headers is None:
            self.headers = [()] * index
        if self.headers is not None:
            self.headers.append(headers)
        self.record_count = index + 1
        self.size_bytes += size
        return index

    def extend(self, rows: Sequence[Row], size: int) -> int:
        """Appends rows of `size` bytes together, a column at a time; returns the index of the first."""
        index = self.record_count
        self.keys += [row.key for row in rows]
        self.values += [row.value for row in rows]
        self.timestamps_ms += [row.timestamp_ms for row in rows]
        if self.headers is None and any(row.headers for row in rows):
            self.headers = [()] * index
        if self.headers is not None:
            self.headers += [row.headers for row in rows]
        self.record_count = index + len(rows)
        self.size_bytes += size
        return index

    def seal(self, encoded: bytes) -> None:
        """The bytes are made: the content does not change from now on."""
        self.encoded = encoded
        self.drop_content()

    def drop_content(self) -> None:
        """The encoded bytes are all that is needed from now on."""
        self.takes_rows = False
        self.keys, self.values, self.headers, self.arrow = [], [], None, None

    def move_to(self, partition: PartitionId) -> None:
        """To another partition, unsequenced again. Only while no try is in flight or in doubt."""
        assert not self.done
        self.attempt.move(Incident.MOVED)
        self.partition = partition
        self.identity, self.base_sequence = NOBODY, -1

    @property
    def is_observed(self) -> bool:
        """A caller awaits, or has seen, the outcome of every record."""
        return self.observed >= self.record_count

    def resolve(self, error: OncelogError | None, base_offset: int = -1) -> bool:
        """`settle` and `tell`; False when the outcome was known already."""
        if not self.settle(error, base_offset):
            return False
        self.tell()
        return True

    def settle(self, error: OncelogError | None, base_offset: int = -1) -> bool:
        """Gives the outcome; False when it was known already."""
        if self.done:
            return False
        self.error = error
        self.base_offset = base_offset
        self.encoded = b""
        self.drop_content()
        if error is not None:
            self.timestamps_ms = []  # they are of no use any more, and a failure may be kept for long
        self.done = True  # last: another thread that sees it reads the rest
        return True

    def tell(self) -> None:
        """Calls everyone who waits for the outcome."""
        listeners, self.on_done = self.on_done, []
        for listener in listeners:
            listener(self)


def row_bytes(key: bytes | None, value: bytes | None, headers: HeaderList) -> int:
    """The bytes that a row counts against batch and buffer."""
    size = RECORD_OVERHEAD_BYTES + (len(key) if key else 0) + (len(value) if value else 0)
    for name, content in headers:
        length = len(name) if name.isascii() else len(name.encode())
        size += length + (len(content) if content else 0) + RECORD_OVERHEAD_BYTES
    return size


class Accumulator:
    """All queues of one producer."""

    def __init__(self, batch_size: int, linger_ms: int, buffer_memory: int, delivery_timeout_ms: int) -> None:
        self._batch_size = batch_size
        self._linger_ms = linger_ms
        self._buffer_memory = buffer_memory
        self._delivery_timeout_ms = delivery_timeout_ms
        self._queues: dict[PartitionId, deque[Batch]] = {}
        self.used_bytes = 0

    def has_room(self, size: int, beside: int = 0) -> bool:
        """True when `size` more bytes fit beside `beside` that are on their way here; one thing of any size fits into an empty
        buffer.
        """
        used = self.used_bytes + beside
        return used == 0 or used + size <= self._buffer_memory

    def reserve(self, size: int) -> None:
        """Counts room for a record that will be added later."""
        self.used_bytes += size

    def unreserve(self, size: int) -> None:
        """The record is added now, or never will be."""
        self.used_bytes -= size

    def add_row(self, partition: PartitionId, row: Row, now_ms: int) -> tuple[Batch, int]:
        """Appends a row to the partition's open batch, or opens one. The batch, and the row's index in it."""
        queue = self._queue(partition)
        batch = queue[-1] if queue else None
        if batch is None or not self._joins(batch, row.size):
            batch = self._open(queue, partition, row.topic, now_ms)
        self.used_bytes += row.size
        return batch, batch.add(row)

    def add_rows(self, partition: PartitionId, rows: Sequence[Row], now_ms: int) -> tuple[Batch, int, int]:
        """Appends the first of `rows` (at least one): those that fit the partition's open batch, or one that opens a batch, so
        that what follows may go elsewhere. The batch, the first row's index in it, and how many were taken.
        """
        queue = self._queues.get(partition)
        batch = queue[-1] if queue else None
        if batch is None or not self._joins(batch, rows[0].size):
            return *self.add_row(partition, rows[0], now_ms), 1
        count, size = self._fitting(batch, rows)
        self.used_bytes += size
        return batch, batch.extend(rows[:count], size), count

    def add_arrow(
        self,
        partition: PartitionId,
        topic: str,
        rows: ArrowRows | None,
        count: int,
        size: int,
        timestamp_ms: int,
        now_ms: int,
    ) -> Batch:
        """Queues an Arrow record batch as a batch of its own."""
        batch = self._open(self._queue(partition), partition, topic, now_ms)
        batch.arrow = rows
        batch.takes_rows = False
        batch.timestamps_ms = [timestamp_ms]
        batch.record_count = count
        batch.size_bytes += size
        self.used_bytes += size
        return batch

    def has_several(self, partition: PartitionId) -> bool:
        """More than one batch waits: the last one was begun because the one before it takes no more."""
        return len(self._queues.get(partition, ())) > 1

    def put_first(self, batches: list[Batch]) -> None:
        """Batches of one partition go in front of what waits there; their memory is counted already."""
        self._queue(batches[0].partition).extendleft(reversed(batches))

    def ready_at_ms(self, partition: PartitionId) -> int | None:
        """When the partition's next batch may go; None = nothing waits."""
        queue = self._queues.get(partition)
        if not queue:
            return None
        first = queue[0]
        if len(queue) > 1 or not self._joins(first, 0):
            return first.created_ms
        return first.created_ms + self._linger_ms

    def can_grow(self, partition: PartitionId) -> bool:
        """The batch that `take` would return takes more rows."""
        queue = self._queues.get(partition)
        return queue is not None and len(queue) == 1 and self._joins(queue[0], 0)

    def peek(self, partition: PartitionId) -> Batch | None:
        """The batch that `take` would return."""
        queue = self._queues.get(partition)
        return queue[0] if queue else None

    def take(self, partition: PartitionId) -> Batch:
        """Removes the next batch from its queue; its memory stays counted."""
        queue = self._queues[partition]
        batch = queue.popleft()
        if not queue:
            del self._queues[partition]
        return batch

    def waiting(self) -> list[PartitionId]:
        """Partitions with something queued, in the order of their first record."""
        return list(self._queues)

    def release(self, batch: Batch) -> None:
        """The batch is resolved: its memory is free again."""
        self.used_bytes -= batch.size_bytes
        assert self.used_bytes >= 0

    def expired(self, now_ms: int) -> list[Batch]:
        """Removes and returns queued batches whose deadline has passed; never sent, so definitely not written."""
        found: list[Batch] = []
        for partition in self.waiting():
            queue = self._queues[partition]
            while queue and queue[0].deadline_ms <= now_ms:
                found.append(queue.popleft())
            if not queue:
                del self._queues[partition]
        return found

    def drop(self, partition: PartitionId | None = None) -> list[Batch]:
        """Removes and returns everything queued, of one partition or of all."""
        partitions = self.waiting() if partition is None else [partition]
        return [batch for name in partitions for batch in self._queues.pop(name, ())]

    def _queue(self, partition: PartitionId) -> deque[Batch]:
        queue = self._queues.get(partition)
        if queue is None:
            queue = self._queues[partition] = deque()
        return queue

    def _open(self, queue: deque[Batch], partition: PartitionId, topic: str, now_ms: int) -> Batch:
        batch = Batch(partition, topic, now_ms, now_ms + self._delivery_timeout_ms)
        self.used_bytes += batch.size_bytes
        queue.append(batch)
        return batch

    def _fitting(self, batch: Batch, rows: Sequence[Row]) -> tuple[int, int]:
        """How many of the rows fit this batch, and their bytes."""
        room = self._batch_size - batch.size_bytes
        size = count = 0
        for row in islice(rows, MAX_BATCH_RECORDS - batch.record_count):
            if size + row.size > room:
                break
            size += row.size
            count += 1
        return count, size

    def _joins(self, batch: Batch, size: int) -> bool:
        """A row of this size, which may be none at all, goes into the batch; else it opens another one."""
        if not batch.takes_rows or batch.record_count >= MAX_BATCH_RECORDS:
            return False
        filled = batch.size_bytes
        return filled < self._batch_size and (filled + size <= self._batch_size or batch.record_count == 0)
