"""The command line against a real cluster: what people type, what they see, what they are told."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from oncelog_cli.laptop.local_cluster import LocalCluster
from tests.integration.shell import Shell


@pytest.fixture
def shell(cluster: LocalCluster) -> Shell:
    return Shell(cluster.bootstrap_servers)


def test_a_topic_lives_and_dies(shell: Shell) -> None:
    assert shell.json("topic", "create", "cli-life", "--partitions", "3")[0]["created"]
    assert not shell.json("topic", "create", "cli-life", "--partitions", "3", "--if-not-exists")[0]["created"]
    again = shell.run("topic", "create", "cli-life")
    assert (again.returncode, "TOPIC_ALREADY_EXISTS" in again.stderr) == (1, True)
    assert "cli-life" in [row["topic"] for row in shell.json("topic", "list")]
    (described,) = shell.json("topic", "describe", "cli-life")
    assert [row["partition"] for row in described["partitions"]] == [0, 1, 2]
    assert all(len(row["isr"]) == 3 for row in described["partitions"])
    assert shell.run("topic", "delete", "cli-life").returncode == 0
    gone = shell.run("topic", "describe", "cli-life")
    assert (gone.returncode, "oncelog topic create cli-life" in gone.stderr) == (1, True)


def test_lines_go_in_and_come_out(shell: Shell, new_topic: Callable[..., str]) -> None:
    topic = new_topic(1)
    assert shell.json("produce", topic, "--key-separator", "=", given="a=1\nb=2\n")["records"] == 2
    read = shell.run("consume", topic, "--until-end")
    assert read.stdout == "a\t1\nb\t2\n"


def test_reading_beyond_the_end_and_by_pattern_is_never_silence(shell: Shell, new_topic: Callable[..., str]) -> None:
    """Regression: `consume orders -o 999999 --until-end` and `consume 'multi-.*'` printed nothing."""
    topic = new_topic(1)
    shell.json("produce", topic, given="a\nb\n")
    beyond = shell.run("consume", topic, "-o", "999999", "--until-end")
    assert (beyond.returncode, beyond.stdout) == (1, "")
    assert f"OFFSET_OUT_OF_RANGE: offset 999999 lies beyond the end: {topic}/0 ends at 2" in beyond.stderr
    assert shell.run("consume", topic, "-o", "2", "--until-end").returncode == 0
    assert shell.run("consume", "-r", f"{topic[:-1]}.", "--until-end").stdout == "a\nb\n"
    assert "--regex" in shell.run("consume", f"{topic[:-1]}.*", "--until-end").stderr


def test_options_of_topics_have_units(shell: Shell) -> None:
    """The same: `-c retention_ms=1h` was refused."""
    words = ("topic", "create", "cli-units", "-c", "retention_ms=1h", "-c", "segment_bytes=1MiB")
    assert shell.json(*words, "--timeout-ms", "20s")[0]["created"]
    (described,) = shell.json("topic", "describe", "cli-units", "--configs")
    values = {row["name"]: row["value"] for row in described["configs"]}
    assert (values["retention_ms"], values["segment_bytes"]) == ("3600000", "1048576")
    assert shell.run("topic", "create", "cli-odd", "-c", "retention_ms=1fortnight").returncode == 2


def test_an_aborted_transaction_is_not_seen_and_a_committed_one_is(shell: Shell, new_topic: Callable[..., str]) -> None:
    topic = new_topic(1)
    aborted = shell.json("produce", topic, "--transactional-id", "cli-1", "--abort", given="no\n")
    committed = shell.json("produce", topic, "--transactional-id", "cli-1", given="yes\n")
    assert (aborted["outcome"], committed["outcome"]) == ("aborted", "committed")
    assert committed["txn_no"] > aborted["txn_no"], "each session closes a number that the one before it was given"
    assert shell.run("consume", topic, "--until-end").stdout == "yes\n"
    assert shell.run("consume", topic, "--until-end", "--read-uncommitted").stdout == "no\nyes\n"
    (described,) = shell.json("txn", "describe", "cli-1")
    assert described["txn_no"] == committed["txn_no"]
    assert "cli-1" in [row["transactional_id"] for row in shell.json("txn", "list")]
    assert shell.json("txn", "abort", "cli-1")[0]["aborted_txn_no"] is None


def test_health_is_told_by_words_and_exit_code(shell: Shell) -> None:
    assert shell.json("cluster", "health", "--watch", "--exit-when-healthy")["healthy"]
    dead = shell.run("cluster", "health", "--bootstrap-servers", "127.0.0.1:1", "--timeout-ms", "1500")
    assert (dead.returncode, "127.0.0.1:1" in dead.stdout) == (1, True), dead.stdout


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("topic", "create", "a/b"), "INVALID_TOPIC"),
        (("topic", "create", ".."), "INVALID_TOPIC"),
        (("topic", "create", "cli-none", "--partitions", "0"), "INVALID_PARTITIONS"),
        (("topic", "create", "cli-many", "--partitions", "1000000"), "INVALID_PARTITIONS"),
        (("topic", "create", "cli-wide", "--replication-factor", "9"), "INVALID_REPLICATION_FACTOR"),
        (("topic", "create", "cli-odd", "--config", "no.such=1"), "INVALID_CONFIG"),
        (("topic", "create", "__transaction_state"), "INVALID_TOPIC"),
        (("topic", "delete", "__consumer_offsets"), "INVALID_TOPIC"),
        (("txn", "describe", "nobody"), "INVALID_PRODUCER_ID_MAPPING"),
        (("produce", "cli-missing"), "UNKNOWN_TOPIC_OR_PARTITION"),
        (("produce", "__transaction_state"), "INVALID_TOPIC"),
    ],
)
def test_a_mistake_gets_its_name(shell: Shell, words: tuple[str, ...], says: str) -> None:
    done = shell.run(*words, given="x\n")
    assert (done.returncode, says in done.stderr) == (1, True), done.stderr
    assert "Traceback" not in done.stderr


def test_wrong_usage_is_exit_code_2_and_an_unknown_flag_an_error(shell: Shell) -> None:
    assert shell.run("topic", "create", "x", "--partition", "3", "--nonsense").returncode == 2
    assert shell.run().returncode == 2


def test_help_loads_nothing_heavy() -> None:
    program = "import sys; from oncelog_cli.main import build_parser; build_parser().format_help(); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert not {"grpc", "pyarrow", "google.protobuf"} & set(loaded)


# ---------------------------------------------------------------- oncelog up


def up(data_dir: Path, *flags: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "oncelog_cli", "up", "--data-dir", str(data_dir), "--first-port", "0", *flags]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def children_of(data_dir: Path) -> list[int]:
    """Processes that name the data directory on their command line."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if str(data_dir).encode() in command:
                found.append(int(entry.name))
    return found


