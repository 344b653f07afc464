"""One coordinator process: what it announces, when it is ready, and how it goes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from oncelog import errors
from oncelog.v1 import coordinator_pb2 as co
from oncelog.wire import methods
from oncelog_coordinator.config import CoordinatorConfig
from oncelog_coordinator.coordinator import CoordinatorNode
from oncelog_runtime.metadata import cluster_keys
from oncelog_runtime.node_ports import NodePorts
from oncelog_runtime.observability import health
from oncelog_runtime.ports import Put
from oncelog_runtime.sim.world import SimWorld

ADDRESS = "coordinator-0:9092"
REGISTRATION = cluster_keys.COORDINATORS + ADDRESS


class Process:
    """A coordinator in a world without brokers, so its shards never find their logs."""

    def __init__(self, world: SimWorld) -> None:
        self.world = world
        self.metadata = world.metadata_client()
        self.transport = world.client()
        self.node: CoordinatorNode
        self.ports: NodePorts

    async def main(self, ports: NodePorts) -> None:
        self.ports = ports
        self.node = CoordinatorNode(CoordinatorConfig(handover_delay_ms=200, check_invariants=True), ports)
        await self.node.start()
        ports.health.started()
        await asyncio.Event().wait()

    async def found_cluster(self) -> None:
        value = cluster_keys.Cluster("c", 2, 2).encode()
        await self.metadata.commit(puts=[Put(cluster_keys.CLUSTER_KEY, value)])

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.05)


def run(scenario: Callable[[Process], Awaitable[None]]) -> None:
    with SimWorld(11) as world:
        process = Process(world)
        node = world.node("coordinator-0", process.main)

        async def whole() -> None:
            await asyncio.sleep(1)
            await node.spawn(_as_awaitable(scenario(process)))

        world.run(whole())


async def _as_awaitable(work: Awaitable[None]) -> None:
    await work


def test_it_announces_its_address_and_is_started_once_it_sees_that() -> None:
    async def scenario(process: Process) -> None:
        assert process.node.address == ADDRESS
        assert await process.metadata.get(REGISTRATION) is not None
        assert process.ports.health.serving(health.STARTUP)

    run(scenario)


def test_it_is_not_ready_while_a_shard_of_its_does_not_serve() -> None:
    async def scenario(process: Process) -> None:
        await process.found_cluster()
        await process.until(lambda: len(process.node._owned) == 4)
        assert not process.node.is_ready
        await asyncio.sleep(1)
        assert health.IN_SYNC in process.ports.health.failing(health.READINESS)
        process.node.check()

    run(scenario)


def test_a_shard_without_its_log_tells_callers_to_come_again() -> None:
    async def scenario(process: Process) -> None:
        request = co.GetOutcomeRequest(transactional_id="t", txn_no=1)
        with pytest.raises(errors.CoordinatorNotAvailableError):
            await methods.GET_OUTCOME.call(process.transport, ADDRESS, request, 1_000)
        await process.found_cluster()
        await process.until(lambda: len(process.node._owned) == 4)
        with pytest.raises(errors.CoordinatorLoadInProgressError) as refusal:
            await methods.GET_OUTCOME.call(process.transport, ADDRESS, request, 1_000)
        assert refusal.value.retriable

    run(scenario)


def _of_a_coordinator() -> list[str]:
    return [name for name in methods.ALL if name.startswith("Coordinator.")]


@pytest.mark.parametrize("name", _of_a_coordinator())
def test_every_method_of_the_contract_is_served(name: str) -> None:
    async def scenario(process: Process) -> None:
        spec: methods.MethodSpec[Any, Any] = methods.ALL[name]
        call = spec.call(process.transport, ADDRESS, spec.request(), 1_000)
        (answer,) = await asyncio.gather(call, return_exceptions=True)
        assert "has no method" not in str(answer)

    run(scenario)


def test_a_fault_in_one_task_is_counted_and_the_task_is_begun_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(process: Process) -> None:
        looks = 0

        def broken() -> None:
            nonlocal looks
            looks += 1
            if looks == 1:
                raise KeyError("a bug")

        monkeypatch.setattr(process.node, "_look_at_health", broken)
        await process.until(lambda: looks > 2)
        process.world.loop.errors.clear()
        counted = [
            value
            for family in process.ports.metrics.families()
            if family is not None and family.metric.name == "oncelog_internal_errors_total"
            for labels, value in family.rows
            if "task" in labels
        ]
        assert counted == [1]

    run(scenario)


def test_a_clean_stop_takes_its_address_away_and_refuses_calls() -> None:
    async def scenario(process: Process) -> None:
        await process.found_cluster()
        await process.until(lambda: len(process.node._owned) == 4)
        await process.node.stop(1_000)
        assert await process.metadata.get(REGISTRATION) is None
        assert not process.node._owned
        with pytest.raises(errors.NetworkError):
            await methods.LIST_GROUPS.call(process.transport, ADDRESS, co.ListGroupsRequest(), 1_000)

    run(scenario)
