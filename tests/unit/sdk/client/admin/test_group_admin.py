"""Groups are listed in full, described with what waits for open transactions, and moved by ordinary commits."""

from __future__ import annotations

import pytest

from oncelog import errors
from oncelog.client.admin.descriptions import (
    GroupListing,
    GroupMemberDescription,
    GroupOffset,
    PendingOffsets,
)
from oncelog.client.consume.offsets import OffsetAndMetadata
from oncelog.types import PartitionId
from oncelog.v1 import coordinator_pb2 as co
from oncelog.wire.wire_errors import to_detail
from tests.unit.sdk.client.consume.grouped import hear
from tests.unit.sdk.client.fake_cluster import TOPIC, TOPIC_ID, FakeCluster
from tests.unit.sdk.client.reading import P0


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


def listing(group_id: str, **more: int) -> co.GroupListing:
    return co.GroupListing(group_id=group_id, state="EMPTY", coordinator="c0:1", **more)


def test_groups_are_listed_by_name(cluster: FakeCluster) -> None:
    answered = [co.ShardAnswer(shard=0, epoch=1)]
    cluster.answers["ListGroups"] = co.ListGroupsReply(
        groups=[listing("b"), listing("a", offsets=3, open_transactions=1, members=2)], answered=answered
    )

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client:
            found = await client.admin.list_groups()
            assert found == [
                GroupListing("a", "EMPTY", 3, 1, "c0:1", 0, members=2),
                GroupListing("b", "EMPTY", 0, 0, "c0:1", 0),
            ]

    cluster.run(work)
    assert [list(request.shards) for request in cluster.requests("ListGroups")] == [[0]]


def test_a_group_is_described_with_offsets_that_wait_for_a_transaction(cluster: FakeCluster) -> None:
    reply = co.DescribeGroupReply(group=listing("g", offsets=1))
    place = {"topic": TOPIC, "topic_id": TOPIC_ID, "partition": 1}
    entry = co.OffsetEntry(**place, offset=7, leader_epoch=2, epoch_known=True, metadata="note")
    reply.offsets.add(offset=entry, committed_ms=5, member_id="m")
    pending = reply.pending.add(txn_producer_id=1, txn_no=9, txn_shard=0, since_ms=4)
    pending.offsets.add(topic_id="0d" * 16, partition=0, offset=3)
    cluster.answers["DescribeGroup"] = reply

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client:
            found = await client.admin.describe_group("g")
            assert found.offsets == (GroupOffset(TOPIC, TOPIC_ID, 1, 7, 2, "note", 5, "m"),)
            assert found.pending == (PendingOffsets(1, 9, 0, 4, (("0d" * 16, 0, 3),)),), "a topic that is gone: its id"
            assert (found.members, found.group_epoch, found.expires_ms) == ((), 0, None)

    cluster.run(work)


def member(member_id: str, instance_id: str = "") -> co.GroupMemberInfo:
    return co.GroupMemberInfo(member_id=member_id, instance_id=instance_id, state="STABLE", member_epoch=3)


def test_a_group_is_described_with_its_members(cluster: FakeCluster) -> None:
    info = member("m", "till-3")
    info.MergeFrom(co.GroupMemberInfo(client_id="c", rack="r", topics=[TOPIC], pattern="o*"))
    info.assigned.add(topic=TOPIC, topic_id=TOPIC_ID, partitions=[0, 2])
    info.revoking.add(topic=TOPIC, topic_id=TOPIC_ID, partitions=[1])
    info.target.add(topic_id="0d" * 16, partitions=[0])
    cluster.answers["DescribeGroup"] = co.DescribeGroupReply(
        group=listing("g"), members=[info], group_epoch=5, assignment_epoch=4, assignor="sticky", expires_ms=9
    )

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client:
            found = await client.admin.describe_group("g")
            assert found.members == (
                GroupMemberDescription(
                    "m", "till-3", "c", "r", 3, "STABLE", (TOPIC,), "o*",
                    ((TOPIC, 0), (TOPIC, 2)), ((TOPIC, 1),), (("0d" * 16, 0),),
                ),
            )  # fmt: skip
            shown = (found.group_epoch, found.assignment_epoch, found.assignor, found.expires_ms)
            assert shown == (5, 4, "sticky", 9)

    cluster.run(work)


