"""Ranges and bit maps say the same offsets, also at the edges of blocks."""

from __future__ import annotations

import pytest

from oncelog_coordinator.core.channels.offset_ranges import (
    ALL_SETTLED,
    BLOCK,
    OffsetRange,
    bits_of,
    first_unsettled,
    from_offset_on,
    is_set,
    number_of_blocks,
    union,
)


def spans(*items: tuple[int, int]) -> tuple[OffsetRange, ...]:
    return tuple(OffsetRange(*item) for item in items)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([], []),
        ([(5, 6), (0, 2)], [(0, 2), (5, 6)]),
        ([(0, 2), (3, 4)], [(0, 4)]),
        ([(0, 9), (3, 4), (9, 12)], [(0, 12)]),
        ([(3, 3), (3, 3), (5, 5)], [(3, 3), (5, 5)]),
    ],
)
def test_a_union_has_as_few_ranges_as_there_can_be(
    given: list[tuple[int, int]], expected: list[tuple[int, int]]
) -> None:
    assert list(union(spans(*given))) == expected


def test_a_range_over_blocks_fills_those_between_its_ends() -> None:
    bits = bits_of(spans((BLOCK - 1, 2 * BLOCK)), 0)
    assert bits == {0: 1 << BLOCK - 1, 1: ALL_SETTLED, 2: 1}
    assert bits_of(spans((BLOCK - 1, 2 * BLOCK)), BLOCK + 1) == {1: ALL_SETTLED - 1, 2: 1}
    assert bits_of(spans((3, 5)), 6) == {}
    assert number_of_blocks(spans((BLOCK - 1, 2 * BLOCK), (7, 7))) == 4


def test_the_first_unsettled_offset_lies_behind_all_that_is_settled_from_here_on() -> None:
    bits = bits_of(spans((3, 2 * BLOCK - 1), (2 * BLOCK + 1, 2 * BLOCK + 1)), 0)
    assert [first_unsettled(n, bits) for n in (0, 3, BLOCK, 2 * BLOCK)] == [0, 2 * BLOCK, 2 * BLOCK, 2 * BLOCK]
    assert first_unsettled(5, {}) == 5
    assert is_set(3, bits)
    assert not is_set(2, bits)
    assert not is_set(9 * BLOCK, bits)


@pytest.mark.parametrize(("offset", "expected"), [(0, 0b1011), (BLOCK, 0b1011), (BLOCK + 1, 0b1010), (9 * BLOCK, 0)])
def test_a_block_is_told_from_an_offset_on(offset: int, expected: int) -> None:
    assert from_offset_on(1, 0b1011, offset) == expected
