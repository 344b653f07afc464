"""From where to where a query reads: starting points, the next micro-batch, and what of it is still there. Pure.

Rule 1: an end, once given to Spark, is read identically for ever: planning looks only at start, end and what the log
        has lost since, never at today's end.
Rule 2: loss is named, never passed over: the caller raises it (`failOnDataLoss`), or logs it and goes on.
Rule 3: a position changes only if there is something to read: a new leader epoch alone is no reason for a micro-batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from oncelog.errors import ConfigError
from pyspark_oncelog.offsets import EARLIEST, LATEST, PartitionPosition, Position, StartingOffsets, TopicPosition
from pyspark_oncelog.planning import OffsetRange, limit_rows


@dataclass(frozen=True, slots=True)
class PartitionView:
    """What can be read of a partition now; `latest` is the last stable offset for read_committed."""

    earliest: int
    latest: int
    leader_epoch: int = -1


@dataclass(frozen=True, slots=True)
class TopicView:
    """A topic as the cluster has it now."""

    topic_id: str
    partitions: Mapping[int, PartitionView]


View = Mapping[str, TopicView]


def resolve(offsets: StartingOffsets, view: View) -> Position:
    """Offsets from options as numbers. Raises `ConfigError` for a topic or partition that is not there."""
    for topic, named in offsets.explicit.items():
        known = view[topic].partitions if topic in view else {}
        for partition in named:
            if partition not in known:
                raise ConfigError("an offset is given for a partition that is not read", topic=topic, partition=partition)
    return Position({name: _resolve_topic(name, topic, offsets) for name, topic in view.items()})


def _resolve_topic(name: str, topic: TopicView, offsets: StartingOffsets) -> TopicPosition:
    found: dict[int, PartitionPosition] = {}
    for number, partition in topic.partitions.items():
        wanted = offsets.at(name, number)
        offset = {EARLIEST: partition.earliest, LATEST: partition.latest}.get(wanted, wanted)
        found[number] = PartitionPosition(offset, partition.leader_epoch)
    return TopicPosition(topic.topic_id, found)


def latest(view: View) -> Position:
    """The end of everything that can be read now."""
    return resolve(StartingOffsets("latest"), view)


def next_end(start: Position, available: Position, view: View, max_rows: int | None) -> Position:
    """The end of the micro-batch that begins at `start`, of about `max_rows` offsets at most (None = all)."""
    begin = {(t, p): at for t, p, at in _begins(start, available, view)}
    ends = {(t, p): at.offset for t, topic in available.topics.items() for p, at in topic.partitions.items()}
    if max_rows is not None:
        ends = limit_rows(begin, ends, max_rows)
    return Position({name: _moved(name, topic, start, ends) for name, topic in available.topics.items()})


def _begins(start: Position, end: Position, view: View) -> list[tuple[str, int, int]]:
    """Where reading begins per partition: as `start` says, at the log's start for what is new since."""
    found: list[tuple[str, int, int]] = []
    for name, topic in end.topics.items():
        before = start.topics.get(name)
        old = before.partitions if before is not None and before.topic_id == topic.topic_id else {}
        now = view.get(name)
        for number in topic.partitions:
            if number in old:
                found.append((name, number, old[number].offset))
            elif now is not None and now.topic_id == topic.topic_id and number in now.partitions:
                found.append((name, number, now.partitions[number].earliest))
    return found


def _moved(name: str, topic: TopicPosition, start: Position, ends: Mapping[tuple[str, int], int]) -> TopicPosition:
    before = start.topics.get(name)
    old = before.partitions if before is not None and before.topic_id == topic.topic_id else {}
    found: dict[int, PartitionPosition] = {}
    for number, at in topic.partitions.items():
        offset = ends[(name, number)]
        same = number in old and old[number].offset == offset
        found[number] = old[number] if same else PartitionPosition(offset, at.leader_epoch)
    return TopicPosition(topic.topic_id, found)


def ranges(start: Position, end: Position, view: View) -> tuple[list[OffsetRange], list[str]]:
    """What to read from `start` to `end`, and what of it is lost, as sentences."""
    losses: list[str] = []
    found: list[OffsetRange] = []
    for name, topic in end.topics.items():
        before = start.topics.get(name)
        if before is not None and before.topic_id != topic.topic_id:
            losses.append(f"topic {name} was deleted and created again: what was not read of the old one is gone")
        now = view.get(name)
        if now is None or now.topic_id != topic.topic_id:
            losses.append(f"topic {name} was deleted before it was read to its end")
    for name, number, first in _begins(start, end, view):
        now = view.get(name)
        if now is None or now.topic_id != end.topics[name].topic_id:
            continue
        last = end.topics[name].partitions[number].offset
        if first > last:
            losses.append(f"partition {number} of topic {name} was cut to offset {last}, below {first} that was read")
        earliest = now.partitions[number].earliest if number in now.partitions else first
        if first < earliest and first < last:
            losses.append(
                f"partition {number} of topic {name} begins at offset {earliest}: {first} and up were deleted unread"
            )
        found.append(OffsetRange(name, number, now.topic_id, min(max(first, earliest), max(last, first)), last))
    return [r for r in found if r.size > 0], losses
