"""The answer to a worker: the records that it was given, as batches.

Rule 1: the memory of an answer is reserved (`Admission`) before its bytes are kept; what has no room, or goes beyond the
        request's `max_bytes`, is released again: it comes at once, and that delivery does not count. The first record always
        comes.
Rule 2: a batch is sent whole when the worker gets much of it, and cut to its records otherwise (`batch_cutting`).
Rule 3: records that the log has no longer are settled here: no worker could ever acknowledge them.
Rule 4: records of other workers are claimed last, when their batches are there: what has no room stays with its owner.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from oncelog.core.batch.batch import iter_batches, row_offset_array
from oncelog.core.batch.header import BatchHeader
from oncelog.errors import OncelogError, StorageError
from oncelog.types import Buffer, PartitionId
from oncelog.v1 import channel_pb2 as pb
from oncelog.v1 import types_pb2
from oncelog.wire.wire_errors import to_detail
from oncelog_partition_leader.core.channels.offset_ranges import OffsetRange, OffsetRanges
from oncelog_partition_leader.core.channels.settlement import Settlement, Taken, Verdict
from oncelog_partition_leader.partition.channels.led_channel import LedChannel
from oncelog_partition_leader.partition.channels.reading.batch_cutting import Unpacked, is_worth_cutting
from oncelog_partition_leader.partition.channels.reading.committed_reading import read_log, visible_end
from oncelog_partition_leader.partition.channels.reading.supply import runs_of
from oncelog_partition_leader.partition.partition import LocalPartition
from oncelog_runtime.serving.admission import Admission

_READ_BYTES: Final = 256 << 10
_WAIT_MS: Final = 2_000
"""How long the first record waits for its turn for memory."""


class Given(NamedTuple):
    """Records of one partition that a worker was given."""

    led: LedChannel
    taken: list[Taken]


class _Part(NamedTuple):
    """The records of one batch that a worker was given."""

    header: BatchHeader
    data: memoryview
    pieces: list[Taken]


class Answer:
    """Builds one answer: `add_all`, then `reply` and `payload`."""

    def __init__(self, worker_id: str, max_bytes: int, unpacked: Unpacked, admission: Admission) -> None:
        self.reply = pb.ReceiveReply()
        self._worker_id = worker_id
        self._max_bytes = max_bytes
        self._unpacked = unpacked
        self._admission = admission
        self.is_broken = False
        """True when a partition could not be read: its error is in the reply."""
        self._batches: list[Buffer] = []
        self._named: list[tuple[LedChannel, Taken]] = []
        self._wanted: list[list[Taken]] = []
        """The records of each batch that are to be claimed."""
        self._size = 0
        self._is_full = False

    @property
    def payload(self) -> Buffer:
        """The batches, one after the other."""
        return self._batches[0] if len(self._batches) == 1 else b"".join(self._batches)

    async def add_all(self, given: Sequence[Given]) -> None:
        """Adds records, as many as there is room for; the others are released, whatever happens. When it raises, or is
        cancelled, nothing is sent: all are released.

        A partition's own error is in the reply. Raises `ResourceExhaustedError` when there is no memory for the first record.
        """
        rest = list(given)
        try:
            while rest and not self._is_full:
                one = rest.pop(0)
                try:
                    await self._add(one)
                except StorageError as error:
                    self.is_broken = True
                    self.refuse(one.led.partition.id, error)
        except BaseException:
            for led, piece in self._named:
                _settle(led, self._worker_id, [piece], Verdict.RELEASE)
            raise
        finally:
            self.release_all(rest)

    def release_all(self, given: Sequence[Given]) -> None:
        """Gives records back that were taken for an answer whose caller has gone."""
        for one in given:
            _release(one.led, self._worker_id, one.taken, -1)

    def refuse(self, partition: PartitionId, error: OncelogError) -> None:
        """Names a partition that could not be asked."""
        place = types_pb2.TopicPartition(topic_id=partition.topic_id, partition=partition.partition)
        self.reply.errors.add(partition=place, error=to_detail(error))

    async def _add(self, given: Given) -> None:
        done = -1
        try:
            given.led.skip_deleted()
            for part in _parts(given):
                if not await self._add_part(given.led, part):
                    break
                done = part.header.last_offset
        finally:
            _release(given.led, self._worker_id, given.taken, done)

    async def _add_part(self, led: LedChannel, part: _Part) -> bool:
        """Returns False when the answer is full without this batch."""
        pieces, gone = await self._found(part)
        _settle(led, self._worker_id, gone, Verdict.ACK)
        if not pieces:
            return True
        if not await self._add_data(part, pieces):
            return False
        self._name_all(led, pieces, len(self._batches[-1]))
        return True

    async def _add_data(self, part: _Part, pieces: list[Taken]) -> bool:
        """Returns False when the answer is full without this batch."""
        data: Buffer = part.data
        if is_worth_cutting(part.header, sum(piece.last - piece.first + 1 for piece in pieces)):
            data = await self._cut(part, pieces)
        if not await self._reserve(len(data)):
            self._is_full = True
            return False
        self._batches.append(data)
        self._size += len(data)
        self._is_full = self._size >= self._max_bytes
        return True

    async def prepare(self, led: LedChannel, wanted: Iterable[OffsetRange]) -> list[int]:
        """Adds the batches of records that are to be claimed, and names none. Returns those for which there is room.

        `name_claimed` follows. A partition's error is in the reply. Raises `ResourceExhaustedError` as `add_all` does.
        """
        try:
            for part in _parts(Given(led, [Taken(first, last, 0) for first, last in wanted])):
                pieces, _ = await self._found(part)
                if pieces and not await self._add_data(part, pieces):
                    break
                if pieces:
                    self._wanted.append(pieces)
                if self._is_full:
                    break
        except StorageError as error:
            self.refuse(led.partition.id, error)
        return [offset for pieces in self._wanted for piece in pieces for offset in range(piece.first, piece.last + 1)]

    def name_claimed(self, led: LedChannel, taken: Sequence[Taken]) -> None:
        """Names what was claimed of it; a batch of which nothing was claimed any more is not sent."""
        prepared, self._batches = self._batches, []
        for data, wanted in zip(prepared, self._wanted, strict=True):
            cut = [(run, max(run.first, piece.first), min(run.last, piece.last)) for piece in wanted for run in taken]
            pieces = [Taken(first, last, run.delivery) for run, first, last in cut if first <= last]
            if pieces:
                self._batches.append(data)
                self._name_all(led, pieces, len(data))

    def _name_all(self, led: LedChannel, pieces: Iterable[Taken], length: int) -> None:
        """Names the records of one batch, which is so long."""
        for number, piece in enumerate(pieces):
            self._name(led, piece, length if number == 0 else 0)

    def name_only(self, given: Given) -> None:
        """Names the records of one partition, without sending them."""
        for piece in given.taken:
            self._name(given.led, piece, 0)

    def _name(self, led: LedChannel, piece: Taken, length: int) -> None:
        self._named.append((led, piece))
        self.reply.records.add(
            partition=led.place.partition,
            first_offset=piece.first,
            last_offset=piece.last,
            delivery=piece.delivery,
            ack_wait_ms=led.channel.options.ack_wait_ms,
            length=length,
            leader_epoch=led.place.leader_epoch,
        )

    async def _cut(self, part: _Part, pieces: list[Taken]) -> Buffer:
        try:
            return await self._unpacked.cut(part.data, part.header, [(piece.first, piece.last) for piece in pieces])
        except OncelogError:  # its worker meets the error, as every reader does
            return part.data

    async def _reserve(self, size: int) -> bool:
        """Takes the memory for a batch; False when the answer is full without it. The first one waits for its turn."""
        if self._batches and (self._size + size > self._max_bytes or size > self._admission.available_bytes):
            return False
        if size <= self._admission.available_bytes:
            self._admission.take(size)
        else:
            await self._admission.wait(size, _WAIT_MS)
        return True

    async def _found(self, part: _Part) -> tuple[list[Taken], list[Taken]]:
        """Returns the pieces without the records that compaction has taken out meanwhile, and those."""
        header = part.header
        if not header.is_compacted:
            return part.pieces, []
        try:
            offsets = row_offset_array(await self._unpacked.rows(part.data, header), header)
        except OncelogError:
            return part.pieces, []
        there = OffsetRanges(runs_of(offsets))
        gone = [
            Taken(first, last, piece.delivery)
            for piece in part.pieces
            for first, last in there.gaps(piece.first, piece.last)
        ]
        left = [
            Taken(first, last, piece.delivery)
            for piece in part.pieces
            for first, last in there.within(piece.first, piece.last)
        ]
        return left, gone


def _settle(led: LedChannel, worker_id: str, pieces: Sequence[Taken], verdict: Verdict) -> None:
    """Says this about records in the worker's place."""
    if pieces and led.ended is None:
        for piece in pieces:
            led.delivery.settle(worker_id, Settlement(*piece, verdict), led.now_ms())
        led.changed()


