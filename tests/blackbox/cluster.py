"""A whole cluster in a network of its own: three etcd, brokers, coordinators, producer id services, each with address and disk.

Rule 1: a node's process is the production one, started as an operator starts it. Only with a plant, or for a clock that
        jumps, it is started through `tests.blackbox.wrapped`.
Rule 2: nothing is restarted in silence: a process that ended without a fault is a finding (`ended_alone`).
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from oncelog.errors import OncelogError
from oncelog.sync import Client
from oncelog_cli.laptop.local_cluster import LocalProcess
from oncelog_runtime.adapters.child import dying_with_parent
from oncelog_runtime.adapters.etcd.etcd_process import EtcdBinary, find_etcd
from tests.blackbox.disks import Disk
from tests.blackbox.host import ROOT, Healthy, NotHealthy
from tests.blackbox.network import Network

_PORT: Final = 9092
_CLIENT_PORT: Final = 2379
_PEER_PORT: Final = 2380
_MEGABYTES: Final = {"broker": 2048, "etcd": 512}
"""Of sparse images; the brokers keep what all rounds wrote."""
_MODULES: Final = {
    "allocator": "oncelog_pid_allocator",
    "coordinator": "oncelog_coordinator",
    "broker": "oncelog_partition_leader",
}
_BROKER_FLAGS: Final = (
    "--transaction-shards=8", "--group-shards=8", "--scrub-interval-ms=10000", "--scrub-bytes-per-s=33554432",
    "--transaction-resolve-after-ms=8000", "--transaction-resolve-interval-ms=2000", "--leader-rebalance-interval-ms=600000",
)  # fmt: skip
_COORDINATOR_FLAGS: Final = ("--group-session-timeout-ms=6000", "--group-heartbeat-interval-ms=500")
_HEALTHY_S: Final = 180.0
_START_S: Final = 600.0
"""How long it takes to start says something of the machine, and nothing of the cluster."""
_STOP_S: Final = 20.0


@dataclass(slots=True)
class Node:
    """One machine: its process, its disk, and whether a fault holds it down at the moment."""

    name: str
    process: LocalProcess
    disk: Disk
    is_down: bool = False

    @property
    def kind(self) -> str:
        """etcd, broker, coordinator or allocator."""
        return self.name.rpartition("-")[0]


@dataclass(slots=True)
class BlackBox:
    """`clients`: names of the namespaces from which the load runs. `plant`: the rule that is taken out of every service."""

    brokers: int = 3
    coordinators: int = 2
    allocators: int = 2
    etcds: int = 3
    clients: int = 6
    is_real: bool = True
    plant: str = ""
    nodes: dict[str, Node] = field(default_factory=dict)
    network: Network = field(init=False)
    etcd: EtcdBinary = field(default_factory=find_etcd)
    _ended: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        names = [f"{kind}-{number}" for kind, count in self._counts.items() for number in range(count)]
        self.network = Network([*names, *self.client_names], is_real=self.is_real)
        for name in names:
            folder = ROOT / name
            kind = name.rpartition("-")[0]
            disk = Disk(folder, _MEGABYTES.get(kind, 0), is_real=self.is_real and kind in _MEGABYTES)
            command = self.network.entering(name, self._command(name, disk.place / "data"))
            process = LocalProcess(
                name, command, f"{self.network.addresses[name]}:{_PORT}", ROOT / "logs" / f"{name}.log"
            )
            self.nodes[name] = Node(name, process, disk)

    @property
    def _counts(self) -> dict[str, int]:
        return {
            "etcd": self.etcds,
            "broker": self.brokers,
            "coordinator": self.coordinators,
            "allocator": self.allocators,
        }

    @property
    def client_names(self) -> list[str]:
        """Where the load runs."""
        return [f"client-{number}" for number in range(self.clients)]

    @property
    def servers(self) -> str:
        """The brokers' addresses, as a client takes them."""
        return ",".join(node.process.address for node in self.of_kind("broker"))

    def of_kind(self, kind: str) -> list[Node]:
        """All nodes of a kind, in their order."""
        return [node for node in self.nodes.values() if node.kind == kind]

    # ------------------------------------------------------------ commands

    def _command(self, name: str, data: Path) -> list[str]:
        kind, _, number = name.rpartition("-")
        address = self.network.addresses[name]
        if kind == "etcd":
            return [str(self.etcd.path), *self.etcd_flags(name), f"--data-dir={data}", *self._etcd_more(address)]
        endpoints = ",".join(f"{self.network.addresses[f'etcd-{i}']}:{_CLIENT_PORT}" for i in range(self.etcds))
        command = [*self._wrapped(name), _MODULES[kind], "--node-id", number]
        command += ["--listen-host", address, "--listen-port", str(_PORT), "--etcd-endpoints", endpoints]
        command += ["--data-dir", str(data)]
        if kind == "broker":
            replicas = str(min(3, self.brokers))
            command += ["--default-replication-factor", replicas, "--internal-topic-replication-factor", replicas]
            command += _BROKER_FLAGS
        return [*command, *(_COORDINATOR_FLAGS if kind == "coordinator" else ())]

    def _wrapped(self, name: str) -> list[str]:
        return [sys.executable, "-m", "tests.blackbox.wrapped", str(ROOT / "clocks" / name), self.plant or "-"]

    def etcd_flags(self, name: str) -> list[str]:
        """Who a member is and who the others are, as `etcd` and its restore take it."""
        peers = ",".join(f"etcd-{i}={self._peer(f'etcd-{i}')}" for i in range(self.etcds))
        return [f"--name={name}", f"--initial-cluster={peers}", f"--initial-advertise-peer-urls={self._peer(name)}"]

    def _peer(self, name: str) -> str:
        return f"http://{self.network.addresses[name]}:{_PEER_PORT}"

    def etcd_endpoint(self, name: str) -> str:
        """Where a member answers clients."""
        return f"{self.network.addresses[name]}:{_CLIENT_PORT}"

    def _etcd_more(self, address: str) -> list[str]:
        client = f"http://{address}:{_CLIENT_PORT}"
        flags = [f"--listen-client-urls={client}", f"--advertise-client-urls={client}"]
        flags += [f"--listen-peer-urls=http://{address}:{_PEER_PORT}", "--log-level=error"]
        return flags if self.etcd.is_safe else [*flags, "--experimental-initial-corrupt-check"]

    # ------------------------------------------------------------ life

    def start(self) -> None:
        """Makes network and disks, starts all, and returns when the cluster is healthy."""
        for folder in (ROOT / "logs", ROOT / "clocks"):
            folder.mkdir(parents=True, exist_ok=True)
        self.network.make()
        for node in self.nodes.values():
            node.disk.make()
            node.process.start()
        self.wait_healthy(_START_S)

    def spawn(self, name: str, *words: str) -> subprocess.Popen[bytes]:
        """Starts a module of ours where this client is, with the plant; its words go to a log of its own."""
        with open(ROOT / "logs" / f"{name}.log", "ab") as log:
            command = dying_with_parent(self.network.entering(name, [*self._wrapped(name), *words]))
            return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)

    def problem(self) -> str:
        """What is not healthy, in words; empty when all is."""
        if ended := [node.name for node in self.nodes.values() if not node.process.running]:
            return f"{', '.join(ended)} does not run"
        try:
            with Client(self.servers, default_api_timeout_ms=2_000, bootstrap_timeout_ms=2_000) as client:
                health = client.admin.cluster_health()
        except OncelogError as error:
            return str(error)
        if len(health.brokers) != self.brokers:
            return f"{len(health.brokers)} of {self.brokers} brokers are up"
        return "; ".join(health.problems)

    def wait_healthy(self, seconds: float = _HEALTHY_S) -> Healthy:
        """Returns when every partition has its full ISR. Raises `NotHealthy`."""
        began, waited_for = time.monotonic(), ""
        while problem := self.problem():
            waited_for = problem
            self._restart_ended()
            dead = [n.process.last_words() for n in self.nodes.values() if not n.process.running]
            if time.monotonic() > began + seconds:
                raise NotHealthy(f"the cluster is not healthy after {seconds:.0f} s: {problem} {dead[:2]}")
            time.sleep(0.2)
        return Healthy(time.monotonic() - began, waited_for)

    def ended_alone(self) -> list[str]:
        """Processes that ended though no fault held them down, with their last words; they are started again."""
        self._restart_ended()
        found, self._ended = self._ended, []
        return found

    def _restart_ended(self) -> None:
        for node in self.nodes.values():
            if not node.is_down and node.process.popen is not None and not node.process.running:
                status = node.process.popen.returncode
                self._ended.append(f"{node.name} ended by itself with {status}: {node.process.last_words()}")
                node.process.start()

    def kill(self, node: Node) -> None:
        """SIGKILL; it stays down until `revive`."""
        node.is_down = True
        node.process.kill()

    def stop_one(self, node: Node) -> None:
        """SIGTERM; it stays down until `revive`."""
        node.is_down = True
        node.process.kill(signal.SIGTERM)

    def await_end(self, node: Node) -> int:
        """A stopped process has ended, or is killed; its id."""
        assert node.process.popen is not None, f"{node.name} was never started"
        _wait(node)
        return node.process.popen.pid

    def revive(self, node: Node) -> None:
        """Starts it again."""
        node.process.start()
        node.is_down = False

    def stop(self) -> None:
        """SIGTERM to all, services first; SIGKILL to what is left."""
        order = [node for kind in ("coordinator", "allocator", "broker", "etcd") for node in self.of_kind(kind)]
        for node in order:
            node.disk.thaw()
            node.process.kill(signal.SIGCONT)
            node.process.kill(signal.SIGTERM)
            if node.kind == "broker" or node.process.popen is None:
                continue
            _wait(node)
        for node in order:
            _wait(node)


def _wait(node: Node) -> None:
    if node.process.popen is None:
        return
    try:
        node.process.popen.wait(_STOP_S)
    except subprocess.TimeoutExpired:
        node.process.kill()
