"""A process is known by pid and start, and only it gets its signals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from oncelog_cli.laptop import process_id
from oncelog_cli.laptop.process_id import ProcessId

SLEEP = [sys.executable, "-S", "-c", "import time; print('up', flush=True); time.sleep(600)"]


@pytest.fixture
def child() -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(SLEEP, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        yield process
        process.kill()


def known(child: subprocess.Popen[str]) -> ProcessId:
    found = ProcessId.of(child.pid)
    assert found is not None
    return found


def test_a_process_runs_is_paused_goes_on_and_ends(child: subprocess.Popen[str]) -> None:
    process = known(child)
    assert process.state == "running"
    assert process.send(signal.SIGSTOP)
    assert os.WIFSTOPPED(os.waitpid(child.pid, os.WUNTRACED)[1])
    assert process.state == "paused"
    assert process.send(signal.SIGTERM, signal.SIGCONT)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert process.state == "dead", "also while its parent has not asked for its end"
    child.wait()
    assert (process.state, process.send(signal.SIGTERM), ProcessId.of(child.pid)) == ("dead", False, None)


def test_a_pid_that_another_one_has_now_gets_no_signal(child: subprocess.Popen[str]) -> None:
    before = ProcessId(child.pid, "the boot before this one/12345")
    assert before.state == "dead"
    assert not before.send(signal.SIGKILL)
    assert child.poll() is None
    assert known(child).state == "running"
    assert ProcessId(child.pid, "").state == "dead"


def test_a_process_that_never_was_is_dead() -> None:
    assert ProcessId(1 << 22, "").state == "dead"
    assert ProcessId.of(1 << 22) is None


def test_where_there_is_no_proc_ps_knows_the_same(
    child: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    said = "T    Mon Nov 23 03:24:55 2026\n"
    done = subprocess.CompletedProcess(["ps"], 0, stdout=said)
    monkeypatch.setattr(subprocess, "run", lambda *_args, **_options: done)
    assert process_id._ask_ps(child.pid) == ("Mon Nov 23 03:24:55 2026", "T")
