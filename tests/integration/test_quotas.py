"""Quotas on real processes: set by the command line while a client writes, held, seen in the metrics, and taken away again."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

from oncelog.sync import Client
from oncelog_cli.laptop.local_cluster import LocalCluster

KIB = 1 << 10
QUOTA = 500 * KIB


def oncelog(cluster: LocalCluster, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "oncelog_cli", "quota", *words],
        env={**os.environ, "ONCELOG_BOOTSTRAP_SERVERS": cluster.bootstrap_servers},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def write(client: Client, kib: int) -> float:
    """How long it takes to write so much."""
    began = time.monotonic()
    with client.producer(batch_size=64 * KIB, max_request_size=128 * KIB) as producer:
        for _ in range(kib // 10):
            producer.send("t", value=os.urandom(10 * KIB))
        producer.flush()
    return time.monotonic() - began


def test_a_quota_of_an_address_is_held_told_and_lifted_without_a_restart(tmp_path: Path) -> None:
    cluster = LocalCluster(tmp_path, brokers=1, coordinators=1, doors=True, metrics=True)
    with cluster, Client(cluster.bootstrap_servers) as client:
        client.admin.create_topic("t", partitions=1, replication_factor=1)
        write(client, 10)
        oncelog(cluster, "set", "Address:*", "--produce-bytes-per-s", "500K")
        assert "produce_bytes_per_s" in oncelog(cluster, "list")
        described = oncelog(cluster, "describe")
        assert "Address:127.0.0.1" in described
        assert str(QUOTA) in described
        took = write(client, 4_000)
        assert took > (4_000 * KIB - QUOTA - 256 * KIB) / QUOTA
        page = urllib.request.urlopen(cluster.processes["broker-0"].metrics_url, timeout=10).read().decode()
        values = {line.split(" ")[0]: float(line.split(" ")[1]) for line in page.splitlines() if line[:1] != "#"}
        delays = values['oncelog_quota_delay_seconds_count{quota="produce_bytes_per_s"}']
        assert delays + values['oncelog_quota_refused_total{quota="produce_bytes_per_s"}'] > 0
        assert (
            values['oncelog_memory_limit_bytes{budget="requests"}']
            > values['oncelog_memory_taken_bytes{budget="requests"}']
        )
        oncelog(cluster, "remove", "Address:*")
        assert oncelog(cluster, "list").count("\n") <= 1
        assert write(client, 4_000) < took
