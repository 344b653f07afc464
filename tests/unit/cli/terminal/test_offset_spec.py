"""A place that a person names is an offset of each partition, within what the log holds unless an offset itself was named."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog import errors
from oncelog.types import PartitionId
from oncelog.v1 import partition_pb2 as pb
from oncelog_cli.terminal.argument_types import Place
from oncelog_cli.terminal.offset_spec import offsets_at
from tests.unit.sdk.client.fake_cluster import TOPIC, TOPIC_ID, FakeCluster
from tests.unit.sdk.client.reading import append

START, END = 2, 6


@pytest.fixture
def cluster() -> FakeCluster:
    """Partition 0 holds the offsets 2 to 5."""
    made = FakeCluster()
    append(made, [b"v"] * END)
    made.logs[PartitionId(TOPIC_ID, 0)].start = START
    return made


def at(cluster: FakeCluster, place: Place, *partitions: int) -> dict[int, int]:
    async def work(_: FakeCluster) -> dict[int, int]:
        async with cluster.client() as client:
            found = await offsets_at(client, [(TOPIC, number) for number in partitions or (0,)], place)
            return {number: offset for (_, number), offset in found.items()}

    return cluster.run(work)


@pytest.mark.parametrize(
    ("place", "offset"),
    [
        (Place("start"), START),
        (Place("end"), END),
        (Place("offset", 4), 4),
        (Place("offset", 99), 99),
        (Place("relative", 1), 3),
        (Place("relative", 99), END),
        (Place("relative", -1), 5),
        (Place("relative", -99), START),
        (Place("relative", 0), START),
    ],
)
def test_a_place_is_an_offset(cluster: FakeCluster, place: Place, offset: int) -> None:
    """An offset that was named is not moved: reading there says what is wrong with it."""
    assert at(cluster, place) == {0: offset}


def test_each_partition_has_its_own(cluster: FakeCluster) -> None:
    assert at(cluster, Place("end"), 1, 0) == {1: 0, 0: END}


@pytest.mark.parametrize(("found", "offset"), [(3, 3), (-1, END), (1, START)], ids=["there", "after the last", "gone"])
def test_a_time_is_the_first_record_from_then_on_or_the_end(cluster: FakeCluster, found: int, offset: int) -> None:
    def of_a_time(request: pb.ListOffsetsRequest, reply: pb.ListOffsetsReply, payload: bytes) -> tuple[Any, bytes]:
        for asked, answered in zip(request.partitions, reply.partitions, strict=True):
            if asked.timestamp_ms == 1_000:
                answered.offset = found
        return reply, payload

    cluster.lies["ListOffsets"] = of_a_time
    assert at(cluster, Place("timestamp", 1_000)) == {0: offset}


@pytest.mark.parametrize("number", [-1, 2])
def test_a_partition_that_is_not_there_is_refused_with_those_that_are(cluster: FakeCluster, number: int) -> None:
    with pytest.raises(errors.UnknownTopicError, match="has the partitions 0 to 1"):
        at(cluster, Place("start"), 0, number)
    assert cluster.count("ListOffsets") == 0
