"""The real clock, and the one function that gives a process its real ports."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from oncelog.errors import StorageError
from oncelog.link.grpc_transport import GrpcTransport
from oncelog_runtime.adapters import system
from oncelog_runtime.adapters.grpc.grpc_server import GrpcServer
from oncelog_runtime.adapters.system import SystemClock, build_ports, close_ports, learn_cluster_id, lock_disk
from oncelog_runtime.config.serving_config import ServingConfig
from oncelog_runtime.config.settings import NodeConfig
from oncelog_runtime.metadata.cluster_keys import CLUSTER_KEY, Cluster
from oncelog_runtime.node_ports import NodePorts
from oncelog_runtime.ports import Change, KeyValue, Listing


@pytest.fixture(autouse=True)
def limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit of this process stays what it is."""
    monkeypatch.setattr(system, "raise_limit", lambda: 1_234)


def with_ports(config: NodeConfig, test: Callable[[NodePorts], Awaitable[None]]) -> None:
    async def go() -> None:
        ports = build_ports(config, "toy")
        try:
            await test(ports)
        finally:
            await close_ports(ports)

    asyncio.run(go())


def test_the_clock_is_the_systems(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time_ns", lambda: 1_750_000_000_123_999_999)
    monkeypatch.setattr("time.monotonic_ns", lambda: 5_999_999)
    assert (SystemClock().now_ms(), SystemClock().monotonic_ms()) == (1_750_000_000_123, 5)


def test_a_process_that_keeps_no_files_makes_no_directory(tmp_path: Path) -> None:
    folder = tmp_path / "data"

    async def test(ports: NodePorts) -> None:
        assert not folder.exists()
        assert ports.descriptors == 1_234
        lock_disk(ports)
        assert folder.exists()
        other = build_ports(NodeConfig(data_dir=str(folder)), "toy")
        with pytest.raises(StorageError) as caught:
            lock_disk(other)
        assert caught.value.context["reason"] == "locked"
        await close_ports(other)

    with_ports(NodeConfig(data_dir=str(folder)), test)
    with_ports(NodeConfig(data_dir=str(folder)), lambda ports: asyncio.to_thread(lock_disk, ports))


def test_the_disk_is_taken_at_its_first_use(tmp_path: Path) -> None:
    async def test(ports: NodePorts) -> None:
        assert not ports.disk.exists("x")
        assert (tmp_path / "data").exists()

    with_ports(NodeConfig(data_dir=str(tmp_path / "data")), test)


@pytest.mark.parametrize(
    ("config", "doors"),
    [
        (NodeConfig(), []),
        (ServingConfig(), []),
        (ServingConfig(client_listen_port=9092), [("client", 9092, "--client-listen-port")]),
        (
            ServingConfig(client_listen_port=9092, external_listen_port=9094, external_address="a:1"),
            [("client", 9092, "--client-listen-port"), ("external", 9094, "--external-listen-port")],
        ),
    ],
)
def test_clients_have_the_doors_that_the_settings_name(config: NodeConfig, doors: list[Any]) -> None:
    found = system._client_listeners(config, system.ProcessTls())
    assert [(door.name, door.port, door.port_flag) for door in found] == doors
    assert [door.host for door in found] == [config.listen_host] * len(doors)


def test_bounds_of_the_settings_reach_the_server() -> None:
    config = NodeConfig(
        max_message_bytes=1 << 20,
        links_max=7,
        links_per_peer_max=3,
        request_memory_bytes=4 << 20,
        answer_memory_bytes=5 << 20,
        message_timeout_ms=2_000,
    )
    options = system._server_options(config, "oncelog-toy")
    limits = options.memory_limits()
    assert (options.max_links, options.max_links_per_peer, options.software) == (7, 3, "oncelog-toy")
    assert (limits.max_message_bytes, limits.request_bytes, limits.answer_bytes) == (1 << 20, 4 << 20, 5 << 20)
    assert options.message_timeout_ms == 2_000


def test_nothing_is_traced_without_a_collector() -> None:
    async def test(ports: NodePorts) -> None:
        assert ports.tracer is None
        assert ports.security is None

    with_ports(NodeConfig(), test)


def test_a_process_tells_of_itself_of_its_probes_and_of_its_server() -> None:
    async def test(ports: NodePorts) -> None:
        told = {family.metric.name for family in ports.metrics.families() if family is not None}
        assert told >= {"process_open_fds", "oncelog_build_info", "oncelog_probe_serving", "oncelog_links"}

    with_ports(NodeConfig(), test)


class Store:
    """Tells what a watch would."""

    def __init__(self, *events: Listing | Change) -> None:
        self._events = events

    async def watch(self, prefix: str) -> Any:
        assert prefix == CLUSTER_KEY
        for event in self._events:
            yield event
        raise AssertionError("it was told all that it needs")


C1 = Cluster("c1").encode()


@pytest.mark.parametrize(
    "events",
    [
        [Listing((KeyValue(CLUSTER_KEY, C1, 3),), 3)],
        [Listing((), 3), Change(CLUSTER_KEY, C1, 4)],
        [
            Listing((KeyValue(f"{CLUSTER_KEY}x", b"other", 3),), 3),
            Change(f"{CLUSTER_KEY}y", b"o", 4),
            Change(CLUSTER_KEY, C1, 5),
        ],
        [Listing((), 3), Change(CLUSTER_KEY, None, 4), Change(CLUSTER_KEY, C1, 5)],
    ],
    ids=["at once", "later", "beside others", "after it was gone"],
)
def test_links_are_held_to_the_cluster_once_etcd_has_told_its_id(events: list[Listing | Change]) -> None:
    async def test(ports: NodePorts) -> None:
        object.__setattr__(ports, "metadata", told := Told(ports.metadata, Store(*events)))
        await learn_cluster_id(ports)
        assert isinstance(ports.transport, GrpcTransport)
        assert isinstance(ports.server, GrpcServer)
        assert (ports.transport.cluster_id, ports.server.cluster_id) == ("c1", "c1")
        assert told.watch is not None

    with_ports(NodeConfig(), test)


class Told:
    """The real store, which is closed at the end, with the watch of another."""

    def __init__(self, real: Any, store: Store) -> None:
        self.close, self.watch = real.close, store.watch


def test_the_ports_end_in_the_order_in_which_they_need_each_other(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    ended: list[str] = []

    class Port:
        def __init__(self, name: str) -> None:
            self._name = name

        async def stop(self, grace_ms: int) -> None:
            assert grace_ms == 0
            ended.append(self._name)

        async def close(self) -> None:
            ended.append(self._name)

    class Tracer:
        def close(self, timeout_ms: int) -> None:
            ended.append("tracer")

    made: Any = {name: Port(name) for name in ("server", "transport", "metadata", "disk")}
    ports = NodePorts(**made, clock=SystemClock(), random=None, helpers=None, threads=None, tracer=Tracer())  # type: ignore[arg-type]
    asyncio.run(close_ports(ports))
    assert ended == ["server", "transport", "metadata", "tracer"]
