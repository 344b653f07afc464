"""Whole batches as they stand in the log, markers and all: each says whether a reader sees it, and a lie is refused."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog import errors
from oncelog.client.client import Client
from oncelog.client.consume.raw_batches import RawBatches
from oncelog.config import READ_UNCOMMITTED
from oncelog.core.batch.control import Marker, seal_marker
from oncelog.core.batch.header import PREFIX_BYTES, partition_tag, stamp_prefix
from oncelog.types import PartitionId
from oncelog.v1 import partition_pb2 as pb
from oncelog.v1 import types_pb2
from oncelog.wire.wire_errors import to_detail
from tests.unit.sdk.client.fake_cluster import BROKERS, TOPIC, TOPIC_ID, FakeCluster
from tests.unit.sdk.client.reading import append


@pytest.fixture
def cluster() -> FakeCluster:
    """Offsets 0 and 1 plain, 2 of an aborted transaction."""
    made = FakeCluster()
    append(made, [b"0", b"1"])
    append(made, [b"2"], producer_id=1, producer_epoch=0, base_sequence=0, txn_producer_id=1, txn_no=5)
    made.aborted = [types_pb2.AbortedTransaction(txn_producer_id=1, txn_no=5, all=True)]
    return made


def read(cluster: FakeCluster, offset: int = 0, **options: Any) -> RawBatches:
    async def work(_: FakeCluster) -> RawBatches:
        async with cluster.client(default_api_timeout_ms=2_000) as client:
            return await reader(client, offset, **options)

    return cluster.run(work)


async def reader(client: Client, offset: int, **options: Any) -> RawBatches:
    return await client.admin.raw_reader().read(TOPIC, 0, offset, **{"max_wait_ms": 50, **options})


def test_batches_come_whole_and_say_whether_a_reader_sees_them(cluster: FakeCluster) -> None:
    found = read(cluster)
    assert [(b.header.base_offset, b.header.record_count, b.is_visible) for b in found.batches] == [
        (0, 2, True),
        (2, 1, False),
    ]
    assert (found.next_offset, found.high_watermark, found.last_stable_offset) == (3, 3, 3)
    assert [bytes(b.data) for b in found.batches] == cluster.logs[PartitionId(TOPIC_ID, 0)].batches


def test_a_marker_is_there_and_no_reader_sees_it(cluster: FakeCluster) -> None:
    log, tag = cluster.logs[PartitionId(TOPIC_ID, 0)], partition_tag(TOPIC_ID, 0)
    name = {"txn_producer_id": 1, "txn_no": 6, "txn_shard": 0}
    marker = seal_marker(Marker(committed=True, coordinator_epoch=1, session_epoch=1), **name, timestamp_ms=5, tag=tag)
    log.batches.append(stamp_prefix(3, len(marker), 0, 0) + marker[PREFIX_BYTES:])
    log.end = 4
    (found,) = read(cluster, 3).batches
    assert (found.header.is_control, found.is_visible) == (True, False)


def test_a_read_in_the_midst_of_a_batch_gets_all_of_it(cluster: FakeCluster) -> None:
    assert read(cluster, 1).batches[0].header.base_offset == 0


def test_at_the_end_there_is_nothing_and_it_goes_on_there(cluster: FakeCluster) -> None:
    found = read(cluster, 3)
    assert (found.batches, found.next_offset) == ([], 3)


def test_an_offset_that_is_not_there_is_told_at_once(cluster: FakeCluster) -> None:
    with pytest.raises(errors.OffsetOutOfRangeError):
        read(cluster, 99)
    assert cluster.count("Fetch") == 1


@pytest.mark.parametrize("fault", [errors.NetworkError(), errors.NotLeaderError(), errors.StorageError()])
def test_what_passes_is_tried_again(cluster: FakeCluster, fault: errors.OncelogError) -> None:
    cluster.fail("Fetch", fault, fault)
    assert read(cluster).next_offset == 3


def test_a_new_leader_is_asked(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client:
            await reader(client, 0)
            cluster.leaders[0], cluster.epochs[0] = BROKERS[1], 1
            assert (await reader(client, 0)).next_offset == 3

    cluster.run(work)
    assert [a for a, method, _ in cluster.calls if method.endswith("Fetch")][-1] == BROKERS[1]


def test_without_a_leader_it_ends_at_the_deadline(cluster: FakeCluster) -> None:
    cluster.leaders[0] = None
    with pytest.raises(errors.LeaderNotAvailableError):
        read(cluster)
    assert 1.5 < cluster.loop.time() < 2.5


# ---------------------------------------------------------------- lies


def moved_on(item: pb.FetchedPartition) -> None:
    item.next_offset += 1
    item.high_watermark = item.last_stable_offset = 99


def less_stable(item: pb.FetchedPartition) -> None:
    item.last_stable_offset = 2


def of_another_partition(item: pb.FetchedPartition) -> None:
    item.partition = 1


def refused(item: pb.FetchedPartition) -> None:
    item.error.CopyFrom(to_detail(errors.TopicAuthorizationError("not yours")))


@pytest.mark.parametrize("lie", [moved_on, less_stable, of_another_partition])
def test_an_answer_that_breaks_the_protocol_is_not_shown(cluster: FakeCluster, lie: Any) -> None:
    tell(cluster, lie)
    with pytest.raises(errors.InvalidResponseError):
        read(cluster)


def test_what_is_not_stable_may_be_looked_at_by_who_asks_for_it(cluster: FakeCluster) -> None:
    tell(cluster, less_stable)
    assert read(cluster, isolation_level=READ_UNCOMMITTED).last_stable_offset == 2


def test_a_refusal_is_raised(cluster: FakeCluster) -> None:
    tell(cluster, refused)
    with pytest.raises(errors.TopicAuthorizationError, match="not yours"):
        read(cluster)


def tell(cluster: FakeCluster, edit: Any) -> None:
    """Every fetch is answered with this change."""

    def lie(_: Any, reply: pb.FetchReply, payload: bytes) -> tuple[Any, bytes]:
        edit(reply.partitions[0])
        return reply, payload

    cluster.lies["Fetch"] = lie
