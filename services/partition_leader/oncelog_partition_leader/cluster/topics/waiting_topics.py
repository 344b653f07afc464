"""Where records wait for their time: what the waiting topic of a topic looks like, and how it follows that topic.

Rule 1: it has the partitions, the replicas and the durability of its topic, and keeps every record: the scheduler of a
        partition alone knows which are needed, and deletes the others.
Rule 2: its id is made of its topic's id. One whose topic is gone, or was made again, is deleted, if etcd says so in the commit
        (`as_seen`): in a view that lags behind a topic may be missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from enum import Enum
from typing import Final

from oncelog.core.names import waiting_topic
from oncelog_partition_leader.log.topic_config import canonical
from oncelog_runtime.metadata.cluster_keys import Topic, topic_key
from oncelog_runtime.metadata.cluster_view import Versioned
from oncelog_runtime.metadata.waiting_topics import is_waiting, topic_of, waiting_topic_id
from oncelog_runtime.ports import Compare

_OPTIONS: Final = {"cleanup_policy": "delete", "retention_bytes": "-1", "retention_ms": "-1"}
_TAKEN_OVER: Final = ("flush_mode", "max_message_bytes", "min_insync_replicas", "segment_bytes")
"""A waiting topic has these from its topic: among them all that its topic may refuse a record for."""


class Followed(Enum):
    """How a topic stands to the one that it follows."""

    WHOLE = "whole"
    """It follows none, or is as large as that one, with its options."""
    ORPHAN = "orphan"
    """The topic that it followed is gone."""


def waiting_topic_of(of: Topic) -> Topic:
    """Returns the waiting topic of a topic. Raises `InvalidTopicError` when its name would be too long."""
    options = {name: value for name, value in of.config.items() if name in _TAKEN_OVER}
    config = canonical({**options, **_OPTIONS})
    topic_id, factor = waiting_topic_id(of.topic_id), of.replication_factor
    return Topic(waiting_topic(of.name), topic_id, of.partitions, factor, config, made_after=of.made_after)


def followed(topic: Topic, topics: Mapping[str, Versioned[Topic]]) -> Followed | Topic:
    """Compares a topic with the one that it follows, among `topics`; returns what it should be, when it is anything else."""
    if not is_waiting(topic.name):
        return Followed.WHOLE
    of = topics.get(topic_of(topic.name))
    if of is None or waiting_topic_id(of.value.topic_id) != topic.topic_id:
        return Followed.ORPHAN
    wanted = replace(
        topic, partitions=max(of.value.partitions, topic.partitions), config=waiting_topic_of(of.value).config
    )
    return Followed.WHOLE if wanted == topic else wanted


def as_seen(entry: Versioned[Topic], topics: Mapping[str, Versioned[Topic]]) -> list[Compare]:
    """Returns what a commit compares that changes a topic: it, and the one that it follows, are as `topics` has them."""
    name = entry.value.name
    names = (name, topic_of(name)) if is_waiting(name) else (name,)
    seen = {**topics, name: entry}
    return [Compare(topic_key(one), seen[one].mod_revision if one in seen else 0) for one in names]
