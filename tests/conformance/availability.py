"""How much of the time `acks=all` works: writes to every partition, again and again, each of which succeeds or does not."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from oncelog import errors
from tests.conformance.script import Place, Script, Writer

NOBODY: Final = Writer(-1, -1)
"""A producer without id: each of its batches stands for itself, so one that fails holds up no other."""
_EVERY_S: Final = 0.1
_PATIENCE_MS: Final = 200


@dataclass(frozen=True)
class Try:
    """One write. `at_ms`: when it was sent, after the measurement began."""

    place: Place
    at_ms: int
    error: str


@dataclass(frozen=True)
class Availability:
    """Every try of a while."""

    tries: tuple[Try, ...]

    def share(self, after_s: float = 0) -> float:
        """Of the writes sent so long after the beginning, how many succeeded."""
        counted = [one for one in self.tries if one.at_ms >= after_s * 1000]
        assert counted, "nothing was tried"
        return sum(not one.error for one in counted) / len(counted)

    def failed(self, after_s: float = 0) -> list[Try]:
        """Those that did not."""
        return [one for one in self.tries if one.error and one.at_ms >= after_s * 1000]


async def measure(s: Script, places: Sequence[Place], seconds: float) -> Availability:
    """Writes to all of them at the same time, for so long."""
    began_ms, tries = s.now_ms, []
    while s.now_ms - began_ms < seconds * 1000:
        at_ms = s.now_ms - began_ms
        found = await asyncio.gather(*(_error(s, place) for place in places))
        tries += [Try(place, at_ms, error) for place, error in zip(places, found, strict=True)]
        await s.sleep(_EVERY_S)
    return Availability(tuple(tries))


async def _error(s: Script, place: Place) -> str:
    if s.state(place).leader is None:
        return "no leader"
    try:
        await s.write(place, NOBODY, "x", seq=-1, timeout_ms=_PATIENCE_MS)
    except errors.OncelogError as error:
        return type(error).__name__
    return ""
