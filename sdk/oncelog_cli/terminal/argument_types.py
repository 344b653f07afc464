"""Parses partitions, spans of time and places in a log, and asks the user before something is deleted.

Rule: each wrong word is a `UsageError` (exit code 2) that shows what would be right.
"""

from __future__ import annotations

import argparse
import datetime
import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final


class UsageError(Exception):
    """The command line is wrong, or the question was not answered with yes. Nothing was changed."""


_ID_MAX: Final = (1 << 31) - 1
_OFFSET_MAX: Final = (1 << 63) - 1
_UNITS_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_SPAN: Final = re.compile(r"([0-9]{1,19})(ms|s|m|h|d)")
_SIZE: Final = re.compile(r"([0-9]{1,19})([A-Za-z]*)")
_UNITS_BYTES: Final = {
    "": 1, "K": 1 << 10, "KIB": 1 << 10, "M": 1 << 20, "MIB": 1 << 20, "G": 1 << 30, "GIB": 1 << 30, "T": 1 << 40,
    "TIB": 1 << 40,
}  # fmt: skip


def partition_of(text: str) -> tuple[str, int | None]:
    """`orders/3` is one partition, `orders` (None) all of them. Raises `UsageError`."""
    topic, slash, number = text.partition("/")
    if not slash:
        return topic, None
    try:
        return topic, id_of(number)
    except argparse.ArgumentTypeError:
        raise UsageError(f"a partition is TOPIC/NUMBER, for example orders/0; not {text!r}") from None


def id_of(text: str) -> int:
    """A number as the protocol has it for partitions, brokers and counts of them: 0 to 2^31 - 1.

    For argparse: raises `ArgumentTypeError`.
    """
    if not re.fullmatch(r"[0-9]{1,10}", text) or int(text) > _ID_MAX:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0 to {_ID_MAX}")
    return int(text)


def txn_no_of(text: str) -> int:
    """A transaction's number: 1 and up. For argparse: raises `ArgumentTypeError`."""
    if not re.fullmatch(r"[0-9]{1,19}", text) or not 1 <= int(text) <= _OFFSET_MAX:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 to {_OFFSET_MAX}")
    return int(text)


def number_of(lowest: int, highest: int = _OFFSET_MAX) -> Callable[[str], int]:
    """Returns a function for argparse that reads a number within these bounds; it raises `ArgumentTypeError`."""

    def read(text: str) -> int:
        if not re.fullmatch(r"[0-9]{1,19}", text) or not lowest <= int(text) <= highest:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {lowest} to {highest}")
        return int(text)

    return read


