"""Transactions through fail-overs of coordinators and leaders: definite, atomic, fenced, replayable, live."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from oncelog import errors
from oncelog.client.client import Client
from oncelog.client.produce.transactions.shared_batch import SharedBatch
from oncelog.core.batch.hashing import shard_for
from oncelog.types import TopicPartition
from oncelog_coordinator.coordinator import CoordinatorNode
from oncelog_runtime.metadata.cluster_keys import KIND_GROUP, KIND_TXN
from tests.simulation.cluster import SHARDS, SimCluster

TOPIC = "work"
PARTITIONS = 3
Scenario = Callable[[SimCluster, Client], Awaitable[None]]


def run(seed: int, scenario: Scenario) -> None:
    with SimCluster(seed) as cluster:

        async def whole() -> None:
            await cluster.healthy()
            async with cluster.client("test", default_api_timeout_ms=20_000) as client:
                await client.admin.create_topic(TOPIC, partitions=PARTITIONS)
                await scenario(cluster, client)
            for _, node in coordinators(cluster):
                node.check()

        cluster.world.run(whole())


def coordinators(cluster: SimCluster) -> list[tuple[str, CoordinatorNode]]:
    """Living coordinators."""
    return [
        (name, service)
        for name, service in sorted(cluster.services.items())
        if isinstance(service, CoordinatorNode) and not cluster.node(name).life.dead
    ]


def owner(cluster: SimCluster, kind: str, name: str) -> str:
    """The node that owns the shard of an id."""
    number = shard_for(name, SHARDS)
    found = [node for node, service in coordinators(cluster) if (kind, number) in service._owned]
    assert len(found) == 1, f"{kind}-{number} is owned by {found}"
    return found[0]


async def bounce(cluster: SimCluster, name: str) -> None:
    """kill -9, and a new process a little later."""
    cluster.node(name).kill()
    await asyncio.sleep(0.5)
    cluster.node(name).restart()


async def committed_values(client: Client) -> list[bytes]:
    """What a read_committed reader sees up to the end of all partitions, sorted."""
    found: list[bytes] = []
    places = [TopicPartition(TOPIC, p) for p in range(PARTITIONS)]
    async with client.consumer(auto_offset_reset="earliest", fetch_max_wait_ms=50) as consumer:
        await consumer.assign(places)
        ends = await client.admin.partition_offsets(TOPIC)
        assert all(end.last_stable_offset == end.high_watermark for end in ends.values()), "something is still open"
        while any([await consumer.position(place) < ends[place.partition].high_watermark for place in places]):
            found += [record.value or b"" for record in await consumer.getmany(timeout_ms=200)]
    return sorted(found)


async def stable(client: Client, within_s: float = 60) -> None:
    """Waits until no partition holds an open transaction."""
    for _ in range(int(within_s * 10)):
        ends = await client.admin.partition_offsets(TOPIC)
        if all(end.last_stable_offset == end.high_watermark for end in ends.values()):
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"a transaction stays open: {ends}")


@pytest.mark.parametrize("seed", range(3))
def test_back_to_back_transactions_do_not_wait_for_markers_and_cost_the_same_for_ever(seed: int) -> None:
    async def scenario(cluster: SimCluster, client: Client) -> None:
        loop = cluster.world.loop
        times: list[float] = []
        async with client.producer(transactional_id="t") as producer:
            for i in range(200):
                began = loop.time()
                txn = await producer.transaction().begin()
                await txn.send(TOPIC, b"%03d" % i, partition=i % PARTITIONS)
                await (txn.abort() if i % 5 == 0 else txn.commit())
                times.append(loop.time() - began)
        await stable(client)
        assert await committed_values(client) == [b"%03d" % i for i in range(200) if i % 5]
        early, late = sorted(times[20:60])[20], sorted(times[160:])[20]
        assert late < 1.5 * early + 0.001, f"{early * 1000:.1f} ms, then {late * 1000:.1f} ms"
        assert early < 0.012

    run(seed, scenario)


def test_120_visible_is_visible_at_once() -> None:
    async def scenario(cluster: SimCluster, client: Client) -> None:
        async with client.producer(transactional_id="t") as producer:
            for i in range(20):
                txn = await producer.transaction().begin()
                await txn.send(TOPIC, b"%03d" % i)
                await txn.commit(wait="visible")
                assert txn.visible
                assert await committed_values(client) == [b"%03d" % j for j in range(i + 1)]

    run(5, scenario)


@pytest.mark.parametrize("seed", range(4))
def test_coordinators_and_leaders_that_die_lose_and_tear_nothing(seed: int) -> None:
    async def scenario(cluster: SimCluster, client: Client) -> None:
        expected: list[bytes] = []
        stop = asyncio.Event()

        async def trouble() -> None:
            names = ["coordinator-0", "broker-0", "coordinator-1", "broker-1", "coordinator-0", "broker-2"]
            for name in names:
                await asyncio.sleep(0.7)
                await bounce(cluster, name)
                await asyncio.sleep(2.5)
            stop.set()

        troubling = asyncio.ensure_future(trouble())
        count = 0
        while not stop.is_set():
            async with client.producer(transactional_id="t", transaction_timeout_ms=5_000) as producer:
                try:
                    for _ in range(40):
                        if await one_transaction(client, producer, count, expected):
                            count += 1
                        await asyncio.sleep(0.1)
                        if stop.is_set():
                            break
                except errors.OncelogError:
                    await asyncio.sleep(0.1)  # a new session goes on; what was in doubt is settled already
        await troubling
        await cluster.healthy()
        await stable(client)
        assert count > 50
        assert await committed_values(client) == sorted(expected)

    run(seed, scenario)


async def one_transaction(client: Client, producer: Any, count: int, expected: list[bytes]) -> bool:
    """True when it committed. What is in doubt is asked for: the answer is definite."""
    txn = await producer.transaction().begin()
    values = [b"%05d-%d" % (count, p) for p in range(PARTITIONS)]
    committed = False
    try:
        for partition, value in enumerate(values):
            await txn.send(TOPIC, value, partition=partition)
        await txn.commit()
        committed = True
    except errors.OncelogError:
        for _ in range(100):
            outcome = (await client.get_outcome("t", txn.txn_no)).outcome
            if outcome not in ("ongoing", "not_begun"):
                break
            await asyncio.sleep(0.5)
        else:
            raise AssertionError("the transaction has no outcome") from None
        committed = outcome == "committed"
        raise
    finally:
        if committed:
            expected.extend(values)
    return committed


@pytest.mark.parametrize("seed", range(3))
def test_178_179_many_writers_through_a_fail_over(seed: int) -> None:
    async def scenario(cluster: SimCluster, client: Client) -> None:
        async def write(task: int, batch: int, run_id: str = "run-1") -> Any:
            async with await client.join_transaction(SharedBatch("q", run_id, "app", batch, f"{batch:03}")) as part:
                assert not part.already_committed
                for p in range(PARTITIONS):
                    await part.send(TOPIC, b"b%d-t%d-p%d" % (batch, task, p), partition=p)
                return await part.flush()

        results = [await write(task, 0) for task in range(3)]
        await bounce(cluster, owner(cluster, KIND_TXN, "q"))
        late = await write(9, 0)
        assert late.txn_no == results[0].txn_no
        winners = [results[0], results[2], late]
        done = await client.commit_transaction(SharedBatch("q", "run-1", "app", 0, "000"), late.txn_no, winners)
        assert (done.already_committed, done.committed_rows) == (False, 9)
        again = await client.commit_transaction(SharedBatch("q", "run-1", "app", 0, "000"), late.txn_no, winners)
        assert (again.already_committed, again.committed_rows) == (True, 9)
        await stable(client)
        assert await committed_values(client) == sorted(
            b"b0-t%d-p%d" % (task, p) for task in (0, 2, 9) for p in range(PARTITIONS)
        )
        old = await write(1, 1)
        new = await write(1, 1, "run-2")
        with pytest.raises(errors.ProducerFencedError):
            await client.commit_transaction(SharedBatch("q", "run-1", "app", 1, "001"), old.txn_no, [old])
        await client.commit_transaction(SharedBatch("q", "run-2", "app", 1, "001"), new.txn_no, [new])
        await stable(client)
        values = await committed_values(client)
        assert len(values) == 12
        assert len(set(values)) == 12

    run(seed, scenario)


def test_111_180_what_nobody_ends_is_aborted_and_readers_go_on() -> None:
    async def scenario(cluster: SimCluster, client: Client) -> None:
        async with client.producer(transactional_id="t", transaction_timeout_ms=2_000) as producer:
            txn = await producer.transaction().begin()
            await txn.send(TOPIC, b"never", partition=0)
            await txn.flush()
            part = await client.join_transaction(SharedBatch("q", "r", "app", 0, "1"), lease_ms=2_000)
            await part.send(TOPIC, b"neither", partition=1)
            await part.flush()
            await part.close()
            await bounce(cluster, "coordinator-0")
            await stable(client, within_s=20)
            assert await committed_values(client) == []
            with pytest.raises(errors.TxnAbortedError):
                await txn.commit()
            async with producer.transaction() as following:
                await following.send(TOPIC, b"next", partition=0)
        with pytest.raises(errors.TxnEndedError):
            await client.join_transaction(SharedBatch("q", "r", "app", 0, "1"))
        await stable(client)
        assert await committed_values(client) == [b"next"]

    run(8, scenario)


@pytest.mark.parametrize("seed", range(3))
def test_14_offsets_commit_with_their_transaction_also_when_the_groups_owner_dies(seed: int) -> None:
    async def scenario(cluster: SimCluster, client: Client) -> None:
        place = TopicPartition(TOPIC, 0)
        async with (
            client.producer(transactional_id="t", transaction_timeout_ms=4_000) as producer,
            client.consumer(group_id="g", fetch_max_wait_ms=50, enable_auto_commit=False) as consumer,
        ):
            await consumer.assign([place])
            for i in range(6):
                txn = await producer.transaction().begin()
                await txn.send(TOPIC, b"%d" % i, partition=1)
                await txn.send_offsets({place: 10 * (i + 1)}, consumer.group())
                if i == 2:
                    await bounce(cluster, owner(cluster, KIND_GROUP, "g"))
                if i == 4:
                    await bounce(cluster, owner(cluster, KIND_TXN, "t"))
                await (txn.abort() if i % 2 else txn.commit())
                found = (await consumer.committed(place))[place]
                assert found is not None
                assert found.offset == 10 * (i + 1 - i % 2)

    run(seed, scenario)


def test_a_clean_stop_hands_over_without_waiting_for_a_lease() -> None:
    async def scenario(cluster: SimCluster, client: Client) -> None:
        await asyncio.sleep(3)
        loop = cluster.world.loop
        async with client.producer(transactional_id="t") as producer:
            async with producer.transaction() as txn:
                await txn.send(TOPIC, b"1")
            name = owner(cluster, KIND_TXN, "t")
            service = cluster.services[name]
            began = loop.time()
            stopping = cluster.node(name).spawn(service.stop(1_000))
            async with producer.transaction() as txn:
                await txn.send(TOPIC, b"2")
            assert loop.time() - began < 1.5
            await stopping
        await stable(client)
        assert await committed_values(client) == [b"1", b"2"]

    run(2, scenario)
