"""A Kafka of three brokers on this machine, to measure beside ours.

Each node is a broker and a controller with 1 GiB of heap; a topic has three replicas, and two of them acknowledge. Everything
else has Kafka's defaults, which give the states of share groups three replicas too. The jars are given as a folder: those of
`org.apache.kafka:kafka_2.13` and `:kafka-tools` with all that they depend on, as `mvn dependency:copy-dependencies` lays them
down.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Final

from oncelog_cli.laptop.local_cluster import free_ports
from oncelog_runtime.adapters.child import dying_with_parent

NODES: Final = 3
_CLUSTER_ID: Final = "b25jZWxvZy1iZW5jaC0xNA"
_HEAP: Final = ("-Xms1g", "-Xmx1g")
_START_S: Final = 90.0
_STOP_S: Final = 20.0


def properties(node: int, ports: list[int], log_dir: Path) -> str:
    """A node's settings. `ports`: of all clients' listeners, then of all controllers'."""
    voters = ",".join(f"{number}@127.0.0.1:{ports[NODES + number]}" for number in range(NODES))
    settings = {
        "process.roles": "broker,controller",
        "node.id": node,
        "controller.quorum.voters": voters,
        "listeners": f"PLAINTEXT://127.0.0.1:{ports[node]},CONTROLLER://127.0.0.1:{ports[NODES + node]}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{ports[node]}",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": log_dir,
        "default.replication.factor": NODES,
        "min.insync.replicas": NODES - 1,
        "offsets.topic.replication.factor": NODES,
        "transaction.state.log.replication.factor": NODES,
        "transaction.state.log.min.isr": NODES - 1,
        "group.initial.rebalance.delay.ms": 0,
    }
    return "".join(f"{name}={value}\n" for name, value in settings.items())


@dataclass(slots=True)
class KafkaCluster:
    """Runs while it is entered. `folder`: for its data; `jars`: where the program is."""

    jars: Path
    folder: Path
    _ports: list[int] = field(default_factory=lambda: free_ports(2 * NODES))
    _nodes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def bootstrap_servers(self) -> str:
        """The brokers' addresses."""
        return ",".join(f"127.0.0.1:{port}" for port in self._ports[:NODES])

    def __enter__(self) -> KafkaCluster:
        java = shutil.which("java")
        if java is None:
            raise SystemExit("Kafka needs a java on PATH")
        if not list(self.jars.glob("kafka_2*.jar")):
            raise SystemExit(f"{self.jars} has no kafka_2*.jar: it is no folder of Kafka's jars")
        try:
            for node in range(NODES):
                self._nodes.append(self._start(java, node))
            self._wait()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stop()

    def _start(self, java: str, node: int) -> subprocess.Popen[bytes]:
        self.folder.mkdir(parents=True, exist_ok=True)
        config = self.folder / f"node-{node}.properties"
        config.write_text(properties(node, self._ports, self.folder / f"data-{node}"))
        program = [java, *_HEAP, "-cp", f"{self.jars.resolve()}/*"]
        format_it = ["kafka.tools.StorageTool", "format", "-t", _CLUSTER_ID, "-c", str(config)]
        subprocess.run([*program, *format_it], check=True, capture_output=True)
        with open(self._log(node), "wb") as log:
            command = dying_with_parent([*program, "kafka.Kafka", str(config)])
            return subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)

    def _log(self, node: int) -> Path:
        return self.folder / f"node-{node}.log"

    def _wait(self) -> None:
        deadline_s = time.monotonic() + _START_S
        for node in range(NODES):
            while not _listens(self._ports[node]):
                if self._nodes[node].poll() is not None or time.monotonic() > deadline_s:
                    print(self._log(node).read_text()[-2000:], file=sys.stderr)
                    raise SystemExit(f"node {node} of Kafka does not come up")
                time.sleep(0.2)

    def _stop(self) -> None:
        for process in self._nodes:
            process.terminate()
        for process in self._nodes:
            try:
                process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
