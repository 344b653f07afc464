"""The programs in examples/ do what they say, each in a process of its own, as a user runs them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from oncelog.sync import Client
from oncelog_cli.laptop.local_cluster import LocalCluster
from tests.integration.conftest import ROOT
from tests.integration.settled import settled_ends

EXAMPLES = ROOT / "examples"
DEADLINE_S = 180


def run(
    name: str, cluster: LocalCluster, topic: str, environment: dict[str, str] | None = None, more: Sequence[str] = ()
) -> list[str]:
    """The lines that an example prints."""
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name), cluster.bootstrap_servers, topic, *more],
        env=environment or dict(os.environ), capture_output=True, text=True, timeout=DEADLINE_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.splitlines()


def values(cluster: LocalCluster, topic: str, isolation_level: str = "read_committed") -> list[bytes]:
    """What is in the topic when nothing more comes."""
    with (
        Client(cluster.bootstrap_servers) as client,
        client.consumer(topic, auto_offset_reset="earliest", isolation_level=isolation_level) as consumer,
    ):
        return [
            row
            for number, end in settled_ends(client, topic).items()
            for batch in consumer.read_range((topic, number), 0, end)
            for row in batch.column("value").to_pylist()
        ]


def test_every_example_is_run_here() -> None:
    """Regression: there was no folder of examples."""
    assert {path.name for path in EXAMPLES.glob("*.py")} == {
        "produce_and_consume.py",
        "process.py",
        "transaction.py",
        "once.py",
        "two_phase_sink.py",
        "spark_write.py",
        "queue_worker.py",
        "raw_channel.py",
    }


def test_what_is_produced_is_consumed(cluster: LocalCluster) -> None:
    lines = run("produce_and_consume.py", cluster, "example-events")
    written = [re.sub(r".*/(\d+) at ", r"\1/", line) for line in lines if line.startswith("wrote")]
    read = [line.split()[1].rstrip(":") for line in lines if line.startswith("read")]
    assert len(written) == 10
    assert sorted(written) == sorted(read)
    assert sorted(values(cluster, "example-events")) == sorted(f"event {i}".encode() for i in range(10))


def test_the_wrong_transaction_leaves_nothing_and_the_right_one_all(cluster: LocalCluster) -> None:
    lines = run("transaction.py", cluster, "example-transfers")
    assert [line.partition(":")[0] for line in lines[:2]] == ["aborted", "committed"]
    assert sorted(line[len("read  ")] for line in lines[2:]) == ["0", "1", "2"]
    assert values(cluster, "example-transfers") == [b"right"] * 3
    assert sorted(values(cluster, "example-transfers", "read_uncommitted")) == [b"right"] * 3 + [b"wrong"] * 3


def test_each_order_becomes_one_invoice(cluster: LocalCluster) -> None:
    lines = run("process.py", cluster, "example-orders")
    assert lines == ["left out: order 7 has no price", "20 orders, 19 invoices"]
    expected = [f"invoice for order {number}".encode() for number in range(20) if number != 7]
    assert values(cluster, "example-orders-invoices") == expected


def test_invoices_are_written_once_though_workers_die(cluster: LocalCluster, tmp_path: Path) -> None:
    said = run("once.py", cluster, "example-once-orders", more=[str(tmp_path / "invoices.db")])
    assert said == ["workers: 4, invoices: 20, different ones: 20"]


def test_tasks_are_shared_given_back_and_rejected(cluster: LocalCluster) -> None:
    assert run("queue_worker.py", cluster, "example-mails") == [
        "done: 20, twice: 0",
        "left: 0, delivered again: 1, dead: 1",
        "dead letter: mail 13, no such address",
    ]


def test_a_worker_needs_nothing_but_stubs(cluster: LocalCluster) -> None:
    lines = run("raw_channel.py", cluster, "example-raw-tasks")
    assert [line for line in lines if line.startswith("task")] == [f"task {i}, delivery 1" for i in range(5)]
    assert {line for line in lines if line.startswith("settled")} == {"settled, 0 failed"}


def test_a_batch_of_many_processes_of_which_one_dies_is_there_once(cluster: LocalCluster) -> None:
    """Regression: a two-phase sink had no example, and `write_attempt` no documentation."""
    topic = "example-sink"
    rows = sorted(f"part {part}, row {i}".encode() for part in range(3) for i in range(100))
    said = run("two_phase_sink.py", cluster, topic)
    assert said == ["attempt 1: a worker died", "is committed: 300 rows", "read 300 rows, 300 different ones"]
    assert sorted(values(cluster, topic)) == rows
    aborted = Counter(values(cluster, topic, "read_uncommitted")) - Counter(rows)
    assert len(aborted) >= 50, "the half part of the worker that died, at least"
    assert run("two_phase_sink.py", cluster, topic) == ["was committed: 300 rows", said[-1]]


@pytest.mark.spark
@pytest.mark.slow
def test_a_write_that_runs_twice_is_there_once(cluster: LocalCluster, spark_environment: dict[str, str]) -> None:
    assert "rows: 1000" in run("spark_write.py", cluster, "example-daily", spark_environment)
    assert len(set(values(cluster, "example-daily"))) == len(values(cluster, "example-daily")) == 1000
