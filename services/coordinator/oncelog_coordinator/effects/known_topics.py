"""Finds out which topics exist by a linearizable read of etcd, when the cluster view of this process is not enough.

Rule 1: one read serves all callers that waited before it began, however many topics they ask about, so the work does
        not grow with the names that a client makes up. The pause between two reads is long compared with a read.
Rule 2: a topic that the view shows needs no read. The view may lag behind etcd, so a topic that it does not show is
        read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from oncelog.errors import InvalidTopicError, UnknownTopicError
from oncelog.types import PartitionId
from oncelog_runtime.metadata import cluster_keys
from oncelog_runtime.metadata.cluster_view import ClusterView
from oncelog_runtime.ports import MetadataStore
from oncelog_runtime.serving.topic_access import TopicOperation, require_access

_PAUSE_S: Final = 0.05
_PAUSE_PER_LOOK: Final = 9
"""The pause after a read is this many times as long as the read, so reads take at most a tenth of this process's time."""


@dataclass(frozen=True, slots=True)
class Look:
    """The result of one read: topic id -> number of partitions."""

    partitions: dict[str, int]
    revision: int
    newest_before: int
    """The newest revision that this process had seen when the read began."""


class KnownTopics:
    """Answers whether topics and partitions exist. One per process."""

    def __init__(self, metadata: MetadataStore, view: ClusterView) -> None:
        self._metadata = metadata
        self._view = view
        self._lock = asyncio.Lock()
        self._begun = 0
        self._last: tuple[int, Look] | None = None
        self._next_at_s = 0.0

    async def require(self, partitions: Iterable[PartitionId]) -> None:
        """Raises `UnknownTopicError` for a partition that does not exist, `InvalidTopicError` for the cluster's own
        topics, and `MetadataUnavailableError` when etcd cannot be read.
        """
        unseen = [partition for partition in partitions if not self._sees(partition)]
        if not unseen:
            return
        known = (await self.look()).partitions
        for topic_id, partition in unseen:
            if partition >= known.get(topic_id, 0):
                raise UnknownTopicError(
                    "there is no such partition, so it takes part in no transaction: create the topic first",
                    topic_id=topic_id,
                    partition=partition,
                )

    def _sees(self, partition: PartitionId) -> bool:
        topic = self._view.topic_by_id(partition.topic_id)
        if topic is None:
            return False
        require_access(topic.name, TopicOperation.WRITE)
        if topic.name in cluster_keys.INTERNAL_TOPICS:
            raise InvalidTopicError("the cluster's own topics take part in no transaction", topic=topic.name)
        return partition.partition < topic.partitions

    async def look(self) -> Look:
        """Returns the topics that are in etcd now. Raises `MetadataUnavailableError`."""
        asked = self._begun
        async with self._lock:
            if self._last is not None and self._last[0] > asked:
                return self._last[1]
            loop = asyncio.get_running_loop()
            await asyncio.sleep(max(0.0, self._next_at_s - loop.time()))
            self._begun += 1
            number, began_s = self._begun, loop.time()
            newest_before = self._view.newest_revision
            try:
                listing = await self._metadata.list(cluster_keys.TOPICS)
                topics = [cluster_keys.Topic.decode(item.value) for item in listing.items]
            except BaseException:
                self._next_at_s = loop.time() + _PAUSE_S  # how long it took says nothing of what an answer costs etcd
                raise
            self._next_at_s = loop.time() + max(_PAUSE_S, _PAUSE_PER_LOOK * (loop.time() - began_s))
            look = Look({topic.topic_id: topic.partitions for topic in topics}, listing.revision, newest_before)
            self._last = (number, look)
            return look

    async def partitions_of(self, topic_ids: Iterable[str]) -> dict[str, int]:
        """Returns how many partitions each topic has now; 0 = it was deleted. A topic that etcd may have lost in a
        restore is left out: its log is kept. Raises `MetadataUnavailableError`.
        """
        look = await self.look()
        wanted = list(dict.fromkeys(topic_ids))
        found = {topic_id: look.partitions[topic_id] for topic_id in wanted if topic_id in look.partitions}
        missing = [topic_id for topic_id in wanted if topic_id not in found]
        if missing:
            found |= await self._proven_gone(missing, look)
        return found

    async def _proven_gone(self, missing: list[str], look: Look) -> dict[str, int]:
        tombstones = await self._metadata.list(cluster_keys.DELETED_TOPICS)
        deleted = {item.key.removeprefix(cluster_keys.DELETED_TOPICS) for item in tombstones.items}
        went_back = look.revision < look.newest_before
        if went_back or await self._metadata.get(cluster_keys.RESTORED_KEY) is not None:
            return {topic_id: 0 for topic_id in missing if topic_id in deleted}
        return dict.fromkeys(missing, 0)  # includes topics deleted by a controller of a version without tombstones
