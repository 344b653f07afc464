"""Channels as administration tells of them: plain values."""

from __future__ import annotations

from dataclasses import dataclass

from oncelog.errors import OncelogError


@dataclass(frozen=True, slots=True)
class ChannelOptions:
    """How a channel delivers; see `oncelog.WorkerConfig` for the meanings and units."""

    ack_wait_ms: int
    max_deliveries: int
    dead_letter_topic: str
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    order_by_key: bool
    ephemeral: bool
    max_unsettled: int


@dataclass(frozen=True, slots=True)
class ChannelListing:
    """A channel. `start_timestamp_ms`: where it began: -1 latest, -2 earliest, else the first record at or after this time."""

    topic: str
    topic_id: str
    channel: str
    channel_id: str
    """A channel that is made again under its name has another one."""
    options: ChannelOptions
    paused: bool
    start_timestamp_ms: int
    created_ms: int


@dataclass(frozen=True, slots=True)
class CreatedChannel:
    """The answer to a creation. `created` False: it was there."""

    channel: ChannelListing
    created: bool


@dataclass(frozen=True, slots=True)
class ChannelWorker:
    """A worker, as one partition's leader knows it. `in_flight`: what it holds of this partition; `idle_ms`: since it was last
    heard of.
    """

    worker_id: str
    client: str
    max_in_flight: int
    in_flight: int
    idle_ms: int


@dataclass(frozen=True, slots=True)
class PendingMessage:
    """A record that was delivered and is not settled. `worker_id` empty: it waits for its next delivery, or is dead."""

    partition: int
    offset: int
    worker_id: str
    idle_ms: int
    """Since it was last delivered."""
    deliveries: int
    due_ms: int
    """Until it comes again, if nothing happens; of a dead one until its dead letter is tried again."""
    in_transaction: bool
    dead: bool = False
    """Its dead letter is still to be written."""
    trouble: str = ""
    """Why the dead letter could not be written at the last try."""


@dataclass(frozen=True, slots=True)
class ChannelPartitionState:
    """How far a channel is on one partition. `error` is set, and all numbers are 0, when its leader did not answer."""

    partition: int
    error: OncelogError | None = None
    leader_epoch: int = -1
    settled_before: int = 0
    """Every record before this offset is settled."""
    end_offset: int = 0
    """Records before this one may be delivered."""
    depth: int = 0
    """Records that are not settled; in a compacted topic an upper bound."""
    in_flight: int = 0
    in_transaction: int = 0
    waiting: int = 0
    """Given back, for a later time."""
    delivered: int = 0
    """Since its leader leads, as are the three that follow."""
    redelivered: int = 0
    acknowledged: int = 0
    dead: int = 0
    workers: tuple[ChannelWorker, ...] = ()


@dataclass(frozen=True, slots=True)
class ChannelDescription:
    """A channel and how far it is on each partition. The sums are over those that answered."""

    listing: ChannelListing
    partitions: tuple[ChannelPartitionState, ...]

    def total(self, name: str) -> int:
        """The sum of a number over all partitions, as `total("depth")`."""
        return sum(int(getattr(partition, name)) for partition in self.partitions)

    @property
    def workers(self) -> dict[str, int]:
        """Returns how many records each worker holds of all partitions, by worker id."""
        found: dict[str, int] = {}
        for partition in self.partitions:
            for worker in partition.workers:
                found[worker.worker_id] = found.get(worker.worker_id, 0) + worker.in_flight
        return dict(sorted(found.items()))


@dataclass(frozen=True, slots=True)
class ClaimedMessages:
    """Neighbouring records that were claimed, and the number of that delivery. `last_offset` is inclusive."""

    partition: int
    first_offset: int
    last_offset: int
    deliveries: int
