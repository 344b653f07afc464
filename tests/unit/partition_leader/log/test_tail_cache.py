"""The newest batches in memory: one run of offsets up to the log end, bounded by bytes."""

from __future__ import annotations

import pytest

from oncelog_partition_leader.log.reader import NoRoomError
from oncelog_partition_leader.log.tail_cache import TailCache, TailMemory


def filled(count: int = 5, limit_bytes: int = 1_000, size: int = 10) -> TailCache:
    """Batches of two offsets each, every byte the number of its batch."""
    cache = TailCache(limit_bytes)
    for number in range(count):
        cache.push(2 * number, 2 * number + 2, bytes([number % 256]) * size)
    return cache


def read(cache: TailCache, offset: int, max_bytes: int = 1_000, end_offset: int = 10) -> bytes:
    return bytes(cache.read(offset, max_bytes, end_offset))


def test_a_new_cache_holds_nothing() -> None:
    assert not TailCache(10).holds(0)


def test_it_holds_every_offset_of_its_run_and_none_beside_it() -> None:
    cache = filled()
    assert [cache.holds(offset) for offset in (-1, 0, 1, 9, 10)] == [False, True, True, True, False]
    cache.clear()
    assert not cache.holds(1)


@pytest.mark.parametrize("offset", [2, 3])
def test_a_read_begins_with_the_whole_batch_of_its_offset(offset: int) -> None:
    assert read(filled(), offset) == b"".join(bytes([number]) * 10 for number in (1, 2, 3, 4))


def test_a_read_ends_within_its_bytes_but_gives_at_least_one_batch() -> None:
    cache = filled()
    assert read(cache, 0, max_bytes=25) == b"\0" * 10 + b"\1" * 10
    assert read(cache, 0, max_bytes=1) == b"\0" * 10


def test_a_read_gives_no_batch_that_reaches_above_the_end() -> None:
    cache = filled()
    assert read(cache, 0, end_offset=5) == b"\0" * 10 + b"\1" * 10
    assert read(cache, 0, end_offset=1) == b""


def test_a_batch_for_which_there_is_no_room_is_told_with_its_size() -> None:
    cache = filled()
    with pytest.raises(NoRoomError) as refusal:
        cache.read(0, 1, 10, room=9)
    assert refusal.value.bytes == 10
    assert bytes(cache.read(0, 1, 10, room=10)) == b"\0" * 10
    assert bytes(cache.read(0, 1, 1, room=9)) == b"", "what cannot be read yet needs no room"


def test_the_oldest_go_first_when_there_are_too_many_bytes() -> None:
    cache = filled(5, limit_bytes=30)
    assert [cache.holds(offset) for offset in (3, 4, 9)] == [False, True, True]
    assert read(cache, 4) == b"\2" * 10 + b"\3" * 10 + b"\4" * 10


def test_a_batch_that_is_larger_than_the_cache_leaves_it_empty() -> None:
    cache = filled()
    cache.push(10, 12, b"x" * 1_001)
    assert not any(cache.holds(offset) for offset in range(13))
    cache.push(12, 14, b"y")
    assert read(cache, 13, end_offset=14) == b"y"


def test_what_has_gone_takes_no_room_in_its_lists() -> None:
    cache = filled(10_000, limit_bytes=100)
    assert len(cache._bases) < 3_000
    assert read(cache, 19_998, end_offset=20_000) == bytes([9_999 % 256]) * 10


def test_what_lies_below_an_offset_can_be_forgotten() -> None:
    cache = TailCache(1 << 20)
    for number in range(5):
        cache.push(number, number + 1, b"%d" % number)
    cache.forget_below(3)
    assert not cache.holds(2)
    assert cache.read(3, 100, 5) == b"34"
    cache.push(5, 6, b"5")
    cache.forget_below(9)
    assert not cache.holds(5)
    cache.push(6, 7, b"6")
    assert cache.holds(6)


def test_the_caches_of_a_process_are_bounded_together_and_the_one_that_grew_first_gives_first() -> None:
    memory, caches = TailMemory(1_000), [TailCache(600) for _ in range(3)]
    for cache in caches:
        cache.share(memory)
    for cache in caches[:2]:
        cache.push(0, 1, bytes(400))
    caches[0].push(1, 2, bytes(100))
    assert memory.bytes == 900
    caches[2].push(0, 1, bytes(200))
    assert [cache.holds(0) for cache in caches] == [True, False, True], "the second one was written to least recently"
    assert memory.bytes == 700


def test_one_cache_alone_stays_below_the_bound_of_all() -> None:
    memory, cache = TailMemory(1_000), TailCache(1 << 20)
    cache.share(memory)
    for offset in range(50):
        cache.push(offset, offset + 1, bytes(100))
        assert memory.bytes <= 1_000
    assert cache.holds(49)
    assert not cache.holds(39)


def test_what_a_cache_forgets_is_room_for_others() -> None:
    memory, cache = TailMemory(1_000), TailCache(1_000)
    cache.share(memory)
    for offset in range(4):
        cache.push(offset, offset + 1, bytes(100))
    cache.forget_below(3)
    assert memory.bytes == 100
    cache.clear()
    assert memory.bytes == 0
    assert not memory._caches, "a closed log is not kept"
