"""Bounds for what is asked about the records of a channel: all else is refused by name, before anything is sent.

Rule: a number is a whole one, of any type that stands for one (numpy's, for example), and never a truth value.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import index
from typing import Final

from oncelog.core.work.settlements import REASON_CHARACTERS_MAX
from oncelog.errors import ConfigError, InvalidRequestError

CLAIMED_MAX: Final = 1_000
"""The most records of one claim."""
PENDING_MAX: Final = 10_000
"""The most pending records of one partition in an answer."""
PARTITION_MAX: Final = (1 << 31) - 1
OFFSET_MAX: Final = (1 << 63) - 1
"""The highest offset, and the highest number of milliseconds."""


def whole_number(name: str, value: object, lowest: int = 0, highest: int = OFFSET_MAX) -> int:
    """Returns the number. Raises `ConfigError` for one out of its range, and for what is none."""
    try:
        found = lowest - 1 if isinstance(value, bool) else index(value)  # type: ignore[arg-type]  # asked here
    except TypeError:
        found = lowest - 1
    if not lowest <= found <= highest:
        raise ConfigError(f"`{name}` is a whole number from {lowest} to {highest}", given=ascii(value)[:66])
    return found


def claimed_offsets(offsets: Iterable[int]) -> list[int]:
    """Returns the offsets that are claimed by name. Raises `ConfigError`."""
    found = [whole_number("offsets", offset) for offset in offsets]
    if len(found) > CLAIMED_MAX:
        raise ConfigError(f"a call claims at most {CLAIMED_MAX} records", given=len(found))
    return found


def check_reason(reason: str) -> str:
    """Returns the reason of a rejection. Raises `InvalidRequestError` for a long one, and for what is no text."""
    if not isinstance(reason, str):
        raise InvalidRequestError("a reason is text", given=type(reason).__name__)
    if len(reason) > REASON_CHARACTERS_MAX:
        raise InvalidRequestError(f"a reason has at most {REASON_CHARACTERS_MAX} characters", given=len(reason))
    try:
        reason.encode()
    except UnicodeEncodeError:
        raise InvalidRequestError("a reason is text, without lone surrogates", given=ascii(reason)[:66]) from None
    return reason
