"""The payload of a few plain records, made, checked and read without pyarrow: the same bytes, verdict and records.

A single record is a whole batch for a producer that waits for each acknowledgement. Four arrays, a record batch and a message
of pyarrow cost it a tenth of its latency, since none of that code is in the processor's caches. For a few records the
bytes themselves are less work: the metadata of the message has one layout, in which only numbers change.

    "\\xff\\xff\\xff\\xff" | length of the metadata | metadata: a flatbuffer of 264 bytes |
    times, then of keys and of values each: validity (only with nulls), offsets, bytes; each of these padded to 8 bytes

Rule 1: `encode` gives what pyarrow's writer gives, byte for byte, or nothing: then the caller asks pyarrow.
Rule 2: `check` says yes only to what it knows entirely: this metadata, buffers that follow each other without a gap, offsets
        that ascend to the end of the bytes. Anything else is for pyarrow to read or to refuse.
Rule 3: `read` gives the records of what `check` knows, and of nothing else.
Rule 4: `tests/unit/sdk/core/batch/test_few_rows.py` holds all three against pyarrow.

Source of the format: Arrow columnar format 1.5, "Encapsulated message format"; `protos/oncelog/v1/BATCH.md`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from struct import Struct
from typing import Final, NamedTuple

from oncelog.types import Buffer

ROWS_MAX: Final = 8
"""The validity of so many rows is one byte."""
BYTES_MAX: Final = 16 << 10
"""Above this much content pyarrow costs nothing in comparison."""

_MESSAGE: Final = Struct("<4sI 32s q 24s q 8s 16q 8s 6q")
"""Preamble and metadata: length of the body, number of rows, 8 buffers (position, length), 3 columns (rows, nulls)."""
_CONTINUATION: Final = b"\xff\xff\xff\xff"
MESSAGE_BYTES_MAX: Final = _MESSAGE.size + 2 * BYTES_MAX
"""A longer message is not looked at."""
_METADATA_BYTES: Final = _MESSAGE.size - 8
_MESSAGE_TABLE: Final = bytes.fromhex("14000000000000000c0016000600050008000c000c0000000003040018000000")
_BATCH_TABLE: Final = bytes.fromhex("00000a0018000c00040008000a0000009c00000010000000")
_BUFFERS: Final = bytes.fromhex("0000000008000000")
_COLUMNS: Final = bytes.fromhex("0000000003000000")


def encode(deltas_ms: Sequence[int], keys: Sequence[bytes | None], values: Sequence[bytes | None]) -> bytes | None:
    """Returns the Arrow message of these records, which have no headers; None for too many or too large ones, and for other
    types than bytes. `deltas_ms`: milliseconds behind the earliest of them.
    """
    count = len(deltas_ms)
    if count > ROWS_MAX:
        return None
    times = _times(count).pack(*deltas_ms)
    buffers, columns, parts, end = [0, 0, 0, len(times)], [count, 0], [times], len(times)
    for items in (keys, values):
        column = _column(items)
        if column is None:
            return None
        columns += (count, column.nulls)
        for part in column.parts:
            buffers += (end, len(part))
            padded = part + bytes(-len(part) % 8)
            parts.append(padded)
            end += len(padded)
    head = _MESSAGE.pack(
        _CONTINUATION, _METADATA_BYTES, _MESSAGE_TABLE, end, _BATCH_TABLE, count, _BUFFERS, *buffers, _COLUMNS, *columns
    )
    return b"".join((head, *parts))


class _Column(NamedTuple):
    nulls: int
    parts: tuple[bytes, bytes, bytes]
    """Validity, offsets, bytes."""


def _column(items: Sequence[bytes | None]) -> _Column | None:
    offsets, valid, size, content = [0], 0, 0, []
    for row, item in enumerate(items):
        if item is not None:
            if type(item) is not bytes:
                return None
            valid |= 1 << row
            size += len(item)
            content.append(item)
        offsets.append(size)
    if size > BYTES_MAX:
        return None
    nulls = len(items) - len(content)
    validity = bytes((valid,)) if nulls else b""
    return _Column(nulls, (validity, _offsets(len(items)).pack(*offsets), b"".join(content)))


class Checked(NamedTuple):
    """The smallest and the largest time of the records, and how many have no key."""

    lowest_ms: int
    highest_ms: int
    without_key: int


def check(message: Buffer, count: int) -> Checked | None:
    """Returns what is known of a message that every reader can decode as `count` plain records; None: pyarrow has to look."""
    if not 0 < count <= ROWS_MAX or not _MESSAGE.size + 8 * count <= len(message) <= MESSAGE_BYTES_MAX:
        return None
    found = _MESSAGE.unpack_from(message)
    if found[:3] != (_CONTINUATION, _METADATA_BYTES, _MESSAGE_TABLE) or found[4:7] != (_BATCH_TABLE, count, _BUFFERS):
        return None
    buffers, columns = found[7:23], found[24:]
    if found[23] != _COLUMNS or buffers[:4] != (0, 0, 0, 8 * count) or columns[:2] != (count, 0):
        return None
    times = _times(count).unpack_from(message, _MESSAGE.size)
    end = 8 * count
    for at in (0, 1):
        nulls = columns[3 + 2 * at]
        if columns[2 + 2 * at] != count or not 0 <= nulls <= count:
            return None
        end = _end_of(message, buffers[4 + 6 * at : 10 + 6 * at], count, nulls, end)
        if end < 0:
            return None
    if found[3] != end or len(message) != _MESSAGE.size + end:
        return None
    return Checked(min(times), max(times), columns[3])


class Rows(NamedTuple):
    """The records of a message, by column."""

    deltas_ms: tuple[int, ...]
    keys: list[bytes | None]
    values: list[bytes | None]


def read(message: Buffer, count: int) -> Rows | None:
    """Returns the records of a message as `check` knows it; None: pyarrow has to look."""
    if check(message, count) is None:
        return None
    buffers, body = _MESSAGE.unpack_from(message)[7:23], memoryview(message)[_MESSAGE.size :]
    keys, values = (_items(body, buffers[at : at + 6], count) for at in (4, 10))
    return Rows(_times(count).unpack_from(body), keys, values)


def _items(body: memoryview, buffers: tuple[int, ...], count: int) -> list[bytes | None]:
    """Returns the values of one column. `buffers`: the positions and lengths of its three."""
    validity_at, validity_bytes, offsets_at, _, content_at, _ = buffers
    offsets = _offsets(count).unpack_from(body, offsets_at)
    valid = body[validity_at] if validity_bytes else -1
    return [
        bytes(body[content_at + begin : content_at + end]) if valid >> row & 1 else None
        for row, (begin, end) in enumerate(pairwise(offsets))
    ]


def _end_of(message: Buffer, buffers: tuple[int, ...], count: int, nulls: int, begin: int) -> int:
    """Returns where the next column begins; -1 unless this one is as `encode` writes it.

    `buffers`: the positions and lengths of its three.
    """
    validity_bytes, size = (1 if nulls else 0), buffers[5]
    offsets_at = begin + 8 * validity_bytes
    content_at = offsets_at + (4 * count + 4 + 7) // 8 * 8
    if size < 0 or buffers[:5] != (begin, validity_bytes, offsets_at, 4 * count + 4, content_at):
        return -1
    if _MESSAGE.size + content_at + size > len(message):
        return -1
    valid = memoryview(message)[_MESSAGE.size + begin] if nulls else 0
    if valid >> count or (nulls and valid.bit_count() != count - nulls):  # a bit behind the rows stands for no row
        return -1
    offsets = _offsets(count).unpack_from(message, _MESSAGE.size + offsets_at)
    if offsets[0] != 0 or offsets[-1] != size or any(later < earlier for earlier, later in pairwise(offsets)):
        return -1
    return content_at + (size + 7) // 8 * 8


@cache
def _times(count: int) -> Struct:
    return Struct(f"<{count}q")


@cache
def _offsets(count: int) -> Struct:
    """One more than there are rows."""
    return Struct(f"<{count + 1}i")
