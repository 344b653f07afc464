"""Delayed records are cancelled and counted by the leader of their waiting partition alone."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from oncelog.error_codes import ErrorCode
from oncelog.errors import InvalidRequestError, NotLeaderError, NotScheduledError
from oncelog.types import PartitionId
from oncelog.v1 import partition_pb2 as pb
from oncelog_partition_leader.core.delays.scheduler import Summary
from oncelog_partition_leader.rpc.channels.delay_service import DelayService

TOPIC_ID = "a" * 32


class Waiting:
    """A broker that leads partition 0 of `topic`, in which the record with offset 5 waits."""

    def __init__(self, topic: str = "__delayed.orders") -> None:
        self.topic = topic
        self.cancelled: list[tuple[PartitionId, int]] = []
        replicas: Any = SimpleNamespace(find=self._find)
        delays: Any = SimpleNamespace(cancel=self._cancel, summary=lambda _: Summary(3, 1_000, 2, 1, 0))
        self.service = DelayService(replicas, delays)

    def _find(self, where: PartitionId) -> Any:
        return SimpleNamespace(topic=self.topic, id=where, require_leadership=lambda: self._lead(where))

    def _lead(self, where: PartitionId) -> None:
        if where.partition:
            raise NotLeaderError("another broker leads it")

    async def _cancel(self, where: PartitionId, offset: int) -> None:
        if offset != 5:
            raise NotScheduledError(offset=offset)
        self.cancelled.append((where, offset))

    def cancel(self, offset: int, partition: int = 0) -> None:
        request = pb.CancelDelayedRequest(topic_id=TOPIC_ID, partition=partition, offset=offset)
        asyncio.run(self.service.cancel_delayed(request, b""))

    def describe(self, *partitions: int) -> list[pb.DescribeDelayedReply.Partition]:
        request = pb.DescribeDelayedRequest(topic_id=TOPIC_ID, partitions=partitions)
        reply, _ = asyncio.run(self.service.describe_delayed(request, b""))
        return list(reply.partitions)


def test_a_record_that_waits_is_cancelled() -> None:
    world = Waiting()
    world.cancel(5)
    assert world.cancelled == [(PartitionId(TOPIC_ID, 0), 5)]


@pytest.mark.parametrize(
    ("offset", "partition", "error"),
    [(6, 0, NotScheduledError), (-1, 0, InvalidRequestError), (5, 1, NotLeaderError)],
)
def test_what_cannot_be_cancelled_is_refused_by_name(offset: int, partition: int, error: type[Exception]) -> None:
    world = Waiting()
    with pytest.raises(error):
        world.cancel(offset, partition)
    assert world.cancelled == []


def test_an_ordinary_topic_has_no_delayed_records() -> None:
    world = Waiting("orders")
    with pytest.raises(InvalidRequestError):
        world.cancel(5)
    (answer,) = world.describe(0)
    assert answer.error.code == ErrorCode.INVALID_REQUEST


def test_each_partition_is_described_or_has_its_own_error() -> None:
    led, elsewhere = Waiting().describe(0, 1)
    assert (led.waiting, led.next_due_ms, led.moved, led.cancelled) == (3, 1_000, 2, 1)
    assert (elsewhere.partition, elsewhere.error.code) == (1, ErrorCode.NOT_LEADER_OR_FOLLOWER)


def test_a_question_about_too_many_partitions_is_refused() -> None:
    with pytest.raises(InvalidRequestError):
        Waiting().describe(*range(10_001))
