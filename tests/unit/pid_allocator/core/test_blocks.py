"""The rules of `core/blocks.py`, and the cases A1-A6, A8 that need no network."""

from __future__ import annotations

import pytest

from oncelog.errors import AllocatorRolledBackError, IdSpaceExhaustedError, InvalidRequestError
from oncelog_pid_allocator.core.blocks import (
    BLOCK_SIZE,
    LIMIT,
    Block,
    BlockPool,
    next_block,
)
from oncelog_runtime.metadata.cluster_keys import PRODUCER_IDS_PER_SECOND, PRODUCER_IDS_START_MS, producer_id_floor

START_MS = PRODUCER_IDS_START_MS
"""A time at which the floor is 0, so that tests read small numbers."""


def block(start: int, size: int = BLOCK_SIZE) -> Block:
    return Block(start, start + size - 1, "me")


def test_the_value_in_etcd_is_the_documented_json() -> None:
    data = Block(1000, 1999, "allocator-0").encode()
    assert data == b'{"version":1,"broker":"allocator-0","block_start":"1000","block_end":"1999"}'
    assert Block.decode(data) == Block(1000, 1999, "allocator-0")


@pytest.mark.parametrize("value", [b"", b"{}", b"[1]", b'{"version":' + b"[" * 100_000, b'{"block_start":1e400}'])
def test_a_damaged_value_in_etcd_says_so(value: bytes) -> None:
    with pytest.raises(AllocatorRolledBackError, match="damaged; repair the key by hand"):
        Block.decode(value)


def test_blocks_follow_each_other_without_overlap() -> None:
    first = next_block(None, START_MS, "a")
    second = next_block(first, START_MS, "b")
    assert (first.start, first.end) == (0, 999)
    assert (second.start, second.end) == (1000, 1999)


@pytest.mark.case("A2")
def test_an_empty_pool_gives_nothing_and_repeats_nothing() -> None:
    pool = BlockPool()
    assert pool.take(1) is None
    pool.add(block(0))
    taken = [pool.take(100) for _ in range(10)]
    assert taken == [[(i * 100, 100)] for i in range(10)]
    assert pool.take(1) is None
    pool.check()


@pytest.mark.case("A3")
def test_a_block_is_wanted_when_ninety_percent_are_used() -> None:
    pool = BlockPool()
    assert pool.wants_block()
    pool.add(block(0))
    pool.take(899)
    assert not pool.wants_block()
    pool.take(1)
    assert pool.wants_block()
    pool.add(block(1000))
    assert not pool.wants_block()


@pytest.mark.parametrize("start", [0, 999, 1999])
def test_a_block_that_is_not_above_is_refused_and_the_current_one_still_serves(start: int) -> None:
    pool = BlockPool()
    pool.add(block(1000))
    with pytest.raises(AllocatorRolledBackError):
        pool.add(block(start))
    assert pool.take(1) == [(1000, 1)]
    pool.check()


@pytest.mark.parametrize("bad", [Block(-5, 994, "x"), Block(10, 5, "x"), Block(LIMIT - 5, LIMIT + 994, "x")])
def test_an_illegal_block_in_etcd_is_refused(bad: Block) -> None:
    with pytest.raises(AllocatorRolledBackError):
        next_block(bad, START_MS, "a")


def test_the_space_ends_with_an_error_and_never_wraps() -> None:
    last = next_block(Block(0, LIMIT - BLOCK_SIZE - 1, "x"), START_MS, "a")
    assert last.end == LIMIT - 1
    with pytest.raises(IdSpaceExhaustedError):
        next_block(last, START_MS, "a")


def test_a_rewound_counter_still_yields_ids_above_all_that_were_handed_out() -> None:
    backup = next_block(None, START_MS + 1_000, "a")
    handed_out = backup
    for passed_ms in range(1000):  # a thousand blocks within one second: just below the bound of the floor
        handed_out = next_block(handed_out, START_MS + 1_000 + passed_ms, "a")
    after_restore = next_block(backup, START_MS + 2_000, "a")
    assert after_restore.start > handed_out.end


def test_a_clock_that_steps_back_does_no_harm() -> None:
    now = next_block(None, START_MS + 60_000, "a")
    earlier = next_block(now, START_MS, "a")
    assert earlier.start == now.end + 1


def test_the_floor_grows_with_each_millisecond_and_is_never_negative() -> None:
    assert producer_id_floor(0) == 0
    assert producer_id_floor(START_MS + 2_000) == 2 * PRODUCER_IDS_PER_SECOND
    assert producer_id_floor(START_MS + 2_001) > producer_id_floor(START_MS + 2_000) + BLOCK_SIZE


def test_a_block_won_just_before_a_restore_is_not_won_again_in_the_same_second() -> None:
    """Found by seed 920016: an etcd that comes back at once offered a block that another allocator was handing out from."""
    kept = next_block(None, START_MS + 5_000, "a")
    lost = next_block(kept, START_MS + 5_100, "a")
    again = next_block(kept, START_MS + 5_900, "b")
    assert again.start > lost.end


def test_a_request_may_span_two_blocks() -> None:
    pool = BlockPool()
    pool.add(block(0))
    pool.take(950)
    pool.add(block(5000))
    assert pool.take(100) == [(950, 50), (5000, 50)]
    pool.check()


def test_a_request_that_finds_too_few_ids_wants_a_block_long_before_the_last_one_is_used() -> None:
    pool = BlockPool()
    pool.add(block(0))
    pool.take(300)
    assert not pool.wants_block()
    assert pool.take(900) is None
    assert pool.wants_block()
    pool.add(block(5000))
    assert not pool.wants_block()
    assert pool.take(900) == [(300, 700), (5000, 200)]


@pytest.mark.parametrize("count", [0, -1, 1001, 2**31 - 1])
def test_an_illegal_count_is_refused_and_takes_nothing(count: int) -> None:
    pool = BlockPool()
    pool.add(block(0))
    with pytest.raises(InvalidRequestError):
        pool.take(count)
    assert pool.available() == BLOCK_SIZE
