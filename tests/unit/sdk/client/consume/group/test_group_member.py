"""Heartbeats as they travel, and how many of them are in flight."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from oncelog import errors
from oncelog.client.client import Client
from oncelog.client.consume.group.group_member import answer_of, request_of
from oncelog.core.consume.membership import Heartbeat, NewAssignment, Subscription
from oncelog.types import PartitionId, TopicPartition
from oncelog.v1 import coordinator_pb2 as co
from tests.unit.sdk.client.consume.group.test_group_reading import in_group, member
from tests.unit.sdk.client.consume.scripted_group import INTERVAL_MS, SESSION_MS, ScriptedGroup
from tests.unit.sdk.client.fake_cluster import FakeCluster


def test_a_heartbeat_travels_whole() -> None:
    wanted = Subscription(("a", "b"), "c.*", "range", 5, "i", "r", "c")
    request = request_of("g", Heartbeat("m", 3, 2, 1, 7, wanted, 100))
    assert (request.group_id, request.member_id, request.member_epoch, request.max_wait_ms) == ("g", "m", 3, 100)
    assert (request.assignment_received, request.assignment_applied) == (2, 1)
    said = request.subscription
    assert (said.version, [*said.topics], said.pattern, said.assignor) == (7, ["a", "b"], "c.*", "range")
    assert (said.rebalance_timeout_ms, said.instance_id, said.rack, said.client_id) == (5, "i", "r", "c")
    assert not request_of("g", Heartbeat("m", 3, 2, 1, 0, None, 100)).HasField("subscription")


def test_an_answer_is_read_with_and_without_an_assignment() -> None:
    reply = co.GroupHeartbeatReply(member_epoch=4, heartbeat_interval_ms=3, session_timeout_ms=9)
    answer = answer_of(reply)
    assert (answer.epoch, answer.heartbeat_interval_ms, answer.session_timeout_ms) == (4, 3, 9)
    assert answer.assignment is None
    reply.assignment.number = 2
    assert answer_of(reply).assignment == NewAssignment(2, {}), "an empty one is one"
    reply.assignment.topics.add(topic_id="id", topic="t", partitions=[0, 2])
    assert answer_of(reply).assignment == NewAssignment(
        2, {PartitionId("id", number): TopicPartition("t", number) for number in (0, 2)}
    )


@pytest.mark.parametrize(
    "reply",
    [
        co.GroupHeartbeatReply(heartbeat_interval_ms=-1),
        co.GroupHeartbeatReply(session_timeout_ms=-1),
        co.GroupHeartbeatReply(assignment=co.GroupAssignment(topics=[co.AssignedTopic(topic="t", partitions=[0])])),
        co.GroupHeartbeatReply(assignment=co.GroupAssignment(topics=[co.AssignedTopic(topic_id="i", partitions=[0])])),
        co.GroupHeartbeatReply(
            assignment=co.GroupAssignment(topics=[co.AssignedTopic(topic_id="i", topic="t", partitions=[-1])])
        ),
    ],
)
def test_an_answer_that_cannot_be_is_refused(reply: co.GroupHeartbeatReply) -> None:
    with pytest.raises(errors.InvalidResponseError):
        answer_of(reply)


def test_an_idle_member_costs_one_call_per_interval() -> None:
    cluster = FakeCluster()

    @in_group(cluster, 0)
    async def _(group: ScriptedGroup, client: Client) -> None:
        async with member(client) as consumer:
            await consumer.getmany(timeout_ms=1_000)
            before = len(group.heartbeats)
            for _ in range(20):
                await consumer.getmany(timeout_ms=INTERVAL_MS)
            assert 18 <= len(group.heartbeats) - before <= 21


def test_a_member_whose_calls_may_take_less_than_an_interval_stays_one() -> None:
    cluster = FakeCluster()

    async def work(_: FakeCluster) -> None:
        async with cluster.client(request_timeout_ms=INTERVAL_MS // 2) as client:
            group = ScriptedGroup(cluster, 0)
            async with member(client) as consumer:
                for _ in range(2 * SESSION_MS // INTERVAL_MS):
                    await consumer.getmany(timeout_ms=INTERVAL_MS)
                assert len({beat.member_id for beat in group.heartbeats}) == 1
                assert len(group.heartbeats) <= 2 * SESSION_MS // INTERVAL_MS + 5, (
                    "answers that come earlier cost no calls"
                )

    cluster.run(work)


def test_a_lost_call_is_sent_again_and_the_member_reads_on() -> None:
    cluster = FakeCluster()

    @in_group(cluster, 0)
    async def _(group: ScriptedGroup, client: Client) -> None:
        async with member(client) as consumer:
            await consumer.getmany(timeout_ms=1_000)
            cluster.fail("GroupHeartbeat", *[errors.NotCoordinatorError()] * 3, errors.RequestTimedOutError())
            for _ in range(5):
                await consumer.getmany(timeout_ms=INTERVAL_MS)
                assert len(consumer.assignment()) == 1
            assert len({beat.member_id for beat in group.heartbeats}) == 1


def test_a_member_that_does_not_come_in_says_why_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    cluster = FakeCluster()

    @in_group(cluster, 0)
    async def _(group: ScriptedGroup, client: Client) -> None:
        refusal = errors.UnreleasedInstanceIdError("a member with this instance id has not left", retry_after_ms=1_000)
        cluster.fail("GroupHeartbeat", *[refusal] * 10)
        async with member(client, group_instance_id="i") as consumer:
            await consumer.getmany(timeout_ms=20_000)
            assert len(consumer.assignment()) == 1, "the other one has left"

    assert [record.getMessage() for record in caplog.records if "has not left" in record.getMessage()]


@pytest.mark.parametrize(
    "place", ["request_of", "answer_of", "Membership.answered", "Membership._assign", "Membership.next_call"]
)
def test_a_defect_of_ours_is_told_to_the_reader(monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    cluster = FakeCluster()

    def breaks(*_: object) -> None:
        raise ZeroDivisionError("a defect")

    @in_group(cluster, 0)
    async def _(group: ScriptedGroup, client: Client) -> None:
        async with member(client) as consumer:
            await consumer.getmany(timeout_ms=1_000)
            monkeypatch.setattr(f"oncelog.client.consume.group.group_member.{place}", breaks)
            await group.assign(1)
            with pytest.raises(errors.IllegalStateError, match=r"report this.*ZeroDivisionError"):
                await asyncio.wait_for(_read_on(consumer), 60)
            monkeypatch.undo()


async def _read_on(consumer: Any) -> None:
    while True:
        await consumer.getmany(timeout_ms=1_000)


def test_a_newer_heartbeat_cancels_the_one_that_waits() -> None:
    cluster = FakeCluster()

    @in_group(cluster, 0, 1)
    async def _(group: ScriptedGroup, client: Client) -> None:
        flying = 0
        handler = group._heartbeat

        async def counted(*call: object) -> object:
            nonlocal flying
            flying += 1
            try:
                return await handler(*call)  # type: ignore[arg-type]
            finally:
                flying -= 1

        cluster._GroupHeartbeat = counted  # type: ignore[attr-defined]
        async with member(client) as consumer:
            for partitions in ((0,), (1,), (0, 1), ()):
                await consumer.getmany(timeout_ms=1_000)
                await group.assign(*partitions)
                await consumer.getmany(timeout_ms=1_000)
                await group.until_applied()
                await cluster.pause()
                assert flying == 1
