"""Keeps topics complete: creates missing partitions and the cluster's own topics, and removes what deleted topics leave.

Rule 1: `reconcile` can run at any time, and again: a controller that dies half-way is continued by the next one.
Rule 2: partitions of deleted topics are removed. Partitions whose topic is only absent (etcd was restored, a key was lost)
        stay as they are.
Rule 3: a waiting topic that a restored etcd does not know is made again as soon as a broker has said that it keeps a log of
        it (`LogSurvey`): what waits in it was acknowledged, and only its leader delivers it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from oncelog.types import PartitionId
from oncelog_partition_leader.cluster.controller_term import Commit
from oncelog_partition_leader.cluster.topics.creation import CHUNK, TopicCreation
from oncelog_partition_leader.cluster.topics.log_survey import LogSurvey
from oncelog_partition_leader.cluster.topics.waiting_topics import Followed, as_seen, followed, waiting_topic_of
from oncelog_partition_leader.config import BrokerConfig
from oncelog_runtime.metadata import cluster_keys
from oncelog_runtime.metadata.cluster_keys import (
    LOGS_TOLD_KEY,
    DeletedTopic,
    Topic,
    deleted_topic_key,
    partition_key,
    topic_key,
)
from oncelog_runtime.metadata.cluster_view import ClusterView, Versioned
from oncelog_runtime.metadata.waiting_topics import is_waiting, waiting_topic_id
from oncelog_runtime.ports import Compare, Put, WallClock

_log = logging.getLogger(__name__)
SAME_CALL_MS: Final = 600_000
"""So long a copy of a call may come, in milliseconds."""
_INTERNAL_OPTIONS: Final = {
    "cleanup_policy": "delete",  # the owner of a shard alone knows which records are needed, and deletes the others
    "flush_mode": "fsync",
    "max_message_bytes": str(8 << 20),  # coordinators bound their records by it, whatever the default is
    "retention_bytes": "-1",
    "retention_ms": "-1",
    "segment_bytes": str(8 << 20),  # a disk gets back whole segments only, and there are a hundred shards
}
"""The options of the cluster's own topics, besides `min_insync_replicas`."""


class TopicUpkeep:
    """See the module. `changed()` has the controller call `reconcile` again."""

    def __init__(
        self,
        config: BrokerConfig,
        view: ClusterView,
        clock: WallClock,
        commit: Commit,
        changed: Callable[[], None],
        creation: TopicCreation,
        survey: LogSurvey,
    ) -> None:
        self._config = config
        self._view = view
        self._clock = clock
        self._commit = commit
        self._changed = changed
        self._creation = creation
        self._survey = survey

    async def reconcile(self) -> None:
        """Creates internal topics and missing partitions, removes partitions of deleted topics."""
        for name in cluster_keys.INTERNAL_TOPICS:
            entry = self._view.topics.get(name)
            if entry is None:
                await self._create_internal(name)
            elif "compact" in entry.value.config.get("cleanup_policy", ""):
                await self._renew_internal(entry)
        self._survey.look()
        await self._make_waiting_topics_again()
        for entry in list(self._view.topics.values()):
            await self._complete(await self._follow_topic(entry), entry.mod_revision)
        await self._remove_partitions_of_deleted()
        await self._forget_deleted()
        await self._note_that_logs_are_told()

    async def _complete(self, topic: Topic, mod_revision: int) -> None:
        """Creates the missing partitions of a topic."""
        missing = [p for p in range(topic.partitions) if PartitionId(topic.topic_id, p) not in self._view.partitions]
        for start in range(0, len(missing), CHUNK):
            compares, puts = self._creation.partition_writes(topic, missing[start : start + CHUNK])
            compares.append(Compare(topic_key(topic.name), mod_revision))
            if puts and not await self._commit(compares, puts):
                self._changed()
                await asyncio.sleep(0.01)

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
        await self._creation.create(Topic(name, self._creation.new_id(), shards, factor, dict(sorted(options.items()))))

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
        for start in range(0, len(orphans), CHUNK):
            chunk = orphans[start : start + CHUNK]
            if not await self._commit(chunk, [], [compare.key for compare in chunk]):
                self._changed()
                await asyncio.sleep(0.01)

    async def _forget_deleted(self) -> None:
        """Removes expired tombstones. A broker that comes back later keeps its folders, which loses nothing."""
        now_ms = self._clock.now_ms()
        oldest_ms, oldest_call_ms = now_ms - self._config.deleted_topics_retention_ms, now_ms - SAME_CALL_MS
        due = [
            deleted_topic_key(topic_id)
            for topic_id, entry in self._view.deleted_topics.items()
            if entry.value.deleted_ms < (oldest_ms if entry.value.name else oldest_call_ms)
            and not any(partition.topic_id == topic_id for partition in self._view.partitions)
            and not any(of_topic == topic_id for of_topic, _ in self._view.channels)
        ]
        for start in range(0, len(due), CHUNK):
            await self._commit([], [], due[start : start + CHUNK])

    # ------------------------------------------------------------ after a restore of etcd

    async def _make_waiting_topics_again(self) -> None:
        """Creates each waiting topic that etcd does not know, and of which a broker keeps a log (rule 3)."""
        for entry, again in self._forgotten():
            of, key = topic_key(entry.value.name), topic_key(again.name)
            compares = [Compare(of, entry.mod_revision), Compare(key, 0), Compare(deleted_topic_key(again.topic_id), 0)]
            if await self._commit(compares, [Put(key, again.encode())]):
                _log.warning("%s is made again: etcd was restored without it, and brokers keep its logs", again.name)
            self._changed()

    def _forgotten(self) -> list[tuple[Versioned[Topic], Topic]]:
        """Returns the topics whose waiting topic is to be made again, each with that one."""
        by_waiting_id = {
            waiting_topic_id(entry.value.topic_id): entry
            for entry in self._view.topics.values()
            if self._view.restored_at() and not is_waiting(entry.value.name)
        }
        gone = [
            one for one in by_waiting_id if one not in self._view.topic_names and one not in self._view.deleted_topics
        ]
        kept = self._survey.answers().of_topics(gone)
        return [(by_waiting_id[one], waiting_topic_of(by_waiting_id[one].value)) for one in gone if one in kept]

    async def _note_that_logs_are_told(self) -> None:
        """Writes down that all members have told, and what they keep has been made again (`LogSurvey`, rule 3)."""
        if self._view.logs_are_told:
            return
        found = self._survey.result()
        if found.missing or found.is_early or self._forgotten():
            return
        waiting = [entry.value for entry in self._view.topics.values() if is_waiting(entry.value.name)]
        if all(PartitionId(one.topic_id, p) in self._view.partitions for one in waiting for p in range(one.partitions)):
            await self._commit([], [Put(LOGS_TOLD_KEY, str(self._view.restored_at()).encode())])


def _orphans(view: ClusterView) -> list[Compare]:
    """Returns the partitions of topics that have a tombstone and are gone, as the view has them now."""
    return [
        Compare(partition_key(*partition_id), entry.mod_revision)
        for partition_id, entry in view.partitions.items()
        if partition_id.topic_id in view.deleted_topics and partition_id.topic_id not in view.topic_names
    ]
