"""A profile keeps what is no secret, and refuses the rest."""

from __future__ import annotations

import pytest

from oncelog.errors import ConfigError
from oncelog_cli.terminal.profiles import checked


def test_a_profile_keeps_paths_and_no_secret() -> None:
    assert set(checked(["token_file=/t", "username=u", "password_file=/p"])) == {
        "token_file",
        "username",
        "password_file",
    }
    for name in ("token", "password"):
        with pytest.raises(ConfigError):
            checked([f"{name}=x"])
