"""What the cluster has now of the topics that a query reads; asked on the driver.

Rule: everything that is said of a topic is asked for by its id, so a topic that is created again meanwhile is never half the
      old one and half the new one.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from oncelog.errors import ConfigError, OffsetOutOfRangeError, UnknownTopicError
from pyspark_oncelog import positions
from pyspark_oncelog.offsets import Position, StartingOffsets
from pyspark_oncelog.options import SourceOptions, Subscription
from pyspark_oncelog.positions import PartitionView, TopicView, View

if TYPE_CHECKING:
    from oncelog.client.descriptions import TopicDescription
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
    """Looks once more when the topic is created again meanwhile."""
    try:
        return _view_of(client, client.admin.describe_topic(name), options)
    except UnknownTopicError:
        return _view_of(client, client.admin.describe_topic(name), options)


def _view_of(client: Client, topic: TopicDescription, options: SourceOptions) -> TopicView:
    """The epochs were read before the ends, so that no end is newer than its epoch says."""
    from oncelog.client.offset_lookup import EARLIEST, LATEST

    epochs = {p.partition: p.leader_epoch for p in topic.partitions}
    chosen = options.subscription.partitions.get(topic.name, tuple(epochs))
    for number in chosen:
        if number not in epochs:
            raise ConfigError(
                "option assign names a partition that the topic does not have", topic=topic.name, partition=number
            )
    first, last = (
        client.admin.offsets_of_topic(
            topic.name, topic.topic_id, dict.fromkeys(chosen, place), isolation_level=_level(options)
        )
        for place in (EARLIEST, LATEST)
    )
    return TopicView(topic.topic_id, {p: PartitionView(first[p].offset, last[p].offset, epochs[p]) for p in chosen})


def _level(options: SourceOptions) -> str:
    return "read_committed" if options.read_committed else "read_uncommitted"


def resolve(options: SourceOptions, offsets: StartingOffsets, view: View) -> Position:
    """Offsets from options as numbers; times are looked up. Raises as `positions.resolve`."""
    from pyspark_oncelog.worker_client import client_for

    by_topic: dict[str, dict[int, int]] = {}
    for (name, number), time_ms in positions.times(offsets, view).items():
        by_topic.setdefault(name, {})[number] = time_ms
    found: dict[tuple[str, int], int | None] = {}
    for name, times in by_topic.items():
        admin = client_for(options.connection).admin
        at = admin.offsets_of_topic(name, view[name].topic_id, times, isolation_level=_level(options))
        found |= {(name, number): None if at[number].offset < 0 else at[number].offset for number in times}
    return positions.resolve(offsets, view, found)


def epoch_ends(options: SourceOptions, epochs: Mapping[tuple[str, int], int], view: View) -> dict[tuple[str, int], int]:
    """Where these leader epochs ended in the logs of the view's topics. Raises `OncelogError`."""
    from pyspark_oncelog.worker_client import client_for

    admin = client_for(options.connection).admin
    return {(t, p): admin.end_of_epoch(t, p, epoch, view[t].topic_id) for (t, p), epoch in epochs.items()}


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
