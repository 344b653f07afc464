"""Names for the plain values that oncelog passes around, so that mixing two of them is a type error.

All end offsets are exclusive. `offset` is never a byte position.
"""

from __future__ import annotations

from typing import NamedTuple

Buffer = bytes | memoryview


class TopicPartition(NamedTuple):
    """A partition by topic name, as users say it."""

    topic: str
    partition: int


class PartitionId(NamedTuple):
    """A partition by topic id, as the cluster says it."""

    topic_id: str
    """32 hex digits, chosen at creation; a re-created topic has another one."""
    partition: int


class BrokerRef(NamedTuple):
    """A broker process: a restarted broker has a new incarnation (mod revision of its registration)."""

    broker_id: int
    incarnation: int
