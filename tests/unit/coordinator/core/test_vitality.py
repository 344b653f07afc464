"""How far apart the lives of a shard are, and when it is in trouble."""

from __future__ import annotations

from oncelog_coordinator.core.vitality import Vitality


def test_the_wait_doubles_up_to_its_bound_and_begins_anew_after_a_good_life() -> None:
    lives = Vitality(50, 5_000, 5_000)
    assert [lives.ended("no disk", now_ms) for now_ms in range(10)] == [
        *(50, 100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000, 5_000)
    ]
    lives.serves(100)
    assert lives.ended("no disk", 5_100) == 50, "it had served for five seconds"
    lives.serves(6_000)
    assert [lives.ended("no disk", 10_999), lives.ended("no disk", 11_000)] == [50, 100]


def test_one_failed_life_is_a_fail_over_and_two_are_trouble() -> None:
    lives = Vitality(50, 5_000, 5_000)
    lives.ended("the first", 0)
    assert lives.trouble == ""
    lives.ended("the second" * 1_000, 1)
    assert lives.trouble.startswith("the second")
    assert len(lives.trouble) <= 300
    lives.serves(2)
    lives.look(5_001)
    assert lives.trouble
    lives.look(5_002)
    assert lives.trouble == ""
