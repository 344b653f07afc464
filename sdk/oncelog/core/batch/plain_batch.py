"""A whole batch of plain records: checked without pyarrow where its payload is known, and read without it where it is small.

Rule 1: the verdict and the records are those of `batch.decode_arrow` and `batch.columns_of`; what is not known is left to them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from oncelog.core.batch import few_rows, plain_message
from oncelog.core.batch import header as hd
from oncelog.core.batch.batch import (
    MAX_UNCOMPRESSED_BYTES,
    Columns,
    check_deltas,
    check_header,
    decode_arrow,
    decode_message,
    unpack,
)
from oncelog.core.batch.header import CODEC_NONE, BatchHeader
from oncelog.types import Buffer

if TYPE_CHECKING:
    import pyarrow as pa

_SMALL_BYTES: Final = hd.HEADER_BYTES + few_rows.MESSAGE_BYTES_MAX


def check_rows(data: Buffer, header: BatchHeader, *, max_uncompressed_bytes: int = MAX_UNCOMPRESSED_BYTES) -> int:
    """Returns how many records have no key. Raises as `decode_arrow`; the body's checksum was checked before."""
    if not _is_plain(data, header):
        return _without_key(decode_arrow(data, header, max_uncompressed_bytes=max_uncompressed_bytes, check_crc=False))
    check_header(header, max_uncompressed_bytes)
    message = unpack(data, header)
    found = plain_message.check(message, header.record_count)
    if found is None:
        return _without_key(decode_message(message, header))
    check_deltas(found.lowest_ms, found.highest_ms, header)
    return found.without_key


def _without_key(rows: pa.RecordBatch) -> int:
    found: int = rows.column(1).null_count
    return found


def read_columns(
    data: Buffer, header: BatchHeader, *, max_uncompressed_bytes: int = MAX_UNCOMPRESSED_BYTES
) -> Columns | None:
    """Returns the records of one whole batch; None: `decode_arrow` has to decode it. Raises as that does."""
    if not (_is_small(header) and _is_plain(data, header)):
        return None
    hd.check_body(data, header)
    check_header(header, max_uncompressed_bytes)
    rows = few_rows.read(unpack(data, header), header.record_count)
    if rows is None:
        return None
    check_deltas(min(rows.deltas_ms), max(rows.deltas_ms), header)
    if header.attributes & hd.LOG_APPEND_TIME:
        times = [header.append_timestamp_ms] * header.record_count
    else:
        times = [header.base_timestamp_ms + delta for delta in rows.deltas_ms]
    return rows.keys, rows.values, times, [()] * header.record_count


def _is_small(header: BatchHeader) -> bool:
    """Whether this has few records and bytes, and nothing that would have to be decompressed."""
    is_short = header.record_count <= few_rows.ROWS_MAX and header.batch_length <= _SMALL_BYTES
    return is_short and header.codec == CODEC_NONE


def _is_plain(data: Buffer, header: BatchHeader) -> bool:
    """Whether this is one whole batch whose payload may be known."""
    return (
        header.record_count > 0
        and len(data) == header.batch_length
        and header.schema_id == hd.SCHEMA_PLAIN
        and not header.is_compacted
    )
