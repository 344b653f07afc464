"""Brokers share `max_in_flight`: never more than that together, and each of them gets its turn."""

from __future__ import annotations

import pytest

from oncelog.core.work.shares import LONG_WAIT_MS, PASSING_WAIT_MS, TURN_WAIT_MS, Grant, Shares


def made(max_in_flight: int, *brokers: str) -> Shares:
    shares = Shares(max_in_flight)
    shares.set_brokers(brokers)
    return shares


def asked(shares: Shares) -> list[Grant]:
    """The next grants, and their requests are on their way."""
    grants = shares.next_grants()
    for grant in grants:
        shares.asked(grant)
    return grants


def test_one_broker_has_it_all() -> None:
    shares = made(10, "a")
    assert asked(shares) == [Grant("a", 10, PASSING_WAIT_MS)]
    assert asked(shares) == []


def test_brokers_have_equal_parts_at_first() -> None:
    shares = made(10, "a", "b", "c")
    assert [grant.max_in_flight for grant in asked(shares)] == [3, 3, 3]
    assert shares.committed == 9


def test_an_idle_broker_passes_its_part_on_and_gets_it_back() -> None:
    shares = made(10, "a", "b")
    asked(shares)
    shares.answered("b", 0)
    assert asked(shares) == [Grant("b", 1, LONG_WAIT_MS)]
    shares.answered("a", 5)
    assert asked(shares) == [Grant("a", 9, PASSING_WAIT_MS)]
    shares.answered("a", 4)
    shares.answered("b", 1)
    assert {grant.broker: grant.max_in_flight for grant in asked(shares)} == {"a": 5, "b": 1}, "a holds 9 of 10"
    for _ in range(9):
        shares.let_go("a")
    shares.let_go("b")
    shares.answered("b", 1)
    assert asked(shares) == [Grant("b", 5, PASSING_WAIT_MS)]


def test_an_idle_worker_asks_its_only_broker_rarely_and_has_room_for_one_that_comes_later() -> None:
    shares = made(10, "a")
    asked(shares)
    shares.answered("a", 0)
    assert asked(shares) == [Grant("a", 1, LONG_WAIT_MS)]
    shares.set_brokers(["a", "b"])
    assert asked(shares) == [Grant("b", 9, PASSING_WAIT_MS)]
    shares.answered("b", 0)
    assert asked(shares) == [Grant("b", 1, LONG_WAIT_MS)]
    shares.answered("a", 1)
    assert asked(shares) == [Grant("a", 9, PASSING_WAIT_MS)]


def test_an_idle_broker_has_room_for_one_more_than_the_worker_holds() -> None:
    """Regression: whoever held a record for long got no other one of its broker meanwhile."""
    shares = made(10, "a", "b")
    asked(shares)
    shares.answered("a", 1)
    shares.answered("b", 0)
    assert asked(shares) == [Grant("a", 9, PASSING_WAIT_MS), Grant("b", 1, LONG_WAIT_MS)]
    shares.answered("a", 0)
    assert asked(shares) == [Grant("a", 2, LONG_WAIT_MS)]
    shares.check()


def test_no_room_is_not_idleness() -> None:
    shares = made(4, "a", "b")
    asked(shares)
    shares.answered("a", 2)
    assert asked(shares) == [Grant("a", 2, PASSING_WAIT_MS)]
    shares.answered("a", 0)
    assert asked(shares) == [Grant("a", 2, PASSING_WAIT_MS)]


def test_shares_rotate_where_there_are_more_brokers() -> None:
    shares = made(1, "a", "b", "c")
    turns = []
    for _ in range(6):
        (grant,) = asked(shares)
        assert (grant.max_in_flight, grant.wait_ms) == (1, TURN_WAIT_MS)
        turns.append(grant.broker)
        shares.answered(grant.broker, 0)
    assert turns == ["a", "b", "c", "a", "b", "c"]


def test_a_broker_whose_record_is_held_is_asked_for_none_and_broken_off_when_its_turn_comes() -> None:
    shares = made(1, "a", "b")
    assert asked(shares) == [Grant("a", 1, TURN_WAIT_MS)]
    shares.answered("a", 1)
    assert asked(shares) == [Grant("a", 0, LONG_WAIT_MS)], "b has to wait, and a hears of the worker"
    shares.let_go("a")
    assert asked(shares) == [Grant("b", 1, TURN_WAIT_MS)]
    shares.answered("b", 0)
    assert asked(shares) == [Grant("a", 1, TURN_WAIT_MS)]


def test_a_broker_that_leads_no_more_keeps_its_records_until_they_are_over() -> None:
    shares = made(4, "a", "b")
    asked(shares)
    shares.answered("a", 2)
    shares.set_brokers(["b"])
    assert (shares.committed, shares.held) == (4, 2)
    shares.answered("b", 0)
    assert asked(shares) == [Grant("b", 1, LONG_WAIT_MS)]
    shares.let_go("a")
    shares.set_brokers(["b", "a"])
    assert asked(shares) == [Grant("a", 3, PASSING_WAIT_MS)]
    shares.let_go("a")
    assert shares.held == 0


@pytest.mark.parametrize("most", [1, 2])
def test_the_next_leader_hears_of_a_worker_that_may_have_no_more(most: int) -> None:
    shares = made(most, "a")
    asked(shares)
    shares.answered("a", most)
    asked(shares)
    shares.set_brokers(["b", "c"])
    shares.answered("a", 0)
    assert asked(shares) == [Grant("b", 0, LONG_WAIT_MS), Grant("c", 0, LONG_WAIT_MS)]
    shares.let_go("a", most)
    assert sum(grant.max_in_flight for grant in asked(shares)) == most, "what stands there is broken off"
    shares.check()


def test_what_stands_at_a_broker_that_is_gone_counts_until_it_ends() -> None:
    shares = made(4, "a", "b")
    asked(shares)
    shares.set_brokers(["b"])
    assert shares.committed == 4
    shares.answered("a", 1)
    assert (shares.committed, shares.held) == (3, 1)


def test_a_claim_counts_too() -> None:
    shares = made(2, "a")
    shares.took("a", 5)
    assert asked(shares) == [Grant("a", 2, PASSING_WAIT_MS)], "it stands, and allows nothing"
    shares.took("b", 1)
    assert shares.held == 6
    shares.let_go("b")
    shares.check()


@pytest.mark.parametrize("max_in_flight", [1, 2, 3])
def test_more_than_is_allowed_is_never_asked_for(max_in_flight: int) -> None:
    shares = made(max_in_flight, "a", "b", "c")
    asked(shares)
    assert shares.committed <= max_in_flight


def test_a_broker_that_counts_less_than_the_worker_takes_nothing_from_the_others() -> None:
    """Regression: it had settled a record and sent the next one before the settlement was confirmed, and nothing came any
    more.
    """
    shares = made(2, "a", "b")
    asked(shares)
    shares.answered("a", 1)
    assert asked(shares) == [Grant("a", 1, LONG_WAIT_MS)]
    shares.answered("a", 1)
    assert (shares.held, shares.committed) == (2, 3)
    assert asked(shares) == [Grant("a", 1, LONG_WAIT_MS)]
    shares.let_go("a")
    shares.let_go("a")
    shares.check()
    assert shares.committed == 2
