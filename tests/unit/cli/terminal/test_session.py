"""What flags and environment make of a client."""

from __future__ import annotations

import pytest

from oncelog_cli.main import build_parser
from oncelog_cli.terminal.session import tls_options

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
