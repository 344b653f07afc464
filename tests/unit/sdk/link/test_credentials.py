"""A client shows a token or a password, asks for a token anew for each link, and shows no secret where others could read it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from oncelog.config import ClientConfig
from oncelog.errors import AuthenticationError, ConfigError
from oncelog.link.credentials import TOKEN_BYTES_MAX, Credentials, check_way, credentials_of


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


def test_a_token_is_asked_for_anew_for_each_link(tmp_path: Path) -> None:
    file = tmp_path / "token"
    credentials = Credentials(token_file=str(file))

    async def work() -> None:
        for token in ("first", "second"):
            file.write_text(f" {token}\n")
            assert await credentials.metadata() == (("authorization", f"Bearer {token}"),)

    asyncio.run(work())


@pytest.mark.parametrize("token", ["", " ", "two words", "café", "a\nb", "x" * (TOKEN_BYTES_MAX + 1)], ids=ascii)
def test_what_is_no_token_is_refused_and_not_repeated(token: str) -> None:
    with pytest.raises(AuthenticationError, match="token_provider holds no token") as caught:
        asyncio.run(Credentials(token_provider=lambda: token).metadata())
    assert token.strip() == "" or token not in str(caught.value)


def test_a_token_file_that_is_not_there_is_named() -> None:
    with pytest.raises(AuthenticationError, match="token_file /nowhere/t: No such file"):
        asyncio.run(Credentials(token_file="/nowhere/t").metadata())


def test_a_user_shows_no_token_and_salts_the_password_once(monkeypatch: pytest.MonkeyPatch) -> None:
    worked = []

    def salted(password: str, salt: bytes, iterations: int) -> bytes:
        worked.append((password, salt, iterations))
        return b"%d" % len(worked)

    monkeypatch.setattr("oncelog.link.credentials.salted", salted)
    user = Credentials(username="u", password="pencil")

    async def work() -> None:
        assert await user.metadata() == ()
        assert [await user.salted(b"s", 4_096), await user.salted(b"s", 4_096), await user.salted(b"t", 4_096)] == [
            b"1",
            b"1",
            b"2",
        ]

    asyncio.run(work())
    assert (user.mechanism, Credentials(token="t").mechanism) == ("SCRAM-SHA-512", "")
    assert user.exchange().first() != user.exchange().first(), "each link has a nonce of its own"
