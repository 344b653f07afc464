"""Checks a client's batch by itself, before its producer's state is looked at.

Rule 1: every bad input has its named error, and is refused before anything is written, or allocated by a length that it
        claims (inputs 1-18, 50).
Rule 2: only the header is read, and the body's checksum; the payload is checked later (`payload_check`).
Rule 3: the fields that the leader writes itself (offset, epoch, append time) are ignored, whatever the client put there.
Rule 4: a count is believed only as far as the bytes can hold it: a record costs offsets, sequences and index space, so a
        few kilobytes that claim two thousand million records would use all of these up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from oncelog.core.batch.header import (
    COMPACTED,
    HEADER_BYTES,
    KNOWN_ATTRIBUTES,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_SHARD,
    SCHEMA_HEADERS,
    SCHEMA_PLAIN,
    BatchHeader,
    check_body,
    partition_tag,
    read_header,
)
from oncelog.errors import (
    InvalidDelayError,
    InvalidPidMappingError,
    InvalidRecordError,
    InvalidRequestError,
    InvalidTimestampError,
    MessageTooLargeError,
    MisdirectedBatchError,
    RecordListTooLargeError,
    UnsupportedCompressionError,
)
from oncelog.types import Buffer
from oncelog_runtime.metadata.cluster_keys import SHARD_WRITER_BASE

CODEC_NONE: Final = 0
KNOWN_CODECS: Final = (CODEC_NONE, 1, 2)
_HOUR_MS: Final = 3600 * 1000
PRODUCER_EPOCH_MAX: Final = (1 << 31) - 2
"""The largest epoch that a client may use: a fence carries the next one, which must fit into the header, too."""

RECORD_BYTES_MIN: Final = 16
"""A record takes at least this much of an unpacked payload: a time of 8 bytes, and 4 bytes each that say where its key and
its value end. Nulls cost as much; a batch of all nulls has these columns, too."""
TYPED_ROWS_PER_BYTE_MAX: Final = 8
"""A row of a typed topic may be as small as one boolean: a bit."""
COMPRESSION_RATIO_MAX: Final = {CODEC_NONE: 1, 1: 255, 2: 32_768}
"""The most bytes that one byte of payload can unpack to, by codec. LZ4 repeats at most 255 bytes per byte of a match's
length; Zstandard's smallest block is 4 bytes for 128 KiB. A greater claim cannot be true."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLimits:
    """The limits of a topic for one batch. `typed_schema_ids`: registered schemas besides 0 and 1.

    `timestamp_after_max_ms`: how far a timestamp may lie in the future of `now_ms`; `timestamp_before_max_ms`: how far
    in the past, -1 = any. A record from the year 9999 would keep its segment from ever being deleted.
    """

    now_ms: int
    max_message_bytes: int = 8 << 20
    max_uncompressed_bytes: int = 64 << 20
    segment_bytes: int = (1 << 31) - 1
    timestamp_after_max_ms: int = _HOUR_MS
    timestamp_before_max_ms: int = -1
    typed_schema_ids: frozenset[int] = frozenset()
    delays: bool = False
    """The topic's timestamps are the times at which its records are due."""


def read_client_batch(data: Buffer, limits: BatchLimits, topic_id: str, partition: int) -> BatchHeader:
    """Returns the header of the one batch that `data` holds, after every check of this file."""
    if not len(data):
        raise InvalidRecordError("no batch")
    header = read_header(data)
    check_client_batch(header, data, limits, topic_id, partition)
    return header


def check_client_batch(header: BatchHeader, data: Buffer, limits: BatchLimits, topic_id: str, partition: int) -> None:
    """Raises the named error of the first thing that is wrong; `header` was read from `data` by `read_header`.

    `MessageTooLargeError`, `RecordListTooLargeError`, `InvalidRecordError`, `UnsupportedCompressionError`,
    `InvalidTimestampError`, `InvalidPidMappingError`, `InvalidRequestError`, `MisdirectedBatchError` or
    `CorruptMessageError`.
    """
    if header.batch_length > limits.max_message_bytes:
        raise MessageTooLargeError(batch_bytes=header.batch_length, max_message_bytes=limits.max_message_bytes)
    if header.batch_length > limits.segment_bytes:
        raise RecordListTooLargeError(batch_bytes=header.batch_length, segment_bytes=limits.segment_bytes)
    if header.batch_length != len(data):
        raise InvalidRecordError("one batch per partition and request", batch_bytes=header.batch_length)
    check_body(data, header)
    if header.partition_tag != partition_tag(topic_id, partition):
        raise MisdirectedBatchError(partition=partition)
    _check_kind(header, limits)
    _check_lengths(header, limits)
    _check_timestamps(header, limits)
    if header.is_transactional:
        _check_transaction(header)
    else:
        _check_no_transaction(header)
    _check_producer(header)


def _check_kind(header: BatchHeader, limits: BatchLimits) -> None:
    if header.attributes & (~KNOWN_ATTRIBUTES | COMPACTED):
        raise InvalidRecordError("unknown attribute bits", attributes=header.attributes)
    if header.is_control:
        raise InvalidRecordError("clients write no control batches")
    if header.codec not in KNOWN_CODECS:
        raise UnsupportedCompressionError(codec=header.codec)
    if header.schema_id not in (SCHEMA_PLAIN, SCHEMA_HEADERS) and header.schema_id not in limits.typed_schema_ids:
        raise InvalidRecordError("unknown schema", schema_id=header.schema_id)


