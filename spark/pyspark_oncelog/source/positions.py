"""From where to where a query reads: starting points, the next micro-batch, and what of it is still there. Pure.

Rule 1: an end, once given to Spark, is read identically each time: planning looks only at start, end and what the log
        has lost since, never at today's end.
Rule 2: loss is named, never passed over: the caller raises it (`failOnDataLoss`), or logs it and goes on.
Rule 3: a position changes only if there is something to read: a new leader epoch alone is no reason for a micro-batch.
Rule 4: a position goes back only where the log was cut: an end that is seen lower for another reason waits at the start.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from oncelog.errors import ConfigError
from pyspark_oncelog.options.offsets import (
    EARLIEST,
    LATEST,
    PartitionPosition,
    Position,
    StartingOffsets,
    TopicPosition,
)
from pyspark_oncelog.source.planning import OffsetRange, limit_rows

NOT_ASKED: Final = -1


@dataclass(frozen=True, slots=True)
class PartitionView:
    """The offsets of a partition that can be read now; `latest` is the last stable offset for read_committed, or NOT_ASKED."""

    earliest: int
    latest: int
    leader_epoch: int = -1


EpochEnds = Mapping[tuple[str, int], int]
"""Per partition the end of the leader epoch in which a position was learnt: the log was cut there if it is lower."""


@dataclass(frozen=True, slots=True)
class TopicView:
    """A topic as the cluster has it now."""

    topic_id: str
    partitions: Mapping[int, PartitionView]


View = Mapping[str, TopicView]


def times(offsets: StartingOffsets, view: View) -> dict[tuple[str, int], int]:
    """The partitions whose offset is to be looked up by time (milliseconds since 1970)."""
    found = {(t, p): offsets.time_of(t, p) for t, topic in view.items() for p in topic.partitions}
    return {where: time_ms for where, time_ms in found.items() if time_ms is not None}


def resolve(
    offsets: StartingOffsets, view: View, at_times: Mapping[tuple[str, int], int | None] = MappingProxyType({})
) -> Position:
    """Offsets from options as numbers; `at_times` is what was found for `times`, None where no record is so new.

    Raises `ConfigError` for a partition that is not there, or a time after its last record.
    """
    for named in (offsets.explicit, offsets.times_ms):
        for topic, partitions in named.items():
            known = view[topic].partitions if topic in view else {}
            for partition in partitions:
                if partition not in known:
                    raise ConfigError(
                        "an offset is given for a partition that is not read", topic=topic, partition=partition
                    )
    return Position({name: _resolve_topic(name, topic, offsets, at_times) for name, topic in view.items()})


def _resolve_topic(
    name: str, topic: TopicView, offsets: StartingOffsets, at_times: Mapping[tuple[str, int], int | None]
) -> TopicPosition:
    found: dict[int, PartitionPosition] = {}
    for number, partition in topic.partitions.items():
        wanted = offsets.at(name, number)
        time_ms = offsets.time_of(name, number)
        if time_ms is not None:
            known = at_times[name, number]
            if known is None and not offsets.latest_if_none:
                raise ConfigError(
                    "a partition has no record at or after the time to start from; option "
                    "startingOffsetsByTimestampStrategy=latest starts such partitions at their end",
                    topic=name,
                    partition=number,
                    time_ms=time_ms,
                )
            wanted = LATEST if known is None else known
        offset = {EARLIEST: partition.earliest, LATEST: partition.latest}.get(wanted, wanted)
        found[number] = PartitionPosition(offset, partition.leader_epoch)
    return TopicPosition(topic.topic_id, found)


def latest(view: View) -> Position:
    """The end of everything that can be read now."""
    return resolve(StartingOffsets("latest"), view)


def clamp(end: Position, view: View) -> tuple[Position, list[str]]:
    """A start or an end that the user gave, not above what can be read; what lies beyond is named."""
    beyond: list[str] = []
    topics: dict[str, TopicPosition] = {}
    for name, topic in end.topics.items():
        found: dict[int, PartitionPosition] = {}
        for number, at in topic.partitions.items():
            last = view[name].partitions[number].latest
            if at.offset > last:
                beyond.append(
                    f"partition {number} of topic {name} ends at offset {last}, below the {at.offset} asked for"
                )
            found[number] = PartitionPosition(min(at.offset, last), at.leader_epoch)
        topics[name] = TopicPosition(topic.topic_id, found)
    return Position(topics), beyond


def inverted(start: Position, end: Position, view: View) -> list[str]:
    """Where a batch read would end before it begins, as sentences; an end below what is left of a log is lost data instead."""
    return [
        f"partition {number} of topic {name} would be read from offset {first} to {last}"
        for name, number, first in _begins(start, end)
        if (last := end.topics[name].partitions[number].offset) < first and last >= _earliest(view, name, number)
    ]


def capped(end: Position, target: Position) -> Position:
    """`end`, but not beyond `target`: nothing that came after it, be it records, partitions or another topic."""
    topics: dict[str, TopicPosition] = {}
    for name, topic in target.topics.items():
        now = end.topics.get(name)
        if now is not None and now.topic_id == topic.topic_id:
            topics[name] = TopicPosition(
                topic.topic_id,
                {p: min(at, now.partitions.get(p, at), key=_offset_of) for p, at in topic.partitions.items()},
            )
    return Position(topics)


def _offset_of(at: PartitionPosition) -> int:
    return at.offset


def fallen(start: Position, available: Position) -> dict[tuple[str, int], int]:
    """Partitions that end below `start` under another leader, and the leader epoch at `start`: were they cut?"""
    found: dict[tuple[str, int], int] = {}
    for name, topic in available.topics.items():
        for number, at in _before(start, name, topic, PartitionPosition(-1)).items():
            now = topic.partitions[number]
            if now.offset < at.offset and 0 <= at.leader_epoch != now.leader_epoch:
                found[name, number] = at.leader_epoch
    return found


def held(
    start: Position,
    available: Position,
    view: View,
    epoch_ends: EpochEnds = MappingProxyType({}),
    missing: Set[str] = frozenset(),
) -> Position:
    """`available`, but not below `start`, or, where `epoch_ends` says that a log of `fallen` was cut, not below the cut.

    An end is seen below a start when a query that read open transactions no longer does, or when a run ends by itself at a
    place that was looked up before its start. A topic that is there and has no end yet stays where it is, too, and so does one
    that is `missing`: if it is there again, it would be read again from its beginning.
    """
    topics: dict[str, TopicPosition] = {}
    for name, topic in available.topics.items():
        before = _before(start, name, topic, PartitionPosition(-1))
        topics[name] = TopicPosition(
            topic.topic_id,
            {
                number: _held(at, before[number], epoch_ends.get((name, number), before[number].offset))
                for number, at in topic.partitions.items()
            },
        )
    for name, topic in start.topics.items():
        is_there = name in view and view[name].topic_id == topic.topic_id
        if name not in topics and (is_there or name in missing):
            topics[name] = topic
    return Position(topics)


def _held(at: PartitionPosition, before: PartitionPosition, cut: int) -> PartitionPosition:
    """Records below the cut are still in the log, also when the new leader does not serve them yet."""
    if at.offset < before.offset <= cut:
        return before
    return PartitionPosition(max(at.offset, min(before.offset, cut)), at.leader_epoch)


def next_end(start: Position, available: Position, view: View, max_rows: int | None) -> Position:
    """The end of the micro-batch that begins at `start`, of about `max_rows` offsets at most (None = all).

    `start` itself when nothing moves. The first end of a query knows where that began.
    """
    ends = {(t, p): at.offset for t, topic in available.topics.items() for p, at in topic.partitions.items()}
    if max_rows is not None:
        begins = {(t, p): max(at, _earliest(view, t, p)) for t, p, at in _begins(start, available)}
        ends = limit_rows(begins, ends, max_rows)
    topics = {name: _moved(name, topic, start, ends) for name, topic in available.topics.items()}
    return start if topics == start.topics else Position(topics, start.origin if start.is_origin else None)


def has_topics(view: View, at: Position) -> bool:
    """True if every topic of a position is there, and is still the same one."""
    return all(name in view and view[name].topic_id == topic.topic_id for name, topic in at.topics.items())


def begin_of(start: Position, end: Position) -> Position:
    """Where the micro-batch to `end` begins: when the first one runs again, `start` is another one, and `end` knows better."""
    return Position(end.origin) if start.is_origin and end.origin is not None else start


def size(start: Position, end: Position, view: View) -> int:
    """Offsets between two positions that can still be read."""
    return sum(r.size for r in ranges(start, end, view)[0])


def _begins(start: Position, end: Position) -> list[tuple[str, int, int]]:
    """Where reading begins per partition: as `start` says, and at 0 for a partition that came since."""
    return [
        (name, number, at.offset)
        for name, topic in end.topics.items()
        for number, at in _before(start, name, topic, PartitionPosition(0)).items()
    ]


def _before(start: Position, name: str, topic: TopicPosition, new: PartitionPosition) -> dict[int, PartitionPosition]:
    """The partitions of `topic` as `start` has them; `new` for those it has not, or has of another topic of this name."""
    before = start.topics.get(name)
    old = before.partitions if before is not None and before.topic_id == topic.topic_id else {}
    return {number: old.get(number, new) for number in topic.partitions}


def _earliest(view: View, topic: str, partition: int) -> int:
    known = view[topic].partitions.get(partition) if topic in view else None
    return known.earliest if known is not None else 0


def _moved(name: str, topic: TopicPosition, start: Position, ends: Mapping[tuple[str, int], int]) -> TopicPosition:
    before = _before(start, name, topic, PartitionPosition(-1))
    found: dict[int, PartitionPosition] = {}
    for number, at in topic.partitions.items():
        offset = ends[(name, number)]
        same = before[number].offset == offset
        found[number] = before[number] if same else PartitionPosition(offset, at.leader_epoch)
    known = start.topics.get(name)
    if known is not None and known.topic_id == topic.topic_id:  # no topic loses partitions: who answered sees them late
        found = {**known.partitions, **found}
    return TopicPosition(topic.topic_id, found)


def to_check(start: Position, end: Position, view: View) -> dict[tuple[str, int], int]:
    """Partitions that moved and have another leader epoch than at `start`, and that epoch."""
    found: dict[tuple[str, int], int] = {}
    for name, topic in end.topics.items():
        if name not in view or view[name].topic_id != topic.topic_id:
            continue
        for number, at in _before(start, name, topic, PartitionPosition(-1)).items():
            known = view[name].partitions.get(number)
            if known is None or at.offset in (-1, topic.partitions[number].offset):
                continue
            if 0 <= at.leader_epoch != known.leader_epoch:
                found[name, number] = at.leader_epoch
    return found


def ranges(
    start: Position, end: Position, view: View, epoch_ends: EpochEnds = MappingProxyType({})
) -> tuple[list[OffsetRange], list[str]]:
    """Returns the ranges to read from `start` to `end`, and sentences about the parts of them that are lost."""
    losses = _lost_topics(start, end, view)
    found: list[OffsetRange] = []
    for name, number, first in _begins(start, end):
        topic = end.topics[name]
        last = topic.partitions[number].offset
        if name not in view or view[name].topic_id != topic.topic_id:
            continue
        earliest = _earliest(view, name, number)
        cut = epoch_ends.get((name, number), first)
        if earliest <= cut < first:
            losses.append(f"partition {number} of topic {name} was cut to offset {cut}, below {first}, which was read")
            first = cut
        if first > last >= earliest:
            losses.append(f"partition {number} of topic {name} was cut to offset {last}, below {first}, which was read")
        elif first > last:
            losses.append(
                f"partition {number} of topic {name} begins at offset {earliest}: those below {last} were deleted"
            )
        elif first < earliest and first < last:
            losses.append(
                f"partition {number} of topic {name} begins at offset {earliest}: {first} and up were deleted unread"
            )
        begin = max(first, earliest)
        if begin < last:
            found.append(OffsetRange(name, number, topic.topic_id, begin, last))
    return found, losses


def _lost_topics(start: Position, end: Position, view: View) -> list[str]:
    losses: list[str] = []
    for name, topic in end.topics.items():
        before = start.topics.get(name)
        if before is not None and before.topic_id != topic.topic_id:
            losses.append(
                f"topic {name} was deleted and created again: records of the deleted one that had not been read are lost"
            )
        is_there = name in view and view[name].topic_id == topic.topic_id
        if not is_there and before != topic:
            losses.append(f"topic {name} was deleted before it was read to its end")
    gone = [name for name in start.topics if name not in end.topics]
    return losses + [f"topic {name} is no longer read, or was deleted" for name in gone]
