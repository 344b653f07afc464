"""Finding the cluster and its parts; and what is said when it is not there."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from oncelog import errors
from oncelog.client.home.context import now_ms
from oncelog.core.consume.near_replica import Replica
from oncelog.types import PartitionId
from tests.unit.sdk.client.fake_cluster import BROKERS, TOPIC, TOPIC_ID, FakeCluster


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


def test_a_cluster_that_was_never_reached_is_given_up_after_five_seconds(cluster: FakeCluster) -> None:
    """Regression: a wrong address was reported after 30 s."""
    cluster.down = {*BROKERS}

    async def work(_: FakeCluster) -> None:
        client = cluster.client()
        for _ in range(2):
            with pytest.raises(
                errors.ClusterUnreachableError, match="b0:1: connection refused; b1:1: connection refused"
            ):
                await client.start()

    cluster.run(work)
    assert 9 < cluster.loop.time() < 10.5


def test_a_cluster_that_was_reached_once_is_waited_for_as_long_as_a_call_may_take(cluster: FakeCluster) -> None:
    """`bootstrap_timeout_ms` is for the first contact alone."""

    async def come_back() -> None:
        await asyncio.sleep(15)
        cluster.down = set()

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.producer() as producer:
            cluster.down = {*BROKERS}
            task = asyncio.get_running_loop().create_task(come_back())
            await producer.send_and_wait(TOPIC, b"")
            await task

    cluster.run(work)


def test_concurrent_refreshes_share_calls(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client:
            before = cluster.count("GetMetadata")
            deadline_ms = client._context.deadline_ms()
            await asyncio.gather(*(client._metadata.refresh(deadline_ms) for _ in range(50)))
            assert cluster.count("GetMetadata") - before <= 2

    cluster.run(work)


def test_nobody_goes_back_to_an_older_leader(cluster: FakeCluster) -> None:
    where = PartitionId(TOPIC_ID, 0)

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client:
            metadata = client._metadata
            deadline_ms = client._context.deadline_ms()
            cluster.leaders[0], cluster.epochs[0] = BROKERS[1], 5
            await metadata.topic(TOPIC, deadline_ms)
            cluster.leaders[0], cluster.epochs[0] = BROKERS[0], 4
            await metadata.refresh(deadline_ms)
            assert (metadata.leader(where).address, metadata.leader(where).leader_epoch) == (BROKERS[1], 5)

    cluster.run(work)


def test_where_brokers_name_their_racks_a_partitions_replicas_are_known_by_them(cluster: FakeCluster) -> None:
    where = PartitionId(TOPIC_ID, 0)

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client:
            metadata = client._metadata
            deadline_ms = client._context.deadline_ms()
            await metadata.topic(TOPIC, deadline_ms)
            assert (metadata.leader(where).rack, metadata.leader(where).followers) == ("", ())
            cluster.racks[:] = ["a", "b"]
            await metadata.refresh(deadline_ms)
            assert (metadata.leader(where).rack, metadata.leader(where).followers) == ("a", (Replica(BROKERS[1], "b"),))
            cluster.leaders[0], cluster.epochs[0] = None, 1
            await metadata.refresh(deadline_ms)
            both = (Replica(BROKERS[0], "a"), Replica(BROKERS[1], "b"))
            assert (metadata.leader(where).rack, metadata.leader(where).followers) == ("", both)

    cluster.run(work)


def test_an_unknown_topic_gets_a_little_time_to_appear(cluster: FakeCluster) -> None:
    cluster.topic_exists = False

    async def appear() -> None:
        await asyncio.sleep(0.5)
        cluster.topic_exists = True

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.producer() as producer:
            task = asyncio.get_running_loop().create_task(appear())
            await producer.send_and_wait(TOPIC, b"")
            await task
            with pytest.raises(errors.UnknownTopicError):
                await producer.send("nowhere", b"")

    cluster.run(work)


def test_who_does_not_find_a_topic_lets_others_wait_for_it(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client:
            metadata = client._metadata
            await metadata.topic(TOPIC, now_ms() + 5_000)
            cluster.topic_exists = False
            await metadata.refresh(now_ms() + 5_000)
            with pytest.raises(errors.UnknownTopicError):
                await metadata.topic(TOPIC, now_ms() + 5_000)
            cluster.topic_exists = True
            await metadata.refresh(now_ms() + 5_000)
            assert metadata.known_topic(TOPIC) is not None, "it is still asked for"
            with pytest.raises(errors.UnknownTopicError):
                await metadata.topic("nowhere", now_ms() + 5_000)
            assert "nowhere" not in metadata._wanted

    cluster.run(work)


def test_a_name_whose_caller_has_gone_is_asked_for_no_more_unless_others_wait(cluster: FakeCluster) -> None:
    """Regression: each refresh to come named every topic that a caller with a time-out had asked for in vain."""

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client:
            metadata = client._metadata
            other = asyncio.get_running_loop().create_task(metadata.topic("nowhere", now_ms() + 5_000))
            for name in ("nowhere", "nowhere-else"):
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.1):
                        await metadata.topic(name, now_ms() + 5_000)
            assert [*metadata._wanted] == ["nowhere"]
            with pytest.raises(errors.UnknownTopicError):
                await other
            assert not metadata._wanted

    cluster.run(work)


def test_a_broker_that_sees_a_new_topic_late_is_not_believed_alone(cluster: FakeCluster) -> None:
    """Found by seed 920059: a broker that had been frozen said that a topic of a second ago does not exist."""
    cluster.late = {BROKERS[0]}

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.producer() as producer:
            await producer.send_and_wait(TOPIC, b"")

    cluster.run(work)


def test_when_nothing_new_is_told_for_long_another_broker_is_asked(cluster: FakeCluster) -> None:
    """The one that answers may be cut off from etcd alone: it is quick, and knows nothing of the next leader."""

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client:
            metadata = client._metadata
            await metadata.topic(TOPIC, client._context.deadline_ms())
            asked: list[str] = []
            ask = metadata._any_broker._ask

            async def noted(address: str, *others: Any) -> Any:
                asked.append(address)
                return await ask(address, *others)

            metadata._any_broker._ask = noted  # type: ignore[method-assign]
            for _ in range(40):
                await metadata.request_refresh()
                await asyncio.sleep(0.1)
            first = asked[0]
            assert set(asked[:30]) == {first}, "a fail-over is waited for where answers come from"
            assert set(asked[31:]) > {first}
            cluster.revision += 1
            await metadata.request_refresh()
            asked.clear()
            for _ in range(20):
                await metadata.request_refresh()
                await asyncio.sleep(0.1)
            assert len(set(asked)) == 1, "there was news"

    cluster.run(work)


def no_tls() -> errors.NetworkError:
    return errors.NetworkError("the certificate of b0:1 has expired: renew it there", tls="refused", unsent="true")


def test_tls_that_no_broker_agrees_on_is_said_at_once(cluster: FakeCluster) -> None:
    cluster.fail("GetMetadata", *(no_tls() for _ in range(100)))

    async def work(_: FakeCluster) -> None:
        with pytest.raises(errors.ClusterUnreachableError, match="has expired: renew it there"):
            await cluster.client().start()

    cluster.run(work)
    assert cluster.loop.time() < 1


def test_a_client_that_knew_the_cluster_waits_for_a_renewal(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client:
            cluster.fail("GetMetadata", *(no_tls() for _ in range(10)))
            await client._metadata.refresh(client._context.deadline_ms())

    cluster.run(work)


@pytest.mark.parametrize("name", [None, 7, b"orders", "\ud800", "", "a b"])
def test_what_no_topic_is_called_is_refused_and_harms_no_later_refresh(cluster: FakeCluster, name: Any) -> None:
    """It was kept among the topics to ask for, and each refresh of this client raised `TypeError` from then on."""

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.producer() as producer:
            for use in (lambda: producer.send(name, b"a"), client.consumer(name).start):
                with pytest.raises(errors.InvalidTopicError, match="topic names are 1-249 characters"):
                    await use()
            await producer.send_and_wait(TOPIC, b"b", partition=0)
            await client.start()

    cluster.run(work)
