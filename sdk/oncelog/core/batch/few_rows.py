"""The payload of a few plain records, made and read without pyarrow: the same bytes and records.

A single record is a whole batch for a producer that waits for each acknowledgement. Four arrays, a record batch and a message
of pyarrow cost it a tenth of its latency, since none of that code is in the processor's caches. For a few records the
bytes themselves are less work (`plain_message`: their layout).

Rule 1: `encode` gives what pyarrow's writer gives, byte for byte, or nothing: then the caller asks pyarrow.
Rule 2: `read` gives the records of what `plain_message.check` knows, and of nothing else.
Rule 3: `tests/unit/sdk/core/batch/test_few_rows.py` holds both against pyarrow.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from oncelog.core.batch import plain_message as plain
from oncelog.types import Buffer

ROWS_MAX: Final = 8
"""The validity of so many rows is one byte."""
BYTES_MAX: Final = 16 << 10
"""Above this much content pyarrow costs nothing in comparison."""
MESSAGE_BYTES_MAX: Final = plain.MESSAGE.size + 2 * BYTES_MAX
"""A longer message is not read."""


def encode(deltas_ms: Sequence[int], keys: Sequence[bytes | None], values: Sequence[bytes | None]) -> bytes | None:
    """Returns the Arrow message of these records, which have no headers; None for too many or too large ones, and for other
    types than bytes. `deltas_ms`: milliseconds behind the earliest of them.
    """
    count = len(deltas_ms)
    if count > ROWS_MAX:
        return None
    times = plain.times_of(count).pack(*deltas_ms)
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
    return b"".join((plain.head(end, count, buffers, columns), *parts))


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
    return _Column(nulls, (validity, plain.offsets_of(len(items)).pack(*offsets), b"".join(content)))


class Rows(NamedTuple):
    """The records of a message, by column."""

    deltas_ms: tuple[int, ...]
    keys: list[bytes | None]
    values: list[bytes | None]


def read(message: Buffer, count: int) -> Rows | None:
    """Returns the records of a message that is known; None: pyarrow has to look."""
    if count > ROWS_MAX or len(message) > MESSAGE_BYTES_MAX or plain.check(message, count) is None:
        return None
    buffers, body = plain.buffers_of(message), memoryview(message)[plain.MESSAGE.size :]
    keys, values = (_items(body, buffers[at : at + 6], count) for at in (4, 10))
    return Rows(plain.times_of(count).unpack_from(body), keys, values)


def _items(body: memoryview, buffers: tuple[int, ...], count: int) -> list[bytes | None]:
    """Returns the values of one column. `buffers`: the positions and lengths of its three."""
    validity_at, validity_bytes, offsets_at, _, content_at, _ = buffers
    offsets = plain.offsets_of(count).unpack_from(body, offsets_at)
    valid = body[validity_at] if validity_bytes else -1
    return [
        bytes(body[content_at + begin : content_at + end]) if valid >> row & 1 else None
        for row, (begin, end) in enumerate(pairwise(offsets))
    ]
