"""Draining, rolling restarts, more and fewer brokers: on real processes, under a load that may not fail.

Rule 1: the load runs all the time, in transactions and without; a call that raises is a failed call, whatever it was.
Rule 2: at the end everything that was acknowledged is read once, in its partition's order, and nothing else.
"""

from __future__ import annotations

import itertools
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from oncelog.sync import Client
from oncelog_cli.laptop.local_cluster import LocalCluster
from tests.integration.settled import settled_ends

PARTITIONS = 6
BALANCE_MS = 3_000
SERVING = health_pb2.HealthCheckResponse.SERVING


class Load:
    """One transactional producer, one plain one; each in a thread of its own."""

    def __init__(self, cluster: LocalCluster, topic: str) -> None:
        self._cluster = cluster
        self._topic = topic
        self._stop = threading.Event()
        self.failed: list[str] = []
        self.written: dict[str, list[str]] = {"txn": [], "plain": []}
        self.slowest_s = 0.0
        self._threads = [
            threading.Thread(target=self._guarded, args=(work,), daemon=True) for work in (self._txn, self._plain)
        ]

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        self.wait_for_progress()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(120)
            assert not thread.is_alive(), "a call never came back"

    def wait_for_progress(self) -> None:
        """Both go on: calls that begin now succeed."""
        before = [len(values) + 3 for values in self.written.values()]
        until(lambda: all(len(v) >= b for v, b in zip(self.written.values(), before, strict=True)) or self.failed)
        assert not self.failed

    def _guarded(self, work: Callable[[Client], None]) -> None:
        try:
            with Client(self._cluster.bootstrap_servers, client_id=work.__name__) as client:
                work(client)
        except BaseException as error:  # whatever it is, it is what a user would have seen
            self.failed.append(f"{work.__name__}: {error!r}")

    def _txn(self, client: Client) -> None:
        with client.producer(transactional_id="rolling") as producer:
            for number in itertools.count():
                if self._stop.is_set():
                    return
                began = time.monotonic()
                values = [f"txn-{number}-{partition}" for partition in range(3)]
                with producer.transaction() as txn:
                    for partition, value in enumerate(values):
                        txn.send(self._topic, value.encode(), partition=partition)
                self.written["txn"] += values
                self.slowest_s = max(self.slowest_s, time.monotonic() - began)

    def _plain(self, client: Client) -> None:
        with client.producer() as producer:
            for number in itertools.count():
                if self._stop.is_set():
                    return
                began, value = time.monotonic(), f"plain-{number}"
                producer.send_and_wait(self._topic, value.encode(), partition=3 + number % 3)
                self.written["plain"].append(value)
                self.slowest_s = max(self.slowest_s, time.monotonic() - began)
                time.sleep(0.002)

    def check(self) -> None:
        """Call it when the load has ended."""
        assert not self.failed
        found = read_all(self._cluster, self._topic)
        acknowledged = Counter(itertools.chain.from_iterable(self.written.values()))
        assert Counter(itertools.chain.from_iterable(found.values())) == acknowledged
        for values in found.values():
            numbers = [int(value.split("-")[1]) for value in values]
            assert numbers == sorted(numbers), "in the order in which they were written"


def read_all(cluster: LocalCluster, topic: str) -> dict[int, list[str]]:
    """Committed values by partition."""
    found: dict[int, list[str]] = {p: [] for p in range(PARTITIONS)}
    with Client(cluster.bootstrap_servers) as client:
        ends = settled_ends(client, topic)
        with client.consumer(isolation_level="read_committed", auto_offset_reset="earliest") as consumer:
            consumer.assign([(topic, p) for p in range(PARTITIONS)])
            while any(consumer.position((topic, p)) < ends[p] for p in range(PARTITIONS)):
                for record in consumer.getmany(timeout_ms=1_000):
                    found[record.partition].append((record.value or b"").decode())
    return found


def until(condition: Callable[[], Any], within_s: float = 120.0) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, "not in time"
        time.sleep(0.05)


def probe(cluster: LocalCluster, name: str, service: str) -> bool:
    """As the kubelet asks."""
    with grpc.insecure_channel(cluster.probe_address(name)) as channel:
        try:
            request = health_pb2.HealthCheckRequest(service=service)
            return bool(health_pb2_grpc.HealthStub(channel).Check(request, timeout=2).status == SERVING)
        except grpc.RpcError:
            return False