def _check_lengths(header: BatchHeader, limits: BatchLimits) -> None:
    if header.record_count < 1 or header.record_count != header.last_offset_delta + 1:
        raise InvalidRecordError(
            "the record count does not fit",
            record_count=header.record_count,
            last_offset_delta=header.last_offset_delta,
        )
    payload_bytes = header.batch_length - HEADER_BYTES
    if payload_bytes < 1 or header.uncompressed_length < 1:
        raise InvalidRecordError("records without a payload", payload_bytes=payload_bytes)
    if header.uncompressed_length > limits.max_uncompressed_bytes:
        raise MessageTooLargeError(
            uncompressed_bytes=header.uncompressed_length, max_uncompressed_bytes=limits.max_uncompressed_bytes
        )
    if header.codec == CODEC_NONE and header.uncompressed_length != payload_bytes:
        raise InvalidRecordError("an uncompressed payload has another length than it says", payload_bytes=payload_bytes)
    if header.uncompressed_length > payload_bytes * COMPRESSION_RATIO_MAX[header.codec]:
        raise InvalidRecordError(
            "the codec cannot unpack the payload to the length that the batch claims",
            uncompressed_bytes=header.uncompressed_length,
            payload_bytes=payload_bytes,
        )
    if header.record_count > records_max(header):
        raise InvalidRecordError(
            "the payload is too short for the record count",
            record_count=header.record_count,
            uncompressed_bytes=header.uncompressed_length,
        )


def records_max(header: BatchHeader) -> int:
    """Returns the most records that a payload of the header's uncompressed length can hold, whatever is in it."""
    if header.schema_id in (SCHEMA_PLAIN, SCHEMA_HEADERS):
        return header.uncompressed_length // RECORD_BYTES_MIN
    return header.uncompressed_length * TYPED_ROWS_PER_BYTE_MAX


def _check_timestamps(header: BatchHeader, limits: BatchLimits) -> None:
    """Refuses timestamps out of range, except a coordinator shard's: a refused record would be refused at each retry."""
    first, last = header.base_timestamp_ms, header.max_timestamp_ms
    too_old = limits.timestamp_before_max_ms >= 0 and first < limits.now_ms - limits.timestamp_before_max_ms
    out_of_range = last > limits.now_ms + limits.timestamp_after_max_ms or too_old
    if first < 0 or last < first or (out_of_range and header.producer_id < SHARD_WRITER_BASE):
        if limits.delays:
            raise InvalidDelayError("a record cannot be due later than a year from now", due_ms=last)
        raise InvalidTimestampError(base_timestamp_ms=first, max_timestamp_ms=last)


def _check_transaction(header: BatchHeader) -> None:
    if header.producer_id < 0 or header.txn_producer_id < 0:
        raise InvalidPidMappingError("a transactional batch names no producer", producer_id=header.producer_id)
    if header.txn_no < 1 or header.txn_shard == NO_SHARD:
        raise InvalidRecordError("a transactional batch names no transaction", txn_no=header.txn_no)


def _check_no_transaction(header: BatchHeader) -> None:
    if (header.txn_producer_id, header.txn_no, header.txn_shard) != (NO_PRODUCER_ID, 0, NO_SHARD):
        raise InvalidRecordError("a plain batch names a transaction", txn_no=header.txn_no)


def _check_producer(header: BatchHeader) -> None:
    if header.producer_id == NO_PRODUCER_ID:
        if header.base_sequence != NO_SEQUENCE or header.producer_epoch != -1:
            raise InvalidRecordError("a sequence or an epoch without a producer id")
        return
    if header.producer_id < 0:
        raise InvalidPidMappingError("a negative producer id", producer_id=header.producer_id)
    if header.base_sequence < 0:
        raise InvalidRecordError("a producer id without a sequence", base_sequence=header.base_sequence)
    if header.producer_epoch < 0:
        raise InvalidRequestError("a producer id without an epoch", producer_epoch=header.producer_epoch)
    check_producer_epoch(header.producer_epoch)


def check_question(producer_id: int, producer_epoch: int, base_sequence: int, last_sequence: int) -> None:
    """Refuses a `GetProducerState` about a batch that cannot exist. Raises as `check_client_batch` does."""
    if producer_id < 0:
        raise InvalidPidMappingError("a negative producer id", producer_id=producer_id)
    if producer_epoch < 0 or base_sequence < 0 or last_sequence < 0:
        raise InvalidRequestError(
            "an epoch and sequences of 0 and above name a batch",
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            last_sequence=last_sequence,
        )
    check_producer_epoch(producer_epoch)


def check_producer_epoch(producer_epoch: int) -> None:
    """Raises `InvalidRequestError` for an epoch that no fence could follow."""
    if producer_epoch > PRODUCER_EPOCH_MAX:
        raise InvalidRequestError(
            "the producer epoch is too large: get a new producer id",
            producer_epoch=producer_epoch,
            maximum=PRODUCER_EPOCH_MAX,
        )
