"""Delayed records are cancelled and counted by the name of the topic to which they were sent."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from oncelog import errors
from oncelog.client.admin.delay_admin import DelayAdmin, DelayedPartition
from oncelog.types import PartitionId
from oncelog.v1 import partition_pb2 as pb
from oncelog.wire import methods
from oncelog.wire.wire_errors import to_detail

WAITING_ID = "d" * 32


class Cluster:
    """A cluster in which records wait for `orders` alone, in two partitions.

    `failed` is a partition that nobody leads, for so many answers. `forgotten`: for so many questions the waiting topic is
    searched after a restore of etcd, and nobody knows it; `searches`: also while it is known. `gone`: so many leaders answer
    that they do not know it.
    """

    def __init__(
        self, failed: int = -1, answers: int = 1_000_000, forgotten: int = 0, gone: int = 0, searches: bool = False
    ) -> None:
        self.failed = failed
        self.searches = searches
        self.forgotten = forgotten
        self.gone = gone
        self.answers = answers
        self.now_ms = 0
        self.asked: list[tuple[PartitionId, str, Any]] = []
        context: Any = SimpleNamespace(deadline_ms=lambda: 1_000, now_ms=self._now_ms, home=None)
        self.forgets: list[str] = []
        self.graces: list[int] = []
        self.metadata: Any = SimpleNamespace(
            topic=self._topic, searches_logs=False, grace_until_ms=lambda: 1_000, forget=self.forgets.append
        )
        metadata = self.metadata
        caller: Any = SimpleNamespace(to_leader=self._to_leader)
        self.admin = DelayAdmin(context, metadata, caller)

    def _now_ms(self) -> int:
        self.now_ms += 100
        return self.now_ms

    async def _topic(self, name: str, _deadline_ms: int, grace_until_ms: int) -> Any:
        self.graces.append(grace_until_ms)
        is_forgotten = self.forgotten > 0
        self.metadata.searches_logs = is_forgotten or self.searches
        self.forgotten -= 1
        if name != "__delayed.orders" or is_forgotten:
            raise errors.UnknownTopicError("no such topic", topic=name)
        return SimpleNamespace(name=name, topic_id=WAITING_ID, partitions=2)

    async def _to_leader(
        self, where: PartitionId, method: Any, request: Any, timeout_ms: int = 1_000, *, check: Any = lambda _: None
    ) -> Any:
        """Asks until `check` has nothing against an answer, or the time is over, as `Caller` does."""
        until_ms = self.now_ms + timeout_ms
        while True:
            reply = self._answer(where, method, request)
            try:
                check(reply)
            except errors.OncelogError as error:
                if not error.retriable or self._now_ms() >= until_ms:
                    raise
            else:
                return reply

    def _answer(self, where: PartitionId, method: Any, request: Any) -> Any:
        self.asked.append((where, method.name, request))
        if self.gone > 0:
            self.gone -= 1
            raise errors.UnknownTopicError("no such partition")
        if method is methods.CANCEL_DELAYED:
            return pb.CancelDelayedReply()
        reply = pb.DescribeDelayedReply()
        answer = reply.partitions.add(partition=where.partition, waiting=3, next_due_ms=7, moved=2, cancelled=1)
        if where.partition == self.failed and self.answers > 0:
            self.answers -= 1
            answer.error.CopyFrom(to_detail(errors.NotLeaderError("nobody leads it")))
        return reply


def test_a_record_is_cancelled_where_it_waits() -> None:
    cluster = Cluster()
    asyncio.run(cluster.admin.cancel_delayed("orders", 1, 5))
    ((where, _, request),) = cluster.asked
    assert where == PartitionId(WAITING_ID, 1)
    assert (request.topic_id, request.partition, request.offset) == (WAITING_ID, 1, 5)


def test_what_waits_is_told_for_each_partition() -> None:
    told = asyncio.run(Cluster().admin.describe_delayed("orders"))
    assert told == [DelayedPartition(0, 3, 7, 2, 1), DelayedPartition(1, 3, 7, 2, 1)]


def test_a_topic_without_delayed_records_is_no_error_to_look_at() -> None:
    cluster = Cluster()
    assert asyncio.run(cluster.admin.describe_delayed("other")) == []
    with pytest.raises(errors.UnknownTopicError):
        asyncio.run(cluster.admin.cancel_delayed("other", 0, 5))


def test_the_error_of_a_partition_is_raised_when_it_lasts() -> None:
    with pytest.raises(errors.NotLeaderError):
        asyncio.run(Cluster(failed=1).admin.describe_delayed("orders"))


def test_a_leader_that_still_reads_the_waiting_log_is_asked_again() -> None:
    told = asyncio.run(Cluster(failed=1, answers=2).admin.describe_delayed("orders"))
    assert [one.waiting for one in told] == [3, 3]


def test_while_brokers_are_asked_for_their_logs_it_is_not_said_that_nothing_waits() -> None:
    told = asyncio.run(Cluster(forgotten=2).admin.describe_delayed("orders"))
    assert [one.waiting for one in told] == [3, 3]
    with pytest.raises(errors.LeaderNotAvailableError, match="not all brokers have told"):
        asyncio.run(Cluster(forgotten=100).admin.describe_delayed("orders"))
    with pytest.raises(errors.LeaderNotAvailableError, match="not all brokers have told"):
        asyncio.run(Cluster(forgotten=100).admin.cancel_delayed("orders", 0, 5))


def test_a_waiting_topic_that_was_there_a_moment_ago_is_looked_up_again() -> None:
    cluster = Cluster(gone=1)
    assert len(asyncio.run(cluster.admin.describe_delayed("orders"))) == 2
    assert cluster.forgets == ["__delayed.orders"]
    assert asyncio.run(Cluster(gone=100).admin.describe_delayed("orders")) == [], "it was deleted"
    assert cluster.graces == [0, 1_000], "the second time it may be a new one"


def test_a_waiting_topic_that_is_known_and_led_by_none_while_logs_are_searched_is_not_empty() -> None:
    cluster = Cluster(gone=1_000, searches=True)
    with pytest.raises(errors.LeaderNotAvailableError, match="not all brokers have told"):
        asyncio.run(cluster.admin.describe_delayed("orders"))


def test_the_waiting_topic_of_a_record_that_is_cancelled_may_be_a_new_one() -> None:
    cluster = Cluster()
    asyncio.run(cluster.admin.cancel_delayed("orders", 0, 5))
    assert cluster.graces == [1_000]


def test_a_partition_that_is_none_is_refused() -> None:
    cluster = Cluster()
    with pytest.raises(errors.UnknownTopicError, match="partitions 0 to 1"):
        asyncio.run(cluster.admin.cancel_delayed("orders", 2, 5))
    assert cluster.asked == []


@pytest.mark.parametrize(
    ("partition", "offset"),
    [
        (0, 1 << 63),
        (0, -1),
        (0, 1.5),
        (0, "5"),
        (0, None),
        (0, True),
        (-1, 5),
        ("0", 5),
        (0.0, 5),
        (True, 5),
        (None, 5),
    ],
)
def test_what_is_no_partition_or_offset_is_refused_by_name(partition: Any, offset: Any) -> None:
    cluster = Cluster()
    with pytest.raises(errors.ConfigError, match="is a whole number from 0"):
        asyncio.run(cluster.admin.cancel_delayed("orders", partition, offset))
    assert cluster.asked == []
