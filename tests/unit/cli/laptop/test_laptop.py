"""`oncelog up` as a laptop tool: what is told of a cluster, and who gets a signal.

Regression: one dead process stopped all others, and `nohup` did not keep the cluster running.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from oncelog_cli.laptop.process_id import ProcessId
from oncelog_cli.laptop.up_state import Member, UpState
from oncelog_cli.main import main

SLEEP = [sys.executable, "-S", "-c", "import time; print('up', flush=True); time.sleep(600)"]
GONE = ProcessId(os.getpid(), "an earlier start")


@pytest.fixture(autouse=True)
def at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ONCELOG_DATA_DIR", raising=False)
    monkeypatch.delenv("ONCELOG_FORMAT", raising=False)


@pytest.fixture
def child() -> Iterator[subprocess.Popen[str]]:
    with sleeper() as process:
        yield process


@contextlib.contextmanager
def sleeper() -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(SLEEP, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        yield process
        process.kill()


def identity(pid: int) -> ProcessId:
    found = ProcessId.of(pid)
    assert found is not None
    return found


def running(folder: Path, *members: Member, supervisor: ProcessId | None = None) -> UpState:
    folder.mkdir(exist_ok=True)
    servers = "127.0.0.1:9092,127.0.0.1:9093"
    state = UpState(
        str(folder), supervisor or identity(os.getpid()), servers, ready=True, detached=True, members=members
    )
    state.write()
    return state


# ---------------------------------------------------------------- status


def test_status_is_a_table_with_the_way_back(
    child: subprocess.Popen[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    running(
        tmp_path / "oncelog-data",
        Member("broker-0", "127.0.0.1:9092", identity(child.pid), since_ms=1_767_225_600_000),
        Member("broker-1", "127.0.0.1:9093", GONE, since_ms=1_767_225_600_000, ended="SIGKILL"),
    )
    assert main(["status"]) == 1, "one of them does not run"
    said = capsys.readouterr().out.splitlines()
    assert said[0].split() == ["PROCESS", "STATE", "ADDRESS", "PID", "SINCE", "ENDED"]
    assert said[1].split() == ["broker-0", "running", "127.0.0.1:9092", str(child.pid), "2026-01-01T00:00:00.000Z", "-"]
    assert said[2].split() == ["broker-1", "dead", "127.0.0.1:9093", "-", "-", "SIGKILL"]
    assert "1 of 2 processes run; bootstrap servers 127.0.0.1:9092,127.0.0.1:9093" in said
    assert "broker-1: dead; oncelog start broker-1" in said


def test_status_for_programs(child: subprocess.Popen[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    running(tmp_path / "elsewhere", Member("etcd", "127.0.0.1:2379", identity(child.pid)))
    assert main(["status", "--format", "json", "--data-dir", "elsewhere"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["running"], found["ready"], found["detached"]) == (True, True, True)
    assert (found["data_dir"], found["bootstrap_servers"]) == (
        str(tmp_path / "elsewhere"),
        "127.0.0.1:9092,127.0.0.1:9093",
    )
    (process,) = found["processes"]
    assert (process["process"], process["state"], process["pid"]) == ("etcd", "running", child.pid)


@pytest.mark.parametrize("is_stale", [False, True])
def test_without_a_cluster_every_verb_says_where_it_looked(
    is_stale: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if is_stale:
        running(tmp_path / "oncelog-data", Member("broker-0", "127.0.0.1:9092", GONE), supervisor=GONE)
    for verb in ("kill", "pause", "resume", "start"):
        assert main([verb, "broker-0"]) == 1
        told = capsys.readouterr().err
        assert f"no cluster runs on {tmp_path / 'oncelog-data'}" in told
        assert "--data-dir" in told
    assert main(["status", "--format", "json"]) == 1
    assert json.loads(capsys.readouterr().out)["running"] is False
    assert main(["down"]) == 0
    assert capsys.readouterr().out == f"no cluster runs on {tmp_path / 'oncelog-data'}\n"


def test_the_environment_names_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ONCELOG_DATA_DIR", str(tmp_path / "mine"))
    assert main(["down"]) == 0
    assert str(tmp_path / "mine") in capsys.readouterr().out


# ---------------------------------------------------------------- one by one


def test_a_process_is_paused_and_goes_on(
    child: subprocess.Popen[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    process = identity(child.pid)
    running(tmp_path / "oncelog-data", Member("broker-1", "127.0.0.1:9093", process))
    assert main(["pause", "broker-1"]) == 0
    assert process.state == "paused"
    assert "oncelog resume broker-1" in capsys.readouterr().out
    assert main(["status"]) == 1
    assert "broker-1: paused; oncelog resume broker-1" in capsys.readouterr().out
    assert main(["start", "broker-1"]) == 1
    assert "is paused; let it go on: oncelog resume broker-1" in capsys.readouterr().err
    assert main(["resume", "broker-1", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["state"] == "running"
    assert process.state == "running"
    assert main(["start", "broker-1"]) == 1
    assert "broker-1 runs already" in capsys.readouterr().err


def test_a_reused_pid_gets_no_signal_and_a_dead_process_is_told(
    child: subprocess.Popen[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stranger = ProcessId(child.pid, "another start")
    running(tmp_path / "oncelog-data", Member("broker-1", "127.0.0.1:9093", stranger, ended="exit code 1"))
    for verb in ("kill", "pause", "resume"):
        assert main([verb, "broker-1"]) == 1
        assert "broker-1 does not run; start it: oncelog start broker-1" in capsys.readouterr().err
    assert identity(child.pid).state == "running"


def test_an_unknown_name_is_wrong_usage_and_nobody_is_touched(
    child: subprocess.Popen[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    running(tmp_path / "oncelog-data", Member("broker-1", "127.0.0.1:9093", identity(child.pid)))
    assert main(["pause", "broker-1", "brokr-1"]) == 2
    assert "did you mean broker-1?" in capsys.readouterr().err
    assert identity(child.pid).state == "running"


# ---------------------------------------------------------------- stopping


def test_down_ends_a_supervisor_and_waits_for_it(
    child: subprocess.Popen[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    running(tmp_path / "oncelog-data", supervisor=identity(child.pid))
    assert main(["down"]) == 0
    assert capsys.readouterr().out == "stopped\n"
    assert child.wait(30) == -signal.SIGTERM


def test_down_ends_what_a_killed_supervisor_left(
    child: subprocess.Popen[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    running(tmp_path / "oncelog-data", Member("broker-1", "127.0.0.1:9093", identity(child.pid)), supervisor=GONE)
    os.kill(child.pid, signal.SIGSTOP)
    assert os.WIFSTOPPED(os.waitpid(child.pid, os.WUNTRACED)[1])
    assert main(["down"]) == 0
    assert "a killed supervisor left" in capsys.readouterr().out
    assert child.wait(30) == -signal.SIGTERM
