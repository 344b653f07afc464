"""What servers said about quotas, and for how long it counts."""

from __future__ import annotations

from oncelog.core.throttles import THROTTLE_MAX_MS, Throttles

PRODUCE, FETCH = "PartitionLeader.Produce", "PartitionLeader.Fetch"


def test_a_method_waits_at_the_address_that_said_so_and_nowhere_else() -> None:
    throttles = Throttles()
    assert throttles.until_ms("a:1", PRODUCE, 0) == 0
    assert throttles.told("a:1", PRODUCE, 500, 1_000), "the first is news"
    assert throttles.until_ms("a:1", PRODUCE, 1_499) == 1_500
    assert throttles.until_ms("a:1", FETCH, 1_100) == 0
    assert throttles.until_ms("b:1", PRODUCE, 1_100) == 0
    assert throttles.until_ms("a:1", PRODUCE, 1_500) == 0
    assert not throttles.active, "nobody is looked up any more"


def test_the_longest_wait_counts_and_all_of_them_once() -> None:
    throttles = Throttles()
    throttles.told("a:1", PRODUCE, 500, 1_000)
    assert not throttles.told("a:1", PRODUCE, 100, 1_100)
    assert throttles.until_ms("a:1", PRODUCE, 1_200) == 1_500
    throttles.told("a:1", PRODUCE, 900, 1_200)
    assert throttles.until_ms("a:1", PRODUCE, 1_600) == 2_100
    assert throttles.throttled_ms == 1_100
    assert throttles.told("a:1", PRODUCE, 1, 61_000), "a minute later it is news again"


def test_no_server_keeps_a_client_away_for_longer_than_a_while() -> None:
    throttles = Throttles()
    throttles.told("a:1", "Fetch", (1 << 32) - 1, 0)
    assert throttles.until_ms("a:1", "Fetch", 0) == THROTTLE_MAX_MS
    assert throttles.throttled_ms == THROTTLE_MAX_MS


def test_who_was_held_lately_is_known_after_it_is_over() -> None:
    """A delivery that timed out under a quota names the quota."""
    throttles = Throttles()
    throttles.told("a:1", "M", 100, 1_000)
    assert throttles.until_ms("a:1", "M", 5_000) == 0
    assert throttles.held_since("a:1", "M", 1_050)
    assert not throttles.held_since("a:1", "M", 1_100)
    assert not throttles.held_since("b:1", "M", 0)


def test_a_broker_that_never_held_us_did_not_before_the_clock_began() -> None:
    assert not Throttles().held_since("broker", "Produce", -5_000)
