"""Who wakes at which watermark, or deadline."""

from __future__ import annotations

from oncelog_partition_leader.core.replication.waiters import Waiters


def test_a_waiter_wakes_when_the_watermark_reaches_its_end() -> None:
    waiters: Waiters[str] = Waiters()
    waiters.add(10, 100, "ten")
    waiters.add(5, 100, "five")
    assert waiters.advance(4) == []
    assert waiters.advance(9) == ["five"]
    assert waiters.advance(10) == ["ten"]
    assert len(waiters) == 0


def test_who_is_late_is_told_in_order_of_arrival_and_wakes_no_second_time() -> None:
    waiters: Waiters[str] = Waiters()
    waiters.add(10, 300, "patient")
    waiters.add(9, 100, "first")
    waiters.add(8, 200, "second")
    assert waiters.expire(99) == []
    assert waiters.expire(200) == ["first", "second"]
    assert waiters.expire(250) == []
    assert waiters.advance(10) == ["patient"]


def test_drain_forgets_everybody() -> None:
    waiters: Waiters[str] = Waiters()
    waiters.add(10, 300, "b")
    waiters.add(3, 100, "a")
    assert waiters.drain() == ["b", "a"]
    assert waiters.advance(100) == []
    assert waiters.expire(1_000) == []
