"""GroupHeartbeat as a remote method: a member comes, is told, waits for news, and is shown to operators."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from oncelog import errors
from oncelog.v1 import coordinator_pb2 as co
from oncelog_runtime.metadata.cluster_keys import KIND_GROUP
from tests.unit.coordinator.fake_cluster import PARTITIONS, USER_TOPIC_ID
from tests.unit.coordinator.serving import Serving, serve


def join(member_id: str, **more: Any) -> co.GroupHeartbeatRequest:
    return co.GroupHeartbeatRequest(
        group_id="g", member_id=member_id, subscription=co.GroupSubscription(version=1, topics=["user"]), **more
    )


def goes_on(member_id: str, epoch: int, number: int, **more: Any) -> co.GroupHeartbeatRequest:
    return co.GroupHeartbeatRequest(
        group_id="g", member_id=member_id, member_epoch=epoch, assignment_received=number,
        **{"assignment_applied": number, **more},
    )  # fmt: skip


def owned(reply: co.GroupHeartbeatReply) -> set[int]:
    return {number for topic in reply.assignment.topics for number in topic.partitions}


def test_a_member_joins_and_is_told_what_it_reads() -> None:
    async def scenario(here: Serving) -> None:
        here.topic_watch.look()
        reply = await here.members.group_heartbeat(join("a"))
        (topic,) = reply.assignment.topics
        assert (topic.topic, topic.topic_id, list(topic.partitions)) == ("user", USER_TOPIC_ID, [*range(PARTITIONS)])
        assert (reply.member_epoch, reply.heartbeat_interval_ms, reply.session_timeout_ms) == (1, 3_000, 45_000)
        again = await here.members.group_heartbeat(goes_on("a", 1, reply.assignment.number))
        assert not again.HasField("assignment")

    serve(scenario)


def test_a_heartbeat_waits_for_news_and_no_longer() -> None:
    async def scenario(here: Serving) -> None:
        here.topic_watch.look()
        loop = asyncio.get_running_loop()
        first = await here.members.group_heartbeat(join("a"))
        number = first.assignment.number
        began_s = loop.time()
        quiet = await here.members.group_heartbeat(goes_on("a", 1, number, max_wait_ms=10**6))
        assert not quiet.HasField("assignment")
        assert 2.9 < loop.time() - began_s < 3.1, "an interval at most"
        waiting = asyncio.ensure_future(here.members.group_heartbeat(goes_on("a", 1, number, max_wait_ms=3_000)))
        await asyncio.sleep(0.5)
        began_s = loop.time()
        await here.members.group_heartbeat(join("b"))
        told = await waiting
        assert loop.time() - began_s < 0.5
        assert len(owned(told)) < PARTITIONS, "it has to let go"
        assert len(here.waits) == 0

    serve(scenario)


def test_a_waiting_heartbeat_is_answered_when_the_shard_closes() -> None:
    async def scenario(here: Serving) -> None:
        here.topic_watch.look()
        reply = await here.members.group_heartbeat(join("a"))
        waiting = asyncio.ensure_future(
            here.members.group_heartbeat(goes_on("a", 1, reply.assignment.number, max_wait_ms=3_000))
        )
        await asyncio.sleep(0.1)
        for number in range(PARTITIONS):
            await here.lose(KIND_GROUP, number)
        assert (await asyncio.wait_for(waiting, 1)).member_epoch == 1

    serve(scenario)


def test_nobody_joins_before_the_topics_are_known() -> None:
    async def scenario(here: Serving) -> None:
        with pytest.raises(errors.CoordinatorLoadInProgressError):
            await here.members.group_heartbeat(join("a"))
        with pytest.raises(errors.InvalidGroupIdError):
            await here.members.group_heartbeat(co.GroupHeartbeatRequest(member_id="a"))

    serve(scenario)


def test_a_group_with_members_is_listed_and_described() -> None:
    async def scenario(here: Serving) -> None:
        here.topic_watch.look()
        await here.members.group_heartbeat(join("a"))
        (listed,) = (await here.offsets.list_groups(co.ListGroupsRequest())).groups
        assert (listed.state, listed.members) == ("STABLE", 1)
        described = await here.offsets.describe_group(co.DescribeGroupRequest(group_id="g"))
        assert (described.group_epoch, described.members[0].member_id) == (1, "a")
        assert described.members[0].assigned[0].topic == "user"

    serve(scenario)
