"""Members of a group over the wire: hand-over, fences, and a fail-over of which nobody learns."""

from __future__ import annotations

import pytest

from oncelog import errors
from oncelog.v1 import coordinator_pb2 as co
from oncelog.wire import methods
from tests.conformance.script import Place, Script

_SEEN_S = 0.5
"""After this long a coordinator knows of a new topic; a member that joins earlier gets it with a later heartbeat."""


def owned(reply: co.GroupHeartbeatReply) -> list[int]:
    """The partitions of an answer with an assignment."""
    assert reply.HasField("assignment")
    return [number for topic in reply.assignment.topics for number in topic.partitions]


async def goes_on(s: Script, member: str, before: co.GroupHeartbeatReply) -> co.GroupHeartbeatReply:
    """The heartbeat of a member that has carried out what it was told."""
    number = before.assignment.number
    return await s.heartbeat("g", member, epoch=before.member_epoch, received=number, applied=number)


async def test_a_partition_moves_when_its_owner_says_that_it_let_go(s: Script) -> None:
    place, _ = await s.topic("work", partitions=2)
    await s.sleep(_SEEN_S)
    a = await s.heartbeat("g", "a", place.topic)
    assert owned(a) == [0, 1]
    await s.sleep(0.5)
    assert owned(await s.heartbeat("g", "b", place.topic)) == []
    told = await goes_on(s, "a", a)
    (kept,) = owned(told)
    for _ in range(3):
        b = await s.heartbeat("g", "b", place.topic)
        assert owned(b) == [], "a has not said so"
    await goes_on(s, "a", told)
    b = await s.heartbeat("g", "b", epoch=b.member_epoch, received=b.assignment.number, applied=b.assignment.number)
    assert owned(b) == [1 - kept]


async def test_a_fail_over_in_the_middle_of_a_hand_over_changes_nothing(s: Script) -> None:
    place, _ = await s.topic("work", partitions=2)
    await s.sleep(_SEEN_S)
    a = await s.heartbeat("g", "a", place.topic)
    await s.sleep(0.5)
    b = await s.heartbeat("g", "b", place.topic)
    told = await goes_on(s, "a", a)
    old = s.group_owner("g")
    s.kill(old)
    await s.until(lambda: s.group_owner("g") not in ("", old))
    b = await s.heartbeat("g", "b", epoch=b.member_epoch)
    assert owned(b) == []
    await goes_on(s, "a", told)
    b = await s.heartbeat("g", "b", epoch=b.member_epoch)
    assert len(owned(b)) == 1


async def test_a_commit_of_the_owner_before_is_refused_also_in_a_transaction(s: Script) -> None:
    place = await s.place()
    await s.sleep(_SEEN_S)
    a = await s.heartbeat("g", "a", place.topic)
    await s.commit_offset("g", place, 5, member="a", epoch=a.member_epoch, sequence=1)
    await s.heartbeat("g", "a", epoch=-1)
    await s.sleep(0.5)
    b = await s.heartbeat("g", "b", place.topic)
    await s.commit_offset("g", place, 9, member="b", epoch=b.member_epoch, sequence=1)
    with pytest.raises(errors.FencedMemberEpochError):
        await s.commit_offset("g", place, 6, member="a", epoch=a.member_epoch, sequence=2)
    writer = await s.session("t")
    request = s.offsets_request(writer, "g", place, 6, 1)
    request.member.CopyFrom(co.GroupMember(group_id="g", member_id="a", member_epoch=a.member_epoch))
    with pytest.raises(errors.FencedMemberEpochError):
        await s.ask_group("g", methods.SEND_OFFSETS, request)
    with pytest.raises(errors.NonEmptyGroupError):
        await s.commit_offset("g", place, 1)
    assert await s.committed_offset("g", place) == 9


async def test_a_partition_that_is_added_is_read_without_a_word(s: Script) -> None:
    place = await s.place()
    await s.sleep(_SEEN_S)
    a = await s.heartbeat("g", "a", place.topic)
    async with s.client() as client:
        await client.admin.add_partitions(place.topic, 3)
    for _ in range(20):
        await s.sleep(0.2)
        told = await goes_on(s, "a", a)
        a = told if told.HasField("assignment") else a
    assert owned(a) == [0, 1, 2]


async def test_a_join_without_a_member_id_is_refused_and_one_with_it_is_a_member(s: Script) -> None:
    place = await s.place()
    await s.sleep(_SEEN_S)
    with pytest.raises(errors.InvalidRequestError, match="made by the client"):
        await s.heartbeat("g", "", place.topic)
    assert owned(await s.heartbeat("g", "a", place.topic)) == [0]


async def test_a_static_member_comes_back_and_nobody_else_moves(s: Script) -> None:
    place, _ = await s.topic("work", partitions=2)
    await s.sleep(_SEEN_S)
    a = await s.heartbeat("g", "a1", place.topic, instance_id="till-1")
    await s.sleep(0.5)
    b = await s.heartbeat("g", "b", place.topic)
    a = await goes_on(s, "a1", a)
    await goes_on(s, "a1", a)
    b = await goes_on(s, "b", b)
    await s.heartbeat("g", "a1", epoch=-2)
    await s.sleep(0.5)
    back = await s.heartbeat("g", "a2", place.topic, instance_id="till-1")
    assert owned(back) == owned(a)
    assert not (await goes_on(s, "b", b)).HasField("assignment"), "it has what it had"
    with pytest.raises(errors.FencedInstanceIdError):
        await s.heartbeat("g", "a1", epoch=a.member_epoch)


async def test_members_that_are_unknown_or_in_another_epoch_are_fenced(s: Script) -> None:
    place: Place = await s.place()
    await s.sleep(_SEEN_S)
    a = await s.heartbeat("g", "a", place.topic)
    for group, member, epoch, error in (
        ("g", "b", 1, errors.UnknownMemberError),
        ("other", "a", a.member_epoch, errors.UnknownMemberError),
        ("g", "a", a.member_epoch + 1, errors.FencedMemberEpochError),
    ):
        with pytest.raises(error):
            await s.heartbeat(group, member, epoch=epoch)
    assert not (await goes_on(s, "a", a)).HasField("assignment")
