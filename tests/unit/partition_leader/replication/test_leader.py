"""What a leader sends to one follower of one partition."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from oncelog.errors import OffsetOutOfRangeError
from oncelog.types import BrokerRef, PartitionId
from oncelog_partition_leader.replication.leader import Feed, State
from oncelog_runtime.sim.disk import SimDisk
from tests.unit.partition_leader.log_helpers import batch, open_log, run, write

ROOM_BYTES = 1 << 20


async def streaming(disk: SimDisk, next_offset: int, log_start: int) -> Feed:
    """A follower has everything below `next_offset` of three batches, of which some were deleted meanwhile."""
    log = await open_log(disk)
    for n in range(3):
        write(log, batch(1, n, payload=bytes([n]) * 80))
    await log.sync()
    await log.advance_log_start(log_start)
    topic_config = SimpleNamespace(fsync=False)
    leadership: Any = SimpleNamespace(
        partition=PartitionId("t", 0),
        epoch=1,
        high_watermark=3,
        log=log,
        replicas=SimpleNamespace(epoch_start=0),
        topic_config=topic_config,
        confirming=SimpleNamespace(asked=0),
    )
    feed = Feed(leadership, BrokerRef(2, 7))
    feed.state, feed.next_offset = State.STREAM, next_offset
    return feed


@pytest.mark.parametrize("log_start", [2, 3])
def test_a_follower_whose_next_batch_was_deleted_is_told_so(log_start: int) -> None:
    """3: nothing is left of the log at all."""

    async def fed(disk: SimDisk) -> None:
        feed = await streaming(disk, 1, log_start)
        with pytest.raises(OffsetOutOfRangeError):
            feed.item(ROOM_BYTES)
        assert feed.next_offset == 1, "nothing was sent"

    run(fed)


def test_what_a_follower_lacks_is_sent() -> None:
    async def fed(disk: SimDisk) -> None:
        feed = await streaming(disk, 1, 1)
        item, data = feed.item(ROOM_BYTES)
        assert (item.base_offset, item.length, feed.next_offset) == (1, len(data), 3)
        assert not feed.has_news

    run(fed)


def test_a_question_is_news_until_a_message_has_taken_it_along() -> None:
    async def asked(disk: SimDisk) -> None:
        feed = await streaming(disk, 3, 0)
        feed.sent_watermark = 3
        assert not feed.has_news
        feed.leadership.confirming.asked = 1  # type: ignore[misc]
        assert feed.has_news
        item, data = feed.item(ROOM_BYTES)
        assert (item.length, bytes(data)) == (0, b"")
        assert (feed.sent_question, feed.has_news) == (1, False)
        feed.restart()
        assert feed.sent_question == 0, "what was lost confirms nothing"

    run(asked)
