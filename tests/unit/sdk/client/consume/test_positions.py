"""Where a consumer stands."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from oncelog import errors
from oncelog.client.consume.fetched_records import Records
from oncelog.types import PartitionId, TopicPartition
from oncelog.v1 import coordinator_pb2 as co
from tests.unit.sdk.client.consume.grouped import group_of
from tests.unit.sdk.client.fake_cluster import BROKERS, TOPIC_ID, FakeCluster
from tests.unit.sdk.client.reading import EARLIEST, P0, P1, append, values


@pytest.fixture
def cluster() -> FakeCluster:
    made = FakeCluster()
    append(made, [b"0", b"1", b"2"])
    append(made, [b"3", b"4"])
    append(made, [b"x"], partition=1)
    return made


def test_without_a_rule_for_a_start_the_reader_is_told(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.consumer(auto_offset_reset="none") as consumer:
            await consumer.assign([P0])
            with pytest.raises(errors.OffsetOutOfRangeError, match="seek first"):
                await consumer.position(P0)
            consumer.seek(P0, 2)
            assert await consumer.position(P0) == 2

    cluster.run(work)


def test_a_partition_without_a_leader_holds_up_no_other(cluster: FakeCluster) -> None:
    cluster.leaders[0] = None

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.consumer(**EARLIEST) as consumer:
            await consumer.assign([P0, P1])
            before_s = cluster.loop.time()
            assert values(await consumer.getmany(timeout_ms=100)) == [b"x"]
            assert await consumer.getmany(timeout_ms=100) == []
            assert cluster.loop.time() - before_s < 0.5
            cluster.leaders[0] = BROKERS[0]
            assert len(await consumer.getmany(timeout_ms=5_000)) == 5

    cluster.run(work)


def first_broker_hangs(cluster: FakeCluster, seconds: float) -> None:
    """It lists no offsets, and says so after that time."""
    listed = cluster._ListOffsets

    async def hangs(address: str, *given: Any) -> tuple[Any, bytes]:
        if address == BROKERS[0]:
            await asyncio.sleep(seconds)
            raise errors.NetworkError(address=address)
        return await listed(address, *given)

    cluster._ListOffsets = hangs  # type: ignore[method-assign]


def test_a_leader_that_hangs_holds_up_no_other(cluster: FakeCluster) -> None:
    listed = cluster._ListOffsets
    first_broker_hangs(cluster, 20)

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.consumer(**EARLIEST) as consumer:
            await consumer.assign([P0, P1])
            before_s = cluster.loop.time()
            assert values(await consumer.getmany(timeout_ms=1_000)) == [b"x"]
            for value in (b"y", b"z"):
                append(cluster, [value], partition=1)
                async with asyncio.timeout(1):
                    assert values(await consumer.getmany()) == [value]
            assert cluster.loop.time() - before_s < 2
            cluster._ListOffsets = listed  # type: ignore[method-assign]
            assert len(await consumer.getmany(timeout_ms=30_000)) == 5
            assert cluster.loop.time() - before_s < 25

    cluster.run(work)


def test_a_partition_that_is_assigned_while_another_is_looked_up_is_not_forgotten(cluster: FakeCluster) -> None:
    first_broker_hangs(cluster, 3)

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.consumer(**EARLIEST) as consumer:
            await consumer.assign([P0])
            assert await consumer.getmany(timeout_ms=1_000) == []
            await consumer.assign([P1])
            async with asyncio.timeout(1):
                assert values(await consumer.getmany()) == [b"x"]

    cluster.run(work)


def test_who_asks_for_a_position_gets_the_committed_one_however_slow_the_group_is(cluster: FakeCluster) -> None:
    committed = cluster._FetchOffsets

    async def slow(*given: Any) -> tuple[Any, bytes]:
        await asyncio.sleep(2)
        return await committed(*given)

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client:
            async with group_of(client) as consumer:
                await consumer.commit({P0: 3})
            cluster._FetchOffsets = slow  # type: ignore[method-assign]
            async with client.consumer(group_id="g", auto_offset_reset="latest") as consumer:
                await consumer.assign([P0])
                assert await consumer.position(P0) == 3
            cluster.offsets.clear()
            async with client.consumer(group_id="other", auto_offset_reset="none") as consumer:
                await consumer.assign([P0])
                with pytest.raises(errors.OffsetOutOfRangeError, match="seek first"):
                    await consumer.position(P0)

    cluster.run(work)


def test_who_has_sought_meanwhile_is_not_sent_to_seek(cluster: FakeCluster) -> None:
    async def slow(*_: Any) -> tuple[Any, bytes]:
        await asyncio.sleep(2)
        return co.FetchOffsetsReply(), b""

    cluster._FetchOffsets = slow  # type: ignore[method-assign]

    async def work(_: FakeCluster) -> None:
        options: dict[str, Any] = {"group_id": "g", "auto_offset_reset": "none", "fetch_max_wait_ms": 50}
        async with cluster.client() as client, client.consumer(**options) as consumer:
            await consumer.assign([P0])
            assert await consumer.getmany(timeout_ms=600) == []
            consumer.seek(P0, 3)
            await asyncio.sleep(3)
            assert values(await consumer.getmany(timeout_ms=1_000)) == [b"3", b"4"]

    cluster.run(work)


def test_a_partition_whose_leader_comes_does_not_wait_for_one_that_hangs(cluster: FakeCluster) -> None:
    cluster.leaders[1] = None
    first_broker_hangs(cluster, 20)

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.consumer(**EARLIEST) as consumer:
            await consumer.assign([P0, P1])
            assert await consumer.getmany(timeout_ms=1_000) == []
            cluster.leaders[1] = BROKERS[1]
            async with asyncio.timeout(3):
                assert values(await consumer.getmany()) == [b"x"]

    cluster.run(work)


def test_who_has_to_seek_first_is_told_at_each_read_and_nothing_piles_up(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.consumer(auto_offset_reset="none") as consumer:
            await consumer.assign([P0, P1])
            for _ in range(5):
                with pytest.raises(errors.OffsetOutOfRangeError, match="seek first"):
                    await consumer.getmany(timeout_ms=100)
            assert len(consumer._positions._failures) <= 1
            consumer.seek(P0, 3)
            consumer.seek(P1, 0)
            assert len(await consumer.getmany(timeout_ms=1_000)) > 0

    cluster.run(work)


def test_a_reader_that_closes_looks_nothing_up_any_more(cluster: FakeCluster) -> None:
    async def hangs(*_: Any) -> tuple[Any, bytes]:
        await asyncio.sleep(20)
        raise AssertionError

    cluster._ListOffsets = hangs  # type: ignore[method-assign]

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.consumer(**EARLIEST) as consumer:
            await consumer.assign([P0])
            assert await consumer.getmany(timeout_ms=1_000) == []
        assert cluster.loop.time() < 5
        assert not [task for task in asyncio.all_tasks() if task.get_name() == "oncelog-positions"]

    cluster.run(work)


def test_who_reads_a_partition_that_stays_without_a_leader_is_told(cluster: FakeCluster) -> None:
    cluster.leaders[0] = None

    async def work(_: FakeCluster) -> None:
        async with cluster.client(default_api_timeout_ms=1_000) as client, client.consumer(**EARLIEST) as consumer:
            await consumer.assign([P0, P1])
            assert values(await consumer.getmany(timeout_ms=100)) == [b"x"]
            with pytest.raises(errors.LeaderNotAvailableError):
                await consumer.getmany(timeout_ms=3_000)
            with pytest.raises(errors.LeaderNotAvailableError):
                await consumer.position(P0)
            append(cluster, [b"y"], partition=1)
            assert values(await consumer.getmany(timeout_ms=500)) == [b"y"]

    cluster.run(work)


@pytest.mark.parametrize(("reset", "position"), [("earliest", 0), ("latest", 5)])
def test_a_partition_without_a_position_begins_where_the_option_says(
    cluster: FakeCluster, reset: str, position: int
) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.consumer(auto_offset_reset=reset) as consumer:
            await consumer.assign([P0])
            assert await consumer.position(P0) == position

    cluster.run(work)


def test_a_committed_offset_goes_before_the_option_until_it_is_out_of_range(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client:
            async with group_of(client) as consumer:
                await consumer.commit({P0: 3, P1: 77})
            async with group_of(client) as consumer:
                assert await consumer.position(P0) == 3
                assert await consumer.position(P1) == 77
                assert await consumer.getone() is not None
                consumer.pause(P0)
                assert values(await consumer.getmany()) == [b"x"]

    cluster.run(work)


def test_a_group_that_begins_with_its_topic_goes_on_with_the_first_record_that_is_left(cluster: FakeCluster) -> None:
    """Offset 0 is committed for it when the topic comes; the end is where a group begins that was not there before."""

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client:
            async with group_of(client) as consumer:
                await consumer.commit({P0: 0})
            cluster.logs[PartitionId(TOPIC_ID, 0)].start = 3
            async with client.consumer(group_id="g", auto_offset_reset="latest") as consumer:
                await consumer.assign([P0])
                assert values(await consumer.getmany(timeout_ms=2_000)) == [b"3", b"4"]

    cluster.run(work)


def test_a_group_goes_on_where_a_loss_begins(cluster: FakeCluster) -> None:
    """Its commit says in which epoch the records were read that are lost. One by hand does not, and is taken as it is."""

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client:
            async with group_of(client) as consumer:
                while len(await consumer.getmany(timeout_ms=100)):
                    pass
                await consumer.commit()
            cluster.loses_from(3)
            async with group_of(client) as consumer:
                assert values(await consumer.getmany(timeout_ms=2_000)) == [b"3", b"4"]
                await consumer.commit({P0: 4})
            async with group_of(client) as consumer:
                assert values(await consumer.getmany(timeout_ms=2_000)) == [b"4"]

    cluster.run(work)


def test_a_partition_that_stays_assigned_keeps_the_epoch_of_its_position(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, group_of(client) as consumer:
            await consumer.getmany(timeout_ms=100)
            await consumer.assign([P0])
            await consumer.commit()
            assert cluster.offset_epochs[TOPIC_ID, 0] == 0

    cluster.run(work)


def test_a_commit_takes_known_positions_alone(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.consumer(group_id="g", **EARLIEST) as consumer:
            await consumer.assign([P0, P1])
            consumer.seek(P1, 1)
            await consumer.commit()
            at = await consumer.committed()
            assert {partition: found.offset for partition, found in at.items() if found is not None} == {P1: 1}

    cluster.run(work)


ALL = [b"0", b"1", b"2", b"3", b"4", b"x"]


@pytest.mark.parametrize(
    ("committed", "again"), [({}, ALL), ({P0: 5}, [b"x"]), ({P0: 5, P1: 1}, []), ({P1: 1}, ALL[:5]), ({P0: 2}, ALL)]
)
def test_records_that_were_not_committed_are_read_again(
    cluster: FakeCluster, committed: dict[TopicPartition, int], again: list[bytes]
) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, group_of(client) as consumer:
            for _again in range(50):  # both partitions have to be fetched
                await cluster.pause()
            batch: Records = Records(None)
            while len(batch) < len(ALL):
                some = await consumer.getmany(timeout_ms=300)
                batch.extend(some)
                batch.offsets |= some.offsets
            await consumer.commit(committed)
            await consumer.rewind(batch)
            seen: list[bytes] = []
            while records := await consumer.getmany(timeout_ms=300):
                seen += values(records)
            assert sorted(seen) == again

    cluster.run(work)


def test_what_is_no_longer_read_stays_where_it_is(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.consumer(**EARLIEST) as consumer:
            await consumer.assign([P0])
            batch = await consumer.getmany()
            await consumer.assign([P1])
            await consumer.rewind(batch)
            assert values(await consumer.getmany()) == [b"x"]
            assert await consumer.position(P1) == 1

    cluster.run(work)


def test_records_of_a_topic_that_was_created_again_are_not_sought_in_the_new_one(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.consumer(**EARLIEST) as consumer:
            await consumer.assign([P0])
            batch = await consumer.getmany()
            batch.offsets[P0] = batch.offsets[P0]._replace(topic_id="0b" * 16)
            before = await consumer.position(P0)
            await consumer.rewind(batch)
            assert await consumer.position(P0) == before

    cluster.run(work)


def test_a_partition_that_is_lost_while_the_group_is_asked_is_left_alone(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.consumer(group_id="g", **EARLIEST) as consumer:
            await consumer.assign([P0])
            batch = await consumer.getmany()
            cluster.fail("FetchOffsets", lambda address, request: consumer._fetcher.remove(P0))
            await consumer.rewind(batch)
            assert consumer.assignment() == []

    cluster.run(work)
