"""Topics: the calls that create, alter and delete them. Only the controller uses it; `TopicUpkeep` keeps them complete.
`charge(partitions)` counts partitions that are created or removed against the caller's quota, and raises when that is used up.

Rule 1: a topic's key is the commit point of its creation, of each change, and of its deletion.
        The commit that deletes one writes its tombstone: nothing else lets a broker remove a log (`replica_deletion`).
Rule 2: everything is checked before anything is written, and each refusal has its name.
Rule 3: a call to create a topic determines the topic's id by its nonce, and the id of a deleted topic is never used again: so
        a copy of the call creates nothing, whenever it comes (of a call that was refused: within ten minutes). A call to
        delete or alter a topic names its id.
Rule 4: after a restore of etcd a call gives another id, unless brokers keep logs under the one before: these may be away. A
        topic without logs under their id would have them moved to the trash.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

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
from oncelog.types import PartitionId
from oncelog_partition_leader.cluster.controller_term import Commit
from oncelog_partition_leader.cluster.topics.creation import CHUNK, TopicCreation
from oncelog_partition_leader.cluster.topics.upkeep import SAME_CALL_MS
from oncelog_partition_leader.cluster.topics.waiting_topics import waiting_topic_of
from oncelog_partition_leader.config import BrokerConfig
from oncelog_partition_leader.log.topic_config import altered, canonical
from oncelog_runtime.metadata import cluster_keys
from oncelog_runtime.metadata.cluster_keys import DeletedTopic, Topic, deleted_topic_key, topic_key
from oncelog_runtime.metadata.cluster_view import ClusterView, Versioned
from oncelog_runtime.metadata.waiting_topics import is_waiting, topic_of, waiting_topic_id
from oncelog_runtime.ports import Compare, Put, WallClock

_log = logging.getLogger(__name__)
_NONCE_MAX = 64


class Topics:
    """Creates, alters and deletes topics, for the controller: each of these has methods of its own."""

    def __init__(
        self,
        config: BrokerConfig,
        view: ClusterView,
        clock: WallClock,
        commit: Commit,
        changed: Callable[[], None],
        charge: Callable[[int], None],
        creation: TopicCreation,
    ) -> None:
        self._charge = charge
        self._config = config
        self._view = view
        self._clock = clock
        self._commit = commit
        self._changed = changed
        self._creation = creation

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
        existing = self._view.topics.get(name)
        ids = self._ids_of_call(name, nonce, existing)
        if existing is not None:
            if existing.value.topic_id in ids:
                return existing.value, True
            for one in ids:
                await self._never_create(one)
            if if_not_exists:
                return existing.value, False
            raise TopicExistsError(f"the topic {name} exists", topic=name)
        if any(one in self._view.deleted_topics for one in ids):
            raise UnknownTopicError("what this call was about is over: make a new call to create a topic", topic=name)
        topic_id = self._creation.id_among(ids) if nonce else self._creation.new_id()
        if not 1 <= partitions <= self._config.partitions_max:
            raise InvalidPartitionsError(f"1 to {self._config.partitions_max} partitions", partitions=partitions)
        factor = self._factor(replication_factor)
        topic = Topic(name, topic_id, partitions, factor, canonical(options))
        self._creation.check_room(topic, range(partitions))
        self._charge(partitions)
        return await self._creation.create(topic), True

    async def _create_waiting(self, name: str) -> tuple[Topic, bool]:
        """Creates the waiting topic of a topic: safe to repeat. Raises `UnknownTopicError`."""
        topic = waiting_topic_of(self._view.topic(topic_of(name)))
        entry = self._view.topics.get(name)
        if entry is not None:
            if entry.value.topic_id != topic.topic_id:
                raise RequestTimedOutError("the topic was made again; what waited for the one before is being removed")
            return entry.value, False
        self._creation.check_room(topic, range(topic.partitions))
        self._charge(topic.partitions)
        return await self._creation.create(topic), True

    def _ids_of_call(self, name: str, nonce: str, existing: Versioned[Topic] | None) -> list[str]:
        """Returns the ids that a call may have given the topic, before restores of etcd and since; none without a nonce."""
        restores = [self._view.restored_at(), 0, existing.value.made_after if existing is not None else 0]
        return [_id_of_call(name, nonce, restored_at) for restored_at in dict.fromkeys(restores)] if nonce else []

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
        self._creation.check_room(wanted, range(topic.partitions, wanted.partitions))
        if validate_only:
            return wanted, True
        compares, puts = [Compare(topic_key(name), entry.mod_revision)], [Put(topic_key(name), wanted.encode())]
        added = list(range(topic.partitions, wanted.partitions))
        self._charge(len(added))
        if added and len(added) <= CHUNK:  # more of them: reconcile creates them, chunk by chunk
            more_compares, more_puts = self._creation.partition_writes(wanted, added)
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
        tombstone = DeletedTopic(name, self._clock.now_ms()).encode()
        gone = [entry.value.topic_id]
        if self._view.restored_at():  # brokers may keep logs of a waiting topic that etcd does not know
            gone.append(waiting_topic_id(entry.value.topic_id))
        puts = [Put(deleted_topic_key(one), tombstone) for one in gone if one not in self._view.deleted_topics]
        if not await self._commit([Compare(topic_key(name), entry.mod_revision)], puts, [topic_key(name)]):
            raise RequestTimedOutError("the topic changed meanwhile: try again", topic=name)
        _log.info("deleted topic %s (%s)", name, entry.value.topic_id)
        while name in self._view.topics and self._view.topics[name].value.topic_id == entry.value.topic_id:
            await self._view.changed()
        self._changed()
        return entry.value.topic_id

    def _was_deleted_lately(self, name: str) -> bool:
        since_ms = self._clock.now_ms() - SAME_CALL_MS
        return any(
            entry.value.name == name and entry.value.deleted_ms >= since_ms
            for entry in self._view.deleted_topics.values()
        )


def _id_of_call(name: str, nonce: str, restored_at: int) -> str:
    """Returns the id of the topic that a call creates: the same for each copy of the call, until etcd is restored (rule 4)."""
    since = f"/{restored_at}" if restored_at else ""
    return hashlib.sha256(f"{name}/{nonce}{since}".encode()).hexdigest()[:32]
