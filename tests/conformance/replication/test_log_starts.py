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
