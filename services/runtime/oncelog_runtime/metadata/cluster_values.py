"""The content of etcd as typed values, and the questions that they answer.

Rule 1: values are immutable; a change replaces one.
Rule 2: epochs of shards, the key of sessions and the end of producer ids never go back, whatever becomes of their keys.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from oncelog.errors import LeaderNotAvailableError, UnknownTopicError
from oncelog.types import BrokerRef, PartitionId
from oncelog_runtime.metadata import cluster_keys
from oncelog_runtime.metadata.channel_values import CHANNELS, Channel, channel_of
from oncelog_runtime.metadata.cluster_keys import (
    Broker,
    Cluster,
    DeletedTopic,
    Drain,
    Partition,
    Reassignment,
    SessionKey,
    ShardOwner,
    ShardTrouble,
    Topic,
)
from oncelog_runtime.ports import KeyValue, Listing

V = TypeVar("V")
ShardKey = tuple[str, int]
"""(kind, number)."""
_SINGLE: Final = {
    cluster_keys.CONTROLLER_KEY: "controller",
    cluster_keys.BROKER_DRAIN_KEY: "broker_drain",
    cluster_keys.COORDINATOR_DRAIN_KEY: "coordinator_drain",
}
"""Keys that each map to one attribute of the view, which is None without them."""
_RESTORES: Final = {cluster_keys.RESTORED_KEY: "restored", cluster_keys.LOGS_TOLD_KEY: "logs_told"}
"""Keys with a number, and the attributes of the view: what is known of the last restore stays, also without its key."""


@dataclass(frozen=True, slots=True)
class Versioned(Generic[V]):
    """A value and the mod revision of its key."""

    value: V
    mod_revision: int


class ClusterValues:
    """One value or table per kind of key, which is why it has some 20 fields. `ClusterView` keeps it up to date."""

    def __init__(self) -> None:
        self.shard_epochs: dict[ShardKey, int] = {}
        self.session_key = b""
        """The key for session tokens; empty = not known. When etcd has lost it, a controller writes it back."""
        self.producer_ids_end = -1
        """The end of the newest block of producer ids that this process has seen."""
        self.clear()

    def clear(self) -> None:
        """Forgets everything but what must never go back."""
        self.revision = 0
        self.restored: Versioned[int] | None = None
        self.logs_told: Versioned[int] | None = None
        self.cluster: Cluster | None = None
        self.controller: Versioned[BrokerRef] | None = None
        self.brokers: dict[int, Versioned[Broker]] = {}
        self.topics: dict[str, Versioned[Topic]] = {}
        self.topic_names: dict[str, str] = {}
        self.deleted_topics: dict[str, Versioned[DeletedTopic]] = {}
        self.partitions: dict[PartitionId, Versioned[Partition]] = {}
        self.channels: dict[tuple[str, str], Versioned[Channel]] = {}
        self.shard_owners: dict[ShardKey, ShardOwner] = {}
        self.shard_troubles: dict[ShardKey, ShardTrouble] = {}
        self.coordinators: dict[str, int] = {}
        self.allocators: dict[str, int] = {}
        self.reassignments: dict[PartitionId, Versioned[Reassignment]] = {}
        self.decommissioned: dict[int, int] = {}
        self.broker_drain: Versioned[Drain] | None = None
        self.coordinator_drain: Versioned[Drain] | None = None

    # ------------------------------------------------------------ questions

    def live(self) -> dict[int, int]:
        """Returns broker id -> incarnation of every registered broker."""
        return {broker_id: entry.mod_revision for broker_id, entry in self.brokers.items()}

    def is_live(self, ref: BrokerRef) -> bool:
        """True when the broker is registered under this incarnation."""
        entry = self.brokers.get(ref.broker_id)
        return entry is not None and entry.mod_revision == ref.incarnation

    def trouble_of(self, kind: str, shard: int) -> str:
        """Returns why a shard keeps failing, as its owner reports; empty while all is well."""
        trouble, owner = self.shard_troubles.get((kind, shard)), self.shard_owners.get((kind, shard))
        told = trouble is not None and owner is not None and trouble.address == owner.address
        return trouble.error if told and trouble is not None else ""

    def draining_broker(self) -> BrokerRef | None:
        """Returns the registered broker that drains; a drain of an older incarnation does not count."""
        if self.broker_drain is None:
            return None
        ref = self.broker_drain.value.broker
        return ref if self.is_live(ref) else None

    def adding(self, partition: PartitionId) -> tuple[int, ...]:
        """Returns the brokers whose replica of this partition is new and need not be in sync yet."""
        move = self.reassignments.get(partition)
        return move.value.adding if move is not None else ()

    def address_of(self, broker_id: int) -> str | None:
        """Returns the address of a registered broker for other services."""
        entry = self.brokers.get(broker_id)
        return entry.value.address if entry is not None else None

    def topic_by_id(self, topic_id: str) -> Topic | None:
        """Returns the topic with this id; None when there is none."""
        entry = self.topics.get(self.topic_names.get(topic_id, ""))
        return entry.value if entry is not None and entry.value.topic_id == topic_id else None

    def topic(self, name: str) -> Topic:
        """Returns a topic by name. Raises `UnknownTopicError`; `LeaderNotAvailableError` before the first listing."""
        entry = self.topics.get(name)
        if entry is None:
            self._require_listed()
            raise UnknownTopicError.named(name)
        return entry.value

    def topic_name(self, topic_id: str) -> str | None:
        """Returns the name of a topic id; None when there is no such topic."""
        return self.topic_names.get(topic_id)

    def lost_topics(self, listing: Listing) -> list[str]:
        """Returns the topics that a listing of everything should have: a topic leaves etcd only with a tombstone."""
        present = {item.key for item in listing.items}
        return [
            name
            for name, entry in self.topics.items()
            if entry.mod_revision <= listing.revision
            and cluster_keys.topic_key(name) not in present
            and cluster_keys.deleted_topic_key(entry.value.topic_id) not in present
        ]

    def owner_of(self, kind: str, shard: int) -> ShardOwner | None:
        """Returns the owner of a coordinator shard; None when it has none."""
        owner = self.shard_owners.get((kind, shard))
        return owner if owner is not None and owner.epoch >= self.shard_epochs.get((kind, shard), 0) else None

    def require_leader(self, partition: PartitionId) -> BrokerRef:
        """Returns the live leader of a partition. Raises `UnknownTopicError` or `LeaderNotAvailableError`."""
        entry = self.partitions.get(partition)
        if entry is None:
            self._require_listed()
            raise UnknownTopicError("no such partition", topic_id=partition.topic_id, partition=partition.partition)
        leader = entry.value.leader
        if leader is None or not self.is_live(leader):
            raise LeaderNotAvailableError("the partition has no leader", partition=partition.partition)
        return leader

    def _require_listed(self) -> None:
        """Raises before the first listing: a missing key proves nothing then, since `learn` may have entered only a few."""
        if not self.revision:
            raise LeaderNotAvailableError("this process has not read the cluster's metadata yet")

    # ------------------------------------------------------------ changes

    def enter(self, item: KeyValue) -> bool:
        """Enters the value of one key. False: no key of ours. Raises one of `MALFORMED` for a value that cannot be parsed."""
        key, value, revision = item.key, item.value, item.mod_revision
        if key.startswith(cluster_keys.PARTITIONS):
            self.partitions[partition_of(key)] = Versioned(Partition.decode(value), revision)
        elif key.startswith(cluster_keys.BROKERS):
            self.brokers[int(key.removeprefix(cluster_keys.BROKERS))] = Versioned(Broker.decode(value), revision)
        elif key.startswith(cluster_keys.TOPICS):
            self._put_topic(key.removeprefix(cluster_keys.TOPICS), Versioned(Topic.decode(value), revision))
        elif key.startswith(cluster_keys.DELETED_TOPICS):
            topic_id = key.removeprefix(cluster_keys.DELETED_TOPICS)
            self.deleted_topics[topic_id] = Versioned(DeletedTopic.decode(value), revision)
        elif key.startswith(cluster_keys.SHARDS):
            self._put_shard(key, value)
        elif key.startswith(cluster_keys.COORDINATORS):
            self.coordinators[key.removeprefix(cluster_keys.COORDINATORS)] = revision
        elif key.startswith(cluster_keys.ALLOCATORS):
            self.allocators[key.removeprefix(cluster_keys.ALLOCATORS)] = revision
        else:
            return self._enter_operations(key, value, revision)
        return True

    def _enter_operations(self, key: str, value: bytes, revision: int) -> bool:
        """Enters channels, reassignments, drains, single keys and other operational values."""
        if key.startswith(CHANNELS):
            self.channels[channel_of(key)] = Versioned(Channel.decode(value), revision)
        elif key.startswith(cluster_keys.REASSIGNMENTS):
            self.reassignments[moved_partition_of(key)] = Versioned(Reassignment.decode(value), revision)
        elif key.startswith(cluster_keys.SHARD_TROUBLES):
            self.shard_troubles[troubled_shard_of(key)] = ShardTrouble.decode(value)
        elif key.startswith(cluster_keys.DECOMMISSIONS):
            self.decommissioned[int(key.removeprefix(cluster_keys.DECOMMISSIONS))] = revision
        elif key == cluster_keys.BROKER_DRAIN_KEY:
            self.broker_drain = _drain_of_broker(value, revision)
        elif key == cluster_keys.COORDINATOR_DRAIN_KEY:
            self.coordinator_drain = Versioned(Drain.decode(value), revision)
        elif key == cluster_keys.CONTROLLER_KEY:
            self.controller = Versioned(cluster_keys.decode_ref(value), revision)
        elif key in _RESTORES:
            setattr(self, _RESTORES[key], Versioned(int(value), revision))
        elif key == cluster_keys.CLUSTER_KEY:
            self.cluster = Cluster.decode(value)
        elif key == cluster_keys.SESSION_KEY:
            self.session_key = SessionKey.decode(value).key
        elif key == cluster_keys.PRODUCER_ID_BLOCK_KEY:
            self.producer_ids_end = max(self.producer_ids_end, int(json.loads(value)["block_end"]))
        else:
            return False
        return True

    def _put_topic(self, name: str, topic: Versioned[Topic]) -> None:
        old = self.topics.get(name)
        if old is not None:
            self.topic_names.pop(old.value.topic_id, None)
        self.topics[name] = topic
        self.topic_names[topic.value.topic_id] = name

    def _put_shard(self, key: str, value: bytes) -> None:
        shard, what = shard_of(key)
        if what == "epoch":
            self.shard_epochs[shard] = max(int(value), self.shard_epochs.get(shard, 0))
        else:
            self.shard_owners[shard] = ShardOwner.decode(value)

    def remove(self, key: str) -> None:
        """Removes the value of a key; epochs of shards stay."""
        if key in _SINGLE:
            setattr(self, _SINGLE[key], None)
        elif key.startswith(cluster_keys.PARTITIONS):
            self.partitions.pop(partition_of(key), None)
        elif key.startswith(cluster_keys.BROKERS):
            self.brokers.pop(int(key.removeprefix(cluster_keys.BROKERS)), None)
        elif key.startswith(cluster_keys.TOPICS):
            topic = self.topics.pop(key.removeprefix(cluster_keys.TOPICS), None)
            if topic is not None:
                self.topic_names.pop(topic.value.topic_id, None)
        elif key.startswith(cluster_keys.SHARDS):
            shard, what = shard_of(key)
            if what == "owner":  # the epoch stays after its key: it never goes back
                self.shard_owners.pop(shard, None)
        elif key.startswith(cluster_keys.COORDINATORS):
            self.coordinators.pop(key.removeprefix(cluster_keys.COORDINATORS), None)
        elif key.startswith(cluster_keys.ALLOCATORS):
            self.allocators.pop(key.removeprefix(cluster_keys.ALLOCATORS), None)
        else:
            self._remove_operations(key)

    def _remove_operations(self, key: str) -> None:
        """Removes channels, reassignments, troubles and other operational values."""
        if key.startswith(CHANNELS):
            self.channels.pop(channel_of(key), None)
        elif key.startswith(cluster_keys.REASSIGNMENTS):
            self.reassignments.pop(moved_partition_of(key), None)
        elif key.startswith(cluster_keys.SHARD_TROUBLES):
            self.shard_troubles.pop(troubled_shard_of(key), None)
        elif key.startswith(cluster_keys.DECOMMISSIONS):
            self.decommissioned.pop(int(key.removeprefix(cluster_keys.DECOMMISSIONS)), None)
        elif key.startswith(cluster_keys.DELETED_TOPICS):
            self.deleted_topics.pop(key.removeprefix(cluster_keys.DELETED_TOPICS), None)


def _drain_of_broker(value: bytes, revision: int) -> Versioned[Drain]:
    drain = Drain.decode(value)
    _ = drain.broker  # a value that names no broker is refused
    return Versioned(drain, revision)


def partition_of(key: str) -> PartitionId:
    """Returns the partition of a key. Raises `ValueError`."""
    topic_id, _, number = key.removeprefix(cluster_keys.PARTITIONS).partition("/")
    return PartitionId(topic_id, _count(number))


def moved_partition_of(key: str) -> PartitionId:
    """Returns the partition whose replicas a key moves. Raises `ValueError`."""
    topic_id, _, number = key.removeprefix(cluster_keys.REASSIGNMENTS).partition("/")
    return PartitionId(topic_id, _count(number))


def shard_of(key: str) -> tuple[ShardKey, str]:
    """Returns ((kind, number), epoch | owner). Raises `ValueError`."""
    kind, number, what = key.removeprefix(cluster_keys.SHARDS).split("/")
    return (kind, _count(number)), what


def troubled_shard_of(key: str) -> ShardKey:
    """Returns the shard of a trouble key. Raises `ValueError`."""
    kind, number = key.removeprefix(cluster_keys.SHARD_TROUBLES).split("/")
    return kind, _count(number)


def _count(text: str) -> int:
    """Parses a number as our keys have it. Raises `ValueError`, also for the signs, spaces and `_` that `int` takes."""
    if not (text.isascii() and text.isdecimal()):
        raise ValueError(f"no number: {text!r}")
    return int(text)
