"""What gRPC and real brokers make of the promises that tests/unit/sdk/client/produce/test_unclosed.py checks."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import oncelog
from oncelog_cli.laptop.local_cluster import LocalCluster

FORGETFUL = """
import sys
import oncelog
client = oncelog.SyncClient(sys.argv[1])
producer = client.producer(linger_ms=60_000)
for value in (b"0", b"1", b"2"):
    producer.send(sys.argv[2], value)
"""


def test_a_program_that_forgets_to_close_has_written_its_records(
    cluster: LocalCluster, new_topic: Callable[..., str]
) -> None:
    """Regression: 0 of 2 records arrived when `close` was forgotten."""
    topic = new_topic(1)
    command = [sys.executable, "-X", "dev", "-c", FORGETFUL, cluster.bootstrap_servers, topic]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert "ResourceWarning: Unclosed Producer" in done.stderr
    assert "lost" not in done.stderr
    with (
        oncelog.SyncClient(cluster.bootstrap_servers) as client,
        client.consumer(topic, auto_offset_reset="earliest") as consumer,
    ):
        assert [record.value for record in consumer.getmany(timeout_ms=10_000)] == [b"0", b"1", b"2"]
