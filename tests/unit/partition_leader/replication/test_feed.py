"""What a leader sends to one follower of one partition."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from oncelog.errors import OffsetOutOfRangeError
from oncelog.types import BrokerRef, PartitionId
from oncelog.v1 import partition_pb2 as pb
from oncelog_partition_leader.core.replication.replication_session import SessionState
from oncelog_partition_leader.core.replication.sessions import Reset, Stream, Truncate
from oncelog_partition_leader.replication.feed import Feed
from oncelog_runtime.sim.disk import SimDisk
from tests.unit.partition_leader.log_helpers import batch, open_log, run, write

ROOM_BYTES = 1 << 20
FOLLOWER = BrokerRef(2, 7)


async def streaming(disk: SimDisk, next_offset: int, log_start: int) -> Feed:
    """A follower has everything below `next_offset` of three batches, of which some were deleted meanwhile."""
    log = await open_log(disk)
    for n in range(3):
        write(log, batch(1, n, payload=bytes([n]) * 80))
    await log.sync()
    await log.advance_log_start(log_start)
    topic_config = SimpleNamespace(fsync=False)
    begun: list[Any] = []
    leadership: Any = SimpleNamespace(
        partition=PartitionId("t", 0),
        epoch=1,
        high_watermark=3,
        held_everywhere=2,
        log=log,
        replicas=SimpleNamespace(epoch_start=0),
        topic_config=topic_config,
        confirming=SimpleNamespace(asked=0),
        next_session=lambda: 2,
        start_session=lambda ref, number: begun.append((ref, number)),
        acknowledge=lambda ref, number, *ends: begun.append((ref, number, *ends)),
    )
    leadership.told = begun
    feed = Feed(leadership, FOLLOWER)
    feed.session.begin(1)
    feed.session.asked()
    feed.session.apply(Stream(next_offset))
    return feed


@pytest.mark.parametrize("log_start", [2, 3])
def test_a_follower_whose_next_batch_was_deleted_is_told_so(log_start: int) -> None:
    """3: nothing is left of the log at all."""

    async def fed(disk: SimDisk) -> None:
        feed = await streaming(disk, 1, log_start)
        with pytest.raises(OffsetOutOfRangeError):
            feed.item(ROOM_BYTES)
        assert feed.session.next_offset == 1, "nothing was sent"

    run(fed)


def test_what_a_follower_lacks_is_sent() -> None:
    async def fed(disk: SimDisk) -> None:
        feed = await streaming(disk, 1, 1)
        item, data = feed.item(ROOM_BYTES)
        assert (item.base_offset, item.length, feed.session.next_offset) == (1, len(data), 3)
        assert item.held_everywhere == 2, "what every replica holds goes with each message"
        assert not feed.has_news

    run(fed)


def test_a_question_is_news_until_a_message_has_taken_it_along() -> None:
    async def asked(disk: SimDisk) -> None:
        feed = await streaming(disk, 3, 0)
        feed.session.sent_watermark = 3
        assert not feed.has_news
        feed.leadership.confirming.asked = 1  # type: ignore[misc]
        assert feed.has_news
        item, data = feed.item(ROOM_BYTES)
        assert (item.length, bytes(data)) == (0, b"")
        assert (feed.session.sent_question, feed.has_news) == (1, False)
        feed.session.over()
        assert feed.session.sent_question == 0, "what was lost confirms nothing"

    run(asked)


def test_a_hello_begins_the_session_that_it_names() -> None:
    async def greeted(disk: SimDisk) -> None:
        feed = await streaming(disk, 3, 0)
        feed.session.over()
        item, data = feed.item(ROOM_BYTES)
        assert (item.hello, item.session, bytes(data)) == (True, 2, b"")
        assert feed.leadership.told == [(FOLLOWER, 2)]  # type: ignore[attr-defined]
        assert not feed.has_news, "the answer is waited for"

    run(greeted)


def test_a_cut_and_a_reset_say_where() -> None:
    async def asked(disk: SimDisk) -> None:
        feed = await streaming(disk, 3, 0)
        feed.session.over()
        feed.session.asked()
        feed.session.apply(Truncate(2))
        item, _ = feed.item(ROOM_BYTES)
        assert (item.truncate_to, item.hello, item.reset) == (2, False, False)
        feed.session.apply(Reset(0))
        await feed.prepare_reset()
        item, data = feed.item(ROOM_BYTES)
        assert (item.reset, item.base_offset, item.HasField("truncate_to")) == (True, 0, False)
        assert len(data) == item.length > 0, "the producer state goes with it"

    run(asked)


def test_an_answer_in_the_stream_acknowledges_and_one_to_a_question_decides() -> None:
    async def answered(disk: SimDisk) -> None:
        feed = await streaming(disk, 1, 0)
        feed.answered(pb.ReplicatePartitionReply(log_end_offset=2, synced_end_offset=1))
        assert feed.leadership.told == [(FOLLOWER, 1, 2, 1)]  # type: ignore[attr-defined]
        feed.session.over()
        feed.session.asked()
        feed.answered(pb.ReplicatePartitionReply(log_end_offset=9, last_epoch=1, last_epoch_start=0))
        assert (feed.session.state, feed.session.to) == (SessionState.TRUNCATE, 3)
        assert len(feed.leadership.told) == 1, "nothing is acknowledged before the stream"  # type: ignore[attr-defined]

    run(answered)


def test_a_message_that_had_no_room_for_everything_leaves_more() -> None:
    async def fed(disk: SimDisk) -> None:
        feed = await streaming(disk, 0, 0)
        feed.item(1)
        assert feed.has_more_data
        feed.item(ROOM_BYTES)
        assert not feed.has_more_data

    run(fed)