def span_ms(text: str) -> int:
    """`90s`, `1h30m`, `500ms`. For argparse: raises `ArgumentTypeError`."""
    found = _span_ms(text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a span of time; write 90s, 20m or 1h30m")
    return _no_longer_than_fits(text, found)


def _span_ms(text: str) -> int | None:
    """None: it is no span of time."""
    parts = _SPAN.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        return None
    return sum(int(number) * _UNITS_MS[unit] for number, unit in parts)


def _no_longer_than_fits(text: str, time_ms: int) -> int:
    if time_ms > _OFFSET_MAX:
        raise argparse.ArgumentTypeError(f"{text!r} is too long: a time has at most {_OFFSET_MAX} milliseconds")
    return time_ms


def milliseconds(text: str) -> int:
    """A span of time, or a number of milliseconds. For argparse: raises `ArgumentTypeError`."""
    found = int(text) if re.fullmatch(r"[0-9]{1,19}", text) else _span_ms(text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a span of time; write 5s, 1m30s, or milliseconds")
    return _no_longer_than_fits(text, found)


def size_bytes(text: str) -> int:
    """`1GiB`, `64K` (1024 each), or a number of bytes. For argparse: raises `ArgumentTypeError`."""
    found = _SIZE.fullmatch(text)
    unit = _UNITS_BYTES.get(found[2].upper()) if found else None
    if found is None or unit is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size; write 1GiB, 64KiB, 10M (1024 each), or bytes")
    return int(found[1]) * unit


@dataclass(frozen=True, slots=True)
class Place:
    """Where to go in a log: `kind` is start, end, offset (`value`), timestamp (`value` in ms), or relative (`value`)."""

    kind: str
    value: int = 0


def place_of(text: str) -> Place:
    """`start`, `end`, `42`, `@TIME`, `+5` (after the start), `-5` (before the end). Raises `UsageError`.

    TIME: milliseconds or seconds since 1970, or ISO 8601 (UTC when it names no zone). Kafka's `earliest` and `latest`
    are `start` and `end`.
    """
    word = {"earliest": "start", "latest": "end"}.get(text, text)
    if word in ("start", "end"):
        return Place(word)
    place: Place | None = None
    if text.startswith("@"):
        place = Place("timestamp", _time_ms(text[1:]))
    elif re.fullmatch(r"[+-]?[0-9]{1,19}", text):
        place = Place("relative" if text[0] in "+-" else "offset", int(text))
    if place is not None and abs(place.value) <= _OFFSET_MAX:
        return place
    raise UsageError(f"a place is start, end, an offset, @TIME, +N after the start or -N before the end; not {text!r}")


def _time_ms(text: str) -> int:
    if re.fullmatch(r"[0-9]{1,16}", text):
        return int(text) if len(text) > 11 else int(text) * 1_000
    try:
        when = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(
            f"a time is milliseconds or seconds since 1970, or like 2026-01-31T12:00:00; not {text!r}"
        ) from None
    time_ms = int((when if when.tzinfo else when.replace(tzinfo=datetime.UTC)).timestamp() * 1000)
    if time_ms < 0:
        raise UsageError(f"a time is not before 1970; {text!r} is")
    return time_ms


def settings_of(pairs: Iterable[str], flag: str) -> dict[str, str]:
    """`NAME=VALUE` words. Raises `UsageError`."""
    found: dict[str, str] = {}
    for pair in pairs:
        name, separator, value = pair.partition("=")
        if not separator or not name:
            raise UsageError(f"{flag} takes NAME=VALUE, for example {flag} retention_ms=7d; not {pair!r}")
        if name in found:
            raise UsageError(f"{flag} names {name} twice")
        found[name] = value
    return found


def options_of(pairs: Iterable[str], flag: str) -> dict[str, str]:
    """As `settings_of`, for options of topics: those that end in `_ms` take spans of time (`7d`), in `_bytes` sizes (`1GiB`).

    What does not begin as a number is left to the broker, which knows every option and says what is legal. Raises `UsageError`.
    """
    return {name: _without_unit(name.replace(".", "_"), value) for name, value in settings_of(pairs, flag).items()}


def _without_unit(name: str, value: str) -> str:
    reader = milliseconds if name.endswith("_ms") else size_bytes if name.endswith("_bytes") else None
    if reader is None or not re.match("[0-9]", value):
        return value
    try:
        return str(reader(value))
    except argparse.ArgumentTypeError as error:
        raise UsageError(f"{name}: {error}") from None


def matching(patterns: Iterable[str], names: Iterable[str]) -> list[str]:
    """The names that one of the regular expressions matches as a whole, in order. Raises `UsageError`."""
    try:
        compiled = [re.compile(pattern) for pattern in patterns]
    except re.error as error:
        raise UsageError(f"{error.pattern!r} is not a regular expression: {error}") from None
    return [name for name in names if any(pattern.fullmatch(name) for pattern in compiled)]


def confirm(question: str, *, yes: bool) -> None:
    """Returns after a yes. Raises `UsageError` after a no, and when there is no terminal to ask at."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError(f"{question} There is no terminal to ask at: give --yes if you are sure")
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise UsageError("nothing was changed")


def add_yes(parser: argparse.ArgumentParser) -> None:
    """`--yes`."""
    parser.add_argument("--yes", "-y", action="store_true", help="do not ask")
