"""What flags and environment make of a client."""

from __future__ import annotations

import argparse

import pytest

from oncelog_cli.main import build_parser
from oncelog_cli.terminal.session import identity_options, tls_options

VARIABLES = ("ONCELOG_SECURITY_PROTOCOL", "ONCELOG_SSL_CAFILE", "ONCELOG_SSL_CERTFILE", "ONCELOG_SSL_KEYFILE")


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


def options(*flags: str) -> dict[str, str]:
    return tls_options(build_parser().parse_args(["topic", "list", *flags]))


def test_without_a_word_it_is_plaintext() -> None:
    assert options()["security_protocol"] == "PLAINTEXT"


def test_a_file_alone_means_tls() -> None:
    assert options("--ssl-cafile", "ca.crt") == {
        "security_protocol": "SSL",
        "ssl_cafile": "ca.crt",
        "ssl_certfile": "",
        "ssl_keyfile": "",
    }


def test_the_environment_speaks_where_flags_are_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.setenv(name, name if "SSL" in name else "SSL")
    assert options("--ssl-cafile", "mine.crt") == {
        "security_protocol": "SSL",
        "ssl_cafile": "mine.crt",
        "ssl_certfile": "ONCELOG_SSL_CERTFILE",
        "ssl_keyfile": "ONCELOG_SSL_KEYFILE",
    }


def test_an_explicit_protocol_wins() -> None:
    assert options("--security-protocol", "SSL")["security_protocol"] == "SSL"


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
