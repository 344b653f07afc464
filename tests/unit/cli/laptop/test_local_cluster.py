"""A cluster on this machine has its ports for life, is its owner's alone, and tells how a process of it ended."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from oncelog.client.admin.descriptions import ClusterHealth
from oncelog.errors import ClusterUnreachableError, ConfigError
from oncelog.link.tls_check import PemPaths
from oncelog_cli.laptop import local_cluster
from oncelog_cli.laptop.local_cluster import LocalCluster, LocalProcess, LocalTls, free_ports, is_taken

HEALTHY = ClusterHealth("ours", 0, ((0, "a:1"), (1, "b:1"), (2, "c:1")), (), (), 0, ())


@pytest.fixture(autouse=True)
def no_etcd(monkeypatch: pytest.MonkeyPatch) -> None:
    """None of these starts one."""
    monkeypatch.setattr(local_cluster, "etcd_command", lambda *words, **_: ["etcd", *map(str, words)])


def ports(cluster: LocalCluster) -> dict[str, int]:
    found: dict[str, int] = json.loads((cluster.data_dir / "cluster.json").read_text())["ports"]
    return found


def flag(process: LocalProcess, name: str) -> str:
    return process.command[process.command.index(name) + 1]


@contextlib.contextmanager
def listening(port: int = 0, host: str = "127.0.0.1") -> Iterator[int]:
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen()
        yield listener.getsockname()[1]


# ---------------------------------------------------------------- layout


def test_the_same_directory_gives_the_same_ports_again(tmp_path: Path) -> None:
    first = LocalCluster(tmp_path / "data")
    again = LocalCluster(tmp_path / "data")
    assert ports(first) == ports(again)
    assert first.bootstrap_servers == again.bootstrap_servers
    assert len(set(ports(first).values())) == len(ports(first)) == 3 + 2 + 1 + 2


def test_brokers_get_the_first_ports_one_after_the_other(tmp_path: Path) -> None:
    cluster = LocalCluster(tmp_path / "data", first_port=9_092)
    assert cluster.bootstrap_servers == "127.0.0.1:9092,127.0.0.1:9093,127.0.0.1:9094"
    assert sorted(ports(cluster).values()) == list(range(9_092, 9_100))


def test_more_brokers_leave_the_others_where_they_are(tmp_path: Path) -> None:
    few = LocalCluster(tmp_path / "data", brokers=1, first_port=9_092)
    more = LocalCluster(tmp_path / "data", brokers=3, first_port=9_092)
    assert ports(few).items() <= ports(more).items()
    assert len(set(ports(more).values())) == len(ports(more))


@pytest.mark.parametrize(("brokers", "replicas"), [(1, "1"), (2, "2"), (3, "3"), (5, "3")])
def test_topics_have_as_many_replicas_as_there_are_brokers_and_at_most_three(
    tmp_path: Path, brokers: int, replicas: str
) -> None:
    cluster = LocalCluster(tmp_path / "data", brokers=brokers)
    broker = cluster.processes["broker-0"]
    assert flag(broker, "--default-replication-factor") == replicas
    assert flag(broker, "--internal-topic-replication-factor") == replicas
    assert "--default-replication-factor" not in cluster.processes["coordinator-0"].command


@pytest.mark.parametrize("brokers", [0, 33])
def test_a_number_of_brokers_that_cannot_be_is_refused_before_anything_is_written(tmp_path: Path, brokers: int) -> None:
    with pytest.raises(ConfigError, match="--brokers is 1 to 32"):
        LocalCluster(tmp_path / "data", brokers=brokers)
    assert not (tmp_path / "data").exists()


def test_what_it_writes_is_its_owners_alone(tmp_path: Path) -> None:
    cluster = LocalCluster(tmp_path / "data")
    for path in (cluster.data_dir, cluster.data_dir / "logs", cluster.data_dir / "cluster.json"):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path


def test_each_process_has_its_own_folder_and_number(tmp_path: Path) -> None:
    cluster = LocalCluster(tmp_path / "data", flags=("--log-level", "DEBUG"), serving_flags=("--more",))
    assert set(cluster.processes) == {
        "etcd", "broker-0", "broker-1", "broker-2", "coordinator-0", "coordinator-1", "pid-allocator-0",
    }  # fmt: skip
    for name, process in cluster.processes.items():
        if name != "etcd":
            assert flag(process, "--data-dir") == str(cluster.data_dir / name)
            assert flag(process, "--node-id") == name.rpartition("-")[2]
            assert flag(process, "--log-level") == "DEBUG"
            assert ("--more" in process.command) == (name != "pid-allocator-0")


def test_doors_metrics_and_probes_have_ports_of_their_own(tmp_path: Path) -> None:
    cluster = LocalCluster(tmp_path / "data", doors=True, metrics=True, probes=True)
    broker, allocator = cluster.processes["broker-0"], cluster.processes["pid-allocator-0"]
    assert set(broker.doors) == {"client", "external"}
    assert flag(broker, "--external-listen-port") == broker.doors["external"].rpartition(":")[2]
    assert cluster.bootstrap_at("external").split(",")[0] == broker.doors["external"]
    assert cluster.bootstrap_servers.split(",")[0] == broker.doors["client"]
    assert allocator.doors == {}
    assert allocator.metrics_url == f"http://127.0.0.1:{flag(allocator, '--metrics-port')}/metrics"
    assert cluster.probe_address("broker-0") == f"127.0.0.1:{flag(broker, '--health-port')}"


def test_tls_is_given_to_each_door_and_to_clients(tmp_path: Path) -> None:
    inside, clients = PemPaths("c", "k", "ca"), PemPaths("cc", "ck", "cca")
    cluster = LocalCluster(tmp_path / "data", doors=True, tls=LocalTls(inside, clients), identity={"username": "u"})
    words = {name: process.command for name, process in cluster.processes.items()}
    assert {"--tls-cert-file=c", "--etcd-tls-ca-file=ca", "--client-tls-key-file=ck"} <= set(words["broker-0"])
    assert not any(word.startswith("--client-tls") for word in words["pid-allocator-0"])
    assert cluster.client_options == {"security_protocol": "SSL", "ssl_cafile": "cca", "username": "u"}
    assert LocalCluster(tmp_path / "other").client_options == {}


# ---------------------------------------------------------------- ports


def test_free_ports_are_different_and_nobodys() -> None:
    found = free_ports(20)
    assert len(set(found)) == 20
    assert not any(map(is_taken, found[:3]))


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_a_listener_anywhere_takes_the_port(host: str) -> None:
    with listening(host=host) as port:
        assert is_taken(port)
    assert not is_taken(port), "what ended a moment ago is no listener"


@pytest.mark.parametrize("has_run", [False, True])
def test_ports_that_others_use_are_told_before_anything_starts(tmp_path: Path, has_run: bool) -> None:
    cluster = LocalCluster(tmp_path / "data")
    port = ports(cluster)["broker-1"]
    if has_run:
        (cluster.data_dir / "etcd").mkdir()
    with listening(port), pytest.raises(ConfigError, match=rf"others use the ports {port} \(broker-1\)") as caught:
        cluster.start()
    assert all(process.popen is None for process in cluster.processes.values())
    assert ("choose others with --first-port" in str(caught.value)) == (not has_run)
    assert (cluster.data_dir / "cluster.json").exists() == has_run, "one that never ran may have others"


# ---------------------------------------------------------------- processes


def process(folder: Path, program: str) -> LocalProcess:
    return LocalProcess("broker-1", [sys.executable, "-S", "-c", program], "127.0.0.1:9093", folder / "broker-1.log")


def test_a_process_that_ends_at_the_start_is_told_with_its_last_words(tmp_path: Path) -> None:
    cluster = LocalCluster(tmp_path / "data")
    failing = process(tmp_path, "import sys; sys.exit('oncelog partition_leader: the disk is full')")
    failing.start()
    assert failing.popen is not None
    failing.popen.wait(60)
    cluster.processes = {"broker-1": failing}
    with pytest.raises(ClusterUnreachableError, match="broker-1 ended by itself: the disk is full"):
        cluster.wait_healthy(60)
    assert cluster.dead() == [failing]


def test_its_log_is_its_owners_and_its_tail_is_short(tmp_path: Path) -> None:
    talking = process(tmp_path, "for i in range(100): print(i)")
    assert (talking.log_tail(), talking.running) == ("", False)
    talking.start()
    assert talking.popen is not None
    assert talking.popen.wait(60) == 0
    assert talking.log_tail().split() == ["95", "96", "97", "98", "99"]
    assert stat.S_IMODE(talking.log_path.stat().st_mode) & 0o077 == 0


def test_a_child_is_in_a_session_of_its_own_so_that_ctrl_c_does_not_reach_it(tmp_path: Path) -> None:
    sleeping = process(tmp_path, "import time; time.sleep(600)")
    sleeping.start()
    assert sleeping.popen is not None
    try:
        assert os.getsid(sleeping.popen.pid) == sleeping.popen.pid != os.getsid(0)
    finally:
        sleeping.kill()
    assert sleeping.popen.returncode == -signal.SIGKILL
    sleeping.kill()  # once more: nothing


STUBBORN = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
)


def test_what_does_not_stop_in_time_is_killed_and_what_is_paused_is_stopped_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_cluster, "_STOP_GRACE_S", 0.2)
    with subprocess.Popen([sys.executable, "-S", "-c", STUBBORN], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "up\n"
        stubborn, paused = process(tmp_path, ""), process(tmp_path, "import time; time.sleep(600)")
        stubborn.popen = child  # type: ignore[assignment]
        paused.start()
        assert paused.popen is not None
        paused.kill(signal.SIGSTOP)
        assert os.WIFSTOPPED(os.waitpid(paused.popen.pid, os.WUNTRACED)[1])
        cluster = LocalCluster(tmp_path / "data")
        cluster.processes = {"broker-0": stubborn, "broker-1": paused, "etcd": process(tmp_path, "")}
        cluster.stop()
        assert (child.returncode, paused.popen.returncode) == (-signal.SIGKILL, -signal.SIGTERM)


# ---------------------------------------------------------------- ready


class Gateway:
    """An etcd that holds this cluster id."""

    def __init__(self, cluster_id: str | None) -> None:
        self._value = None if cluster_id is None else local_cluster.Cluster(cluster_id, 1, 1).encode()

    def get(self, _key: str) -> bytes | None:
        return self._value


@pytest.mark.parametrize("own", ["ours", "another", None])
def test_a_cluster_is_ready_when_it_is_its_own_that_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: str | None
) -> None:
    cluster = LocalCluster(tmp_path / "data")
    monkeypatch.setattr(LocalCluster, "_gateway", lambda _self: Gateway(own))
    if own == "ours":
        cluster._require_own("ours")
        return
    with pytest.raises(ClusterUnreachableError, match=rf"it is ours, and ours is {own or 'unknown'}; stop it"):
        cluster._require_own("ours")


class Answers:
    """A client of a cluster that is in this health."""

    def __init__(self, health: ClusterHealth) -> None:
        self.admin = self
        self._health = health

    def cluster_health(self) -> ClusterHealth:
        return self._health

    def __enter__(self) -> Answers:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to close."""


@pytest.mark.parametrize(
    ("health", "says"),
    [
        (HEALTHY, ""),
        (ClusterHealth("ours", 0, ((0, "a:1"),), (), (), 0, ()), "1 of 3 brokers are up"),
        (ClusterHealth("ours", None, (), (), (), 0, ("there is no controller",)), "there is no controller"),
    ],
)
def test_all_brokers_and_no_problem_are_health(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, health: ClusterHealth, says: str
) -> None:
    cluster = LocalCluster(tmp_path / "data")
    cluster.processes = {}
    monkeypatch.setattr(local_cluster, "Client", lambda *_, **__: Answers(health))
    made: Any = cluster
    if not says:
        assert made.wait_healthy(1) == "ours"
        return
    with pytest.raises(ClusterUnreachableError, match=f"is not healthy after 0 s: {says}"):
        made.wait_healthy(0.01)
