"""The lag in time is the age of the record that the group reads next; what cannot be read has none."""

from __future__ import annotations

import time
from typing import Any

import pytest

from oncelog import errors
from oncelog.types import TopicPartition
from oncelog.v1 import partition_pb2 as pb
from oncelog.wire.wire_errors import to_detail
from oncelog_cli.cluster.group_lag_time import add_lag_times, first_times
from oncelog_cli.cluster.group_rows import Row
from tests.unit.sdk.client.fake_cluster import TOPIC, FakeCluster
from tests.unit.sdk.client.reading import P0, P1, append

AT_MS = 5
"""The timestamp of what `append` writes."""


@pytest.fixture
def cluster() -> FakeCluster:
    made = FakeCluster()
    append(made, [b"a", b"b"])
    append(made, [b"c"], partition=1)
    return made


def test_each_partition_tells_of_the_record_at_its_offset(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> dict[TopicPartition, int]:
        async with cluster.client() as client:
            return await first_times(client, {P0: 1, P1: 0})

    assert cluster.run(work) == {P0: AT_MS, P1: AT_MS}


def test_a_partition_that_cannot_be_read_keeps_no_other_from_its_time(cluster: FakeCluster) -> None:
    def denied(_: Any, reply: pb.FetchReply, payload: bytes) -> tuple[pb.FetchReply, bytes]:
        kept = []
        for answer in reply.partitions:
            size = answer.length
            part, payload = payload[:size], payload[size:]
            if answer.partition == 1:
                answer.length = 0
                answer.error.CopyFrom(to_detail(errors.TopicAuthorizationError("no READ")))
            else:
                kept.append(part)
        return reply, b"".join(kept)

    cluster.lies["Fetch"] = denied

    async def work(_: FakeCluster) -> dict[TopicPartition, int]:
        async with cluster.client() as client:
            return await first_times(client, {P0: 0, P1: 0})

    began_s = cluster.loop.time()
    assert cluster.run(work) == {P0: AT_MS}
    assert cluster.loop.time() - began_s < 7


def test_only_rows_with_a_known_lag_are_read(cluster: FakeCluster) -> None:
    def row(partition: int, offset: int | None, lag: int | None) -> Row:
        return {"topic": TOPIC, "partition": partition, "current_offset": offset, "lag": lag, "lag_time_ms": None}

    rows = [row(0, 1, 1), row(1, 1, 0), row(2, 3, None), row(3, None, None)]

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client:
            await add_lag_times(client, rows)

    cluster.run(work)
    first, *others = (found["lag_time_ms"] for found in rows)
    assert others == [0, None, None]
    assert isinstance(first, int)
    assert abs(first - (time.time_ns() // 1_000_000 - AT_MS)) < 60_000
