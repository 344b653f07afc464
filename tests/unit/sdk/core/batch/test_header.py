"""A header's bytes are those of the table in its module; what is damaged is refused, and a leader changes its prefix alone."""

from __future__ import annotations

import re
import struct
from typing import Any

import pytest
from crc32c import crc32c

from oncelog.core.batch import header as hd
from oncelog.errors import CorruptMessageError, UnsupportedMessageFormatError
from tests import sealing

FIELDS: dict[str, Any] = {
    "codec": hd.CODEC_ZSTD,
    "attributes": hd.TRANSACTIONAL,
    "schema_id": hd.SCHEMA_HEADERS,
    "record_count": 3,
    "producer_id": 7,
    "producer_epoch": 2,
    "base_sequence": 11,
    "txn_producer_id": 8,
    "txn_no": 9,
    "base_timestamp_ms": 1_000,
    "max_timestamp_ms": 1_005,
    "uncompressed_length": 64,
    "tag": hd.partition_tag("0a" * 16, 1),
    "txn_shard": 4,
}
PAYLOAD = b"payload"
CHARACTERS = {1: "B", 2: "H", 4: "i", 8: "q"}
UNSIGNED = {"prefix_crc", "body_crc", "partition_tag"}


def sealed(**changes: Any) -> bytes:
    return sealing.sealed(PAYLOAD, **FIELDS | changes)


def changed(data: bytes, form: str, position: int, value: int) -> bytes:
    raw = bytearray(data)
    struct.pack_into(form, raw, position, value)
    return bytes(raw)


def with_prefix_crc(data: bytes) -> bytes:
    """As somebody who lies consistently would write it."""
    return changed(data, "<I", 32, crc32c(data[:32]))


def documented() -> list[tuple[int, int, str]]:
    """(position, size, name) of each field in the module's table."""
    rows = re.findall(r"^    (\d+) +(\d+) +(\w+) ", hd.__doc__ or "", re.MULTILINE)
    return [(int(position), int(size), name) for position, size, name in rows]


def test_the_table_is_whole() -> None:
    rows = documented()
    ends = [position + size for position, size, _ in rows]
    assert [position for position, _, _ in rows] == [0, *ends[:-1]]
    assert ends[-1] == hd.HEADER_BYTES
    assert [name for _, _, name in rows[:-1]] == list(hd.BatchHeader._fields)


def test_each_field_stands_where_the_table_says() -> None:
    data = sealed()
    read = hd.read_header(data)
    for position, size, name in documented()[:-1]:
        form = CHARACTERS[size].upper() if name in UNSIGNED else CHARACTERS[size]
        assert struct.unpack_from("<" + form, data, position) == (getattr(read, name),), name
    assert data[114:120] == bytes(6)
    assert data[120:] == PAYLOAD


def test_a_producers_batch_begins_at_0_and_knows_no_leader() -> None:
    read = hd.read_header(sealed())
    assert (read.base_offset, read.leader_epoch, read.append_timestamp_ms, read.delete_horizon_ms) == (0, -1, -1, -1)
    assert (read.last_offset, read.next_offset, read.batch_length) == (2, 3, hd.HEADER_BYTES + len(PAYLOAD))
    hd.check_body(sealed(), read)


@pytest.mark.parametrize(
    ("attributes", "transactional", "control"),
    [(0, False, False), (hd.TRANSACTIONAL, True, False), (hd.CONTROL, False, True), (3, True, True)],
)
def test_attributes_say_what_a_batch_is(attributes: int, transactional: bool, control: bool) -> None:
    read = hd.read_header(sealed(attributes=attributes))
    assert (read.is_transactional, read.is_control) == (transactional, control)


def test_a_leader_writes_its_prefix_and_leaves_the_body_as_it_is() -> None:
    data = sealed()
    stamped = hd.stamp_prefix(100, len(data), 5, 77) + data[hd.PREFIX_BYTES :]
    read = hd.read_header(stamped)
    assert (read.base_offset, read.leader_epoch, read.append_timestamp_ms, read.next_offset) == (100, 5, 77, 103)
    hd.check_body(stamped, read)


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize("bytes_present", range(0, hd.HEADER_BYTES, 17))
def test_less_than_a_header_is_corrupt(bytes_present: int) -> None:
    with pytest.raises(CorruptMessageError, match="shorter than a batch header"):
        hd.read_header(sealed()[:bytes_present])