def test_members_are_removed_by_id_or_instance_and_a_repeat_does_nothing(cluster: FakeCluster) -> None:
    there = [member("a"), member("b", "till-3"), member("c"), member("d")]

    def leave(_: str, request: co.GroupHeartbeatRequest) -> co.GroupHeartbeatReply:
        if request.member_id == "d":
            raise errors.FencedMemberEpochError("it has left meanwhile")
        there[:] = [info for info in there if info.member_id != request.member_id]
        return co.GroupHeartbeatReply(member_epoch=-1)

    cluster.answers["DescribeGroup"] = lambda *_: co.DescribeGroupReply(group=listing("g"), members=there)
    cluster.answers["GroupHeartbeat"] = leave

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client:
            remove = client.admin.remove_group_members
            assert await remove("g", ["a", "d", "nobody"], instance_ids=["till-3", ""]) == ["a", "b"]
            assert await remove("g", ["a"], instance_ids=["till-3"]) == []
            assert await remove("g") == []

    cluster.run(work)
    asked = [(r.member_id, r.member_epoch, r.by_operator) for r in cluster.requests("GroupHeartbeat")]
    assert asked == [("a", -1, True), ("b", -1, True), ("d", -1, True)]


def test_offsets_are_set_by_a_commit_of_nobody_that_is_known_by_its_copies(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client:
            await client.admin.set_group_offsets("g", {(TOPIC, 0): 5})

    cluster.run(work)
    (request,) = cluster.requests("CommitOffsets")
    assert (request.member.group_id, request.member.member_id, request.commit_sequence) == ("g", "", 0)
    assert request.call.nonce
    assert cluster.offsets == {(TOPIC_ID, 0): 5}


def test_the_first_refused_offset_is_raised(cluster: FakeCluster) -> None:
    reply = co.CommitOffsetsReply()
    reply.errors.add(error=to_detail(errors.OffsetMetadataTooLargeError("too long a note")))
    cluster.answers["CommitOffsets"] = reply

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client:
            with pytest.raises(errors.OffsetMetadataTooLargeError, match="too long a note"):
                await client.admin.set_group_offsets("g", {(TOPIC, 0): 5})

    cluster.run(work)


def test_no_partition_named_forgets_all_and_none_of_them_forgets_nothing(cluster: FakeCluster) -> None:
    cluster.answers["DeleteOffsets"] = co.DeleteOffsetsReply(deleted=2)

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client:
            assert await client.admin.delete_group_offsets("g") == 2
            await client.admin.delete_group_offsets("g", [PartitionId(TOPIC_ID, 1)])
            await client.admin.delete_group_offsets("g", [])

    cluster.run(work)
    asked = [(request.all, [p.partition for p in request.partitions]) for request in cluster.requests("DeleteOffsets")]
    assert asked == [(True, []), (False, [1]), (False, [])]


@pytest.mark.parametrize("name", ["", "a\nb", "x" * 1_025])
def test_a_name_that_no_group_has_asks_nobody(cluster: FakeCluster, name: str) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client:
            before = len(cluster.calls)
            admin = client.admin
            for call in (
                lambda: admin.describe_group(name),
                lambda: admin.set_group_offsets(name, {(TOPIC, 0): 1}),
                lambda: admin.delete_group_offsets(name),
                lambda: admin.remove_group_members(name),
            ):
                with pytest.raises(errors.InvalidGroupIdError):
                    await call()  # type: ignore[no-untyped-call]
            assert len(cluster.calls) == before

    cluster.run(work)


def test_nobody_moves_a_group_to_an_offset_of_an_earlier_topic(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client:
            await client.admin.set_group_offsets("g", {P0: OffsetAndMetadata(2, topic_id=TOPIC_ID)})
            cluster.create_again()
            await hear(client)
            with pytest.raises(errors.UnknownTopicError, match="created again"):
                await client.admin.set_group_offsets("g", {P0: OffsetAndMetadata(1, topic_id=TOPIC_ID), (TOPIC, 1): 1})

    cluster.run(work)
    assert cluster.offsets == {(TOPIC_ID, 0): 2}
