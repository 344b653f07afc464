"""Messages about members, to the values of the core and back."""

from __future__ import annotations

import pytest

from oncelog.errors import InvalidRequestError
from oncelog.v1 import coordinator_pb2 as co
from oncelog_coordinator.core.groups.group_commands import Heartbeat, Join, Membership
from oncelog_coordinator.core.groups.group_records import GroupRecord, Identity, MemberRecord, Subscription
from oncelog_coordinator.core.groups.states import GroupState, MemberState
from oncelog_coordinator.rpc import group_wire
from tests.unit.coordinator.group_driver import part, topic_id


def test_a_heartbeat_with_and_without_a_subscription() -> None:
    request = co.GroupHeartbeatRequest(
        group_id="g", member_id="m", member_epoch=3, assignment_received=5, assignment_applied=4
    )
    assert group_wire.heartbeat(request) == Heartbeat("g", "m", 3, 5, 4, None)
    request.subscription.CopyFrom(
        co.GroupSubscription(
            version=2, topics=["b", "a", "b"], pattern="x", assignor="range", rebalance_timeout_ms=9,
            instance_id="i", rack="r", client_id="c",
        )
    )  # fmt: skip
    wants = Subscription(2, ("a", "b"), "x", "range", 9)
    assert group_wire.heartbeat(request).join == Join(wants, Identity("i", "r", "c"))


@pytest.mark.parametrize("epoch", [-2, 0, 3])
def test_an_operator_removes_a_member_and_does_nothing_else(epoch: int) -> None:
    request = co.GroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=-1, by_operator=True)
    assert group_wire.heartbeat(request) == Heartbeat("g", "m", -1)
    request.member_epoch = epoch
    with pytest.raises(InvalidRequestError, match="with epoch -1"):
        group_wire.heartbeat(request)


def test_partitions_stand_by_topic_in_order() -> None:
    partitions = [part("u", 1), part("t", 2), part("t", 0)]
    found = list(group_wire.assigned_topics(partitions, {topic_id("t"): "t"}))
    assert [(item.topic, list(item.partitions)) for item in found] == [("t", [0, 2]), ("", [1])]


def test_members_are_described() -> None:
    member = MemberRecord(
        "g", "m", 1, Identity("i"), Subscription(1, ("t",)), MemberState.AWAY, 4,
        assigned={part("t", 0): 3}, target=frozenset([part("t", 1)]),
    )  # fmt: skip
    reply = co.DescribeGroupReply()
    group_wire.describe(reply, Membership(GroupState.STABLE, GroupRecord("g", 5, 4, "sticky"), (member,), 77), {})
    assert reply.expires_ms == 77
    assert (reply.group_epoch, reply.assignment_epoch, reply.assignor) == (5, 4, "sticky")
    (info,) = reply.members
    assert (info.member_epoch, info.state, info.instance_id, list(info.topics)) == (-2, "AWAY", "i", ["t"])
    assert [list(item.partitions) for item in (*info.assigned, *info.target)] == [[0], [1]]
