"""Profiles: kept in one private file, and below flags and environment."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from oncelog_cli.main import build_parser, main
from oncelog_cli.terminal.profiles import Profiles, defaults_for


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for name in ("BOOTSTRAP_SERVERS", "SSL_CAFILE", "PROFILE", "SECURITY_PROTOCOL"):
        monkeypatch.delenv(f"ONCELOG_{name}", raising=False)
    return tmp_path


def servers(words: list[str], environment: dict[str, str]) -> str:
    found: str = build_parser(defaults_for(words, environment)).parse_args(words).bootstrap_servers
    return found


def test_flags_stand_above_environment_above_profile_above_default(home: Path) -> None:
    environment = {"XDG_CONFIG_HOME": str(home)}
    words = ["topic", "list"]
    assert servers(words, environment) == "127.0.0.1:9092"
    assert main(["profile", "create", "prod", "--bootstrap-servers", "p:1", "--ssl-cafile", "ca.pem"]) == 0
    assert main(["profile", "create", "dev", "--set", "bootstrap.servers=d:1"]) == 0
    assert servers(words, environment) == "p:1", "the first one is the current one"
    assert servers([*words, "--profile", "dev"], environment) == "d:1"
    assert servers([*words, "--profile=dev"], environment) == "d:1"
    assert servers(words, {**environment, "ONCELOG_PROFILE": "dev"}) == "d:1"
    assert servers(words, {**environment, "ONCELOG_BOOTSTRAP_SERVERS": "e:1"}) == "e:1"
    assert servers([*words, "--bootstrap-servers", "f:1"], {**environment, "ONCELOG_BOOTSTRAP_SERVERS": "e:1"}) == "f:1"
    kept = Profiles.read(environment).profiles["prod"]["ssl_cafile"]
    assert kept == str(Path("ca.pem").resolve()), "a relative path would mean another file tomorrow"


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


def test_a_broken_file_is_named_and_verbs_that_need_none_go_on(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = home / "oncelog" / "profiles.json"
    path.parent.mkdir()
    path.write_text("{")
    assert main(["explain", "90"]) == 1
    assert str(path) in capsys.readouterr().err
