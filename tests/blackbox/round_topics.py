"""The topics and channels of a round: each round has its own, so that nothing of an earlier one is in the way.

Rule 1: everything is on disk before it is acknowledged, so a power cut loses nothing that counts.
Rule 2: `written` topics are written to at random, by senders and transactions. What is on the others follows from these, or is
        delayed, and is judged by rules of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from oncelog.sync import Client
from tests.simulation.channel_judge import ACK_WAIT_MS
from tests.simulation.history import Key
from tests.simulation.topics import COPY, PARTITIONS, WORK, SimTopic

WORK_CHANNEL: Final = "work"
"""Its workers do all that workers may do with a record of `jobs`."""
COPY_CHANNEL: Final = "copy"
"""Its workers copy `jobs` to `done`, and acknowledge in the transactions of the copies."""
LATE_CHANNEL: Final = "late"
"""Its workers take the delayed records of `later`."""
KEYS: Final = 40
"""Of the jobs."""
_JOB_PARTITIONS: Final = 2
_REPLICAS: Final = 3
_SAFE: Final = {"min.insync.replicas": "2", "flush.mode": "fsync"}
_BASE: Final = _SAFE | {"segment.bytes": "65536", "max.message.bytes": "65536"}
_ROLLING: Final = _SAFE | {"segment.bytes": "2000", "max.message.bytes": "2000"}


@dataclass(frozen=True, slots=True)
class RoundTopics:
    """`name`: the round's part of all names. `is_ordered`: the channel of the jobs keeps the order of each key."""

    name: str
    is_ordered: bool = False

    @property
    def work(self) -> str:
        """What copiers read."""
        return f"{WORK}-{self.name}"

    @property
    def copy(self) -> str:
        """What copiers write."""
        return f"{COPY}-{self.name}"

    @property
    def jobs(self) -> str:
        """What the workers of channels are given."""
        return f"jobs-{self.name}"

    @property
    def done(self) -> str:
        """What workers write in the transactions of their acknowledgements."""
        return f"done-{self.name}"

    @property
    def letters(self) -> str:
        """Rejected jobs."""
        return f"letters-{self.name}"

    @property
    def later(self) -> str:
        """Delayed records."""
        return f"later-{self.name}"

    @property
    def all(self) -> list[SimTopic]:
        """Every topic of the round."""
        return [
            SimTopic(self.work, PARTITIONS, _REPLICAS, _BASE, 6),
            SimTopic(f"strict-{self.name}", 1, _REPLICAS, _ROLLING, 1),
            SimTopic(self.jobs, _JOB_PARTITIONS, _REPLICAS, _BASE, 2),
            SimTopic(self.copy, PARTITIONS, _REPLICAS, _BASE, 0),
            SimTopic(self.done, _JOB_PARTITIONS, _REPLICAS, _BASE, 0),
            SimTopic(self.letters, _JOB_PARTITIONS, _REPLICAS, _BASE, 0),
            SimTopic(self.later, _JOB_PARTITIONS, _REPLICAS, _BASE, 0),
        ]

    @property
    def written(self) -> list[SimTopic]:
        """Rule 2."""
        return [topic for topic in self.all if topic.weight]

    @property
    def keys(self) -> list[Key]:
        """Every partition of the round."""
        return [key for topic in self.all for key in topic.keys]

    @property
    def later_keys(self) -> list[Key]:
        """The partitions that delayed records go to."""
        return [key for key in self.keys if key[0] == self.later]

    @property
    def job_keys(self) -> list[Key]:
        """The partitions of the jobs."""
        return [key for key in self.keys if key[0] == self.jobs]

    @property
    def channels(self) -> list[tuple[str, str]]:
        """Topic and name of each channel."""
        return [(self.jobs, WORK_CHANNEL), (self.jobs, COPY_CHANNEL), (self.later, LATE_CHANNEL)]

    def create(self, servers: str) -> None:
        """Makes topics and channels. Raises what the cluster answers."""
        with Client(servers) as client:
            for topic in self.all:
                client.admin.create_topic(
                    topic.name,
                    partitions=topic.partitions,
                    replication_factor=topic.replication_factor,
                    config=topic.config,
                )
            for topic_name, channel in self.channels:
                is_work = channel == WORK_CHANNEL
                client.admin.create_channel(
                    topic_name,
                    channel,
                    ack_wait_ms=ACK_WAIT_MS,
                    order_by_key=is_work and self.is_ordered,
                    dead_letter_topic=self.letters if is_work else "",
                )


def topics_of(name: str) -> RoundTopics:
    """The topics of a round. Every second round keeps the order of keys."""
    number = int(name.rpartition("-")[2])
    return RoundTopics(name, is_ordered=number % 2 == 1)
