"""Controllers that overthrow each other slow down."""

from __future__ import annotations

from oncelog_partition_leader.core.cluster.succession import FIRST_TERM_MS, LONGEST_TERM_MS, MEMORY_MS, Succession


def test_the_first_overthrow_waits_for_nothing() -> None:
    succession = Succession()
    succession.began(0, taken=False)
    assert succession.may_overthrow(0)


def test_each_one_after_it_gives_the_holder_twice_the_time() -> None:
    succession, now_ms = Succession(), 0
    for term_ms in (FIRST_TERM_MS, 2 * FIRST_TERM_MS, 4 * FIRST_TERM_MS):
        succession.began(now_ms, taken=True)
        assert not succession.may_overthrow(now_ms + term_ms - 1)
        now_ms += term_ms
        assert succession.may_overthrow(now_ms)


def test_a_role_that_was_free_is_not_counted() -> None:
    succession = Succession()
    for now_ms in range(100):
        succession.began(now_ms, taken=False)
    assert succession.may_overthrow(100)


def test_a_duel_of_a_whole_night_never_waits_longer_than_the_longest_term() -> None:
    succession, now_ms = Succession(), 0
    for _ in range(1_000):
        succession.began(now_ms, taken=True)
        now_ms += 1
    assert not succession.may_overthrow(now_ms)
    assert succession.may_overthrow(now_ms + LONGEST_TERM_MS)


def test_old_overthrows_are_forgotten() -> None:
    succession = Succession()
    for _ in range(5):
        succession.began(0, taken=True)
    succession.began(MEMORY_MS + 1, taken=False)
    assert succession.may_overthrow(MEMORY_MS + 1)
