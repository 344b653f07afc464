"""`oncelog profile`: its verbs, and mistakes that are named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from oncelog_cli.main import main
from oncelog_cli.terminal.profiles import Profiles


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for name in ("BOOTSTRAP_SERVERS", "SSL_CAFILE", "PROFILE", "SECURITY_PROTOCOL"):
        monkeypatch.delenv(f"ONCELOG_{name}", raising=False)
    return tmp_path


def test_the_verbs(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", "create", "a", "--set", "bootstrap_servers=a:1"]) == 0
    assert main(["profile", "create", "b", "--set", "bootstrap_servers=b:1", "--use"]) == 0
    capsys.readouterr()
    assert main(["profile", "list", "--format", "json"]) == 0
    assert [(row["name"], row["current"]) for row in json.loads(capsys.readouterr().out)] == [("a", False), ("b", True)]
    assert main(["profile", "use", "a"]) == 0
    capsys.readouterr()
    assert main(["profile", "show"]) == 0
    assert "bootstrap_servers  a:1" in capsys.readouterr().out
    assert main(["profile", "delete", "a"]) == 0
    assert main(["profile", "show"]) == 1, "none is current"
    assert (home / "oncelog" / "profiles.json").stat().st_mode & 0o077 == 0, "for its owner alone"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["profile", "use", "x"], "there is no profile 'x'; there are: a"),
        (["profile", "create", "a", "--set", "bootstrap_servers=z:1"], "--replace"),
        (["profile", "create", "b", "--set", "colour=red"], "--set takes NAME=VALUE"),
        (["profile", "create", "b"], "nothing to keep"),
        (["topic", "list", "--profile", "x"], "there is no profile 'x'"),
    ],
)
def test_mistakes_are_named(words: list[str], says: str, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", "create", "a", "--set", "bootstrap_servers=a:1"]) == 0
    assert main(words) == 1
    assert says in capsys.readouterr().err
    assert list(Profiles.read({"XDG_CONFIG_HOME": str(home)}).profiles) == ["a"]
