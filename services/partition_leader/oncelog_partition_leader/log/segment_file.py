"""One segment on disk: its file, its index in memory, and the only way to walk through its batches.

Rule: every read of batches from a file checks them: lengths and prefix always, the body on demand, the partition's tag
        with it. No memory is allocated by a length that was not checked (S13).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from oncelog.core.batch.header import HEADER_BYTES, BatchHeader, check_body, read_header
from oncelog.errors import CorruptMessageError
from oncelog.types import Buffer
from oncelog_partition_leader.core.log.segment import SegmentIndex, timestamp_of
from oncelog_runtime.ports import Disk, DiskFile

CHUNK_BYTES: Final = 1 << 18
OFFSET_DIGITS: Final = 20
LOG_SUFFIX: Final = ".log"
INDEX_SUFFIX: Final = ".index"
TXN_INDEX_SUFFIX: Final = ".txnindex"
SNAPSHOT_SUFFIX: Final = ".snapshot"


class Located(NamedTuple):
    """A batch in a file. `data` holds all of it, from `start` on, when the walk reads bodies; else only its header."""

    header: BatchHeader
    position: int
    data: Buffer
    start: int


class Segment:
    """A segment's file, opened when it is first needed, and its index.

    `indexed_bytes`: the part of the file that the index on disk covers. A recovery has to read the rest.
    """

    __slots__ = ("_disk", "_file", "base_offset", "index", "indexed_bytes", "path")

    def __init__(self, disk: Disk, directory: str, base_offset: int, file: DiskFile | None = None) -> None:
        self._disk = disk
        self._file = file
        self.base_offset = base_offset
        self.index = SegmentIndex(base_offset)
        self.indexed_bytes = 0
        self.path = f"{directory}/{base_offset:0{OFFSET_DIGITS}d}"

    @property
    def file(self) -> DiskFile:
        """The open file. Raises `StorageError`."""
        if self._file is None:
            self._file = self._disk.open(self.path + LOG_SUFFIX)
        return self._file

    def use(self, file: DiskFile) -> None:
        """Uses a file that is open already, whatever its name still is."""
        self._file = file

    def open_new(self) -> None:
        """Creates the file, and empties one that an earlier process left there. Raises `StorageError`."""
        file = self._disk.open(self.path + LOG_SUFFIX, create=True)
        if file.size:
            file.truncate(0)
        self._file = file

    @property
    def next_offset(self) -> int:
        """The offset after the segment's last record."""
        return self.index.next_offset

    def close(self) -> None:
        """Closes the file; it opens again when it is needed."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def remove(self, suffixes: tuple[str, ...] = (INDEX_SUFFIX, TXN_INDEX_SUFFIX, LOG_SUFFIX)) -> None:
        """Removes its files, the log itself last."""
        if LOG_SUFFIX in suffixes:
            self.close()
        if INDEX_SUFFIX in suffixes:
            self.indexed_bytes = 0
        for suffix in suffixes:
            self._disk.remove(self.path + suffix)

    def index_until(self, position: int, tag: int, interval_bytes: int) -> SegmentIndex:
        """Returns an index that ends at `position`, where a batch begins. Only the batches that the index here lacks are read.

        Raises like `walk`, and changes nothing.
        """
        index = self.index.cut_below(position)
        if index.size and index.max_timestamp_offset < 0 <= index.max_timestamp_ms:
            start, end = index.span_of_maximum()
            for batch in self.walk(start, end, tag, bodies=False):
                if not batch.header.is_control and timestamp_of(batch.header) == index.max_timestamp_ms:
                    index.max_timestamp_offset = batch.header.last_offset
                    break
        for batch in self.walk(index.size, position, tag, bodies=True):
            index.add(batch.header, interval_bytes)
        return index

    def walk(self, position: int, end: int, tag: int, *, bodies: bool) -> Iterator[Located]:
        """Yields the batches from `position` to `end` (bytes), one after the other, each with its header checked.

        With `bodies`, body checksum and partition tag are checked too. Raises `CorruptMessageError` (or
        `UnsupportedMessageFormatError`, `MisdirectedBatchError`) at the first bad batch, and `StorageError`.
        """
        chunk: Buffer = b""
        start = position
        while position < end:
            offset = position - start
            if len(chunk) - offset < HEADER_BYTES:
                chunk, start, offset = self._chunk(position, end, CHUNK_BYTES), position, 0
            header = read_header(chunk, offset, end - position)
            whole = bodies or header.is_control
            if whole and len(chunk) - offset < header.batch_length:
                chunk, start, offset = self._chunk(position, end, max(CHUNK_BYTES, header.batch_length)), position, 0
                if len(chunk) < header.batch_length:
                    raise CorruptMessageError("the file ends inside a batch", base_offset=header.base_offset)
            if whole:
                check_whole(chunk, header, offset, tag)
            yield Located(header, position, chunk, offset)
            position += header.batch_length

    def _chunk(self, position: int, end: int, length: int) -> bytes:
        return self.file.read(position, min(length, end - position))


def check_whole(data: Buffer, header: BatchHeader, position: int, tag: int) -> None:
    """Raises `CorruptMessageError` unless the body is whole and belongs to the partition with this tag (S31).

    A right checksum does not show that a batch makes sense: one that ends before it begins would turn offsets back.
    """
    check_body(data, header, position)
    if not 0 <= header.record_count <= header.last_offset_delta + 1 or header.last_offset_delta < 0:
        raise CorruptMessageError("a batch ends before it begins", base_offset=header.base_offset)
    if header.partition_tag != tag:
        raise CorruptMessageError("a batch of another partition lies here", base_offset=header.base_offset)
