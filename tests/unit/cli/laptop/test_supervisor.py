"""What the supervisor of `oncelog up` tells and writes down about processes, and of what it cannot do."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from oncelog.errors import StorageError
from oncelog_cli.laptop import supervisor
from oncelog_cli.laptop.local_cluster import LocalProcess
from oncelog_cli.laptop.process_id import ProcessId
from oncelog_cli.laptop.up import UpOptions
from oncelog_cli.laptop.up_state import Member

SLEEP = "import time; time.sleep(600)"


def process(folder: Path, program: str) -> LocalProcess:
    return LocalProcess("broker-1", [sys.executable, "-S", "-c", program], "127.0.0.1:9093", folder / "broker-1.log")


def test_how_a_process_ended_is_told_with_its_last_words(tmp_path: Path) -> None:
    failing = process(tmp_path, "import sys; sys.exit('oncelog partition_leader: the disk is full: delete something')")
    assert supervisor.ended(failing) == "", "it was never started"
    failing.start()
    assert failing.popen is not None
    failing.popen.wait(60)
    member = supervisor._member(failing, None)
    assert (member.state, member.ended) == ("dead", "exit code 1")
    assert member.last_words == f"the disk is full: delete something (log: {tmp_path / 'broker-1.log'})"


def test_an_earlier_life_says_nothing_about_this_one(tmp_path: Path) -> None:
    """Who is killed has no last words; those of the life before stand in the same log."""
    again = process(tmp_path, SLEEP)
    again.log_path.write_text("oncelog partition_leader: an old complaint\n")
    again.start()
    running = supervisor._member(again, None)
    assert (running.state, running.ended, running.since_ms) == ("running", "", again.started_ms)
    assert supervisor._member(again, running) is running
    again.kill(signal.SIGKILL)
    dead = supervisor._member(again, running)
    assert (dead.state, dead.ended, dead.last_words, dead.process) == ("dead", "SIGKILL", "", running.process)
    assert "an old complaint" not in again.last_words()


def test_a_process_with_the_pid_of_an_earlier_one_is_another(tmp_path: Path) -> None:
    started = process(tmp_path, SLEEP)
    started.start()
    assert started.popen is not None
    before = Member("broker-1", "127.0.0.1:9093", ProcessId(started.popen.pid, "another start"), ended="SIGKILL")
    now = supervisor._member(started, before)
    assert (now.state, now.ended) == ("running", "")
    started.kill()


def test_one_supervisor_for_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "_LOCK_WAIT_S", 0.0)
    supervisor._lock(tmp_path)
    with pytest.raises(StorageError, match=r"another `oncelog up` runs on .*`oncelog down`"):
        supervisor._lock(tmp_path)


@pytest.mark.parametrize(("folder", "brokers", "says"), [("data", 99, "1 to 32"), ("file/data", 1, "Not a directory")])
def test_what_cannot_be_started_is_one_line(tmp_path: Path, folder: str, brokers: int, says: str) -> None:
    (tmp_path / "file").touch()
    for style in ("text", "json"):
        options = UpOptions(str(tmp_path / folder), brokers, first_port=0, style=style)
        done = subprocess.run(options.command(), capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, done.stdout) == (1, "")
        assert says in (done.stderr if style == "text" else json.loads(done.stderr)["message"])
        assert done.stderr.count("\n") == 1
