"""Markers and fences survive their bytes, and nothing else passes for one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.core.batch.control import (
    Fence,
    Marker,
    control_of,
    fence_payload,
    marker_payload,
    read_control,
    seal_fence,
    seal_marker,
)
from oncelog.core.batch.header import NO_SHARD, check_body, read_header
from oncelog.errors import CorruptMessageError, InvalidRecordError

_INT32 = st.integers(-(2**31), 2**31 - 1)
_WINNERS = st.none() | st.sets(st.integers(0, 2**62), max_size=5).map(lambda ids: tuple(sorted(ids)))
_MARKERS = st.builds(Marker, st.booleans(), _INT32, _INT32, _WINNERS, st.integers(-1, 2**62), st.booleans())


@given(_MARKERS)
def test_a_marker_survives_its_bytes(marker: Marker) -> None:
    assert read_control(marker_payload(marker)) == marker


@given(st.binary(max_size=80))
def test_garbage_is_refused_by_name(payload: bytes) -> None:
    try:
        read = read_control(payload)
    except CorruptMessageError:
        return
    assert (fence_payload(read) if isinstance(read, Fence) else marker_payload(read))[:8] == payload[:8]


def test_the_bytes_never_change() -> None:
    marker = Marker(True, 5, 6, (7, 8), 9, True)
    assert marker_payload(marker).hex() == (
        "01010300050000000600000002000000090000000000000007000000000000000800000000000000"
    )
    assert fence_payload(Fence(4)).hex() == "01030000ffffffff0400000000000000ffffffffffffffff"


def test_a_marker_names_its_transaction_in_the_header() -> None:
    data = seal_marker(Marker(False, 2, 3), txn_producer_id=11, txn_no=4, txn_shard=9, timestamp_ms=1, tag=5)
    header = read_header(data)
    check_body(data, header)
    assert header.is_control
    assert header.is_transactional
    assert (header.producer_id, header.txn_producer_id, header.txn_no, header.txn_shard) == (11, 11, 4, 9)
    assert (header.base_sequence, header.record_count, header.producer_epoch) == (-1, 1, 3)
    assert control_of(data) == Marker(False, 2, 3)


def test_a_fence_is_no_part_of_a_transaction() -> None:
    header = read_header(seal_fence(producer_id=11, producer_epoch=4, timestamp_ms=1, tag=5))
    assert header.is_control
    assert not header.is_transactional
    assert (header.producer_id, header.producer_epoch, header.txn_shard) == (11, 4, NO_SHARD)


@pytest.mark.parametrize("winners", [(2, 1), (1, 1)])
def test_winners_are_strictly_ascending(winners: tuple[int, ...]) -> None:
    with pytest.raises(InvalidRecordError):
        marker_payload(Marker(True, 1, 1, winners))


@pytest.mark.parametrize(("position", "value"), [(0, 2), (1, 0), (1, 4), (2, 4), (12, 3), (15, 0xFF)], ids=str)
def test_a_changed_field_is_refused(position: int, value: int) -> None:
    payload = bytearray(marker_payload(Marker(True, 1, 1, (1, 2))))
    payload[position] = value
    with pytest.raises(CorruptMessageError):
        read_control(payload)
