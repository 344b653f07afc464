"""Budgets: nothing above a limit, turns between connections, everything given back."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from oncelog.errors import ConfigError, ResourceExhaustedError
from oncelog_runtime.core.budget import Budget


def tree() -> tuple[Budget, Budget, Budget]:
    process = Budget("process", 100)
    return process, process.child("connection", 60), process.child("connection", 60)


def note(calls: list[str], name: str) -> Callable[[], None]:
    return lambda: calls.append(name)


def test_a_limit_is_at_least_one_byte() -> None:
    with pytest.raises(ConfigError):
        Budget("process", 0)


def test_a_refused_reservation_takes_nothing_anywhere_on_the_path() -> None:
    process, one, other = tree()
    one.reserve(60)
    with pytest.raises(ResourceExhaustedError) as caught:
        other.reserve(50)
    assert (process.taken_bytes, one.taken_bytes, other.taken_bytes) == (60, 60, 0)
    assert caught.value.retry_after_ms > 0
    assert caught.value.context["limit_bytes"] == "100"


def test_what_is_available_is_the_least_on_the_path() -> None:
    _, one, other = tree()
    assert one.available_bytes == 60
    one.reserve(50)
    assert (one.available_bytes, other.available_bytes) == (10, 50)


def test_who_waits_gets_its_bytes_when_there_is_room() -> None:
    process, one, other = tree()
    one.reserve(60)
    calls: list[str] = []
    waiter = other.wait(60, note(calls, "other"))
    assert not calls
    one.release(20)
    assert calls == ["other"]
    assert waiter.granted
    assert process.taken_bytes == 100


def test_nobody_who_comes_later_passes_a_line() -> None:
    _, one, other = tree()
    one.reserve(60)
    other.wait(60, lambda: None)
    assert one.available_bytes == other.available_bytes == 0


def test_a_connection_with_many_waiting_has_one_place_in_the_line() -> None:
    process, one, other = tree()
    third = process.child("connection", 60)
    third.reserve(60)
    one.reserve(40)
    calls: list[str] = []
    for _ in range(50):
        one.wait(20, note(calls, "one"))
    other.wait(20, note(calls, "other"))
    one.release(20)
    one.release(20)
    assert calls == ["one", "other"]


def test_a_connection_that_waits_for_its_own_share_holds_up_nobody() -> None:
    _, one, other = tree()
    one.reserve(60)
    one.wait(10, lambda: None)
    other.reserve(40)
    assert one.taken_bytes + other.taken_bytes == 100


def test_who_gives_up_leaves_the_line_to_the_next_one() -> None:
    process, one, other = tree()
    third = process.child("connection", 60)
    third.reserve(50)
    calls: list[str] = []
    waiter = one.wait(60, note(calls, "one"))
    other.wait(40, note(calls, "other"))
    one.give_up(waiter)
    assert calls == ["other"]
    assert one.is_idle


def test_more_than_there_can_ever_be_is_refused_at_once() -> None:
    _, one, _ = tree()
    with pytest.raises(ResourceExhaustedError):
        one.wait(61, lambda: None)


def test_thousands_that_wait_are_let_in_without_deep_recursion() -> None:
    process = Budget("process", 10_000)
    leaf = process.child("connection", 10_000)
    leaf.reserve(10_000)
    calls: list[str] = []
    for _ in range(10_000):
        leaf.wait(1, note(calls, "leaf"))
    leaf.release(10_000)
    assert len(calls) == 10_000
