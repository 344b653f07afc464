"""When a disk counts as stalled, and when not."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from oncelog.errors import StorageError
from oncelog_partition_leader.log.data_dir.disk_watch import STALLED, DiskWatch


class HandClock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.ms = 1_000_000

    def monotonic_ms(self) -> int:
        return self.ms

    def now_ms(self) -> int:
        return self.ms


class Watched:
    """A watch with a bound of three seconds, looked at ten times a second."""

    def __init__(self) -> None:
        self.clock = HandClock()
        self.told: list[bool] = []
        self.watch = DiskWatch(self.clock, 3_000, self.told.append)

    def wait(self, ms: int) -> None:
        for _ in range(ms // 100):
            self.clock.ms += 100
            self.watch.look()


def test_a_sync_that_does_not_end_stalls_the_disk_after_the_bound_and_not_before() -> None:
    watched = Watched()
    with watched.watch.sync(is_waited_for=True):
        watched.wait(2_900)
        assert watched.told == []
        watched.watch.require_answering()
        watched.wait(200)
        assert watched.told == [True]
        with pytest.raises(StorageError) as error:
            watched.watch.require_answering()
    assert error.value.context["reason"] == STALLED


def test_a_slow_disk_that_ends_other_syncs_is_not_stalled() -> None:
    watched = Watched()
    with watched.watch.sync(is_waited_for=True):
        for _ in range(10):
            with watched.watch.sync(is_waited_for=True):
                watched.wait(2_000)
    assert watched.told == []


def test_it_answers_again_when_nothing_was_late_for_the_same_time() -> None:
    watched = Watched()
    with watched.watch.sync(is_waited_for=True):
        watched.wait(60_000)
    watched.wait(2_900)
    assert watched.told == [True]
    watched.wait(200)
    assert watched.told == [True, False]


def test_a_disk_that_ends_each_sync_late_stays_stalled() -> None:
    watched = Watched()
    for _ in range(5):
        with watched.watch.sync(is_waited_for=True):
            watched.wait(6_000)
    assert watched.told == [True]


def test_a_sync_that_nobody_waits_for_may_take_ten_times_as_long() -> None:
    watched = Watched()
    with watched.watch.sync(is_waited_for=False):
        watched.wait(29_900)
        assert watched.told == []
        watched.wait(200)
    assert watched.told == [True]


def test_time_in_which_the_process_stood_still_is_not_the_disks() -> None:
    watched = Watched()
    with ExitStack() as stack:
        stack.enter_context(watched.watch.sync(is_waited_for=True))
        watched.clock.ms += 3_600_000  # SIGSTOP; the sync's end is seen a moment later
        watched.watch.look()
    watched.wait(5_000)
    assert watched.told == []


def test_a_sync_that_fails_has_ended() -> None:
    watched = Watched()
    with pytest.raises(StorageError), watched.watch.sync(is_waited_for=True):
        raise StorageError("no", reason="io")
    watched.wait(10_000)
    assert watched.told == []
