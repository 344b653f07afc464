"""Ids are known until their time to live ends, and their keys are read as they were written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.core.once.remembered import IdKey, RememberedIds, decode_id_key


@given(st.text(), st.text(), st.integers(0, 2**31), st.text())
def test_a_key_is_read_as_it_was_written(group_id: str, topic: str, partition: int, record_id: str) -> None:
    key = IdKey(group_id, topic, partition, record_id)
    assert decode_id_key(key.encode()) == key


@pytest.mark.parametrize(
    "key", [None, b"", b"\xff", b"17", b'["g","t",0]', b'["g","t","0","id"]', b'["g","t",true,"id"]', b"[" * 100_000]
)
def test_a_key_that_something_else_wrote_is_left_out(key: bytes | None) -> None:
    assert decode_id_key(key) is None


def test_keys_of_different_ids_differ() -> None:
    assert IdKey("g", "t", 1, "2").encode() != IdKey("g", "t", 12, "").encode()


def test_an_id_is_known_until_its_time_ends() -> None:
    ids = RememberedIds(100)
    ids.add("a", 1_000)
    assert [ids.has("a", now_ms) for now_ms in (1_000, 1_099, 1_100)] == [True, True, False]
    assert not ids.has("b", 1_000)


def test_old_ids_take_no_memory() -> None:
    ids = RememberedIds(100)
    for at_ms in range(1_000, 1_010):
        ids.add(str(at_ms), at_ms)
    ids.forget_old(1_105)
    assert len(ids) == 4
    assert ids.has("1006", 1_105)


def test_the_later_of_two_times_counts() -> None:
    ids = RememberedIds(100)
    ids.add("a", 1_050)
    ids.add("a", 1_000)
    assert ids.has("a", 1_149)
    assert len(ids) == 1
