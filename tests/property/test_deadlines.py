"""Deadlines: whoever is due comes in order, and a look costs what it looks at, however many others are due."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog_coordinator.core.transactions.timeouts import Deadlines

NAMES = st.sampled_from([f"id-{i:02}" for i in range(40)])
WATCHED = st.lists(st.tuples(NAMES, st.integers(0, 100)), max_size=80)


def watching(watched: Iterable[tuple[str, int]]) -> Deadlines:
    deadlines = Deadlines()
    for name, due_ms in watched:
        deadlines.watch(name, due_ms)
    return deadlines


@given(st.dictionaries(NAMES, st.integers(0, 100)), st.integers(0, 100), st.integers(1, 50))
def test_the_first_that_are_due_come_in_order_and_are_not_taken(noted: dict[str, int], now_ms: int, limit: int) -> None:
    deadlines = watching(noted.items())
    expected = [name for due_ms, name in sorted((due_ms, name) for name, due_ms in noted.items()) if due_ms <= now_ms]
    for _ in range(2):
        assert deadlines.due(now_ms, limit) == expected[:limit]


@given(WATCHED, st.integers(0, 100), st.integers(1, 10))
def test_look_by_look_everybody_is_seen_and_only_those_that_are_due(
    watched: list[tuple[str, int]], now_ms: int, limit: int
) -> None:
    """Also one that was noted twice, with an earlier time."""
    earliest: dict[str, int] = {}
    for name, due_ms in watched:
        earliest[name] = min(due_ms, earliest.get(name, due_ms))
    deadlines = watching(watched)
    seen: list[str] = []
    for _ in watched:
        names = deadlines.due(now_ms, limit)
        assert len(names) <= limit
        deadlines.looked(tuple(names), now_ms)
        seen += names
    assert set(seen) == {name for name, due_ms in earliest.items() if due_ms <= now_ms}
    assert deadlines.next_ms is None or deadlines.next_ms > now_ms
    for name in seen:
        deadlines.watch(name, now_ms)
    assert set(deadlines.due(now_ms, len(watched))) == set(seen), "who was looked at can be watched again"


@given(WATCHED, st.integers(0, 100), st.integers(0, 100))
def test_what_is_noted_during_a_look_is_not_lost(watched: list[tuple[str, int]], now_ms: int, due_ms: int) -> None:
    deadlines = watching(watched)
    names = deadlines.due(now_ms, 3)
    deadlines.watch("new", due_ms)
    deadlines.looked(tuple(names), now_ms)
    assert "new" in deadlines.due(100, 100)


def test_a_look_takes_as_many_steps_as_it_looks_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """After an upgrade all ids that have expired are due at once: each tick took them all from the heap and put them back."""
    deadlines = watching((f"id-{i}", i % 97) for i in range(5_000))
    steps = 0

    def counted(function: Any) -> Any:
        def count(*args: Any) -> Any:
            nonlocal steps
            steps += 1
            return function(*args)

        return count

    for name in ("heappush", "heappop"):
        monkeypatch.setattr(heapq, name, counted(getattr(heapq, name)))
    names = deadlines.due(1_000, 200)
    deadlines.looked(tuple(names), 1_000)
    assert len(names) == 200
    assert steps <= 4 * 200 + 1
