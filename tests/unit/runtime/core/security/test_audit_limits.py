"""How many lines the audit log gets: repeats are counted, floods are cut, and what operators did has room of its own."""

from __future__ import annotations

from oncelog_runtime.core.security.audit_limits import BURST, PER_SECOND, SAME_MS, AuditLimits


def test_memory_of_refusals_is_bounded() -> None:
    limits = AuditLimits()
    for number in range(10_000):
        limits.admit(number, number, allowed=False)
    assert len(limits._same) <= 2_048


def test_the_same_refusal_is_left_out_until_its_time_is_over_and_then_told() -> None:
    limits = AuditLimits()
    assert limits.admit("ann reads", 0, allowed=False) == 0
    assert limits.admit("ann reads", 0, allowed=False) is None
    assert limits.admit("bob reads", 0, allowed=False) == 0
    assert limits.admit("ann reads", SAME_MS - 1, allowed=False) is None
    assert limits.admit("ann reads", SAME_MS, allowed=False) == 2
    assert limits.admit("ann reads", 2 * SAME_MS, allowed=False) == 0


def test_what_operators_did_is_never_a_repetition() -> None:
    limits = AuditLimits()
    assert [limits.admit("ann deletes", 0, allowed=True) for _ in range(3)] == [0, 0, 0]


def test_a_flood_leaves_out_all_above_its_burst_and_some_more_each_second() -> None:
    limits = AuditLimits()
    written = [limits.admit(number, 0, allowed=False) for number in range(BURST + 5)]
    assert written == [0] * BURST + [None] * 5
    assert limits.admit("an operator", 0, allowed=True) == 0, "who has room of his own"
    later = [limits.admit(f"later {number}", 1_000, allowed=False) for number in range(PER_SECOND + 1)]
    assert later == [0] * PER_SECOND + [None]


def test_a_rest_saves_up_no_more_than_one_burst_and_a_clock_that_steps_back_none() -> None:
    limits = AuditLimits()
    for number in range(BURST):
        limits.admit(number, 10_000, allowed=False)
    assert limits.admit("earlier", 0, allowed=False) is None
    hour = [limits.admit(f"later {number}", 3_600_000, allowed=False) for number in range(BURST + 1)]
    assert hour == [0] * BURST + [None]


def test_what_was_left_out_is_told_once() -> None:
    limits = AuditLimits()
    for _ in range(3):
        limits.admit("the same", 0, allowed=False)
    assert (limits.told(), limits.told()) == (2, 0)
