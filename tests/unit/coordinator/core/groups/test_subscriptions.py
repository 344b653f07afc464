"""What a subscription may be, and which topics it means."""

from __future__ import annotations

import pytest

from oncelog import errors
from oncelog_coordinator.core.groups.group_commands import Join
from oncelog_coordinator.core.groups.group_records import MemberRecord, Subscription
from oncelog_coordinator.core.groups.subscriptions import Meanings, check_join, check_member_id, require_room
from oncelog_coordinator.core.limits import Limits
from tests.unit.coordinator.group_driver import topic_id, topology


def test_names_and_patterns_mean_the_topics_that_are_there() -> None:
    meanings = Meanings(topology(eu_orders=2, us_orders=3, other=1))
    assert meanings.topics_of(Subscription(1, ("other", "missing"))) == {topic_id("other")}
    assert meanings.topics_of(Subscription(1, ("other",), ".*_orders")) == {
        topic_id(name) for name in ("other", "eu_orders", "us_orders")
    }
    members = [MemberRecord("g", "a", 1, subscription=Subscription(1, pattern="eu.*")), MemberRecord("g", "b", 2)]
    assert meanings.partitions_of(members) == {topic_id("eu_orders"): 2}


@pytest.mark.parametrize("member_id", ["", "a b", "x" * 65, "a:b", "é", "a\n"])
def test_a_member_id_is_of_few_characters(member_id: str) -> None:
    with pytest.raises(errors.InvalidRequestError, match="UUID"):
        check_member_id(member_id)


def test_a_good_subscription_passes() -> None:
    check_member_id("3b9d8a1e-7c57-4a41-8b1e-d9f6fd1f3c35")
    check_join(Join(Subscription(1, ("t",), "x.*", "range", 1_000)), Limits())


def test_the_bytes_of_a_group_are_bounded() -> None:
    limits = Limits(max_group_bytes=2_000)
    first = MemberRecord("g", "a", 1, subscription=Subscription(1, ("t" * 200,)))
    require_room(first, [], limits)
    with pytest.raises(errors.PolicyViolationError, match="too many bytes"):
        require_room(MemberRecord("g", "b", 2, subscription=Subscription(1, ("t" * 200,) * 5)), [first], limits)


def test_a_group_has_few_patterns() -> None:
    limits = Limits(max_group_patterns=2)
    members = [MemberRecord("g", name, 1, subscription=Subscription(1, pattern=name)) for name in "abc"]
    require_room(members[0], members[:2], limits)
    with pytest.raises(errors.PolicyViolationError, match="patterns"):
        require_room(members[2], members[:2], limits)
