"""The set of waiting offsets is a set: its size, its lowest offset and its members are those of Python's own."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from oncelog_partition_leader.core.delays.waiting_offsets import WaitingOffsets


@given(st.lists(st.tuples(st.booleans(), st.sets(st.integers(0, 5_000), max_size=20)), max_size=20))
def test_it_is_a_set(steps: list[tuple[bool, set[int]]]) -> None:
    waiting, model = WaitingOffsets(), set[int]()
    for adds, offsets in steps:
        if adds:
            waiting.add(np.array(sorted(offsets - model), np.int64))
            model |= offsets
        else:
            waiting.remove(offsets)
            model -= offsets
        assert len(waiting) == len(model)
        assert waiting.first() == min(model, default=None)
        asked = np.array([*offsets, 0, 1_023, 1_024], np.int64)
        assert waiting.among(asked).tolist() == [offset in model for offset in asked.tolist()]
        assert all((offset in waiting) == (offset in model) for offset in (*offsets, 0, 1_023, 1_024))


def test_a_million_offsets_take_little() -> None:
    waiting = WaitingOffsets()
    waiting.add(np.arange(1_000_000, dtype=np.int64))
    assert len(waiting) == 1_000_000
    assert len(waiting._blocks) == 977
