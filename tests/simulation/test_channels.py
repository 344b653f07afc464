"""Channels in a whole simulated cluster: what was acknowledged never comes again, and nothing else is lost, whoever dies."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field

import pytest

from oncelog import errors
from oncelog.client.client import Client
from oncelog.core.batch.batch import decode_batch
from oncelog.ports import Transport
from oncelog.types import PartitionId
from oncelog.v1 import channel_pb2 as pb
from oncelog.wire import methods
from oncelog_runtime.sim.faults import FaultPlan
from tests.simulation.cluster import SimCluster

TOPIC = "jobs"
CHANNEL = "work"
PARTITIONS = 2
BAD_NETWORK = FaultPlan(lose_reply=0.05, break_link=0.03, duplicate_request=0.05, slow_message=0.05, slow_ms=300.0)


@dataclass(slots=True)
class Work:
    """A channel of the topic, and what became of each value."""

    cluster: SimCluster
    topic_id: str = ""
    transport: Transport = field(init=False)
    acknowledged: set[int] = field(default_factory=set)
    """Those whose acknowledgement was answered."""
    deliveries: Counter[int] = field(default_factory=Counter)
    late: list[int] = field(default_factory=list)
    """Those that came after their acknowledgement was answered."""

    def __post_init__(self) -> None:
        self.transport = self.cluster.world.client("worker")

    def leader(self, partition: int) -> str:
        """The node that leads a partition, as the newest broker's view says."""
        _, broker = max(self.cluster.brokers(), key=lambda item: item[1].view.revision)
        return f"broker-{broker.view.require_leader(PartitionId(self.topic_id, partition)).broker_id}"

    def address(self, partition: int) -> str:
        return self.cluster.node(self.leader(partition)).address

    async def create(self, client: Client, **options: int) -> None:
        await client.admin.create_topic(TOPIC, partitions=PARTITIONS, replication_factor=3)
        name = next(name for name, broker in self.cluster.brokers() if broker.controller.is_controller)
        request = pb.CreateChannelRequest(
            topic=TOPIC, channel=CHANNEL, options=pb.ChannelOptions(**options), nonce="first"
        )
        address = self.cluster.node(name).address
        reply, _ = await methods.CREATE_CHANNEL.call(self.transport, address, request, 5_000)
        self.topic_id = reply.channel.topic_id

    async def receive(self, worker: str, partition: int, most: int = 20) -> list[tuple[pb.ReceivedRecords, list[int]]]:
        """One Receive; the ranges, each with its values."""
        request = pb.ReceiveRequest(
            topic_id=self.topic_id,
            channel=CHANNEL,
            worker_id=worker,
            partitions=[partition],
            max_in_flight=most,
            max_wait_ms=500,
        )
        reply, payload = await methods.RECEIVE.call(self.transport, self.address(partition), request, 2_000)
        found, position, batch = [], 0, memoryview(b"")
        for item in reply.records:
            if item.length:
                batch = memoryview(payload)[position : position + item.length]
                position += item.length
            rows = [row for row in decode_batch(batch) if item.first_offset <= row.offset <= item.last_offset]
            values = [int(row.value or b"-1") for row in rows]
            self.late += [value for value in values if value in self.acknowledged]
            self.deliveries.update(values)
            found.append((item, values))
        return found

    async def settle(self, worker: str, item: pb.ReceivedRecords, values: list[int]) -> None:
        request = pb.SettleRequest(topic_id=self.topic_id, channel=CHANNEL, worker_id=worker)
        request.items.add(
            partition=item.partition,
            first_offset=item.first_offset,
            last_offset=item.last_offset,
            delivery=item.delivery,
            leader_epoch=item.leader_epoch,
            verdict=pb.VERDICT_ACK,
        )
        reply, _ = await methods.SETTLE.call(self.transport, self.address(item.partition), request, 20_000)
        if not reply.errors:
            self.acknowledged.update(values)

    async def work(self, worker: str, partition: int) -> None:
        """Receives and acknowledges, whatever goes wrong. An acknowledgement whose answer is lost may count, or not."""
        while True:
            try:
                for item, values in await self.receive(worker, partition):
                    await self.settle(worker, item, values)
            except errors.OncelogError:
                await asyncio.sleep(0.05)

    async def until_all_is_settled(self) -> None:
        """Returns when the leaders have nothing left that is not settled."""
        for _ in range(300):
            if not sum([await self.depth(partition) for partition in range(PARTITIONS)]):
                return
            await asyncio.sleep(0.2)
        raise AssertionError("something is never settled")

    async def depth(self, partition: int) -> int:
        """Records that are not settled; 1 when nobody can say."""
        request = pb.DescribeChannelRequest(topic_id=self.topic_id, channel=CHANNEL, partitions=[partition])
        try:
            address = self.address(partition)
            reply, _ = await methods.DESCRIBE_CHANNEL.call(self.transport, address, request, 2_000)
        except errors.OncelogError:
            return 1
        told = reply.partitions[0]
        return 1 if told.HasField("error") else told.depth


