"""Sessions begin together, and those that were refused begin again a few at a time."""

from __future__ import annotations

from oncelog_partition_leader.core.replication.beginnings import GATHER_MS, TRIED_AT_ONCE, Beginnings

PAUSE_MS = 50


def refused(count: int) -> Beginnings[int]:
    beginnings: Beginnings[int] = Beginnings(PAUSE_MS)
    for item in range(count):
        beginnings.refused(item, 0, 0)
    return beginnings


def test_the_first_begins_at_once_and_those_that_follow_begin_together() -> None:
    beginnings: Beginnings[str] = Beginnings(PAUSE_MS)
    beginnings.add("a")
    assert beginnings.next_ms(100) == 100
    assert beginnings.due(100) == ["a"]
    assert beginnings.next_ms(100) is None
    beginnings.add("b")
    beginnings.add("c")
    assert beginnings.due(101) == []
    assert beginnings.next_ms(101) == 100 + GATHER_MS
    assert beginnings.due(100 + GATHER_MS) == ["b", "c"]


def test_who_waits_alone_for_longer_begins_at_once_again() -> None:
    beginnings: Beginnings[str] = Beginnings(PAUSE_MS)
    beginnings.add("a")
    assert beginnings.due(0) == ["a"]
    beginnings.add("b")
    assert beginnings.next_ms(500) == 500
    assert beginnings.due(500) == ["b"]


def test_the_pause_doubles_with_each_refusal_up_to_eight_times() -> None:
    for times, pause_ms in ((0, 50), (1, 100), (2, 200), (3, 400), (4, 400)):
        beginnings: Beginnings[str] = Beginnings(PAUSE_MS)
        beginnings.refused("a", times, 1_000)
        assert beginnings.next_ms(1_000) == 1_000 + pause_ms
        assert beginnings.due(1_000 + pause_ms - 1) == []
        assert beginnings.due(1_000 + pause_ms) == ["a"]


def test_of_many_that_were_refused_a_few_are_tried_at_once_the_first_ones_first() -> None:
    beginnings = refused(3 * TRIED_AT_ONCE)
    assert beginnings.due(PAUSE_MS) == list(range(TRIED_AT_ONCE))
    assert beginnings.due(PAUSE_MS + 1) == []
    assert beginnings.next_ms(PAUSE_MS + 1) == PAUSE_MS + GATHER_MS
    assert beginnings.due(PAUSE_MS + GATHER_MS) == list(range(TRIED_AT_ONCE, 2 * TRIED_AT_ONCE))


def test_a_follower_that_accepts_gets_all_of_them_after_a_few_answers() -> None:
    beginnings = refused(2_000)
    tried, answers = beginnings.due(PAUSE_MS), 0
    began = len(tried)
    while tried:
        for _ in tried:
            beginnings.accepted()
        assert beginnings.next_ms(PAUSE_MS + 1) == PAUSE_MS + 1 or began == 2_000
        tried = beginnings.due(PAUSE_MS + 1)
        began, answers = began + len(tried), answers + 1
    assert began == 2_000
    assert answers < 10


def test_new_ones_do_not_wait_for_those_that_were_refused() -> None:
    beginnings = refused(1_000)
    beginnings.due(PAUSE_MS)
    beginnings.add(5_000)
    assert 5_000 in beginnings.due(PAUSE_MS + GATHER_MS)
