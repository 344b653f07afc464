"""Finds the committed offsets of topics that are gone, so that a group that lives for years does not keep those of every topic
that it ever read.

Rule 1: a topic is gone when this life of the shard has seen the cluster's topics without it for `gone_topic_ms`. A view that
        lags behind, or a restored etcd that is being mended, takes nothing away in that time.
Rule 2: of such a topic an offset goes when `group_retention_ms` have passed since it was committed: as long as the offsets of a
        group without members are kept.
Rule 3: an offset of an open transaction stays. When it is committed, it goes like any other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from oncelog_coordinator.core.decision import Note
from oncelog_coordinator.core.limits import Limits
from oncelog_coordinator.core.offsets.offset_records import CommittedOffset
from oncelog_coordinator.core.transactions.timeouts import Deadlines

_TOPICS_PER_TICK: Final = 10
"""A `Tick` looks through all offsets of the groups that have some of these topics."""


@dataclass(frozen=True, slots=True)
class LookedAtTopics(Note):
    """Note: it was decided at `now_ms` which offsets of these topics go. `until_ms`: when to look again at those that stay."""

    topic_ids: tuple[str, ...]
    until_ms: tuple[int, ...]
    now_ms: int


class GoneTopics:
    """Counts the offsets of each topic and group, and knows which topics there are; None = it was not told yet."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._counts: dict[str, dict[str, int]] = {}
        """Topic id -> group -> number of its offsets."""
        self._there: Mapping[str, int] | None = None
        self._missing_since_ms: dict[str, int] = {}
        self._deadlines = Deadlines()

    # ------------------------------------------------------------ reading

    @property
    def next_ms(self) -> int | None:
        """The earliest time at which an offset may go, or a topic has to be looked at; None = never."""
        return self._deadlines.next_ms

    def due(self, now_ms: int) -> list[str]:
        """Returns the topics to look at."""
        return list(dict.fromkeys(self._deadlines.due(now_ms, _TOPICS_PER_TICK)))

    def is_gone(self, topic_id: str, now_ms: int) -> bool:
        """True when the topic was missing for long enough (rule 1)."""
        since_ms = self._missing_since_ms.get(topic_id)
        return since_ms is not None and now_ms - since_ms >= self._limits.gone_topic_ms

    def groups_of(self, topic_id: str) -> Iterator[str]:
        """Yields the groups with an offset of the topic."""
        yield from self._counts.get(topic_id, ())

    def goes_ms(self, offset: CommittedOffset) -> int:
        """Returns when an offset of a topic that is gone goes (rule 2)."""
        return offset.committed_ms + self._limits.group_retention_ms

    # ------------------------------------------------------------ writing

    def see(self, there: Mapping[str, int]) -> None:
        """Notes which topics there are now; the others are looked at by the next `Tick`."""
        self._there = there
        for topic_id in [topic_id for topic_id in self._missing_since_ms if topic_id in there]:
            del self._missing_since_ms[topic_id]
        for topic_id in self._counts:
            self._look_at(topic_id)

    def put(self, group_id: str, topic_id: str) -> None:
        """Notes an offset of a partition of which the group had none."""
        groups = self._counts.setdefault(topic_id, {})
        groups[group_id] = groups.get(group_id, 0) + 1
        self._look_at(topic_id)

    def drop(self, group_id: str, topic_id: str) -> None:
        """Notes that an offset was removed."""
        groups = self._counts[topic_id]
        groups[group_id] -= 1
        if not groups[group_id]:
            del groups[group_id]
        if not groups:
            del self._counts[topic_id]
            self._missing_since_ms.pop(topic_id, None)

    def _look_at(self, topic_id: str) -> None:
        if self._there is not None and topic_id not in self._there and topic_id not in self._missing_since_ms:
            self._deadlines.watch(topic_id, 0)

    def looked(self, note: LookedAtTopics) -> None:
        """Begins the time of topics that were not seen to be missing, and looks again at those of which an offset stays."""
        self._deadlines.looked(note.topic_ids, note.now_ms)
        for topic_id, until_ms in zip(note.topic_ids, note.until_ms, strict=True):
            if topic_id not in self._counts or self._there is None or topic_id in self._there:
                continue
            since_ms = self._missing_since_ms.setdefault(topic_id, note.now_ms)
            self._deadlines.watch(topic_id, max(since_ms + self._limits.gone_topic_ms, until_ms))

    # ------------------------------------------------------------ checking

    def check(self, offsets: Iterator[tuple[str, str]]) -> None:
        """Asserts every invariant; `offsets` are (group, topic id) of all that there are."""
        counted: dict[str, dict[str, int]] = {}
        for group_id, topic_id in offsets:
            groups = counted.setdefault(topic_id, {})
            groups[group_id] = groups.get(group_id, 0) + 1
        assert counted == self._counts, "the offsets are counted by topic and group"
        missing = [] if self._there is None else [topic_id for topic_id in counted if topic_id not in self._there]
        assert not missing or self._deadlines.next_ms is not None, "offsets of a topic that is gone would stay for ever"
