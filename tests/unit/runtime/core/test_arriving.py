"""Who is ended for messages that do not get finished, and who never is."""

from __future__ import annotations

import pytest

from oncelog.errors import ConfigError
from oncelog_runtime.core.arriving import Arriving, ArrivingLimits

MIB = 1 << 20
LIMITS = ArrivingLimits(process_bytes=100 * MIB, connection_bytes=20 * MIB, patience=5)


class Lines:
    """Connections and what the kernel counts on them."""

    def __init__(self, limits: ArrivingLimits = LIMITS) -> None:
        self.arriving = Arriving(limits)
        self.received: dict[str, int] = {}

    def send(self, name: str, size: int, *, whole: bool = False) -> None:
        self.received[name] = self.received.get(name, 0) + size
        if whole:
            self.deliver(name, size)

    def deliver(self, name: str, size: int) -> None:
        meter = self.arriving.meter(name)
        meter.messages += 1
        meter.delivered_bytes += size

    def look(self) -> list[tuple[str, str]]:
        verdicts = self.arriving.look(self.received)
        for verdict in verdicts:
            del self.received[verdict.connection]
        return [(verdict.connection, verdict.reason) for verdict in verdicts]


def test_bounds_that_cannot_be_are_refused() -> None:
    with pytest.raises(ConfigError):
        ArrivingLimits(process_bytes=10, connection_bytes=20 * MIB)


def test_a_connection_that_holds_more_than_its_bound_ends_at_the_second_look() -> None:
    lines = Lines()
    lines.send("bad", 30 * MIB)
    assert lines.look() == []
    assert lines.look() == [("bad", "too many bytes of unfinished messages")]
    assert lines.look() == []
    assert lines.arriving.unfinished_bytes == 0


def test_a_connection_that_is_far_above_its_bound_ends_at_once() -> None:
    lines = Lines()
    lines.send("bad", 50 * MIB)
    assert lines.look() == [("bad", "too many bytes of unfinished messages")]


def test_a_message_that_does_not_get_finished_ends_its_connection_and_a_slow_one_that_does_not() -> None:
    lines = Lines()
    for _ in range(4):
        lines.send("slow", 2 * MIB)
        lines.send("half", 2 * MIB)
        assert lines.look() == []
    lines.send("half", 2 * MIB)
    lines.deliver("slow", 8 * MIB)
    assert lines.look() == [("half", "a message that does not get finished")]
    for _ in range(20):
        assert lines.look() == []


def test_finished_messages_beside_it_hide_a_half_one_from_time_and_not_from_the_bound() -> None:
    lines = Lines()
    lines.send("bad", 15 * MIB)
    for _ in range(20):
        lines.send("bad", 5 * MIB, whole=True)
        assert lines.look() == [], "what was delivered since might have been it: only the sum tells"
    assert lines.arriving.unfinished_bytes > 12 * MIB
    lines.send("bad", 12 * MIB)
    lines.look()
    assert lines.look() == [("bad", "too many bytes of unfinished messages")]


def test_when_all_together_hold_too_much_the_greatest_end_first() -> None:
    lines = Lines()
    for number in range(10):
        lines.send(f"c{number}", (10 + number) * MIB)
    lines.send("young", 0)
    assert lines.look() == []
    lines.send("young", 19 * MIB)
    ended = lines.look()
    assert [name for name, _ in ended] == ["c9", "c8", "c7", "c6"]
    assert lines.look() == []
    assert lines.arriving.unfinished_bytes <= 100 * MIB


def test_a_busy_connection_is_never_accused_however_long_it_lives() -> None:
    lines = Lines()
    for _ in range(2_000):
        lines.send("busy", 5 * MIB, whole=True)
        lines.send("busy", 5 * MIB // 200)  # frames and TLS
        lines.send("reader", 100, whole=True)
        lines.send("reader", 40_000)  # window updates for
        lines.arriving.meter("reader").answered_bytes += 20 * MIB
        lines.send("idle", 20)
        assert lines.look() == []


def test_a_process_that_stood_still_accuses_nobody() -> None:
    """What came in meanwhile is handed over before the second look."""
    lines = Lines()
    lines.look()
    for number in range(50):
        lines.send(f"c{number}", 8 * MIB)
    assert lines.look() == []
    for number in range(50):
        lines.deliver(f"c{number}", 8 * MIB)
    assert lines.look() == []


def test_what_was_delivered_before_the_first_look_counts() -> None:
    lines = Lines()
    for _ in range(100):
        lines.send("quick", MIB, whole=True)
    assert lines.look() == []
    assert lines.look() == []


def test_a_connection_that_could_not_be_looked_at_is_not_accused_of_what_it_delivered_meanwhile() -> None:
    """Its reader goes on counting in the meter that it has."""
    lines = Lines()
    meter = lines.arriving.meter("hidden")
    lines.look()
    meter.messages += 1
    meter.delivered_bytes += 90 * MIB
    lines.send("hidden", 90 * MIB)
    for _ in range(10):
        assert lines.look() == []


def test_between_two_looks_the_incomplete_bytes_of_a_connection_can_be_asked_for() -> None:
    lines = Lines()
    lines.send("new", 3 * MIB)
    assert lines.arriving.unfinished_of("new", lines.received["new"]) == 3 * MIB
    lines.look()
    before = lines.arriving.unfinished_bytes
    lines.send("new", 5 * MIB)
    assert lines.arriving.unfinished_of("new", lines.received["new"]) == before + 5 * MIB
    lines.deliver("new", 8 * MIB)
    assert lines.arriving.unfinished_of("new", lines.received["new"]) == 0
    assert lines.arriving.unfinished_bytes == before, "it is no look"


def test_what_was_delivered_is_never_incomplete_also_when_a_look_did_not_find_the_connection() -> None:
    lines = Lines()
    meter = lines.arriving.meter("new")
    lines.arriving.look({})
    meter.delivered_bytes += 9 * MIB
    lines.send("new", 9 * MIB)
    assert lines.arriving.unfinished_of("new", lines.received["new"]) == 0
