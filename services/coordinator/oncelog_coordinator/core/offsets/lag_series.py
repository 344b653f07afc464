"""Chooses which groups get lag series of their own: a pure function, so that their number has a bound.

Rule 1: a group has its own series for a topic while that is among the `most` worst of this process: first by lag in time,
        then by lag in offsets, then by name, so that the choice among equals does not change from scrape to scrape.
Rule 2: all others are one series together, with their worst and their sum. So a sum over all series misses nothing, and
        no group without a series of its own is behind by more time than one that has it.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

OTHERS: Final = ("(others)", "")
"""The group and topic of the series of all others. No topic has an empty name, so it is not the series of a group."""


class Pair(NamedTuple):
    """A group and a topic on which it has committed."""

    group: str
    topic: str


@dataclass(slots=True)
class PairLag:
    """The lag of a group on the partitions of a topic. `is_known`: a leader has told the end of one of them."""

    is_known: bool = False
    worst: int = 0
    total: int = 0
    behind_ms: int = 0

    def add(self, worst: int, total: int, behind_ms: int) -> None:
        """Adds a partition, or another pair."""
        self.is_known = True
        self.worst = max(self.worst, worst)
        self.total += total
        self.behind_ms = max(self.behind_ms, behind_ms)


def chosen(lags: Mapping[Pair, PairLag], most: int) -> set[Pair]:
    """Returns the pairs with series of their own, `most` at most."""
    if len(lags) <= most:
        return set(lags)
    return set(heapq.nsmallest(most, lags, key=lambda pair: (-lags[pair].behind_ms, -lags[pair].total, pair)))


def others(lags: Mapping[Pair, PairLag], kept: set[Pair]) -> PairLag:
    """Returns the lag of all pairs that are not kept, together."""
    found = PairLag()
    for pair, lag in lags.items():
        if pair not in kept and lag.is_known:
            found.add(lag.worst, lag.total, lag.behind_ms)
    return found
