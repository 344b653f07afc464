"""A log whose passes fail is tried again later and later, and the others are not held up."""

from __future__ import annotations

from oncelog_partition_leader.core.compaction.attempts import PAUSE_MAX_MS, Attempts


def test_the_pause_doubles_with_each_failure_up_to_its_bound() -> None:
    attempts: Attempts[str] = Attempts(15_000)
    now_ms, pauses = 1_000, []
    for _ in range(30):
        pauses.append(attempts.failed("a", now_ms))
        assert not attempts.may("a", now_ms + pauses[-1] - 1)
        assert attempts.may("b", now_ms)
        now_ms += pauses[-1]
        assert attempts.may("a", now_ms)
    assert pauses[:4] == [15_000, 30_000, 60_000, 120_000]
    assert pauses[-1] == PAUSE_MAX_MS


def test_a_success_ends_it() -> None:
    attempts: Attempts[str] = Attempts(1_000)
    attempts.failed("a", 0)
    attempts.done("a")
    attempts.done("never seen")
    assert attempts.may("a", 0)
    assert attempts.failed("a", 0) == 1_000


def test_an_interval_above_the_bound_is_the_pause() -> None:
    attempts: Attempts[str] = Attempts(2 * PAUSE_MAX_MS)
    assert attempts.failed("a", 0) == attempts.failed("a", 0) == 2 * PAUSE_MAX_MS


def test_logs_that_are_gone_are_forgotten() -> None:
    attempts: Attempts[str] = Attempts(1_000)
    attempts.failed("kept", 0)
    attempts.failed("gone", 0)
    attempts.keep({"kept"})
    assert not attempts.may("kept", 0)
    assert attempts.may("gone", 0)
    assert attempts.failed("gone", 0) == 1_000
