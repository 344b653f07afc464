"""Whom a reader asks: the leader, or a follower in its rack, for as long as that one answers."""

from __future__ import annotations

from oncelog.core.consume.near_replica import FIRST_PAUSE_MS, LONGEST_PAUSE_MS, Choice, Replica, Source

LEADER, NEAR, ALSO_NEAR, FAR = Replica("l:1", "a"), Replica("n:1", "b"), Replica("m:1", "b"), Replica("f:1", "c")


def choose(source: Source, rack: str = "b", now_ms: int = 0, turn: int = 0, *others: Replica) -> Choice:
    return source.choose(rack, LEADER, others or (FAR, NEAR), now_ms, turn)


def test_a_reader_asks_the_follower_in_its_rack() -> None:
    assert choose(Source()) == Choice("n:1", True)


def test_a_reader_without_a_rack_or_without_a_replica_there_asks_the_leader() -> None:
    assert choose(Source(), "") == Choice("l:1", False)
    assert choose(Source(), "d") == Choice("l:1", False)


def test_the_leader_is_asked_where_it_stands_in_the_readers_rack() -> None:
    assert choose(Source(), "a", 0, 0, Replica("x:1", "a")) == Choice("l:1", False)


def test_readers_share_the_followers_of_their_rack() -> None:
    assert {choose(Source(), "b", 0, turn, NEAR, ALSO_NEAR).address for turn in range(4)} == {"n:1", "m:1"}


def test_after_an_error_the_leader_is_asked_for_a_while_that_doubles() -> None:
    source, now_ms = Source(), 0
    pauses = []
    for _ in range(8):
        assert choose(source, now_ms=now_ms).is_follower
        source.refused(now_ms)
        began_ms = now_ms
        while not choose(source, now_ms=now_ms).is_follower:
            now_ms += 100
        pauses.append(now_ms - began_ms)
    assert pauses[:3] == [FIRST_PAUSE_MS, 2 * FIRST_PAUSE_MS, 4 * FIRST_PAUSE_MS]
    assert pauses[-1] == LONGEST_PAUSE_MS
    source.is_follower = True
    source.answered("n:1")
    source.refused(now_ms)
    assert not choose(source, now_ms=now_ms + FIRST_PAUSE_MS).is_follower, "a wrong answer makes nothing good"
    source.was_right()
    source.refused(now_ms)
    assert choose(source, now_ms=now_ms + FIRST_PAUSE_MS).is_follower, "a good answer makes good for all errors before"


def test_a_follower_that_metadata_does_not_name_any_more_is_missed() -> None:
    source = Source()
    assert not choose(source, "b", 0, 0, FAR).is_missed, "there never was one"
    source.refused(0)
    assert not choose(source, "b", 500, 0, FAR).is_missed, "not yet"
    assert choose(source, "b", FIRST_PAUSE_MS, 0, FAR) == Choice("l:1", False, True)


def test_an_answer_tells_when_another_replica_gave_the_one_before() -> None:
    source = Source()
    assert source.answered("l:1")
    assert not source.answered("l:1")
    assert source.answered("n:1")
