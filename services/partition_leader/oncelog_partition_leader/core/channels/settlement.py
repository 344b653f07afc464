"""The words between a worker and a channel: which records it takes, and what became of them.

Rule: `Settlement.check` finds whatever is wrong with one before anything is changed; the bounds are those of channel.proto.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple

from oncelog.errors import InvalidRequestError
from oncelog_runtime.metadata.channel_values import DAY_MS

CHANNEL_PAUSE: Final = -1
"""The `delay_ms` of a NACK that leaves the pause to the channel."""
MAX_SETTLED_AT_ONCE: Final = 100_000
"""The most offsets that one settlement spans: a worker holds no more."""
MAX_REASON: Final = 1024


class Verdict(IntEnum):
    """The word of a worker about records that it holds; the numbers are those of channel.proto."""

    ACK = 1
    """Done: they never come again."""
    NACK = 2
    """Not done: they come again, after a pause."""
    TOUCH = 3
    """Still at work: their deadline begins again."""
    REJECT = 4
    """Never to be done: they are dead."""
    RELEASE = 5
    """Not begun: they come again at once, and this delivery does not count."""


class Settlement(NamedTuple):
    """A worker's word about neighbouring records. `last` is inclusive; `delivery` is that of their `Taken`."""

    first: int
    last: int
    delivery: int
    verdict: Verdict = Verdict.ACK
    delay_ms: int = CHANNEL_PAUSE
    """The pause of a NACK: 0 to a day, or `CHANNEL_PAUSE`."""
    reason: str = ""
    """Why a worker has rejected them: for the dead letter."""

    def check(self) -> None:
        """Raises `InvalidRequestError` when a value is out of its range."""
        if not 0 <= self.first <= self.last:
            raise InvalidRequestError(
                "a settlement names its first and its last record", first=self.first, last=self.last
            )
        if self.last - self.first >= MAX_SETTLED_AT_ONCE:
            raise InvalidRequestError(
                f"a settlement spans at most {MAX_SETTLED_AT_ONCE} offsets", first=self.first, last=self.last
            )
        if self.delivery < 1:
            raise InvalidRequestError("deliveries are counted from 1", delivery=self.delivery)
        if not CHANNEL_PAUSE <= self.delay_ms <= DAY_MS:
            raise InvalidRequestError(f"delay_ms is {CHANNEL_PAUSE} to {DAY_MS}", delay_ms=self.delay_ms)
        if len(self.reason) > MAX_REASON:
            raise InvalidRequestError(f"a reason has at most {MAX_REASON} characters", length=len(self.reason))


class Refused(NamedTuple):
    """Offsets of a settlement that the worker does not hold in this delivery; nothing was changed about them."""

    first: int
    last: int
    """Inclusive."""
    settled: bool
    """They are settled already, or the log has no record there."""


class Taken(NamedTuple):
    """Records that are a worker's from now on: each offset from `first` to `last` is one of them."""

    first: int
    last: int
    delivery: int
    """How often they have been delivered, this time included."""


class Claim(NamedTuple):
    """Which records a worker takes from others."""

    offsets: tuple[int, ...] = ()
    """These, also those that wait for their next delivery; empty = whatever workers hold from `from_offset` on."""
    from_offset: int = 0
    min_idle_ms: int = 0
    """Only those that were delivered at least so long ago."""
    most: int = 100


class Dead(NamedTuple):
    """A record whose dead letter has to be written."""

    offset: int
    deliveries: int
    reason: str
