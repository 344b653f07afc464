"""A client shows a token or a password, asks for a token anew for each link, and shows no secret where others could read it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from oncelog.config import ClientConfig
from oncelog.errors import AuthenticationError, ConfigError
from oncelog.link.credentials import Credentials, check_way, credentials_of


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