def test_up_starts_refuses_a_second_one_and_leaves_nothing(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    running = up(data_dir, "--brokers", "1", "--format", "json")
    assert running.stdout is not None
    listing = json.loads(running.stdout.readline())
    assert set(listing["processes"]) == {"etcd", "broker-0", "coordinator-0", "coordinator-1", "pid-allocator-0"}
    shell = Shell(listing["bootstrap_servers"])
    assert shell.json("topic", "create", "kept")[0]["created"]
    assert shell.json("produce", "kept", given="here\n")["records"] == 1
    _, refused = up(data_dir, "--brokers", "1").communicate(timeout=30)
    assert "another `oncelog up` runs on" in refused
    running.terminate()
    assert running.wait(40) == 0
    assert children_of(data_dir) == []
    again = up(data_dir, "--brokers", "1", "--format", "json")
    assert again.stdout is not None
    shell = Shell(json.loads(again.stdout.readline())["bootstrap_servers"])
    assert shell.run("consume", "kept", "--until-end").stdout == "here\n"
    again.kill()
    again.wait(10)
    deadline = time.monotonic() + 20
    while children_of(data_dir) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert children_of(data_dir) == [], "the kernel ends the children of a killed supervisor"


def sentence(done: subprocess.CompletedProcess[str]) -> str:
    """What the process told a person, apart from its log lines."""
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    (found,) = [line for line in done.stderr.splitlines() if line.startswith("oncelog partition_leader: ")]
    return found


def test_a_taken_port_is_explained(cluster: LocalCluster, tmp_path: Path) -> None:
    port = cluster.processes["broker-0"].address.rpartition(":")[2]
    command = [sys.executable, "-m", "oncelog_partition_leader", "--listen-port", port, "--node-id", "9"]
    command += ["--etcd-endpoints", cluster.processes["etcd"].address, "--data-dir", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert port in sentence(done)
    assert "choose another" in sentence(done)


def test_a_second_broker_on_one_data_directory_is_refused(cluster: LocalCluster) -> None:
    data_dir = cluster.data_dir / "broker-0"
    command = [sys.executable, "-m", "oncelog_partition_leader", "--node-id", "9", "--data-dir", str(data_dir)]
    command += ["--etcd-endpoints", cluster.processes["etcd"].address]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert "another process" in sentence(done)


def test_a_dead_etcd_is_explained(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "oncelog_partition_leader", "--node-id", "9", "--data-dir", str(tmp_path)]
    command += ["--etcd-endpoints", "127.0.0.1:1", "--etcd-connect-timeout-ms", "1000"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert "etcd does not answer at 127.0.0.1:1" in sentence(done)
