"""Asks the cluster, on the driver, about the topics that a query reads.

Rule: everything that is said of a topic is asked for by its id, so a topic that is created again meanwhile is never half the
      old one and half the new one.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from oncelog.errors import ConfigError, OffsetOutOfRangeError, UnknownTopicError
from pyspark_oncelog.options.offsets import Position, StartingOffsets
from pyspark_oncelog.options.read_write_options import SourceOptions, Subscription
from pyspark_oncelog.preflight import unknown_topic
from pyspark_oncelog.source import positions
from pyspark_oncelog.source.positions import NOT_ASKED, PartitionView, TopicView, View

if TYPE_CHECKING:
    from oncelog.client.admin.descriptions import TopicDescription
    from oncelog.sync.admin import Admin


_GROUP_TIMEOUT_MS: Final = 3_000


def load_view(options: SourceOptions, missing_topics: bool = False, with_ends: bool = True) -> View:
    """Topic ids, log starts and, `with_ends`, ends (the last stable offset for read_committed).

    Whatever number of topics there is, it costs one call to any broker, and one or two to each leader, at the same time.
    A topic that does not exist is left out if `missing_topics`; else raises `UnknownTopicError` with the command that
    creates it.  Raises `ClusterUnreachableError` and others when requestTimeoutMs has passed.
    """
    from pyspark_oncelog.worker.worker_client import client_for, forgetting_wrong_cluster

    with forgetting_wrong_cluster():
        admin = client_for(options.connection).admin
        topics = _topics(admin, options, missing_topics)
        try:
            return _view_of(admin, topics, options, with_ends)
        except UnknownTopicError:  # one was created again, or deleted, meanwhile: look once more
            return _view_of(admin, _topics(admin, options, missing_topics), options, with_ends)


def start_of(options: SourceOptions, view: View) -> tuple[Position, list[str]]:
    """Where a query begins, and what of it lies beyond the end, where the end is put in its place.

    A subscribed topic that `view` leaves out is left out here, too, with the offsets that were given for it.
    Raises `OffsetOutOfRangeError` for an offset that an open transaction holds back: from the stable end on, records would be
    read that were to be left out.
    """
    missing = set(options.subscription.topics).difference(view)
    start = resolve(options, options.starting.without(missing), view)
    clamped, beyond = positions.clamp(start, view)
    if beyond and options.read_committed:
        same = dataclasses.replace(options.subscription, topics=tuple(view), pattern="")
        open_too = load_view(dataclasses.replace(options, subscription=same, read_committed=False))
        _, beyond_all = positions.clamp(start, open_too)
        if len(beyond_all) < len(beyond):
            raise OffsetOutOfRangeError(
                "option startingOffsets lies behind the start of an open transaction, and a query would begin before it: "
                f"{'; '.join(beyond)}. Start again when that transaction has ended (`oncelog txn list`), or set option "
                "isolation=read_uncommitted"
            )
    return clamped, beyond


def _topics(admin: Admin, options: SourceOptions, missing_topics: bool) -> list[TopicDescription]:
    subscription = options.subscription
    if subscription.pattern:
        pattern = re.compile(subscription.pattern)
        return [topic for topic in admin.list_topics() if pattern.fullmatch(topic.name)]
    found = admin.describe_topics(subscription.topics)
    if len(found) < len(subscription.topics) and not missing_topics:
        found = admin.describe_topics(subscription.topics)  # a broker may hear of a new topic late
    missing = [name for name in subscription.topics if name not in found]
    if missing and not missing_topics:
        raise unknown_topic(missing[0], options.connection.bootstrap_servers)
    return list(found.values())


def _view_of(admin: Admin, topics: Sequence[TopicDescription], options: SourceOptions, with_ends: bool) -> View:
    """The leader epoch is that of the answer which carries the end: another leader may have come since the description."""
    from oncelog.client.routing.offset_lookup import EARLIEST, LATEST
    from oncelog.types import PartitionId

    numbers = {topic.name: _numbers(topic, options.subscription) for topic in topics}
    asked = [PartitionId(topic.topic_id, number) for topic in topics for number in numbers[topic.name]]
    places = (EARLIEST, LATEST) if with_ends else (EARLIEST,)
    found = admin.offsets_of_topics(
        {topic.name: topic.topic_id for topic in topics},
        *(dict.fromkeys(asked, place) for place in places),
        isolation_level=_level(options),
    )

    def partition(where: PartitionId) -> PartitionView:
        first, *ends = (offsets[where] for offsets in found)
        end = max((*ends, first), key=lambda at: at.offset)
        return PartitionView(first.offset, end.offset if ends else NOT_ASKED, end.leader_epoch)

    return {
        topic.name: TopicView(
            topic.topic_id,
            {number: partition(PartitionId(topic.topic_id, number)) for number in numbers[topic.name]},
        )
        for topic in topics
    }


def _numbers(topic: TopicDescription, subscription: Subscription) -> tuple[int, ...]:
    """The partitions that are read."""
    known = tuple(p.partition for p in topic.partitions)
    for number in (chosen := subscription.partitions.get(topic.name, known)):
        if number not in known:
            raise ConfigError(
                "option assign names a partition that the topic does not have", topic=topic.name, partition=number
            )
    return chosen


def _level(options: SourceOptions) -> str:
    return "read_committed" if options.read_committed else "read_uncommitted"


def resolve(options: SourceOptions, offsets: StartingOffsets, view: View) -> Position:
    """Offsets from options as numbers; times are looked up. Raises as `positions.resolve`."""
    from oncelog.types import PartitionId
    from pyspark_oncelog.worker.worker_client import client_for

    times = positions.times(offsets, view)
    wanted = {where: PartitionId(view[where[0]].topic_id, where[1]) for where in times}
    found: dict[tuple[str, int], int | None] = {}
    if times:
        (at,) = client_for(options.connection).admin.offsets_of_topics(
            {name: view[name].topic_id for name, _ in times},
            {wanted[where]: time_ms for where, time_ms in times.items()},
            isolation_level=_level(options),
        )
        found = {where: None if at[key].offset < 0 else at[key].offset for where, key in wanted.items()}
    return positions.resolve(offsets, view, found)


def epoch_ends(options: SourceOptions, epochs: Mapping[tuple[str, int], int], view: View) -> dict[tuple[str, int], int]:
    """Where these leader epochs ended in the logs of the view's topics. Raises `OncelogError`."""
    from pyspark_oncelog.worker.worker_client import client_for

    admin = client_for(options.connection).admin
    return {(t, p): admin.end_of_epoch(t, p, epoch, view[t].topic_id) for (t, p), epoch in epochs.items()}


def commit_group(options: SourceOptions, at: Position) -> None:
    """Commits offsets for lag tools, within seconds: a micro-batch waits for it. Raises `OncelogError`."""
    from oncelog.client.consume.offsets import OffsetAndMetadata
    from pyspark_oncelog.worker.worker_client import client_for

    offsets = {
        (name, number): OffsetAndMetadata(partition.offset, partition.leader_epoch, topic_id=topic.topic_id)
        for name, topic in at.topics.items()
        for number, partition in topic.partitions.items()
    }
    timeout_ms = min(_GROUP_TIMEOUT_MS, options.connection.request_timeout_ms)
    with client_for(options.connection).consumer(
        group_id=options.commit_group, request_timeout_ms=timeout_ms, default_api_timeout_ms=timeout_ms
    ) as consumer:
        consumer.commit(offsets)
