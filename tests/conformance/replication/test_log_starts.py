"""Records that were deleted stay deleted, whoever leads next."""

from __future__ import annotations

import pytest

from oncelog import errors
from oncelog.v1 import partition_pb2 as pa
from oncelog.wire import methods
from tests.conformance.script import Script


async def test_records_that_were_deleted_do_not_come_back_with_the_next_leader(s: Script) -> None:
    place = await s.place()
    await s.write(place, await s.producer(), "a", "b", "c")
    leader = s.leader(place)
    async with s.client() as client:
        assert await client.admin.delete_records("work", 0, 1) == 1
        s.kill(leader)
        await s.new_leader(place, leader)
        offsets = await client.admin.partition_offsets("work")
    assert offsets[0].log_start_offset == 1


async def test_a_deletion_of_which_the_followers_have_not_heard_is_not_answered(s: Script) -> None:
    """The next leader would show the records again."""
    place = await s.place()
    await s.write(place, await s.producer(), "a", "b", "c")
    s.cut(s.leader(place), *s.followers(place))
    request = pa.DeleteRecordsRequest(topic_id=place.topic_id, partition=0, before_offset=1)
    with pytest.raises((errors.OffsetNotAvailableError, errors.NotLeaderError)):
        await s.call(s.leader(place), methods.DELETE_RECORDS, request)


async def test_a_deletion_is_answered_when_each_follower_that_may_lead_next_has_heard_of_it(s: Script) -> None:
    """One of two is enough to know who leads, and the other one was elected."""
    place = await s.place()
    await s.write(place, await s.producer(), "a", "b", "c")
    leader = s.leader(place)
    s.cut(leader, s.followers(place)[0])
    request = pa.DeleteRecordsRequest(topic_id=place.topic_id, partition=0, before_offset=1)
    with pytest.raises((errors.OffsetNotAvailableError, errors.NotLeaderError)):
        await s.call(leader, methods.DELETE_RECORDS, request)


async def test_a_session_that_begins_has_not_told_what_was_deleted(s: Script) -> None:
    """Its first message says nothing of the log start, and was taken for the answer."""
    place = await s.place()
    await s.write(place, await s.producer(), "a", "b", "c")
    leader = s.leader(place)

    def brings_data(request: pa.ReplicateRequest, _payload: object) -> bool:
        return any(item.topic_id == place.topic_id and not item.hello for item in request.partitions)

    for follower in s.followers(place):
        s.hold(methods.REPLICATE, source=leader, target=follower, match=brings_data)
    request = pa.DeleteRecordsRequest(topic_id=place.topic_id, partition=0, before_offset=1)
    for _ in range(6):
        with pytest.raises((errors.OffsetNotAvailableError, errors.NotLeaderError)):
            await s.call(leader, methods.DELETE_RECORDS, request)
