"""Lines of docs/delivery.md with real processes: a consumer is killed with SIGKILL at its point, and another one goes on."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from oncelog.sync import Client
from oncelog_cli.laptop.local_cluster import LocalCluster

PAGE: Final = (Path(__file__).resolve().parents[2] / "docs" / "delivery.md").read_text()
SEEN: Final = {"lost": 0, "once": 1, "twice": 2}
LAST: Final = "2"


class Worker:
    """A consumer in a process of its own, which waits for a line before each step."""

    def __init__(self, cluster: LocalCluster, topic: str, preset: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.integration.delivery_worker", cluster.bootstrap_servers, topic, preset],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.said: list[str] = []

    def until(self, line: str) -> None:
        """Lets it go on until it says this, and leaves it there."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        while line not in self.said:
            if self.said:
                self.process.stdin.write("\n")
                self.process.stdin.flush()
            said = self.process.stdout.readline().strip()
            assert said, "it ended by itself"
            self.said.append(said)


@contextmanager
def started(cluster: LocalCluster, topic: str, preset: str) -> Iterator[Worker]:
    """A worker that is killed at the end of the block."""
    worker = Worker(cluster, topic, preset)
    try:
        yield worker
    finally:
        worker.process.kill()
        worker.process.communicate()


@pytest.mark.parametrize(
    ("line", "preset", "point"),
    [
        ("MC1", "at_most_once", "returned"),
        ("MC2", "at_most_once", "processed"),
        ("LC1", "at_least_once", "returned"),
        ("LC2", "at_least_once", "processed"),
        ("EC1", "exactly_once", "returned"),
        ("EC2", "exactly_once", "processed"),
    ],
)
def test_a_killed_consumer_loses_and_repeats_what_the_page_says(
    cluster: LocalCluster, line: str, preset: str, point: str
) -> None:
    [(said, promised)] = re.findall(rf"^\| {line} \| (\w+), the client dies \| (\w+)", PAGE, re.MULTILINE)
    assert said == point
    topic = f"delivery-{line}"
    with Client(cluster.bootstrap_servers) as client:
        for name in (topic, f"{topic}-out"):
            client.admin.create_topic(name, partitions=1)
        with client.producer() as producer:
            producer.send_many(topic, [b"0", b"1", LAST.encode()])
        with started(cluster, topic, preset) as first:
            first.until(f"{point} 0")
        with started(cluster, topic, preset) as second:
            second.until(f"processed {LAST}")
        if preset == "exactly_once":
            with client.consumer(f"{topic}-out", auto_offset_reset="earliest") as consumer:
                done = [record.value for record in consumer.getmany(timeout_ms=10_000)]
            assert done.count(b"0") == SEEN[promised]
        else:
            assert [*first.said, *second.said].count("processed 0") == SEEN[promised]
