"""Checks single options: each check raises `ConfigError`, which names the option and says what it must be.

Rule: a secret is never part of a message.
"""

from __future__ import annotations

import difflib
from typing import Any, Final

from oncelog.errors import ConfigError

_HIGHEST: Final = 1 << 40


def suggestion(name: str, known: list[str]) -> str:
    """Returns the end of a message about an unknown name: the nearest one of those that are known, or nothing."""
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    return f"; did you mean `{near[0]}`?" if near else ""


def coerce(name: str, value: Any, default: object) -> object:
    """Returns the value in the type of the default: text from properties files and environments becomes numbers and booleans.
    Anything else stays.
    """
    if isinstance(value, str) and isinstance(default, bool):
        if value.lower() not in ("true", "false"):
            raise ConfigError(f"`{name}` is true or false", given=value)
        return value.lower() == "true"
    if isinstance(default, bool):
        if not isinstance(value, bool):
            raise ConfigError(f"`{name}` is true or false", given=value)
        return value
    if isinstance(default, float):
        try:
            return float(value)
        except (TypeError, ValueError) as error:
            raise ConfigError(f"`{name}` is a number", given=value) from error
    if isinstance(default, int):
        try:
            return int(value)
        except (TypeError, ValueError, OverflowError) as error:
            raise ConfigError(f"`{name}` is a whole number", given=value) from error
    return value


def positive(config: object, *names: str) -> None:
    """Checks that each of these options is 1 or more."""
    for name in names:
        at_least(config, name, 1)


def at_least(config: object, name: str, lowest: int) -> None:
    """Checks a number that has a lowest value, and the highest that any option may have."""
    value = getattr(config, name)
    if not lowest <= value <= _HIGHEST:
        limit = f"at least {lowest}" if value < lowest else f"at most {_HIGHEST}"
        raise ConfigError(f"`{name}` is {value}, and must be {limit}")


def within(config: object, name: str, lowest: int, highest: int) -> None:
    """Checks a number between two bounds, which it may reach."""
    value = getattr(config, name)
    if not lowest <= value <= highest:
        raise ConfigError(f"`{name}` is {value}, and must be {lowest} to {highest}")


def text(config: object, *names: str) -> None:
    """Checks what is sent as text, or not at all. A lone surrogate, which the name of a file may bring, is no text."""
    for name in names:
        value = getattr(config, name)
        if value is not None and not is_text(value):
            raise ConfigError(f"`{name}` is {value!r}, and must be text that UTF-8 can hold")


def secret(config: object, *names: str) -> None:
    """As `text`, without showing the value."""
    for name in names:
        if not is_text(getattr(config, name)):
            raise ConfigError(f"`{name}` must be text that UTF-8 can hold")


def is_text(value: object) -> bool:
    """Returns True for text that UTF-8 can hold."""
    if not isinstance(value, str):
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def one_of(config: object, name: str, allowed: tuple[str, ...]) -> None:
    """Checks an option that has a few values."""
    value = getattr(config, name)
    if value not in allowed:
        raise ConfigError(f"`{name}` is {value!r}, and must be one of {', '.join(allowed)}")
