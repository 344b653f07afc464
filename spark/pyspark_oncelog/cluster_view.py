"""What the cluster has now of the topics that a query reads; asked on the driver."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from oncelog.errors import ConfigError, OffsetOutOfRangeError, UnknownTopicError
from oncelog.types import TopicPartition
from pyspark_oncelog import positions
from pyspark_oncelog.offsets import Position, StartingOffsets
from pyspark_oncelog.options import SourceOptions, Subscription
from pyspark_oncelog.positions import PartitionView, TopicView, View

if TYPE_CHECKING:
    from oncelog.sync import Client


def load_view(options: SourceOptions, missing_topics: bool = False) -> View:
    """Topic ids, log starts and ends (the last stable offset for read_committed).

    A topic that does not exist is left out if `missing_topics`; else raises `UnknownTopicError` with the command that
    creates it.  Raises `ClusterUnreachableError` and others when requestTimeoutMs is over.
    """
    from pyspark_oncelog.worker_client import client_for

    client = client_for(options.connection)
    found: dict[str, TopicView] = {}
    for name in _names(client, options.subscription):
        try:
            found[name] = _load_topic(client, name, options)
        except UnknownTopicError:
            if not missing_topics:
                raise _unknown_topic(name, options.connection.bootstrap_servers) from None
    return found


def start_of(options: SourceOptions, view: View) -> tuple[Position, list[str]]:
    """Where a query begins, and what of it lies beyond the end, where the end is put in its place.

    Raises `OffsetOutOfRangeError` for an offset that an open transaction holds back: from the stable end on, records would be
    read that were to be left out.
    """
    start = resolve(options, options.starting, view)
    clamped, beyond = positions.clamp(start, view)
    if beyond and options.read_committed:
        _, beyond_all = positions.clamp(start, load_view(dataclasses.replace(options, read_committed=False)))
        if len(beyond_all) < len(beyond):
            raise OffsetOutOfRangeError(
                "option startingOffsets lies behind the start of an open transaction, and a query would begin before it: "
                f"{'; '.join(beyond)}. Start again when that transaction has ended (`oncelog txn list`), or set option "
                "isolation=read_uncommitted"
            )
    return clamped, beyond


def _names(client: Client, subscription: Subscription) -> list[str]:
    if not subscription.pattern:
        return list(subscription.topics)
    pattern = re.compile(subscription.pattern)
    return [topic.name for topic in client.admin.list_topics() if pattern.fullmatch(topic.name)]


def _load_topic(client: Client, name: str, options: SourceOptions) -> TopicView:
    """The epochs are read before the ends, so that no end is newer than its epoch says."""
    topic = client.admin.describe_topic(name)
    epochs = {p.partition: p.leader_epoch for p in topic.partitions}
    chosen = options.subscription.partitions.get(name, tuple(epochs))
    for number in chosen:
        if number not in epochs:
            raise ConfigError(
                "option assign names a partition that the topic does not have", topic=name, partition=number
            )
    where = [TopicPartition(name, number) for number in chosen]
    with client.consumer(isolation_level=_level(options)) as consumer:
        first, last = consumer.beginning_offsets(where), consumer.end_offsets(where)
    return TopicView(
        topic.topic_id, {w.partition: PartitionView(first[w], last[w], epochs[w.partition]) for w in where}
    )


def _level(options: SourceOptions) -> str:
    return "read_committed" if options.read_committed else "read_uncommitted"


def resolve(options: SourceOptions, offsets: StartingOffsets, view: View) -> Position:
    """Offsets from options as numbers; times are looked up. Raises as `positions.resolve`."""
    from pyspark_oncelog.worker_client import client_for

    times = {TopicPartition(*where): time_ms for where, time_ms in positions.times(offsets, view).items()}
    found: dict[tuple[str, int], int | None] = {}
    if times:
        with client_for(options.connection).consumer(isolation_level=_level(options)) as consumer:
            for where, at in consumer.offsets_for_times(times).items():
                found[where.topic, where.partition] = None if at is None else at.offset
    return positions.resolve(offsets, view, found)


def epoch_ends(options: SourceOptions, epochs: Mapping[tuple[str, int], int]) -> dict[tuple[str, int], int]:
    """Where these leader epochs ended in their partitions' logs. Raises `OncelogError`."""
    from pyspark_oncelog.worker_client import client_for

    admin = client_for(options.connection).admin
    return {(t, p): admin.end_of_epoch(t, p, epoch) for (t, p), epoch in epochs.items()}


def _unknown_topic(name: str, servers: str) -> UnknownTopicError:
    return UnknownTopicError(
        f"topic {name} does not exist; create it with `oncelog topic create {name} --partitions 6 "
        f"--bootstrap-servers {servers}`",
        topic=name,
    )


def commit_group(options: SourceOptions, at: Position) -> None:
    """Commits offsets for lag tools. Raises `OncelogError`."""
    from oncelog.client.offsets import OffsetAndMetadata
    from pyspark_oncelog.worker_client import client_for

    offsets = {
        (name, number): OffsetAndMetadata(partition.offset, partition.leader_epoch, topic_id=topic.topic_id)
        for name, topic in at.topics.items()
        for number, partition in topic.partitions.items()
    }
    with client_for(options.connection).consumer(group_id=options.commit_group) as consumer:
        consumer.commit(offsets)
