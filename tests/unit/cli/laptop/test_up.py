"""What a cluster on this machine is started with, and what is said when it is ready."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from oncelog_cli.laptop import up
from oncelog_cli.laptop.process_id import ProcessId
from oncelog_cli.laptop.up import next_steps
from oncelog_cli.laptop.up_state import Member, UpState
from oncelog_cli.main import main

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
    """new_user.md 1: `up --help` gave the line about missing packages instead of help."""
    monkeypatch.setattr(up.importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(SystemExit) as ended:
        main(["up", "--help"])
    assert ended.value.code == 0
    said = capsys.readouterr().out
    assert "PR_SET_PDEATHSIG" in said
    assert "--detach" in said
    assert main(["up"]) == 1
    assert "pip install 'oncelog[local]'" in capsys.readouterr().err
