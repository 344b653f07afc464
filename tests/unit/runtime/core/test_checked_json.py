"""A small JSON file is read as it was written, or not at all."""

from __future__ import annotations

import json

import pytest

from oncelog.core.malformed import MALFORMED
from oncelog_runtime.core.checked_json import pack, unpack

FIELDS = {"intact_since": 12, "clean": True, "directory_id": "9f", "names": ["a"]}


def test_what_was_written_is_read() -> None:
    assert unpack(pack(FIELDS)) == {**FIELDS, "version": 2}


def test_no_turned_bit_changes_what_is_read() -> None:
    whole = pack(FIELDS)
    for position in range(len(whole)):
        for bit in range(8):
            damaged = whole[:position] + bytes([whole[position] ^ 1 << bit]) + whole[position + 1 :]
            try:
                assert unpack(damaged) == unpack(whole)
            except MALFORMED:
                continue


def test_a_file_of_the_version_before_is_read_as_it_is() -> None:
    assert unpack(json.dumps({"version": 1, "clean": False}).encode())["clean"] is False


@pytest.mark.parametrize("damaged", [b"", b"{", b"[]", b'{"clean": true}', b'{"version": 3}', b'{"version": 2}'])
def test_anything_else_is_malformed(damaged: bytes) -> None:
    with pytest.raises(MALFORMED):
        unpack(damaged)