async def send(client: Client, values: range) -> set[int]:
    async with client.producer() as producer:
        waiting = [await producer.send(TOPIC, b"%d" % value, partition=value % PARTITIONS) for value in values]
        for delivery in waiting:
            await delivery
    return set(values)


@pytest.mark.parametrize("victim", ["leader", "coordinator"])
def test_what_is_acknowledged_never_comes_again_and_the_rest_does(victim: str) -> None:
    async def main(cluster: SimCluster) -> None:
        await cluster.healthy()
        work = Work(cluster)
        async with cluster.client("writer") as client:
            await work.create(client)
            await send(client, range(40))
        first = await work.receive("w1", 0, most=10)
        done = [value for _, values in first for value in values][:5]
        item = first[0][0]
        await work.settle("w1", _part(item, 5), done)
        assert work.acknowledged == set(done) == {0, 2, 4, 6, 8}
        if victim == "leader":
            cluster.node(work.leader(0)).kill()
        else:
            for n in range(2):
                cluster.node(f"coordinator-{n}").kill()
                cluster.node(f"coordinator-{n}").restart()
        await asyncio.sleep(8)
        working = [asyncio.create_task(work.work(f"w{n}", n % PARTITIONS)) for n in range(4)]
        await work.until_all_is_settled()
        for task in working:
            task.cancel()
        assert work.late == []
        assert set(work.deliveries) == set(range(40)), "nothing is lost"

    with SimCluster(f"channels-{victim}") as cluster:
        cluster.world.loop.run(main(cluster))


def _part(item: pb.ReceivedRecords, count: int) -> pb.ReceivedRecords:
    part = pb.ReceivedRecords()
    part.CopyFrom(item)
    part.last_offset = item.first_offset + count - 1
    return part


@pytest.mark.parametrize("seed", range(4))
def test_workers_go_on_through_kills_and_a_bad_network(seed: int) -> None:
    async def main(cluster: SimCluster) -> None:
        await cluster.healthy()
        work = Work(cluster)
        random = cluster.world.random("channels")
        async with cluster.client("writer") as client:
            await work.create(client, ack_wait_ms=2_000)
            working = [asyncio.create_task(work.work(f"w{n}", n % PARTITIONS)) for n in range(4)]
            cluster.world.set_plan(BAD_NETWORK)
            for start in range(0, 200, 40):
                await send(client, range(start, start + 40))
                victim = random.choice(["broker-0", "broker-1", "broker-2", "coordinator-0", "coordinator-1"])
                cluster.node(victim).kill()
                await asyncio.sleep(random.random() * 3)
                cluster.node(victim).restart()
                await asyncio.sleep(random.random() * 3)
            cluster.world.heal()
            cluster.world.set_plan(FaultPlan())
            await work.until_all_is_settled()
        for task in working:
            task.cancel()
        assert work.late == []
        assert set(work.deliveries) == set(range(200)), "nothing is lost"
        assert len(work.acknowledged) > 50, "only what was answered can be seen to come again"

    with SimCluster(f"channels-{seed}") as cluster:
        cluster.world.loop.run(main(cluster))


def test_a_record_that_waited_at_its_worker_while_its_leader_changed_by_plan_does_not_come_again() -> None:
    """A move takes some milliseconds. The next leader gave the record to another worker, which acknowledged it at once."""

    async def main(cluster: SimCluster) -> None:
        await cluster.healthy()
        async with cluster.client("one") as one, cluster.client("other") as other:
            topic = await one.admin.create_topic(TOPIC, partitions=1, replication_factor=2)
            await one.admin.create_channel(TOPIC, CHANNEL)
            place = PartitionId(topic.topic_id, 0)
            async with one.worker(TOPIC, channel=CHANNEL) as busy, one.producer() as producer:
                await producer.send_and_wait(TOPIC, value=b"0")
                await asyncio.sleep(0.01)
                assert busy.in_flight == 1, "it has come, and waits"
                async with other.worker(TOPIC, channel=CHANNEL) as quick:
                    await quick.start()
                    _, broker = max(cluster.brokers(), key=lambda item: item[1].view.revision)
                    state = broker.view.partitions[place].value
                    leader, follower = (
                        state.leader.broker_id,
                        next(n for n in state.replicas if n != state.leader.broker_id),
                    )
                    (third,) = {0, 1, 2} - {leader, follower}
                    await one.admin.reassign_partitions({(TOPIC, 0): [follower, third]})
                    (message,) = await quick.getmany(timeout_ms=5_000)
                    await message.ack()
                    assert await busy.getmany(timeout_ms=1_000) == []

    with SimCluster("channels-moved") as cluster:
        cluster.world.loop.run(main(cluster))


