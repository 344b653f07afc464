"""The batch header: the only place that knows its bytes.

    offset  size  field                 part      written by
    0       8     base_offset           prefix    leader
    8       4     batch_length          prefix    producer, checked by all: header and payload together
    12      4     leader_epoch          prefix    leader
    16      8     append_timestamp_ms   prefix    leader
    24      8     delete_horizon_ms     prefix    compactor; -1 = none
    32      4     prefix_crc            prefix    the writer of the prefix; CRC-32C of bytes 0..32
    36      4     body_crc              body      producer; CRC-32C of bytes 40..batch_length
    40      1     magic                 body      1
    41      1     codec                 body      0 none, 1 lz4, 2 zstd
    42      2     attributes            body      1 transactional, 2 control, 4 log-append time, 8 compacted
    44      4     schema_id             body      0 without headers, 1 with headers, above 1 typed topics
    48      4     record_count          body
    52      4     last_offset_delta     body      record_count - 1, unless compacted
    56      8     producer_id           body      who writes and owns the sequence; -1 = none
    64      4     producer_epoch        body      session; -1 = none
    68      4     base_sequence         body      -1 = none
    72      8     txn_producer_id       body      with txn_no the name of the transaction; -1 = none
    80      8     txn_no                body      0 = none
    88      8     base_timestamp_ms     body
    96      8     max_timestamp_ms      body
    104     4     uncompressed_length   body      of the payload
    108     4     partition_tag         body      CRC-32C of topic id and partition: a misdirected batch is refused
    112     2     txn_shard             body      transaction shard that decides; 0xFFFF = none
    114     6     zeros                 body      so that the payload begins at a multiple of 8
    120     -     payload               body

All numbers are little-endian. Only the prefix is ever re-computed; the body stays as the producer wrote it, unless the
compactor takes records out of it (`rewritten`).
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from crc32c import crc32c

from oncelog.errors import CorruptMessageError, UnsupportedMessageFormatError
from oncelog.types import Buffer

MAGIC: Final = 1
HEADER_BYTES: Final = 120
PREFIX_BYTES: Final = 36
TRANSACTIONAL: Final = 1
CONTROL: Final = 2
LOG_APPEND_TIME: Final = 4
COMPACTED: Final = 8
KNOWN_ATTRIBUTES: Final = TRANSACTIONAL | CONTROL | LOG_APPEND_TIME | COMPACTED
NO_PRODUCER_ID: Final = -1
NO_SEQUENCE: Final = -1
NO_SHARD: Final = 0xFFFF
SCHEMA_PLAIN: Final = 0
SCHEMA_HEADERS: Final = 1
CODEC_NONE: Final = 0
CODEC_LZ4: Final = 1
CODEC_ZSTD: Final = 2
CODECS: Final = {"none": CODEC_NONE, "lz4": CODEC_LZ4, "zstd": CODEC_ZSTD}
"""Names as in the option `compression_type`."""

_PREFIX: Final = struct.Struct("<qiiqq")
_CRC: Final = struct.Struct("<I")
_BODY: Final = struct.Struct("<BBHiiiqiiqqqqiIH6x")
_ALL: Final = struct.Struct("<qiiqqIIBBHiiiqiiqqqqiIH6x")
assert _ALL.size == HEADER_BYTES
_BODY_START: Final = 40
_BASE_AND_LENGTH: Final = struct.Struct("<qi")
_DELTA: Final = struct.Struct("<i")
_DELTA_AT: Final = 52
_FIRST_BODY_FIELD: Final = 7
"""The place of `magic` in `BatchHeader`."""


class BatchHeader(NamedTuple):
    """The fields of a header, in the order of the table above."""

    base_offset: int
    batch_length: int
    leader_epoch: int
    append_timestamp_ms: int
    delete_horizon_ms: int
    prefix_crc: int
    body_crc: int
    magic: int
    codec: int
    attributes: int
    schema_id: int
    record_count: int
    last_offset_delta: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    txn_producer_id: int
    txn_no: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    uncompressed_length: int
    partition_tag: int
    txn_shard: int

    @property
    def last_offset(self) -> int:
        """Offset of the last record."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """Offset after the last record."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def is_transactional(self) -> bool:
        """Part of a transaction, data or marker."""
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        """A marker, not data."""
        return bool(self.attributes & CONTROL)

    @property
    def is_compacted(self) -> bool:
        """The compactor took records out of it: it has fewer records than offsets, and its payload says which are left."""
        return bool(self.attributes & COMPACTED)


def partition_tag(topic_id: str, partition: int) -> int:
    """Ties a batch to its partition. `topic_id` is 32 hex digits."""
    return crc32c(f"{topic_id}/{partition}".encode())


class Content(NamedTuple):
    """The fields of a header that describe the payload; they do not depend on the producer or the partition."""

    codec: int
    attributes: int
    schema_id: int
    record_count: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    uncompressed_length: int


