"""What a conformance script can do: a started cluster without faults, raw calls, crafted batches, trouble on command.

Rule 1: a script speaks the wire contract itself; the SDK is used only to read what a user would see.
Rule 2: nothing happens by chance here: no faults are drawn, and trouble comes only where the script asks for it.
Rule 3: helpers decide nothing of the protocol; they build messages, look, and wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from oncelog import errors
from oncelog.core.batch.batch import iter_batches
from oncelog.core.batch.header import BatchHeader
from oncelog.types import TopicPartition
from oncelog.v1 import partition_pb2 as pa
from oncelog.v1 import types_pb2
from oncelog.wire import methods
from oncelog.wire.wire_errors import from_detail
from oncelog_coordinator.config import CoordinatorConfig
from oncelog_coordinator.coordinator import CoordinatorNode
from oncelog_partition_leader.broker import Broker
from oncelog_runtime.node_ports import NodePorts
from tests.conformance.calls import Calls
from tests.conformance.names import ABORTED, ALL, COMMITTED, ONGOING, TIMEOUT_MS, Joined, Place, Writer, about
from tests.conformance.trouble import Trouble
from tests.simulation.cluster import SimCluster

__all__ = [
    "ABORTED",
    "ALL",
    "COMMITTED",
    "ONGOING",
    "Joined",
    "Place",
    "Script",
    "Writer",
    "about",
    "cluster",
    "run_script",
]

T = TypeVar("T")


class _Cluster(SimCluster):
    """A cluster whose coordinators may be told more."""

    def __init__(self, seed: int | str, coordinator: dict[str, Any], **options: Any) -> None:
        self._coordinator = coordinator
        super().__init__(seed, **options)

    def _make_coordinator(self, ports: NodePorts) -> CoordinatorNode:  # type: ignore[override]
        settings: dict[str, Any] = {"check_invariants": True, "group_resolve_after_ms": 3_000}
        settings |= {**self._door_options, **self._security_options, **self._coordinator}
        return CoordinatorNode(CoordinatorConfig(**settings), ports)


def cluster(**options: Any) -> Callable[[T], T]:
    """Marks a script that wants another cluster: `brokers`, `coordinators`, `coordinator` (a dict), or options of brokers."""

    def mark(test: T) -> T:
        test.cluster_options = options  # type: ignore[attr-defined]
        return test

    return mark


def run_script(test: Callable[..., Awaitable[None]], seed: int | str = 1, **arguments: Any) -> None:
    """Starts a cluster, runs the script, checks every core's invariants. Raises whatever the script raises."""
    options = {"coordinator": {}, **getattr(test, "cluster_options", {})}
    with _Cluster(seed, **options) as started:

        async def whole() -> None:
            await started.healthy()
            script = Script(started)
            async with asyncio.timeout(600):
                await test(script, **arguments)
            script.check()

        started.world.run(whole())


class Script(Calls, Trouble):
    """The hands of one script."""

    # ------------------------------------------------------------ reading

    async def fetch(
        self,
        place: Place,
        offset: int = 0,
        *,
        committed: bool = True,
        to: str = "",
        wait_ms: int = 0,
        epoch: int = -1,
        near: bool = False,
    ) -> tuple[pa.FetchedPartition, list[BatchHeader]]:
        """One fetch by hand: the answer, and the headers of the batches. `near`: a follower may answer.

        Raises the partition's error.
        """
        request = pa.FetchRequest(
            isolation_level=types_pb2.ISOLATION_LEVEL_READ_COMMITTED
            if committed
            else types_pb2.ISOLATION_LEVEL_READ_UNCOMMITTED,
            max_wait_ms=wait_ms,
            min_bytes=1,
            follower_may_answer=near,
            partitions=[
                pa.FetchPartition(
                    topic_id=place.topic_id, partition=place.partition, fetch_offset=offset, leader_epoch=epoch
                )
            ],
        )
        reply = await self.call(to or self.leader(place), methods.FETCH, request, timeout_ms=wait_ms + TIMEOUT_MS)
        (answer,) = reply.partitions
        if answer.HasField("error"):
            raise from_detail(answer.error)
        return answer, [header for header, _ in iter_batches(self._bulk)]

    async def read(self, *places: Place, committed: bool = True, from_offset: int = 0, **config: Any) -> list[str]:
        """The values that an SDK consumer sees up to the end as it is now, in the order of the log."""
        isolation = "read_committed" if committed else "read_uncommitted"
        found: list[str] = []
        async with self.client() as client:
            for place in places:
                end = await self.retry(lambda place=place: self._end_of(place, committed))  # type: ignore[misc]
                consumer = client.consumer(isolation_level=isolation, fetch_max_wait_ms=50, **config)
                async with consumer:
                    where = TopicPartition(place.topic, place.partition)
                    await consumer.assign([where])
                    consumer.seek(where, from_offset)
                    while await consumer.position(where) < end:
                        records = await consumer.getmany(timeout_ms=500)
                        found += [(record.value or b"").decode() for record in records]
        return found

    async def _end_of(self, place: Place, committed: bool) -> int:
        return await self.latest(place, committed=committed)

    async def latest(self, place: Place, committed: bool = True, timestamp_ms: int = -1) -> int:
        """ListOffsets; latest by default. Raises the partition's error."""
        request = pa.ListOffsetsRequest(
            isolation_level=types_pb2.ISOLATION_LEVEL_READ_COMMITTED
            if committed
            else types_pb2.ISOLATION_LEVEL_READ_UNCOMMITTED,
            partitions=[
                pa.ListOffsetsPartition(topic_id=place.topic_id, partition=place.partition, timestamp_ms=timestamp_ms)
            ],
        )
        reply = await self.call(self.leader(place), methods.LIST_OFFSETS, request)
        (answer,) = reply.partitions
        if answer.HasField("error"):
            raise from_detail(answer.error)
        return int(answer.offset)

    async def stable(self, *places: Place, within_s: float = 30) -> None:
        """Waits until nothing is open on these partitions."""
        deadline = self.world.loop.time() + within_s
        for place in places:
            while True:
                try:
                    if await self.latest(place) == await self.latest(place, committed=False):
                        break
                except errors.RetriableError:
                    pass
                assert self.world.loop.time() < deadline, f"a transaction stays open on {place}"
                await asyncio.sleep(0.02)

    # ------------------------------------------------------------ checking

    def check(self) -> None:
        """The invariants of every core of the living."""
        for name, service in sorted(self.cluster.services.items()):
            if self.world.nodes[name].life.dead:
                continue
            if isinstance(service, CoordinatorNode):
                service.check()
            elif isinstance(service, Broker):
                for partition in service.replicas.partitions.values():
                    if partition.failed is None and not partition.exclusive.locked():
                        partition.log.check()
