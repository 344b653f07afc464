"""Topics: creates, alters and deletes them, and keeps their partitions complete. Only the controller uses it.
`charge(partitions)` counts partitions that are created or removed against the caller's quota, and raises when that is used up.

Rule 1: a topic's key is the commit point of its creation, of each change, and of its deletion.
        The commit that deletes one writes its tombstone: nothing else lets a broker remove a log (`replica_deletion`).
Rule 2: `reconcile` creates missing partitions and removes those of deleted topics; it can run at any time. Partitions whose
        topic is only absent (etcd was restored, a key was lost) stay as they are.
Rule 3: everything is checked before anything is written, and each refusal has its name.
Rule 4: a call to create a topic determines the topic's id by its nonce, and the id of a deleted topic is never used again: so
        a copy of the call creates nothing, whenever it comes (of a call that was refused: within ten minutes). A call to
        delete or alter a topic names its id.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from random import Random
from typing import Final, Protocol

from oncelog.core.names import check_topic_name
from oncelog.errors import (
    InvalidPartitionsError,
    InvalidReplicationFactorError,
    InvalidRequestError,
    InvalidTopicError,
    OncelogError,
    RequestTimedOutError,
    TopicExistsError,
    UnknownTopicError,
)
from oncelog.types import BrokerRef, PartitionId
from oncelog_partition_leader.cluster.waiting_topics import Followed, as_seen, followed, waiting_topic_of
from oncelog_partition_leader.config import BrokerConfig
from oncelog_partition_leader.core.cluster.assignment import Candidate, alternate_racks, replicas_of
from oncelog_partition_leader.core.cluster.capacity import check_room, held_by
from oncelog_partition_leader.log.topic_config import altered, canonical
from oncelog_runtime.metadata import cluster_keys
from oncelog_runtime.metadata.cluster_keys import (
    DeletedTopic,
    Partition,
    Topic,
    broker_key,
    deleted_topic_key,
    partition_key,
    topic_key,
)
from oncelog_runtime.metadata.cluster_view import ClusterView, Versioned
from oncelog_runtime.metadata.waiting_topics import is_waiting, topic_of
from oncelog_runtime.ports import Compare, Put, WallClock

_log = logging.getLogger(__name__)
_CHUNK = 50
_NONCE_MAX = 64
_SAME_CALL_MS = 600_000
_INTERNAL_OPTIONS: Final = {
    "cleanup_policy": "delete",  # the owner of a shard alone knows which records are needed, and deletes the others
    "flush_mode": "fsync",
    "max_message_bytes": str(8 << 20),  # coordinators bound their records by it, whatever the default is
    "retention_bytes": "-1",
    "retention_ms": "-1",
    "segment_bytes": str(8 << 20),  # a disk gets back whole segments only, and there are a hundred shards
}
"""The options of the cluster's own topics, besides `min_insync_replicas`."""


class Commit(Protocol):
    """A fenced write of the controller."""

    def __call__(
        self, compares: list[Compare], puts: list[Put], deletes: list[str] | None = None
    ) -> Awaitable[bool]: ...


