"""A profile keeps what is no secret, and refuses the rest."""

from __future__ import annotations

from pathlib import Path

import pytest

from oncelog.errors import ConfigError
from oncelog_cli.main import build_parser, main
from oncelog_cli.terminal.profiles import Profiles, checked, defaults_for


def test_a_profile_keeps_paths_and_no_secret() -> None:
    assert set(checked(["token_file=/t", "username=u", "password_file=/p"])) == {
        "token_file",
        "username",
        "password_file",
    }
    for name in ("token", "password"):
        with pytest.raises(ConfigError):
            checked([f"{name}=x"])


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


def test_a_broken_file_is_named_and_verbs_that_need_none_go_on(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = home / "oncelog" / "profiles.json"
    path.parent.mkdir()
    path.write_text("{")
    assert main(["explain", "90"]) == 1
    assert str(path) in capsys.readouterr().err
