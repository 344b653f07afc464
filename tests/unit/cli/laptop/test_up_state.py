"""What `oncelog up` writes down is private and whole, and is never believed about a reused pid."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from oncelog.errors import StorageError
from oncelog_cli.laptop import up_state
from oncelog_cli.laptop.process_id import ProcessId
from oncelog_cli.laptop.up_state import Member, UpState, end_all, leftovers, request_start, take_requests


def myself() -> ProcessId:
    found = ProcessId.of(os.getpid())
    assert found is not None
    return found


def state(folder: Path, supervisor: ProcessId, *members: Member) -> UpState:
    return UpState(str(folder), supervisor, "127.0.0.1:9092", ready=True, detached=True, members=members)


def test_what_is_written_is_read_and_private(tmp_path: Path) -> None:
    assert UpState.read(tmp_path) is None
    written = state(
        tmp_path, myself(), Member("broker-0", "127.0.0.1:9092", myself(), 5), Member("etcd", "a:1", ended="SIGKILL")
    )
    written.write()
    assert UpState.read(tmp_path) == written
    assert stat.S_IMODE((tmp_path / up_state.FILE).stat().st_mode) == 0o600
    assert written.is_running
    assert [member.state for member in written.members] == ["running", "dead"]


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"version": 2, "members": [], "supervisor": {"pid": 1, "started": ""}}']
)
def test_a_file_that_means_nothing_is_told(tmp_path: Path, text: str) -> None:
    (tmp_path / up_state.FILE).write_text(text)
    with pytest.raises(StorageError, match=r"up\.json cannot be read"):
        UpState.read(tmp_path)


def test_a_request_is_taken_once(tmp_path: Path) -> None:
    assert take_requests(tmp_path) == []
    request_start(tmp_path, "broker-1")
    request_start(tmp_path, "broker-1")
    request_start(tmp_path, "broker-0")
    assert take_requests(tmp_path) == ["broker-0", "broker-1"]
    assert take_requests(tmp_path) == []


def test_a_paused_process_that_outlived_its_supervisor_is_ended_and_a_reused_pid_is_not(tmp_path: Path) -> None:
    command = [sys.executable, "-S", "-c", "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)"]
    with subprocess.Popen(command) as child:
        assert os.WIFSTOPPED(os.waitpid(child.pid, os.WUNTRACED)[1])
        left = ProcessId.of(child.pid)
        assert left is not None
        members = (Member("broker-0", "a:1", left), Member("broker-1", "a:2", ProcessId(os.getpid(), "another start")))
        after = state(tmp_path, ProcessId(os.getpid(), "another start"), *members)
        assert not after.is_running
        assert leftovers(after) == [left]
        assert end_all(leftovers(after), 30.0) == 1
        assert child.wait(30) < 0
    assert leftovers(state(tmp_path, myself(), *members)) == [], "a living supervisor's are no leftovers"


def test_a_copy_of_a_data_directory_has_no_cluster_of_its_own(tmp_path: Path) -> None:
    original, copy = tmp_path / "original", tmp_path / "copy"
    original.mkdir()
    copy.mkdir()
    state(original, myself()).write()
    (copy / up_state.FILE).write_bytes((original / up_state.FILE).read_bytes())
    for folder, expected in ((original, True), (copy, False)):
        found = UpState.read(folder)
        assert found is not None
        assert (found.belongs_to(folder), found.is_running_in(folder)) == (expected, expected)
