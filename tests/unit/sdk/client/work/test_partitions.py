"""Which brokers are asked for which partitions, while leaders and topics change."""

from __future__ import annotations

import pytest

from oncelog import errors
from oncelog.client.work.worker import Worker
from tests.unit.sdk.client.fake_cluster import BROKERS, FakeCluster
from tests.unit.sdk.client.reading import append
from tests.unit.sdk.client.work.fake_channels import FakeChannels
from tests.unit.sdk.client.work.working import at_work, values


def test_a_partition_without_a_leader_is_waited_for(cluster: FakeCluster, channels: FakeChannels) -> None:
    cluster.leaders[0] = None

    async def work(worker: Worker) -> None:
        append(cluster, [b"0"])
        assert await worker.getmany(timeout_ms=500) == []
        channels.fail_over(0, BROKERS[0])
        assert values(await worker.getmany(timeout_ms=1_000)) == [b"0"]

    at_work(cluster, work)


def test_a_partition_that_is_added_is_found(cluster: FakeCluster, channels: FakeChannels) -> None:
    async def work(worker: Worker) -> None:
        number = cluster.add_partition()
        append(cluster, [b"new"], partition=number)
        assert values(await worker.getmany(timeout_ms=30_000)) == [b"new"]

    at_work(cluster, work, {"metadata_max_age_ms": 1_000})


def test_what_fails_for_long_is_told_once_and_tried_again(cluster: FakeCluster, channels: FakeChannels) -> None:
    cluster.leaders[0] = None

    async def work(worker: Worker) -> None:
        with pytest.raises(errors.LeaderNotAvailableError):
            await worker.getmany(timeout_ms=5_000)
        assert await worker.getmany(timeout_ms=300) == []
        channels.fail_over(0, BROKERS[1])
        append(cluster, [b"0"])
        assert values(await worker.getmany(timeout_ms=2_000)) == [b"0"]

    at_work(cluster, work, {"default_api_timeout_ms": 1_000})


def test_a_broker_that_is_away_does_not_hold_up_the_other(cluster: FakeCluster, channels: FakeChannels) -> None:
    channels.make()
    cluster.down.add(BROKERS[0])
    append(cluster, [b"0"])
    append(cluster, [b"1"], partition=1)

    async def work(worker: Worker) -> None:
        assert values(await worker.getmany(timeout_ms=1_000)) == [b"1"]
        cluster.down.clear()
        assert values(await worker.getmany(timeout_ms=2_000)) == [b"0"]

    at_work(cluster, work)