class BatchIdentity(NamedTuple):
    """The identity of a batch: its producer, transaction and partition. A batch that moves gets another one.

    The defaults are those of a producer without idempotence, outside of any transaction.
    """

    tag: int
    """`partition_tag` of the partition."""
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = -1
    base_sequence: int = NO_SEQUENCE
    txn_producer_id: int = NO_PRODUCER_ID
    txn_no: int = 0
    txn_shard: int = NO_SHARD


def seal(payload: Buffer, content: Content, identity: BatchIdentity) -> bytes:
    """A producer's batch: base offset 0, leader epoch -1, the body sealed by its checksum."""
    codec, attributes, schema_id, record_count, base_timestamp_ms, max_timestamp_ms, uncompressed_length = content
    tag, producer_id, producer_epoch, base_sequence, txn_producer_id, txn_no, txn_shard = identity
    body = _BODY.pack(
        MAGIC,
        codec,
        attributes,
        schema_id,
        record_count,
        record_count - 1,
        producer_id,
        producer_epoch,
        base_sequence,
        txn_producer_id,
        txn_no,
        base_timestamp_ms,
        max_timestamp_ms,
        uncompressed_length,
        tag,
        txn_shard,
    )
    body_crc = crc32c(payload, crc32c(body))
    prefix = _PREFIX.pack(0, HEADER_BYTES + len(payload), -1, -1, -1)
    return b"".join((prefix, _CRC.pack(crc32c(prefix)), _CRC.pack(body_crc), body, payload))


def reseal(data: Buffer, identity: BatchIdentity) -> bytes:
    """A batch that was certainly never written, sealed again for another partition; its payload stays as it is."""
    old = read_header(data)
    content = Content(
        old.codec,
        old.attributes,
        old.schema_id,
        old.record_count,
        old.base_timestamp_ms,
        old.max_timestamp_ms,
        old.uncompressed_length,
    )
    return seal(memoryview(data)[HEADER_BYTES:], content, identity)


def rewritten(header: BatchHeader, payload: Buffer) -> bytes:
    """A batch with the fields of `header` and another payload; its length and its checksums are computed."""
    body = _BODY.pack(*header[_FIRST_BODY_FIELD:])
    prefix = _PREFIX.pack(
        header.base_offset,
        HEADER_BYTES + len(payload),
        header.leader_epoch,
        header.append_timestamp_ms,
        header.delete_horizon_ms,
    )
    crcs = _CRC.pack(crc32c(prefix)), _CRC.pack(crc32c(payload, crc32c(body)))
    return b"".join((prefix, *crcs, body, payload))


def stamp_prefix(base_offset: int, batch_length: int, leader_epoch: int, append_timestamp_ms: int) -> bytes:
    """The leader's 36 bytes; the rest of the batch is the producer's, from byte 36 on."""
    prefix = _PREFIX.pack(base_offset, batch_length, leader_epoch, append_timestamp_ms, -1)
    return prefix + _CRC.pack(crc32c(prefix))


def read_header(data: Buffer, position: int = 0, bytes_present: int | None = None) -> BatchHeader:
    """The header at `position`, checked for lengths, magic and prefix checksum, not for the body's checksum.

    `bytes_present`: how much there is from `position` on, when `data` holds less than the source (a file) does.
    Raises `CorruptMessageError` or `UnsupportedMessageFormatError`; allocates nothing by a length from the data.
    """
    present = len(data) - position if bytes_present is None else bytes_present
    if min(present, len(data) - position) < HEADER_BYTES:
        raise CorruptMessageError("shorter than a batch header", bytes_present=present)
    header = BatchHeader._make(_ALL.unpack_from(data, position))
    if header.magic != MAGIC:
        raise UnsupportedMessageFormatError("unknown magic byte", magic=header.magic)
    if not HEADER_BYTES <= header.batch_length <= present:
        raise CorruptMessageError(
            "the batch length does not fit", batch_length=header.batch_length, bytes_present=present
        )
    if crc32c(memoryview(data)[position : position + PREFIX_BYTES - 4]) != header.prefix_crc:
        raise CorruptMessageError("the prefix checksum does not match", base_offset=header.base_offset)
    return header


def check_body(data: Buffer, header: BatchHeader, position: int = 0) -> None:
    """Raises `CorruptMessageError` when the body's checksum does not match."""
    view = memoryview(data)[position + _BODY_START : position + header.batch_length]
    if crc32c(view) != header.body_crc:
        raise CorruptMessageError("the body checksum does not match", base_offset=header.base_offset)


def span_of(batches: Buffer) -> tuple[int, int]:
    """Reads first offset and next offset of whole batches from their headers, unchecked. `batches` is not empty."""
    position, end = 0, len(batches)
    first, length, delta = _extent(batches, 0)
    base = first
    while position + length < end:
        position += length
        base, length, delta = _extent(batches, position)
    return first, base + delta + 1


def _extent(batches: Buffer, position: int) -> tuple[int, int, int]:
    """Reads base offset, length and last offset delta of the batch that begins here."""
    base, length = _BASE_AND_LENGTH.unpack_from(batches, position)
    (delta,) = _DELTA.unpack_from(batches, position + _DELTA_AT)
    return base, length, delta