def oncelog(cluster: LocalCluster, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "oncelog_cli", *words, "--bootstrap-servers", cluster.bootstrap_servers]
    return subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)


def led_by(cluster: LocalCluster, topic: str) -> set[int | None]:
    with Client(cluster.bootstrap_servers) as client:
        return {p.leader for p in client.admin.describe_topic(topic).partitions}


@pytest.fixture(scope="module")
def rolling(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A cluster of its own: these tests stop its processes."""
    flags = ("--replica-balance-delay-ms", str(BALANCE_MS))
    directory: Path = tmp_path_factory.mktemp("rolling")
    cluster = LocalCluster(directory, probes=True)
    for name, process in cluster.processes.items():
        if name.startswith("broker-"):
            process.command += flags
    with cluster:
        yield cluster


@pytest.fixture
def topic(rolling: LocalCluster, request: pytest.FixtureRequest) -> str:
    name = request.node.name.replace("_", "-")
    with Client(rolling.bootstrap_servers) as client:
        client.admin.create_topic(name, partitions=PARTITIONS, replication_factor=3)
    return str(name)


def ready(cluster: LocalCluster, name: str) -> bool:
    return probe(cluster, name, "readiness")


def test_a_drain_by_the_command_line_fails_no_call(rolling: LocalCluster, topic: str) -> None:
    with Load(rolling, topic) as load:
        until(lambda: ready(rolling, "broker-1") and probe(rolling, "broker-1", "startup"))
        done = oncelog(rolling, "node", "drain", "--node", "1", "--timeout", "60")
        assert done.returncode == 0, done
        assert 1 not in led_by(rolling, topic)
        assert not ready(rolling, "broker-1")
        assert probe(rolling, "broker-1", "liveness"), "only readiness tells of a drain"
        load.wait_for_progress()
        waits = oncelog(rolling, "node", "drain", "--node", "2", "--timeout", "1")
        assert waits.returncode == 3, waits
        assert "NOT DRAINED IN TIME" in waits.stdout
        assert oncelog(rolling, "node", "undrain", "--node", "1").returncode == 0
        until(lambda: ready(rolling, "broker-1"))
        status = oncelog(rolling, "node", "status")
        assert status.returncode == 0
        assert "draining" in status.stdout
    load.check()


def restart(cluster: LocalCluster, name: str) -> float:
    """SIGTERM, wait for the end, start, wait for readiness, as a StatefulSet does. Seconds from signal to end."""
    process = cluster.processes[name]
    assert process.popen is not None
    began = time.monotonic()
    process.kill(signal.SIGTERM)
    assert process.popen.wait(60) == 0
    took = time.monotonic() - began
    assert "DRAIN TIMED OUT" not in process.log_tail()
    cluster.restart(name)
    until(lambda: ready(cluster, name))
    return took


def test_a_rolling_restart_of_everything_fails_no_call(rolling: LocalCluster, topic: str) -> None:
    with Load(rolling, topic) as load:
        for name in [name for name in rolling.processes if name != "etcd"]:
            if name.startswith("pid-allocator"):
                continue  # there is only one of it here
            took = restart(rolling, name)
            print(f"{name} drained and ended in {took:.2f} s")
            load.wait_for_progress()
        print(f"{len(load.written['txn']) // 3} transactions, {len(load.written['plain'])} records, ", end="")
        print(f"slowest {load.slowest_s:.2f} s")
    load.check()


def test_a_fourth_broker_gets_its_share_and_gives_it_back(rolling: LocalCluster, topic: str) -> None:
    with Load(rolling, topic) as load, Client(rolling.bootstrap_servers) as client:
        rolling.add_broker()

        def held() -> dict[int, int]:
            return {item.broker_id: item.replicas for item in client.admin.broker_loads()}

        def level() -> bool:
            loads = held()
            return len(loads) == 4 and max(loads.values()) - min(loads.values()) <= 1

        began = time.monotonic()
        until(lambda: level() and not client.admin.list_reassignments())
        print(f"level after {time.monotonic() - began:.1f} s: {held()}")
        load.wait_for_progress()
        done = oncelog(rolling, "node", "decommission", "3", "--timeout", "120")
        assert done.returncode == 0, done
        assert held()[3] == 0
        rolling.remove_broker()
        load.wait_for_progress()
    load.check()
