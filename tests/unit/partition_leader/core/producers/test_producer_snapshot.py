"""A snapshot whose checksum is right is still refused by name when its values cannot be, and takes no memory by its word."""

from __future__ import annotations

import struct

import pytest
from crc32c import crc32c

from oncelog.errors import CorruptMessageError
from oncelog_partition_leader.core.producers.producer_state import ProducerStates
from tests.unit.partition_leader.log_helpers import States, batch, marker

MARKER = struct.Struct("<qq?")


def with_marker(txn_no: int, offset: int) -> bytes:
    """The snapshot of one ended transaction, whose first remembered piece says this instead."""
    states = States()
    states.apply(batch(8, 0, txn=(8, 5)))
    states.apply(marker((8, 5)))
    data = bytearray(states.states.snapshot())
    found = MARKER.pack(-1, 1, False)
    assert data.count(found) == 1
    at = data.index(found)
    data[at : at + MARKER.size] = MARKER.pack(txn_no, offset, False)
    struct.pack_into("<I", data, 4, crc32c(bytes(data[8:])))
    return bytes(data)


def test_the_numbers_that_it_remembers_are_few() -> None:
    assert ProducerStates.restore(with_marker(-2, 1)).transactions.ended[8].marked == 1 << 62
    for txn_no, offset in ((-1 << 63, 1), (-1_000_000_000, 1), (-18, 1), (-1, -1), (-1, 1 << 62)):
        with pytest.raises(CorruptMessageError):
            ProducerStates.restore(with_marker(txn_no, offset))


def test_a_marker_above_the_newest_one_is_refused() -> None:
    with pytest.raises(CorruptMessageError):
        ProducerStates.restore(with_marker(6, 0))