def test_a_pause_does_not_go_by_a_clock_that_is_wrong_alone() -> None:
    """Seed 116: a leader whose clock was hours ahead wrote when a pause ends, and the next one waited for hours."""

    async def main(cluster: SimCluster) -> None:
        await cluster.healthy()
        work = Work(cluster)
        async with cluster.client("writer") as client:
            await work.create(client)
            await send(client, range(1))
            leader = work.leader(0)
            cluster.node(leader).clock.step(5 * 3_600_000)
            await asyncio.sleep(2)
            async with client.worker(TOPIC, channel=CHANNEL) as worker:
                (message,) = await worker.getmany(timeout_ms=5_000)
                await message.nack(delay_ms=500)
                cluster.node(leader).kill()
                began_s = asyncio.get_running_loop().time()
                (again,) = await worker.getmany(timeout_ms=60_000)
                assert asyncio.get_running_loop().time() - began_s < 30
                await again.ack()

    with SimCluster("channels-clock") as cluster:
        cluster.world.loop.run(main(cluster))


def test_a_record_whose_work_ends_each_of_its_workers_is_dead_in_the_end() -> None:
    """An exception ends the `async with` of the worker. What only waited in it, or was on its way, does not count."""

    async def main(cluster: SimCluster) -> None:
        await cluster.healthy()
        async with cluster.client("writer") as client:
            await client.admin.create_topic(TOPIC, partitions=PARTITIONS, replication_factor=3)
            await client.admin.create_channel(TOPIC, CHANNEL, max_deliveries=3, retry_backoff_ms=60_000)
            await send(client, range(0, 6, 2))
            counts = []

            async def work() -> None:
                async with client.worker(TOPIC, channel=CHANNEL) as worker:
                    async for message in worker:
                        counts.append((message.value, message.deliveries))
                        raise ValueError("poison")

            for _ in range(3):
                with pytest.raises(ValueError, match="poison"):
                    await work()
            assert counts == [(b"0", 1), (b"0", 2), (b"0", 3)], "at once, whatever the pause of the channel is"
            async with asyncio.timeout(60), client.worker(TOPIC, channel=CHANNEL) as worker:
                left = [await anext(worker), await anext(worker)]
                assert [(one.value, one.deliveries) for one in left] == [(b"2", 1), (b"4", 1)]
                await worker.ack(left)
            assert sum(one.dead for one in (await client.admin.describe_channel(TOPIC, CHANNEL)).partitions) == 1

    with SimCluster("channels-poison") as cluster:
        cluster.world.loop.run(main(cluster))


def test_a_record_on_its_way_to_a_worker_that_ends_is_not_counted() -> None:
    """With one delivery for each record it would be dead without having been worked on."""

    async def main(cluster: SimCluster) -> None:
        await cluster.healthy()
        async with cluster.client("writer") as client:
            await client.admin.create_topic(TOPIC, partitions=PARTITIONS, replication_factor=3)
            await client.admin.create_channel(TOPIC, CHANNEL, max_deliveries=1)
            for step in range(20):
                async with client.worker(TOPIC, channel=CHANNEL):
                    await asyncio.sleep(1)
                    sending = asyncio.ensure_future(send(client, range(2 * step, 2 * step + 1)))
                    await asyncio.sleep(step * 0.0005)
                await sending
            found: set[int] = set()
            async with asyncio.timeout(60), client.worker(TOPIC, channel=CHANNEL) as worker:
                while len(found) < 20:
                    for message in await worker.getmany(timeout_ms=5_000):
                        found.add(int(message.value or b""))
                        await message.ack()
            assert found == set(range(0, 40, 2))

    with SimCluster("channels-leaving") as cluster:
        cluster.world.loop.run(main(cluster))
