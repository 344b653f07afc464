"""The ring of sequences."""

from __future__ import annotations

import pytest

from oncelog.core.batch.sequence import MAX_SEQUENCE, distance, last_sequence, successor


@pytest.mark.parametrize(
    ("sequence", "following"), [(-1, 0), (0, 1), (MAX_SEQUENCE - 1, MAX_SEQUENCE), (MAX_SEQUENCE, 0)]
)
def test_zero_follows_the_largest(sequence: int, following: int) -> None:
    assert successor(sequence) == following


@pytest.mark.parametrize(
    ("start", "end", "steps"), [(0, 0, 0), (0, 5, 5), (5, 0, MAX_SEQUENCE - 4), (MAX_SEQUENCE, 0, 1)]
)
def test_distance_goes_forward(start: int, end: int, steps: int) -> None:
    assert distance(start, end) == steps


@pytest.mark.parametrize(("base", "count", "last"), [(0, 1, 0), (3, 4, 6), (MAX_SEQUENCE - 10, 21, 9)])
def test_a_batch_may_straddle_the_wrap(base: int, count: int, last: int) -> None:
    assert last_sequence(base, count) == last