class Topics:
    """Creates, alters, deletes and completes topics, for the controller: each of these has methods of its own."""

    def __init__(
        self,
        config: BrokerConfig,
        view: ClusterView,
        random: Random,
        clock: WallClock,
        commit: Commit,
        changed: Callable[[], None],
        charge: Callable[[int], None],
    ) -> None:
        self._charge = charge
        self._config = config
        self._view = view
        self._random = random
        self._clock = clock
        self._commit = commit
        self._changed = changed

    # ------------------------------------------------------------ commands

    async def create(
        self,
        name: str,
        partitions: int,
        replication_factor: int,
        options: Mapping[str, str],
        *,
        if_not_exists: bool,
        nonce: str = "",
    ) -> tuple[Topic, bool]:
        """Creates a topic; returns it, and whether this call created it. Raises the caller's mistakes by name.

        `nonce` empty: an older client, a copy of whose call can make an empty topic of that name.
        """
        check_topic_name(name)
        if is_waiting(name):
            return await self._create_waiting(name)
        if name.startswith("__"):
            raise InvalidTopicError("names that begin with __ are the cluster's own", topic=name)
        if len(nonce) > _NONCE_MAX:
            raise InvalidRequestError("a nonce is too long", limit=_NONCE_MAX)
        topic_id = _id_of_call(name, nonce) if nonce else self._new_id()
        existing = self._view.topics.get(name)
        if existing is not None:
            if existing.value.topic_id == topic_id:
                return existing.value, True
            if nonce:
                await self._never_create(topic_id)
            if if_not_exists:
                return existing.value, False
            raise TopicExistsError(f"the topic {name} exists", topic=name)
        if topic_id in self._view.deleted_topics:
            raise UnknownTopicError("what this call was about is over: make a new call to create a topic", topic=name)
        if not 1 <= partitions <= self._config.partitions_max:
            raise InvalidPartitionsError(f"1 to {self._config.partitions_max} partitions", partitions=partitions)
        factor = self._factor(replication_factor)
        topic = Topic(name, topic_id, partitions, factor, canonical(options))
        self._check_room(topic, range(partitions))
        self._charge(partitions)
        return await self._create(topic), True

    async def _create_waiting(self, name: str) -> tuple[Topic, bool]:
        """Creates the waiting topic of a topic: safe to repeat. Raises `UnknownTopicError`."""
        topic = waiting_topic_of(self._view.topic(topic_of(name)))
        entry = self._view.topics.get(name)
        if entry is not None:
            if entry.value.topic_id != topic.topic_id:
                raise RequestTimedOutError("the topic was made again; what waited for the one before is being removed")
            return entry.value, False
        self._check_room(topic, range(topic.partitions))
        self._charge(topic.partitions)
        return await self._create(topic), True

    def _check_room(self, topic: Topic, numbers: range) -> None:
        """Raises `PolicyViolationError` unless every broker has room for its share of these new partitions."""
        brokers = self._candidates(topic.replication_factor)
        if not numbers or len(brokers) < topic.replication_factor:
            return
        order, start = alternate_racks(brokers), int(topic.topic_id[:8], 16)
        added = held_by(replicas_of(number, topic.replication_factor, order, start) for number in numbers)
        limits = {broker_id: entry.value.partitions_max for broker_id, entry in self._view.brokers.items()}
        check_room(added, _replicas_held(self._view), limits)

    async def _never_create(self, topic_id: str) -> None:
        """Marks an id as deleted, since its call found another topic: a late copy must not create one after that is deleted."""
        if topic_id not in self._view.deleted_topics:
            key = deleted_topic_key(topic_id)
            if not await self._commit([Compare(key, 0)], [Put(key, DeletedTopic("", self._clock.now_ms()).encode())]):
                raise RequestTimedOutError("the cluster changed meanwhile: try again")

    def _factor(self, asked: int) -> int:
        """Returns the replication factor; 0 = the cluster's default, which is a promise too: never silently fewer."""
        factor, brokers = asked or self._config.default_replication_factor, len(self._view.brokers)
        if 1 <= factor <= brokers:
            return factor
        if asked or not brokers:
            message = "replicas must be 1 up to the number of live brokers: start brokers, or ask for fewer"
        else:
            message = (
                "fewer live brokers than the default number of replicas: start brokers, name a replication factor"
                " (--replication-factor), or lower default_replication_factor"
            )
        raise InvalidReplicationFactorError(message, replication_factor=factor, brokers=brokers)

    async def _create(self, topic: Topic) -> Topic:
        puts = [Put(topic_key(topic.name), topic.encode())]
        compares = [Compare(topic_key(topic.name), 0), Compare(deleted_topic_key(topic.topic_id), 0)]
        if topic.partitions <= _CHUNK:  # the usual case: everything at once
            more_compares, more_puts = self._partition_writes(topic, list(range(topic.partitions)))
            compares, puts = compares + more_compares, puts + more_puts
        if not await self._commit(compares, puts):
            if topic.name in self._view.topics:
                raise TopicExistsError(f"the topic {topic.name} exists", topic=topic.name)
            raise RequestTimedOutError("the cluster changed meanwhile: try again", topic=topic.name)
        _log.info("created topic %s (%s), %d partitions", topic.name, topic.topic_id, topic.partitions)
        self._changed()
        return topic

    async def complete(self, topic: Topic) -> None:
        """Returns when every partition of the topic has had a leader. Ends by the caller's deadline.

        A partition that has one is not looked at again: with each change of each one, thousands would be a million looks.
        """
        for number in range(topic.partitions):
            while not self._is_led(PartitionId(topic.topic_id, number)):
                await self._view.changed()

    def _is_led(self, partition_id: PartitionId) -> bool:
        try:
            self._view.require_leader(partition_id)
        except OncelogError:
            return False
        return True

    async def alter(
        self,
        name: str,
        changes: Mapping[str, str],
        unset: Iterable[str],
        partitions: int,
        *,
        validate_only: bool,
        topic_id: str = "",
    ) -> tuple[Topic, bool]:
        """Alters a topic; returns it, and whether it changed. `partitions` 0 = as it is. `topic_id` empty = any of this name.

        Safe to repeat. Raises `UnknownTopicError`, `InvalidTopicError`, `ConfigError`, `InvalidPartitionsError`,
        `InvalidReplicationFactorError`.
        """
        entry = self._require_own(name, "the cluster's own topics are not altered", topic_id)
        topic = entry.value
        wanted = replace(
            topic,
            partitions=self._more_partitions(topic, partitions),
            config=altered(topic.config, changes, unset),
        )
        if wanted == topic:
            return wanted, False
        self._check_room(wanted, range(topic.partitions, wanted.partitions))
        if validate_only:
            return wanted, True
        compares, puts = [Compare(topic_key(name), entry.mod_revision)], [Put(topic_key(name), wanted.encode())]
        added = list(range(topic.partitions, wanted.partitions))
        self._charge(len(added))
        if added and len(added) <= _CHUNK:  # more of them: reconcile creates them, chunk by chunk
            more_compares, more_puts = self._partition_writes(wanted, added)
            compares, puts = compares + more_compares, puts + more_puts
        if not await self._commit(compares, puts):
            raise RequestTimedOutError("the cluster changed meanwhile: try again", topic=name)
        _log.info("altered topic %s: %d partitions, %s", name, wanted.partitions, wanted.config)
        self._changed()
        return wanted, True

    def _more_partitions(self, topic: Topic, partitions: int) -> int:
        if partitions in (0, topic.partitions):
            return topic.partitions
        if not topic.partitions < partitions <= self._config.partitions_max:
            raise InvalidPartitionsError(
                f"{topic.partitions} (as there are; never fewer) to {self._config.partitions_max} partitions",
                partitions=partitions,
            )
        if len(self._view.brokers) < topic.replication_factor:
            raise InvalidReplicationFactorError(
                "fewer live brokers than replicas of the topic: start brokers, then add partitions",
                replication_factor=topic.replication_factor,
                brokers=len(self._view.brokers),
            )
        return partitions

    def _require_own(self, name: str, refusal: str, topic_id: str = "") -> Versioned[Topic]:
        """Returns a user's topic, with this id if one is given. Raises `InvalidTopicError` or `UnknownTopicError`."""
        if name in cluster_keys.INTERNAL_TOPICS or is_waiting(name):
            raise InvalidTopicError(refusal, topic=name)
        entry = self._view.topics.get(name)
        if entry is None or topic_id not in ("", entry.value.topic_id):
            raise UnknownTopicError(f"no topic {name!r}", topic=name, topic_id=topic_id)
        return entry

    async def delete(self, name: str, topic_id: str = "") -> str:
        """Deletes a topic; returns its id. Raises `UnknownTopicError`, `InvalidTopicError` or `InvalidRequestError`.

        `topic_id` empty: an older client, which is refused if another topic of this name was deleted a moment ago.
        """
        if topic_id in self._view.deleted_topics:
            return topic_id
        entry = self._require_own(name, "the cluster's own topics stay", topic_id)
        if not topic_id and self._was_deleted_lately(name):
            raise InvalidRequestError(
                "a topic of this name was deleted a moment ago: say by topic_id which one is meant (GetMetadata tells it)",
                topic=name,
                topic_id=entry.value.topic_id,
            )
        self._charge(entry.value.partitions)
        tombstone = Put(deleted_topic_key(entry.value.topic_id), DeletedTopic(name, self._clock.now_ms()).encode())
        if not await self._commit([Compare(topic_key(name), entry.mod_revision)], [tombstone], [topic_key(name)]):
            raise RequestTimedOutError("the topic changed meanwhile: try again", topic=name)
        _log.info("deleted topic %s (%s)", name, entry.value.topic_id)
        while name in self._view.topics and self._view.topics[name].value.topic_id == entry.value.topic_id:
            await self._view.changed()
        self._changed()
        return entry.value.topic_id

    def _was_deleted_lately(self, name: str) -> bool:
        since_ms = self._clock.now_ms() - _SAME_CALL_MS
        return any(
            entry.value.name == name and entry.value.deleted_ms >= since_ms
            for entry in self._view.deleted_topics.values()
        )

    # ------------------------------------------------------------ keeping complete

    async def reconcile(self) -> None:
        """Creates internal topics and missing partitions, removes partitions of deleted topics."""
        for name in cluster_keys.INTERNAL_TOPICS:
            entry = self._view.topics.get(name)
            if entry is None:
                await self._create_internal(name)
            elif "compact" in entry.value.config.get("cleanup_policy", ""):
                await self._renew_internal(entry)
        for entry in list(self._view.topics.values()):
            topic = await self._follow_topic(entry)
            missing = [
                p for p in range(topic.partitions) if PartitionId(topic.topic_id, p) not in self._view.partitions
            ]
            for start in range(0, len(missing), _CHUNK):
                compares, puts = self._partition_writes(topic, missing[start : start + _CHUNK])
                compares.append(Compare(topic_key(topic.name), entry.mod_revision))
                if puts and not await self._commit(compares, puts):
                    self._changed()
                    await asyncio.sleep(0.01)
        await self._remove_partitions_of_deleted()
        await self._forget_deleted()

    async def _follow_topic(self, entry: Versioned[Topic]) -> Topic:
        """Deletes a waiting topic whose topic is gone, or gives it that one's partitions and options. Returns it as it is."""
        topic = entry.value
        key, compares = topic_key(topic.name), as_seen(entry, self._view.topics)
        match followed(topic, self._view.topics):
            case Followed.WHOLE:
                return topic
            case Followed.ORPHAN:
                tombstone = DeletedTopic(topic.name, self._clock.now_ms()).encode()
                await self._commit(compares, [Put(deleted_topic_key(topic.topic_id), tombstone)], [key])
            case Topic() as grown:
                await self._commit(compares, [Put(key, grown.encode())])
        self._changed()
        return topic

    async def _create_internal(self, name: str) -> None:
        known = self._view.cluster
        factor = self._config.internal_topic_replication_factor
        if known is None or len(self._view.brokers) < factor:
            return  # asked again when a broker registers
        shards = known.transaction_shards if name == cluster_keys.TRANSACTION_TOPIC else known.group_shards
        options = {**_INTERNAL_OPTIONS, "min_insync_replicas": "2" if factor >= 3 else "1"}
        await self._create(Topic(name, self._new_id(), shards, factor, dict(sorted(options.items()))))

    async def _renew_internal(self, entry: Versioned[Topic]) -> None:
        """Gives an internal topic that an older version made the options of this one, all at once (decision 0067)."""
        topic = entry.value
        wanted = replace(topic, config=dict(sorted({**topic.config, **_INTERNAL_OPTIONS}.items())))
        put = Put(topic_key(topic.name), wanted.encode())
        if await self._commit([Compare(topic_key(topic.name), entry.mod_revision)], [put]):
            _log.info("changed the options of %s to %s", topic.name, wanted.config)
        self._changed()

    async def _remove_partitions_of_deleted(self) -> None:
        orphans = _orphans(self._view)
        for start in range(0, len(orphans), _CHUNK):
            chunk = orphans[start : start + _CHUNK]
            if not await self._commit(chunk, [], [compare.key for compare in chunk]):
                self._changed()
                await asyncio.sleep(0.01)

    async def _forget_deleted(self) -> None:
        """Removes expired tombstones. A broker that comes back later keeps its folders, which loses nothing."""
        now_ms = self._clock.now_ms()
        oldest_ms, oldest_call_ms = now_ms - self._config.deleted_topics_retention_ms, now_ms - _SAME_CALL_MS
        due = [
            deleted_topic_key(topic_id)
            for topic_id, entry in self._view.deleted_topics.items()
            if entry.value.deleted_ms < (oldest_ms if entry.value.name else oldest_call_ms)
            and not any(partition.topic_id == topic_id for partition in self._view.partitions)
            and not any(of_topic == topic_id for of_topic, _ in self._view.channels)
        ]
        for start in range(0, len(due), _CHUNK):
            await self._commit([], [], due[start : start + _CHUNK])

    def _partition_writes(self, topic: Topic, numbers: list[int]) -> tuple[list[Compare], list[Put]]:
        """Makes the writes of new partitions under their preferred leaders. All logs are empty, so all replicas are in sync.

        Partitions of a topic from before a restore of etcd may have existed, and their logs still do: a guess (`is_guess`). So
        may those of a waiting topic, whose id follows from its topic's: made again, it has the logs that it had.
        """
        may_have_logs = self._view.restored_at() > 0 and (topic.name in self._view.topics or is_waiting(topic.name))
        brokers = self._candidates(topic.replication_factor)
        if len(brokers) < topic.replication_factor:
            return [], []
        order, live = alternate_racks(brokers), self._view.live()
        start = int(topic.topic_id[:8], 16)
        named: dict[BrokerRef, None] = {}
        compares: list[Compare] = []
        puts: list[Put] = []
        for number in numbers:
            replicas = replicas_of(number, topic.replication_factor, order, start)
            isr = tuple(BrokerRef(broker_id, live[broker_id]) for broker_id in replicas)
            named.update(dict.fromkeys(isr))
            key = partition_key(topic.topic_id, number)
            compares.append(Compare(key, 0))
            new = Partition(topic.name, replicas, isr[0], 0, isr)
            puts.append(Put(key, (replace(new, leader=None, leader_epoch=-1) if may_have_logs else new).encode()))
        compares += [Compare(broker_key(ref.broker_id), ref.incarnation) for ref in named]
        return compares, puts

    def _candidates(self, needed: int) -> list[Candidate]:
        """Returns the brokers for new replicas: without those out of use and draining, unless too few would remain."""
        brokers = [Candidate(broker_id, entry.value.rack) for broker_id, entry in self._view.brokers.items()]
        in_use = [broker for broker in brokers if broker.broker_id not in self._view.decommissioned]
        draining = self._view.draining_broker()
        staying = [broker for broker in in_use if draining is None or broker.broker_id != draining.broker_id]
        return next((some for some in (staying, in_use) if len(some) >= needed), brokers)

    def _new_id(self) -> str:
        return f"{self._random.getrandbits(128):032x}"


def _id_of_call(name: str, nonce: str) -> str:
    """Returns the id of the topic that a call creates: the same for each copy of the call."""
    return hashlib.sha256(f"{name}/{nonce}".encode()).hexdigest()[:32]


def _replicas_held(view: ClusterView) -> Counter[int]:
    """Counts the replicas of each broker, with those of partitions still to be created spread evenly."""
    held = held_by(entry.value.replicas for entry in view.partitions.values())
    known = Counter(partition.topic_id for partition in view.partitions)
    for entry in view.topics.values():
        topic = entry.value
        missing = (topic.partitions - known[topic.topic_id]) * topic.replication_factor
        for broker_id in view.brokers:
            held[broker_id] += -(-max(missing, 0) // len(view.brokers))
    return held


def _orphans(view: ClusterView) -> list[Compare]:
    """Returns the partitions of topics that have a tombstone and are gone, as the view has them now."""
    return [
        Compare(partition_key(*partition_id), entry.mod_revision)
        for partition_id, entry in view.partitions.items()
        if partition_id.topic_id in view.deleted_topics and partition_id.topic_id not in view.topic_names
    ]
