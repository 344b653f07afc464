"""One way in leads everywhere: addresses by listener, in registrations of this version, an older and a newer one."""

from __future__ import annotations

from oncelog_runtime.core.listeners import EXTERNAL, NAMES, Addresses

EVERYWHERE = Addresses("b0:9093", "b0:9092", "outside:30000")


def test_each_listener_is_answered_with_its_own_addresses() -> None:
    assert [EVERYWHERE.on(name) for name in NAMES] == ["b0:9093", "b0:9092", "outside:30000"]


def test_what_is_not_announced_is_the_next_door() -> None:
    assert [Addresses("b0:9093").on(name) for name in NAMES] == ["b0:9093"] * 3
    assert Addresses("b0:9093", client="b0:9092").on(EXTERNAL) == "b0:9092"


# ---------------------------------------------------------------- N and N-1
