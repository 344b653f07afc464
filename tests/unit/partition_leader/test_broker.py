"""One broker process: started and stopped in order, alone in its cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from oncelog import errors
from oncelog.types import PartitionId
from oncelog.v1 import partition_pb2 as pb
from oncelog.v1 import types_pb2
from oncelog.wire import methods
from oncelog_partition_leader.broker import Broker
from oncelog_partition_leader.config import BrokerConfig
from oncelog_runtime.metadata import cluster_keys
from oncelog_runtime.node_ports import NodePorts
from oncelog_runtime.observability import health
from oncelog_runtime.ports import Put
from oncelog_runtime.sim.world import SimWorld

ADDRESS = "broker-0:9092"
KEY = cluster_keys.broker_key(0)


class Process:
    """A broker whose cluster needs no other one. `life` is begun anew with `restart`."""

    def __init__(self, world: SimWorld) -> None:
        self.world = world
        self.metadata = world.metadata_client()
        self.transport = world.client()
        self.broker: Broker
        self.ports: NodePorts
        self.failed: errors.OncelogError | None = None
        self.node = world.node("broker-0", self.main)

    async def main(self, ports: NodePorts) -> None:
        self.ports = ports
        config = BrokerConfig(
            node_id=0,
            default_replication_factor=1,
            internal_topic_replication_factor=1,
            min_insync_replicas=1,
            transaction_shards=2,
            group_shards=2,
        )
        self.broker = Broker(config, ports)
        try:
            await self.broker.start()
        except errors.OncelogError as error:
            self.failed = error
            return
        ports.health.started()
        await asyncio.Event().wait()

    async def until(self, condition: Callable[[], bool], within_s: float = 60) -> None:
        async with asyncio.timeout(within_s):
            while not condition():  # noqa: ASYNC110
                await asyncio.sleep(0.05)

    async def ready(self) -> None:
        await self.until(lambda: len(self.broker.replicas.led) >= 4)
        await self.until(lambda: self.ports.health.serving(health.READINESS))

    async def registered_anew(self) -> int:
        """Begins the next life, and returns its incarnation."""
        before = self.broker
        self.node.restart()
        await self.until(lambda: self.broker is not before and self.broker.me().incarnation > 0)
        return self.broker.me().incarnation

    async def as_broker(self, work: Awaitable[Any]) -> Any:
        """Runs something as code of the process."""

        async def run() -> Any:
            return await work

        return await self.node.spawn(run())

    async def create(self, topic: str = "t") -> PartitionId:
        request = pb.CreateTopicRequest(topic=topic, partitions=1, timeout_ms=5_000)
        reply, _ = await methods.CREATE_TOPIC.call(self.transport, ADDRESS, request, 10_000)
        return PartitionId(reply.topic_id, 0)

    async def write(self, value: bytes = b"v") -> int:
        request = pb.ProduceRecordsRequest(topic="t", partition=0, records=[types_pb2.Record(value=value)])
        reply, _ = await methods.PRODUCE_RECORDS.call(self.transport, ADDRESS, request, 10_000)
        return int(reply.base_offset)

    async def read(self) -> list[bytes]:
        isolation = types_pb2.ISOLATION_LEVEL_READ_COMMITTED
        request = pb.FetchRecordsRequest(topic="t", partition=0, isolation_level=isolation)
        reply, _ = await methods.FETCH_RECORDS.call(self.transport, ADDRESS, request, 10_000)
        return [record.value for record in reply.records]


def run(scenario: Callable[[Process], Awaitable[None]]) -> None:
    with SimWorld(9) as world:
        process = Process(world)

        async def whole() -> None:
            await asyncio.sleep(2)
            await scenario(process)

        world.run(whole())


def test_it_is_registered_when_its_start_returns_and_ready_when_its_replicas_are_in_sync() -> None:
    async def scenario(process: Process) -> None:
        found = await process.metadata.get(KEY)
        assert found is not None
        assert process.broker.me().incarnation == found.mod_revision
        await process.ready()
        assert process.ports.health.serving(health.STARTUP)
        assert process.broker.controller.is_controller

    run(scenario)


def test_alone_it_serves_a_topic_from_its_creation_to_its_reading() -> None:
    async def scenario(process: Process) -> None:
        await process.ready()
        await process.create()
        assert [await process.write(value) for value in (b"a", b"b")] == [0, 1]
        assert await process.read() == [b"a", b"b"]

    run(scenario)


@pytest.mark.parametrize("name", [name for name in methods.ALL if name.startswith(("PartitionLeader.", "Security."))])
def test_every_method_of_the_contract_is_served(name: str) -> None:
    async def scenario(process: Process) -> None:
        spec: methods.MethodSpec[Any, Any] = methods.ALL[name]
        call = spec.call(process.transport, ADDRESS, spec.request(), 1_000)
        (answer,) = await asyncio.gather(call, return_exceptions=True)
        assert "has no method" not in str(answer)

    run(scenario)


def test_a_clean_stop_leaves_the_cluster_and_the_next_process_finds_everything() -> None:
    async def scenario(process: Process) -> None:
        await process.ready()
        partition = await process.create()
        await process.write(b"kept")
        await process.as_broker(process.broker.stop(2_000))
        assert await process.metadata.get(KEY) is None
        with pytest.raises(errors.NetworkError):
            await process.read()
        process.node.crash()
        process.node.restart()
        await process.until(lambda: process.broker.replicas.recovered)
        assert not process.broker.replicas.partitions[partition].log.lost_tail
        await process.ready()
        await asyncio.sleep(2)
        assert await process.read() == [b"kept"], "though the machine lost its memory"

    run(scenario)


def test_a_process_whose_id_another_one_took_takes_no_part_any_more() -> None:
    async def scenario(process: Process) -> None:
        await process.ready()
        other = cluster_keys.Broker("other:9092", "", "another nonce")
        await process.metadata.commit(puts=[Put(KEY, other.encode())])
        await asyncio.sleep(1)
        assert process.broker.producing.draining
        assert process.broker.me().incarnation == 0
        assert process.broker.replicas.led == {}
        assert not process.ports.health.serving(health.LIVENESS)

    run(scenario)


def test_a_start_without_etcd_ends_with_an_error_that_says_so() -> None:
    async def scenario(process: Process) -> None:
        process.node.kill()
        process.world.metadata.cut("broker-0")
        process.node.restart()
        await process.until(lambda: process.failed is not None, within_s=90)
        assert isinstance(process.failed, errors.MetadataUnavailableError)

    run(scenario)


def test_a_broker_that_begins_on_a_full_disk_waits_for_room() -> None:
    """After a power cut it has to note that unsynced records may be gone, before it says anything to others."""

    async def scenario(process: Process) -> None:
        await process.ready()
        process.node.crash()
        process.node.disk.capacity = process.node.disk.used()
        process.node.restart()
        await asyncio.sleep(100)  # longer than a start may take
        assert process.failed is None
        assert process.broker.me().incarnation == 0, "it is not registered"
        process.node.disk.capacity = None
        await process.ready()

    run(scenario)


def test_a_broker_that_begins_on_a_new_disk_which_is_full_waits_for_room() -> None:
    """Regression: found by the torture. It could not make the folder of its logs, and ended."""

    async def scenario(process: Process) -> None:
        await process.ready()
        process.node.crash()
        process.node.lose_volume()
        process.node.disk.capacity = 0
        process.node.restart()
        await asyncio.sleep(100)
        assert process.failed is None
        process.node.disk.capacity = None
        await process.until(lambda: process.broker.me().incarnation > 0)

    run(scenario)


def test_a_killed_broker_begins_on_a_full_disk_and_notes_its_incarnation_when_there_is_room() -> None:
    """Else the process after it would take each log for an older image of the disk."""

    async def scenario(process: Process) -> None:
        await process.ready()
        process.node.kill()
        process.node.disk.capacity = 0
        named = await process.registered_anew()
        process.node.disk.capacity = None
        await asyncio.sleep(5)
        process.node.kill()
        assert await process.registered_anew() > named
        assert not process.broker.custody.is_older_than(named)

    run(scenario)


def test_a_start_that_is_given_up_vouches_for_no_records_that_it_never_saw() -> None:
    async def scenario(process: Process) -> None:
        await process.ready()
        process.node.kill()  # what it acknowledged is in the page cache
        process.world.metadata.cut("broker-0")
        process.node.restart()
        await asyncio.sleep(10)
        await process.as_broker(process.broker.stop(5_000))
        process.node.crash()
        process.world.metadata.heal("broker-0")
        incarnation = await process.registered_anew()
        assert process.broker.custody.claim.intact_since == incarnation

    run(scenario)


def test_a_signal_ends_the_waiting_for_room() -> None:
    async def scenario(process: Process) -> None:
        await process.ready()
        process.node.crash()
        process.node.disk.capacity = process.node.disk.used()
        process.node.restart()
        await asyncio.sleep(3)
        await process.as_broker(process.broker.stop(1_000))
        process.node.crash()
        process.node.disk.capacity = None
        await process.registered_anew()
        await process.ready()

    run(scenario)


def test_a_fault_in_one_loop_is_counted_and_the_loop_is_begun_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(process: Process) -> None:
        looks = 0

        def broken() -> None:
            nonlocal looks
            looks += 1
            if looks == 1:
                raise KeyError("a bug")

        monkeypatch.setattr(process.broker.replicas.upkeep, "look_at_isrs", broken)
        await process.until(lambda: looks > 2)
        process.world.loop.errors.clear()
        assert process.broker.bugs._counters["task"].value == 1

    run(scenario)


def test_a_stalled_disk_is_not_ready() -> None:
    async def scenario(process: Process) -> None:
        await process.ready()
        process.broker.replicas.disk_watch.stalled = True
        process.broker._look_at_health()
        assert health.DISK_ANSWERS in process.ports.health.failing(health.READINESS)
        process.broker.replicas.disk_watch.stalled = False

    run(scenario)
