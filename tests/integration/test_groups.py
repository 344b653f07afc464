"""Members of a group in real processes: they share, hand over, die, freeze, and outlive their coordinator."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from oncelog.sync import Client
from oncelog_cli.laptop.local_cluster import LocalCluster

PARTITIONS = 6
SESSION_S = 6.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """One broker and two coordinators with a short session."""
    made = LocalCluster(tmp_path_factory.mktemp("groups"), brokers=1, coordinators=2)
    for name, process in made.processes.items():
        if name.startswith("coordinator"):
            process.command += [
                f"--group-session-timeout-ms={int(SESSION_S * 1000)}",
                "--group-heartbeat-interval-ms=500",
            ]
    with made:
        yield made


class Worker:
    """One member in a process of its own, and what it has told."""

    def __init__(self, cluster: LocalCluster, group: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.integration.group_worker", cluster.bootstrap_servers, group, group],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.events: list[dict[str, Any]] = []
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.events.append(json.loads(line))

    @property
    def owned(self) -> set[int]:
        """By what it was told last."""
        owned: set[int] = set()
        for event in list(self.events):
            if event["what"] == "assigned":
                owned |= {*event["partitions"]}
            elif event["what"] in ("revoked", "lost"):
                owned -= {*event["partitions"]}
        return owned

    def count(self, what: str) -> int:
        """How many events of this kind."""
        return sum(event["what"] == what for event in list(self.events))

    @property
    def read(self) -> list[tuple[int, int]]:
        """(partition, offset) of every record."""
        return [(p, o) for event in list(self.events) if event["what"] == "read" for p, o in event["records"]]

    def stop(self) -> None:
        """It leaves the group."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        assert self.process.wait(20) == 0


Start = Callable[[], Worker]


@pytest.fixture
def group(cluster: LocalCluster, request: pytest.FixtureRequest) -> str:
    """A topic, and a group of the same name."""
    name = "".join(c if c.isalnum() else "-" for c in request.node.name)
    with Client(cluster.bootstrap_servers) as client:
        client.admin.create_topic(name, partitions=PARTITIONS, replication_factor=1)
    return name


@pytest.fixture
def start(cluster: LocalCluster, group: str) -> Iterator[Start]:
    """Starts a member; all are killed at the end."""
    workers: list[Worker] = []

    def begin() -> Worker:
        workers.append(Worker(cluster, group))
        return workers[-1]

    yield begin
    for worker in workers:
        worker.process.kill()
        worker.process.wait()


def write(cluster: LocalCluster, topic: str, rounds: int = 20) -> None:
    """So many records into each partition."""
    with Client(cluster.bootstrap_servers) as client, client.producer() as producer:
        for number in range(rounds * PARTITIONS):
            producer.send(topic, b"%d" % number, partition=number % PARTITIONS)
        producer.flush()


def until(is_so: Callable[[], bool], seconds: float = 30) -> None:
    """Waits until it is so."""
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, "it did not come to be"
        time.sleep(0.02)


def are_shared(*workers: Worker) -> bool:
    """Each partition has one reader among these, and they have equally many, within one."""
    shares = [worker.owned for worker in workers]
    sizes = [len(share) for share in shares]
    return set().union(*shares) == {*range(PARTITIONS)} and sum(sizes) == PARTITIONS and max(sizes) - min(sizes) <= 1


def test_members_share_and_take_over_what_one_leaves(cluster: LocalCluster, group: str, start: Start) -> None:
    write(cluster, group)
    first = start()
    until(lambda: len(first.owned) == PARTITIONS)
    second = start()
    until(lambda: are_shared(first, second))
    write(cluster, group)
    until(lambda: len({*first.read, *second.read}) == 40 * PARTITIONS)
    kept = set(first.owned)
    second.stop()
    until(lambda: len(first.owned) == PARTITIONS)
    assert first.events[-1]["what"] != "revoked"
    assert not [e for e in first.events if e["what"] == "revoked" and {*e["partitions"]} & kept], "those stayed"
    write(cluster, group)
    until(lambda: len({*first.read, *second.read}) == 60 * PARTITIONS)
    assert len(first.read) + len(second.read) == 60 * PARTITIONS, "each record was read once"


def test_a_killed_member_is_replaced_after_its_session(cluster: LocalCluster, group: str, start: Start) -> None:
    first, second = start(), start()
    until(lambda: are_shared(first, second))
    write(cluster, group)
    until(lambda: len({*first.read, *second.read}) == 20 * PARTITIONS)
    second.process.kill()
    killed = time.monotonic()
    until(lambda: len(first.owned) == PARTITIONS)
    assert time.monotonic() - killed < SESSION_S + 4
    write(cluster, group)
    until(lambda: len({*first.read, *second.read}) == 40 * PARTITIONS)


def test_a_frozen_member_loses_its_partitions_and_moves_no_offset(
    cluster: LocalCluster, group: str, start: Start
) -> None:
    first, second = start(), start()
    until(lambda: are_shared(first, second))
    second.process.send_signal(signal.SIGSTOP)
    until(lambda: len(first.owned) == PARTITIONS)
    write(cluster, group)
    until(lambda: len({*first.read}) >= 20 * PARTITIONS)
    second.process.send_signal(signal.SIGCONT)
    until(lambda: second.count("lost") == 1)
    until(lambda: are_shared(first, second))
    with Client(cluster.bootstrap_servers) as client:
        until(lambda: {o.offset for o in client.admin.describe_group(group).offsets} == {20})
    write(cluster, group)
    until(lambda: len({*first.read, *second.read}) == 40 * PARTITIONS)


def test_members_outlive_their_coordinator(cluster: LocalCluster, group: str, start: Start) -> None:
    first, second = start(), start()
    until(lambda: are_shared(first, second))
    owned = (first.owned, second.owned)
    with Client(cluster.bootstrap_servers) as client:
        address = client.admin.describe_group(group).listing.coordinator
    [name] = [name for name, process in cluster.processes.items() if process.address == address]
    cluster.processes[name].kill()
    try:
        write(cluster, group)
        until(lambda: len({*first.read, *second.read}) == 20 * PARTITIONS)
        time.sleep(SESSION_S)  # whoever was forgotten would lose its partitions by then
        assert (first.owned, second.owned) == owned
        assert first.count("assigned") + second.count("assigned") <= 4
    finally:
        cluster.restart(name)
    third = start()
    until(lambda: are_shared(first, second, third))
