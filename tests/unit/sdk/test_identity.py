"""Who a client is, as options say it: one way at a time, and no secret in what can be read."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path
from typing import Any

import pytest

from oncelog.config import ClientConfig
from oncelog.errors import AuthenticationError, ConfigError
from oncelog.link.credentials import Credentials, check_way, credentials_of
from oncelog_cli.terminal.profiles import checked
from oncelog_cli.terminal.session import identity_options


@pytest.mark.parametrize(
    "options",
    [
        {"token": "t", "token_file": "f"},
        {"token": "t", "username": "u", "password": "p"},
        {"token_file": "f", "token_provider": lambda: ""},
        {"username": "u"},
        {"password": "p"},
        {"username": "u", "password": "p", "password_file": "f"},
    ],
    ids=str,
)
def test_options_that_contradict_each_other(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        ClientConfig(**options)


def test_no_secret_stands_in_a_repr() -> None:
    for config in (ClientConfig(token="hidden"), ClientConfig(username="u", password="hidden")):
        assert "hidden" not in repr(config)
        assert "hidden" not in repr(credentials_of(config))


def test_a_client_that_says_nothing_has_no_credentials() -> None:
    assert credentials_of(ClientConfig()) is None


def test_a_password_file_ends_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "p"
    file.write_text("pencil \n")
    credentials = credentials_of(ClientConfig(username="u", password_file=str(file)))
    assert credentials is not None
    assert credentials._password == "pencil "
    with pytest.raises(ConfigError, match="No such file"):
        credentials_of(ClientConfig(username="u", password_file=str(tmp_path / "none")))


def test_a_provider_may_be_plain_or_awaited_and_its_failure_is_named() -> None:
    async def awaited() -> str:
        return "one"

    def broken() -> str:
        raise ValueError("secret")

    async def main() -> None:
        for provider in (awaited, lambda: "one"):
            assert await Credentials(token_provider=provider).metadata() == (("authorization", "Bearer one"),)
        with pytest.raises(AuthenticationError) as caught:
            await Credentials(token_provider=broken).metadata()
        assert "secret" not in str(caught.value)
        with pytest.raises(AuthenticationError):
            await Credentials(token_provider=lambda: 7).metadata()  # type: ignore[arg-type,return-value]

    asyncio.run(main())


@pytest.mark.parametrize(
    "address", ["10.0.0.1:9092", "broker:9092", "localhost.evil:1", "127.0.0.1.evil:1", "[fe80::1]:1"]
)
def test_secrets_go_over_tls_or_to_this_machine(address: str) -> None:
    check_way(address, is_tls=True)
    with pytest.raises(AuthenticationError):
        check_way(address, is_tls=False)
    for here in ("127.0.0.1:1", "[::1]:1", "localhost:1"):
        check_way(here, is_tls=False)


def test_the_command_line_takes_secrets_from_files_or_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONCELOG_TOKEN", "t")
    monkeypatch.setenv("ONCELOG_PASSWORD", "p")
    none = argparse.Namespace(token_file="", username="", password_file="")
    assert identity_options(none) == {"token": "t"}
    assert identity_options(argparse.Namespace(**{**vars(none), "token_file": "f"})) == {"token_file": "f"}
    user = argparse.Namespace(**{**vars(none), "username": "u"})
    assert identity_options(user) == {"username": "u", "password": "p"}
    user.password_file = "f"
    assert identity_options(user) == {"username": "u", "password_file": "f"}


def test_a_profile_keeps_paths_and_no_secret() -> None:
    assert set(checked(["token_file=/t", "username=u", "password_file=/p"])) == {
        "token_file",
        "username",
        "password_file",
    }
    for name in ("token", "password"):
        with pytest.raises(ConfigError):
            checked([f"{name}=x"])