def test_a_cut_batch_is_corrupt_unless_the_rest_is_elsewhere() -> None:
    data = sealed()
    with pytest.raises(CorruptMessageError, match="length does not fit"):
        hd.read_header(data[:-1])
    assert hd.read_header(data[: hd.HEADER_BYTES], bytes_present=len(data)).batch_length == len(data)
    with pytest.raises(CorruptMessageError, match="length does not fit"):
        hd.read_header(data[: hd.HEADER_BYTES], bytes_present=len(data) - 1)


@pytest.mark.parametrize("length", [-1, 0, hd.HEADER_BYTES - 1, (1 << 31) - 1])
def test_a_length_that_cannot_be_is_corrupt_though_its_checksum_holds(length: int) -> None:
    with pytest.raises(CorruptMessageError, match="length does not fit"):
        hd.read_header(with_prefix_crc(changed(sealed(), "<i", 8, length)))


def test_an_unknown_magic_byte_is_another_format_and_not_damage() -> None:
    with pytest.raises(UnsupportedMessageFormatError, match="unknown magic byte"):
        hd.read_header(changed(sealed(), "<B", 40, 2))


@pytest.mark.parametrize("position", [*range(8), *range(12, 36)])
def test_a_changed_byte_of_the_prefix_is_found_by_its_checksum(position: int) -> None:
    raw = bytearray(sealed())
    raw[position] ^= 1
    with pytest.raises(CorruptMessageError, match="prefix checksum"):
        hd.read_header(bytes(raw))


@pytest.mark.parametrize("position", [36, 41, 56, 64, 72, 108, 113, 119, 120, 126])
def test_a_changed_byte_of_the_body_is_found_by_its_checksum(position: int) -> None:
    raw = bytearray(sealed())
    raw[position] ^= 1
    read = hd.read_header(bytes(raw))
    with pytest.raises(CorruptMessageError, match="body checksum"):
        hd.check_body(bytes(raw), read)


def test_a_header_is_read_in_the_midst_of_others() -> None:
    data = b"before!" + sealed(record_count=5) + sealed()
    read = hd.read_header(data, 7)
    assert read.record_count == 5
    hd.check_body(data, read, 7)


# ---------------------------------------------------------------- another partition


def test_what_was_never_written_is_sealed_anew_for_another_partition_with_the_same_payload() -> None:
    tag = hd.partition_tag("0b" * 16, 0)
    who = {
        "producer_id": 17,
        "producer_epoch": 0,
        "base_sequence": 0,
        "txn_producer_id": 18,
        "txn_no": 1,
        "txn_shard": 2,
    }
    data = hd.reseal(sealed(), hd.BatchIdentity(tag, **who))
    read = hd.read_header(data)
    hd.check_body(data, read)
    assert {name: getattr(read, name) for name in who} == who
    assert read.partition_tag == tag
    kept = ("codec", "attributes", "schema_id", "record_count", "base_timestamp_ms", "max_timestamp_ms")
    assert {name: getattr(read, name) for name in kept} == {name: FIELDS[name] for name in kept}
    assert data[hd.HEADER_BYTES :] == PAYLOAD


def test_a_tag_belongs_to_one_partition_of_one_topic() -> None:
    tags = [hd.partition_tag(topic, number) for topic in ("0a" * 16, "0b" * 16) for number in (0, 1, 11)]
    assert len(set(tags)) == len(tags)
    assert hd.partition_tag("0a" * 16, 1) == crc32c(b"0a" * 16 + b"/1"), "it never changes: it is on disks"


def test_a_span_goes_from_the_first_batch_to_the_end_of_the_last() -> None:
    one, two = sealed(record_count=3), sealed(record_count=2)
    stamped = hd.stamp_prefix(5, len(one), 0, 0) + one[hd.PREFIX_BYTES :]
    later = hd.stamp_prefix(8, len(two), 0, 0) + two[hd.PREFIX_BYTES :]
    assert hd.span_of(stamped) == (5, 8)
    assert hd.span_of(memoryview(stamped + later)) == (5, 10)