def _release(led: LedChannel, worker_id: str, taken: Sequence[Taken], done: int) -> None:
    """Releases what lies behind the offset `done`."""
    left = [Taken(max(piece.first, done + 1), piece.last, piece.delivery) for piece in taken if piece.last > done]
    _settle(led, worker_id, left, Verdict.RELEASE)


class _Reading:
    """Reads the batches of ascending offsets, a piece of the log at a time."""

    def __init__(self, partition: LocalPartition) -> None:
        self._partition = partition
        self._ahead: Iterator[tuple[BatchHeader, memoryview]] = iter(())
        self._batch: tuple[BatchHeader, memoryview] | None = None

    def batch_with(self, offset: int) -> tuple[BatchHeader, memoryview] | None:
        """Returns the batch with this offset, which was not deleted. Raises `StorageError`."""
        while self._batch is None or self._batch[0].last_offset < offset:
            self._batch = next(self._ahead, None)
            if self._batch is None:
                data = read_log(self._partition, offset, _READ_BYTES, visible_end(self._partition))
                self._ahead = iter_batches(data)
                self._batch = next(self._ahead, None)
                break
        return self._batch


def _parts(given: Given) -> Iterator[_Part]:
    """Yields the batches with these records; each is read when its turn comes. Raises `StorageError`."""
    reading = _Reading(given.led.partition)
    part: _Part | None = None
    for whole in sorted(given.taken):
        first = whole.first
        while (first := max(first, given.led.partition.log.log_start_offset)) <= whole.last:
            batch = reading.batch_with(first)
            if batch is None:
                break
            header, data = batch
            if part is None or part.header is not header:
                if part is not None and part.pieces:
                    yield part
                part = _Part(header, data, [])
            first, last = max(first, header.base_offset), min(whole.last, header.last_offset)
            if first <= last:
                part.pieces.append(Taken(first, last, whole.delivery))
            first = max(first, last + 1)
    if part is not None and part.pieces:
        yield part
