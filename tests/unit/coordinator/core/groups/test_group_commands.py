"""The answers about members: a group that is not known is shown as an empty one, which nothing will remove."""

from __future__ import annotations

from oncelog_coordinator.core.groups.group_commands import Membership
from oncelog_coordinator.core.groups.states import GroupState
from tests.unit.coordinator.group_driver import Groups, Reader


def test_a_group_that_is_not_known_is_an_empty_one() -> None:
    groups = Groups()
    assert groups.table.groups.view("unknown") == Membership()
    assert Membership().state is GroupState.EMPTY
    assert (Membership().members, Membership().expires_ms) == ((), 0)
    Reader(groups, "a").join()
    assert groups.table.groups.view("unknown") == Membership()
