"""What a cluster on this machine is started with, and what is said when it is ready."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from oncelog.errors import ClusterUnreachableError, ConfigError
from oncelog_cli.laptop import up
from oncelog_cli.laptop.process_id import ProcessId
from oncelog_cli.laptop.up import next_steps
from oncelog_cli.laptop.up_state import Member, UpState
from oncelog_cli.main import build_parser, main
from oncelog_cli.terminal.output import Printer

GONE = ProcessId(os.getpid(), "an earlier start")


@pytest.fixture(autouse=True)
def at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ONCELOG_DATA_DIR", raising=False)
    monkeypatch.delenv("ONCELOG_FORMAT", raising=False)


def test_the_next_steps_are_lines_to_paste(tmp_path: Path) -> None:
    members = tuple(Member(f"broker-{i}", f"127.0.0.1:909{i}") for i in range(2))
    state = UpState(str(tmp_path / "oncelog-data"), GONE, "127.0.0.1:9090,127.0.0.1:9091", members=members)
    said = next_steps(state)
    pasted = [line.strip() for line in said.splitlines() if line.startswith("  ")]
    assert pasted == [
        "export ONCELOG_BOOTSTRAP_SERVERS=127.0.0.1:9090,127.0.0.1:9091",
        "oncelog topic create hello --partitions 3 --if-not-exists",
        "echo 'hello world' | oncelog produce hello",
        "oncelog consume hello --until-end",
        "oncelog kill broker-1",
        "oncelog topic describe hello --partitions",
        "oncelog start broker-1",
    ]
    alone = UpState("/some where", GONE, "127.0.0.1:1", detached=True, members=members[:1])
    assert "kill" not in next_steps(alone)
    assert next_steps(alone).endswith("stop: oncelog down --data-dir '/some where'")


def test_up_help_needs_no_services_and_up_without_them_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Regression: `up --help` gave the line about missing packages instead of help."""
    monkeypatch.setattr(up.importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(SystemExit) as ended:
        main(["up", "--help"])
    assert ended.value.code == 0
    said = capsys.readouterr().out
    assert "PR_SET_PDEATHSIG" in said
    assert "--detach" in said
    assert main(["up"]) == 1
    assert "pip install 'oncelog[local]'" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["0", "1", "9092", "65000"])
def test_a_first_port_leaves_room_above_it(text: str) -> None:
    assert build_parser().parse_args(["up", "--first-port", text]).first_port == int(text)


@pytest.mark.parametrize("text", ["-1", "65001", "x", "70000"])
def test_a_first_port_without_room_is_wrong_usage(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        build_parser().parse_args(["up", f"--first-port={text}"])
    assert ended.value.code == 2
    assert "0 for any free ports, or 1 to 65000" in capsys.readouterr().err


def test_the_supervisor_is_told_all_of_it_in_one_word() -> None:
    options = up.UpOptions("/data", 1, 0, "http://a:1", True, "json", 5)
    command = options.command()
    assert command[1:3] == ["-m", up.SUPERVISOR]
    assert up.UpOptions(**json.loads(command[3])) == options


# ---------------------------------------------------------------- without a terminal


def follow(tmp_path: Path, *reports: dict[str, object]) -> None:
    log = tmp_path / "supervisor.log"
    log.write_text("\n".join(f"line {number}" for number in range(9)))
    up._follow([json.dumps(report) for report in reports], Printer("text"), log)


def test_progress_is_told_until_it_is_ready(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    follow(tmp_path, {"progress": "starting etcd"}, {"ready": True}, {"progress": "too late"})
    assert capsys.readouterr().out == "starting etcd\n"


def test_what_the_supervisor_raises_is_raised_here(tmp_path: Path) -> None:
    error = {"error": "INVALID_CONFIG", "message": "others use the ports", "context": {"given": "1"}}
    with pytest.raises(ConfigError, match="others use the ports") as caught:
        follow(tmp_path, {"progress": "starting etcd"}, error)
    assert caught.value.context == {"given": "1"}


def test_one_that_ends_without_a_word_is_told_with_the_end_of_its_log(tmp_path: Path) -> None:
    with pytest.raises(ClusterUnreachableError, match="ended before the cluster was ready:\nline 4\n") as caught:
        follow(tmp_path, {"progress": "starting etcd"})
    assert caught.value.message.endswith("line 8")


def test_what_is_announced_for_programs_has_every_address(capsys: pytest.CaptureFixture[str]) -> None:
    members = (Member("broker-0", "127.0.0.1:9092", metrics_url="http://127.0.0.1:9/metrics"), Member("etcd", "a:1"))
    state = UpState("/data", GONE, "127.0.0.1:9092", detached=True, members=members)
    up.announce(state, Printer("json"))
    assert json.loads(capsys.readouterr().out) == {
        "bootstrap_servers": "127.0.0.1:9092",
        "processes": {"broker-0": "127.0.0.1:9092", "etcd": "a:1"},
        "metrics": {"broker-0": "http://127.0.0.1:9/metrics"},
        "data_dir": "/data",
        "detached": True,
    }
    up.announce(state, Printer("text"))
    assert "access rules are off" in capsys.readouterr().out
