"""Offsets of a group, as users hold them and as they travel.

Rule: an offset belongs to the topic that it was read from. It carries that topic's id, and the coordinator keeps it under this
      id, so it is never taken for an offset of a later topic of the same name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from oncelog.client.routing.metadata import Metadata, Topic
from oncelog.core.consume.consumer import Cursor
from oncelog.errors import ConfigError, OffsetMetadataTooLargeError
from oncelog.types import TopicPartition
from oncelog.v1 import coordinator_pb2 as co

MAX_METADATA_BYTES = 4_096
NO_EPOCH = -1


class OffsetAndMetadata(NamedTuple):
    """The next offset to read; `leader_epoch` of the last record read (-1 = unknown); a note of at most 4096 bytes.

    `topic_id` is that of the topic that was read; empty, as when you write an offset down yourself: the topic that has the
    name when it is committed.
    """

    offset: int
    leader_epoch: int = NO_EPOCH
    metadata: str = ""
    topic_id: str = ""


Offsets = Mapping[TopicPartition, OffsetAndMetadata | int] | Mapping[tuple[str, int], OffsetAndMetadata | int]
"""The offsets to commit, by partition; a plain number is an offset."""


class GroupMetadata(NamedTuple):
    """The committer of offsets. Without a member (epoch -1): a simple group, whose user assigns partitions himself."""

    group_id: str
    member_id: str = ""
    member_epoch: int = NO_EPOCH

    def to_proto(self) -> co.GroupMember:
        """As it travels."""
        return co.GroupMember(group_id=self.group_id, member_id=self.member_id, member_epoch=self.member_epoch)


def as_partition(item: tuple[str, int]) -> TopicPartition:
    """A `TopicPartition` from one, or from a plain (topic, partition) pair. Raises `ConfigError`."""
    try:
        topic, partition = item
        return TopicPartition(str(topic), int(partition))
    except (TypeError, ValueError) as error:
        raise ConfigError("a partition is (topic, number)", given=repr(item)[:64]) from error


def as_partitions(items: Iterable[tuple[str, int]]) -> list[TopicPartition]:
    """Each of them once, in order."""
    return list(dict.fromkeys(as_partition(item) for item in items))


def offset_of(cursor: Cursor, position: int) -> OffsetAndMetadata:
    """The offset that stands for a position: one of the topic that the cursor reads, whatever has its name by now."""
    return OffsetAndMetadata(position, cursor.last_leader_epoch, topic_id=cursor.id.topic_id)


async def offset_entries(
    metadata: Metadata, offsets: Offsets, deadline_ms: int
) -> tuple[list[co.OffsetEntry], list[TopicPartition]]:
    """Offsets as they travel, and the partitions whose offset has none because their topic was created again since.

    A plain number is an offset. Raises `UnknownTopicError`, `OffsetMetadataTooLargeError`.
    """
    entries: list[co.OffsetEntry] = []
    outdated: list[TopicPartition] = []
    topics: dict[
        tuple[str, str], Topic
    ] = {}  # asked once each: it may take a grace to learn that a topic is another one
    for item, given in offsets.items():
        partition = as_partition(item)
        at = given if isinstance(given, OffsetAndMetadata) else OffsetAndMetadata(int(given))
        if len(at.metadata.encode()) > MAX_METADATA_BYTES:
            raise OffsetMetadataTooLargeError(limit=MAX_METADATA_BYTES)
        named = partition.topic, at.topic_id
        if (topic := topics.get(named)) is None:
            topic = topics[named] = await _topic(metadata, *named, deadline_ms)
        if at.topic_id in ("", topic.topic_id):
            entries.append(_entry(partition, at, topic.topic_id))
        else:
            outdated.append(partition)
    return entries, outdated


async def _topic(metadata: Metadata, name: str, topic_id: str, deadline_ms: int) -> Topic:
    """Returns the topic as it is today; `topic_id` is the id that it most likely has, empty: not known."""
    if topic_id:
        return await metadata.topic_known_as(name, topic_id, deadline_ms)
    return await metadata.topic(name, deadline_ms)


def _entry(partition: TopicPartition, at: OffsetAndMetadata, topic_id: str) -> co.OffsetEntry:
    return co.OffsetEntry(
        topic_id=topic_id,
        topic=partition.topic,
        partition=partition.partition,
        offset=at.offset,
        leader_epoch=at.leader_epoch,
        metadata=at.metadata,
        epoch_known=at.leader_epoch >= 0,
    )
