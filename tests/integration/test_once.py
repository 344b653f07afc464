"""Effects in a SQLite file that worker processes share: each happens once, whoever is killed or frozen, and whenever.

The table of effects takes a place twice, so that a second effect is counted rather than refused.
"""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import oncelog
from oncelog.sync import Client
from oncelog_cli.laptop.local_cluster import LocalCluster

PARTITIONS = 3
SESSION_S = 6.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """One broker and one coordinator with a short session."""
    made = LocalCluster(tmp_path_factory.mktemp("once"), brokers=1, coordinators=1)
    for name, process in made.processes.items():
        if name.startswith("coordinator"):
            process.command += [
                f"--group-session-timeout-ms={int(SESSION_S * 1000)}",
                "--group-heartbeat-interval-ms=500",
            ]
    with made:
        yield made


class Work:
    """A topic, a group of the same name, a file of effects, and the workers that were started."""

    def __init__(self, cluster: LocalCluster, name: str, file: Path) -> None:
        self.cluster = cluster
        self.name = name
        self.file = file
        self.step = Path(f"{file}.step")
        self.workers: list[Worker] = []
        self.rounds = 0
        self._database = sqlite3.connect(file, timeout=10)
        self._database.execute("CREATE TABLE effects (partition_no, record_offset, process, fencing)")
        oncelog.Once(self._database, name).create_table()
        with Client(cluster.bootstrap_servers) as client:
            client.admin.create_topic(name, partitions=PARTITIONS, replication_factor=1)

    def write(self, rounds: int) -> None:
        """So many records into each partition."""
        self.rounds += rounds
        with Client(self.cluster.bootstrap_servers) as client, client.producer() as producer:
            for number in range(rounds * PARTITIONS):
                producer.send(self.name, b"%d" % number, partition=number % PARTITIONS)
            producer.flush()

    def start(self) -> Worker:
        """Starts a worker."""
        self.workers.append(Worker(self))
        return self.workers[-1]

    def effects(self) -> list[tuple[int, int]]:
        """The places of all that was committed, in order."""
        return self._database.execute(
            "SELECT partition_no, record_offset FROM effects ORDER BY partition_no, record_offset"
        ).fetchall()

    def workers_of(self, place: tuple[int, int]) -> list[int]:
        """Process ids."""
        found = self._database.execute(
            "SELECT process FROM effects WHERE partition_no = ? AND record_offset = ?", place
        ).fetchall()
        return [process for (process,) in found]

    def is_done(self, rounds: int) -> bool:
        """Every record has an effect. Raises `AssertionError` when one has two."""
        effects = self.effects()
        assert len(effects) == len(set(effects)), "an effect happened twice"
        return set(effects) == {(p, o) for p in range(PARTITIONS) for o in range(rounds)}


class Worker:
    """A worker in a process of its own, and what it has told."""

    def __init__(self, work: Work) -> None:
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-m", "tests.integration.once_worker", work.cluster.bootstrap_servers),
                *(work.name, work.name, str(work.file)),
            ],
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

    def told(self, what: str) -> list[tuple[int, int]]:
        """The places of all events of this kind."""
        return [tuple(event["place"]) for event in list(self.events) if event["what"] == what]

    def go(self) -> None:
        """It takes the next step."""
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()


@pytest.fixture
def work(cluster: LocalCluster, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Work]:
    """A topic of its own for each test; all workers are killed at the end."""
    made = Work(cluster, "".join(c if c.isalnum() else "-" for c in request.node.name), tmp_path / "work.db")
    yield made
    for worker in made.workers:
        worker.process.kill()
        worker.process.wait()


def until(is_so: Callable[[], object], seconds: float = 40) -> None:
    """Waits until it is so."""
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, "it did not come to be"
        time.sleep(0.02)


def test_a_worker_killed_between_its_work_and_the_commit_leaves_no_effect_and_no_gap(work: Work) -> None:
    work.write(10)
    work.step.touch()
    first = work.start()
    until(lambda: first.told("begun"))
    first.go()
    until(lambda: first.told("wrote"))
    place = first.told("wrote")[0]
    first.process.send_signal(signal.SIGKILL)
    first.process.wait()
    assert work.effects() == []
    work.step.unlink()
    second = work.start()
    until(lambda: work.is_done(10))
    assert work.workers_of(place) == [second.process.pid]


def test_a_worker_frozen_past_its_lease_commits_nothing_of_what_another_one_did(work: Work) -> None:
    work.write(10)
    work.step.touch()
    first = work.start()
    until(lambda: first.told("begun"))
    place = first.told("begun")[0]
    first.process.send_signal(signal.SIGSTOP)
    work.step.unlink()
    second = work.start()
    until(lambda: work.is_done(10))
    assert work.workers_of(place) == [second.process.pid]
    first.process.send_signal(signal.SIGCONT)
    first.go()
    until(lambda: first.told("refused"))
    assert next(e for e in first.events if e["what"] == "refused")["error"] == "WorkFencedError"
    assert first.told("wrote") == [place], "it did its work, and that was undone"
    assert work.is_done(10)


def test_workers_that_take_partitions_from_each_other_and_are_killed_do_each_record_once(work: Work) -> None:
    def is_shared() -> bool:
        """The newest worker has partitions: it works while records come."""
        work.write(2)
        return bool(work.workers[-1].told("wrote"))

    for _ in range(3):
        work.start()
        until(is_shared)
        if len(work.workers) > 1:
            work.workers[-2].process.send_signal(signal.SIGKILL)
    until(lambda: work.is_done(work.rounds))
    done_by = {process for place in work.effects() for process in work.workers_of(place)}
    assert done_by == {worker.process.pid for worker in work.workers}
