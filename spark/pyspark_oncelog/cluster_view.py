"""What the cluster has now of the topics that a query reads; asked on the driver."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncelog.errors import UnknownTopicError
from oncelog.types import TopicPartition
from pyspark_oncelog.offsets import Position
from pyspark_oncelog.options import SourceOptions
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
    for name in options.topics:
        try:
            found[name] = _load_topic(client, name, options.read_committed)
        except UnknownTopicError:
            if not missing_topics:
                raise _unknown_topic(name, options.connection.bootstrap_servers) from None
    return found


def _load_topic(client: Client, name: str, read_committed: bool) -> TopicView:
    """The epochs are read before the ends, so that no end is newer than its epoch says."""
    topic = client.admin.describe_topic(name)
    level = "read_committed" if read_committed else "read_uncommitted"
    partitions = [TopicPartition(name, p.partition) for p in topic.partitions]
    with client.consumer(isolation_level=level) as consumer:
        first, last = consumer.beginning_offsets(partitions), consumer.end_offsets(partitions)
    views = {
        p.partition: PartitionView(first[where], last[where], p.leader_epoch)
        for p, where in zip(topic.partitions, partitions, strict=True)
    }
    return TopicView(topic.topic_id, views)


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
        (name, number): OffsetAndMetadata(partition.offset, partition.leader_epoch)
        for name, topic in at.topics.items()
        for number, partition in topic.partitions.items()
    }
    with client_for(options.connection).consumer(group_id=options.commit_group) as consumer:
        consumer.commit(offsets)
