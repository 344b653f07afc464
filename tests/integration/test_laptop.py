"""`oncelog up` as a laptop tool, with real processes.

What needs no cluster is in tests/unit/cli/laptop/test_laptop.py.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from oncelog.errors import ClusterUnreachableError
from oncelog_cli.laptop.local_cluster import LocalCluster
from oncelog_cli.laptop.up_state import UpState


class Home:
    """A folder with a detached cluster, and a shell in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data_dir = folder / "oncelog-data"
        self._environment = {name: value for name, value in os.environ.items() if not name.startswith("ONCELOG_")}

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """One command, to its end."""
        command = [sys.executable, "-m", "oncelog_cli", *words]
        return subprocess.run(
            command, cwd=self.folder, env=self._environment, capture_output=True, text=True, timeout=120, check=False
        )

    def ok(self, *words: str) -> str:
        """One command that succeeds; what it says."""
        done = self.run(*words)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def shell(self, line: str) -> str:
        """A line as it is pasted."""
        programs = self.folder / "bin"
        if not programs.exists():
            programs.mkdir()
            (programs / "oncelog").write_text(f'#!/bin/sh\nexec {sys.executable} -m oncelog_cli "$@"\n')
            (programs / "oncelog").chmod(0o755)
        environment = {**self._environment, "PATH": f"{programs}:{self._environment['PATH']}"}
        done = subprocess.run(
            ["bash", "-euc", line], cwd=self.folder, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def state(self) -> UpState:
        """What the supervisor wrote down."""
        found = UpState.read(self.data_dir)
        assert found is not None
        return found

    def processes(self) -> dict[str, dict[str, Any]]:
        """What `status` tells."""
        found = json.loads(self.run("status", "--format", "json").stdout)
        return {row["process"]: row for row in found["processes"]}

    def servers(self) -> tuple[str, str]:
        """As flags."""
        return "--bootstrap-servers", self.state().bootstrap_servers


@pytest.fixture(scope="module")
def said_and_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Home]]:
    home = Home(tmp_path_factory.mktemp("home"))
    said = home.ok("up", "--detach", "--first-port", "0")
    yield said, home
    assert home.run("down").stdout in ("stopped\n", f"no cluster runs on {home.data_dir}\n")


@pytest.fixture
def home(said_and_home: tuple[str, Home]) -> Home:
    return said_and_home[1]


def until(home: Home, name: str, state: str) -> dict[str, Any]:
    deadline = time.monotonic() + 30
    while (found := home.processes()[name])["state"] != state or (state == "dead" and not found["ended"]):
        assert time.monotonic() < deadline, found
    return found


def test_the_lines_that_up_prints_work_when_they_are_pasted(said_and_home: tuple[str, Home]) -> None:
    """`up` ends with lines to paste: the next commands."""
    said, home = said_and_home
    pasted = [line.strip() for line in said.splitlines() if re.match("  (export|oncelog|echo) ", line)]
    assert len(pasted) == 7
    shown = home.shell("\n".join(pasted))
    assert "hello world" in shown
    assert re.search(r"broker-1 killed(.|\n)*broker-1 started", shown)
    assert home.ok("cluster", "health", "--watch", "--exit-when-healthy", *home.servers())
    assert json.loads(home.ok("status", "--format", "json"))["running"]


def test_a_process_that_dies_is_told_and_the_cluster_goes_on(home: Home) -> None:
    """Regression: kill -9 of one broker stopped the whole cluster."""
    before = home.processes()
    os.kill(before["broker-2"]["pid"], signal.SIGKILL)
    assert until(home, "broker-2", "dead")["ended"] == "SIGKILL"
    told = (home.data_dir / "logs" / "up.log").read_text()
    assert "broker-2 ended (SIGKILL)" in told
    assert "oncelog start broker-2" in told
    home.ok("topic", "create", "goes-on", "--replication-factor", "2", *home.servers())
    assert "broker-2 started" in home.ok("start", "broker-2")
    after = home.processes()
    assert after["broker-2"]["pid"] != before["broker-2"]["pid"]
    assert {n: r["pid"] for n, r in after.items() if n != "broker-2"} == {
        n: r["pid"] for n, r in before.items() if n != "broker-2"
    }
    home.ok("cluster", "health", "--watch", "--exit-when-healthy", *home.servers())


def test_a_second_cluster_is_never_ready_on_the_ports_of_this_one(home: Home, tmp_path: Path) -> None:
    """Regression: `oncelog up` with another data directory on used ports said `ready`, or printed a Go stack."""
    same = home.run("up", "--detach")
    assert (same.returncode, same.stderr.count("\n")) == (1, 1), same.stderr
    assert "another `oncelog up` runs on" in same.stderr
    first_port = home.state().bootstrap_servers.split(",")[0].rpartition(":")[2]
    other = Home(tmp_path)
    refused = other.run("up", "--detach", "--first-port", first_port)
    assert (refused.returncode, refused.stderr.count("\n")) == (1, 1), refused.stderr
    assert f"{first_port} (broker-0)" in refused.stderr
    assert "--first-port" in refused.stderr
    assert not (other.data_dir / "cluster.json").exists(), "the next try may choose other ports"
    assert other.run("status").returncode == 1


def test_who_loses_the_race_for_a_port_says_so_in_one_line(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same, when the ports were free a moment before: the etcd that answers is not ours."""
    shutil.copyfile(home.data_dir / "cluster.json", tmp_path / "cluster.json")
    monkeypatch.setattr(LocalCluster, "_require_free_ports", lambda _self: None)
    cluster = LocalCluster(tmp_path)
    with (
        pytest.raises(ClusterUnreachableError, match=r"^etcd ended by itself: .*address already in use") as caught,
        cluster,
    ):
        pytest.fail("it said that it is ready")
    assert "\n" not in str(caught.value)
    monkeypatch.undo()
    with pytest.raises(ClusterUnreachableError, match="another cluster answers at"):
        cluster._require_own("some other id")


def test_down_also_ends_what_is_paused_and_the_data_stay(home: Home) -> None:
    """A detached cluster outlives the shell that started it, until `oncelog down`."""
    assert os.getsid(home.state().supervisor.pid) == home.state().supervisor.pid, "no terminal can end it"
    pids = [row["pid"] for row in home.processes().values()]
    home.ok("pause", "broker-0", "coordinator-1")
    assert home.processes()["broker-0"]["state"] == "paused"
    assert home.ok("down") == "stopped\n"
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
    assert home.run("status").returncode == 1
    home.ok("up", "--detach", "--format", "json")
    assert "hello world" in home.ok("consume", "hello", "--until-end", *home.servers())
    home.ok("down")
