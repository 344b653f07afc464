"""A data directory is waited for while its last owner ends, and refused while another one lives."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

from oncelog.errors import StorageError
from oncelog_runtime.process.data_dir import LOCK_WAIT_MS, take
from oncelog_runtime.sim.clock import SimClock
from oncelog_runtime.sim.loop import SimLoop


def locked_until(clock: SimClock, free_ms: float, reason: str = "locked") -> Callable[[], None]:
    """A lock that another process lets go at `free_ms`."""

    def lock() -> None:
        if clock.monotonic_ms() < free_ms:
            raise StorageError("in use by another process", reason=reason)

    return lock


def waited_ms(after_ms: float, reason: str = "locked") -> int:
    """How long the directory was waited for, if it comes free `after_ms` from now. Raises what `take` raises."""
    with SimLoop() as loop:
        clock = SimClock(loop)
        begin_ms = clock.monotonic_ms()
        loop.run(take(locked_until(clock, begin_ms + after_ms, reason), clock, "data"))
        return clock.monotonic_ms() - begin_ms


def test_a_free_directory_is_taken_at_once() -> None:
    assert waited_ms(0) == 0


def test_a_predecessor_that_is_ending_is_waited_for_and_told_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert 3_000 <= waited_ms(3_000) <= 3_200
    assert [record.message for record in caplog.records] == [
        "another process has the data directory: waiting for its end"
    ]


def test_a_directory_in_use_is_refused_after_a_bounded_time() -> None:
    with SimLoop() as loop:
        clock = SimClock(loop)
        begin_ms = clock.monotonic_ms()
        with pytest.raises(StorageError, match="in use by another process"):
            loop.run(take(locked_until(clock, float("inf")), clock, "data"))
        assert LOCK_WAIT_MS <= clock.monotonic_ms() - begin_ms <= LOCK_WAIT_MS + 200


def test_a_full_disk_is_waited_for_until_there_is_room(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert 60_000 <= waited_ms(60_000, reason="full") <= 60_200
    assert [record.message for record in caplog.records] == [
        "the data directory cannot be made before there is room on the disk"
    ]


def test_any_other_failure_is_told_at_once() -> None:
    with pytest.raises(StorageError):
        waited_ms(1, reason="io")
