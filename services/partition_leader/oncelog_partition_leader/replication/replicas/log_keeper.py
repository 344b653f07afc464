"""Opens, closes and removes the logs of replicas. Each step is a task; the partition is `busy` meanwhile.

Rule 1: a log is opened until that succeeds, with growing pauses, while other partitions are served.
Rule 2: a log is removed only when etcd says so (`replica_deletion`), and then it goes to the trash. The log of a topic that
        is merely absent is closed, and kept.
Rule 3: a step ends with another look at the partition (`apply`), since etcd may have changed meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Final

from oncelog.errors import OncelogError, StorageError, UnknownTopicError
from oncelog.types import PartitionId
from oncelog_partition_leader.log.data_dir.leftovers import Leftovers
from oncelog_partition_leader.log.data_dir.replica_deletion import is_deleted, is_moved_away
from oncelog_partition_leader.log.partition_log import PartitionLog
from oncelog_partition_leader.log.topic_config import TopicConfig, effective
from oncelog_partition_leader.partition.partition import LocalPartition
from oncelog_partition_leader.replication.log_opening import LogOpener
from oncelog_partition_leader.replication.replicas.broker_host import BrokerHost
from oncelog_partition_leader.replication.replicas.local_replicas import LocalReplicas, ReplicationContext

_log = logging.getLogger(__name__)
_OPEN_AT_ONCE: Final = 4
_RETRY_S: Final = 0.5
_RETRY_MAX_S: Final = 10.0
"""The longest pause between two tries to open a log."""


class LogKeeper:
    """Takes these steps. `apply(partition_id)` looks at a partition again, after each."""

    def __init__(
        self,
        context: ReplicationContext,
        here: LocalReplicas,
        host: BrokerHost,
        opener: LogOpener,
        leftovers: Leftovers,
        apply: Callable[[PartitionId], None],
    ) -> None:
        self._context = context
        self._view = context.cluster.view
        self._here = here
        self._host = host
        self._opener = opener
        self._leftovers = leftovers
        self._apply = apply
        self._slots = asyncio.Semaphore(_OPEN_AT_ONCE)

    def open(self, partition_id: PartitionId) -> None:
        """Starts to open a log."""
        self._begin(partition_id, self._open(partition_id), "open-partition")

    def close_without_topic(self, partition: LocalPartition) -> None:
        """Starts to close a log whose topic is not in etcd."""
        self._begin(partition.id, self._without_topic(partition), "close-partition")

    def remove(self, partition_id: PartitionId, topic: str) -> None:
        """Starts to remove a replica that was moved away, if there is one here and no step is under way."""
        here, directory = self._here, self._opener.directory_of(topic, partition_id)
        if partition_id in here.busy:
            return
        if partition_id in here.partitions or self._context.ports.disk.exists(directory):
            self._begin(partition_id, self._remove(partition_id, topic), "remove-replica")

    def _begin(self, partition_id: PartitionId, step: Coroutine[object, object, None], name: str) -> None:
        self._here.busy[partition_id] = None
        self._context.tasks.spawn(step, name)

    async def _open(self, partition_id: PartitionId, *, rescan: bool = False) -> None:
        """Opens a log; tries until it succeeds, or the topic is gone."""
        pause_s = _RETRY_S
        while not self._here.closing:
            topic = self._view.topic_by_id(partition_id.topic_id)
            if topic is None:
                break
            name = f"{topic.name}-{partition_id.partition}"
            try:
                config = effective(topic.config, self._context.defaults)
                async with self._slots:
                    log = await self._opener.open(partition_id, topic.name, config.log, rescan=rescan)
            except OncelogError as error:
                _log.error("the log of %s cannot be opened, it is tried again in %.1f s: %s", name, pause_s, error)
                self._here.unopened[partition_id] = error
            except Exception as error:
                self._here.unopened[partition_id] = self._context.bugs.met("open", error, name)
            else:
                self._opened(partition_id, topic.name, log, config)
                break
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _RETRY_MAX_S)
        self._here.unopened.pop(partition_id, None)
        self._done(partition_id)

    def _opened(self, partition_id: PartitionId, topic: str, log: PartitionLog, config: TopicConfig) -> None:
        partition = LocalPartition(self._host, partition_id, topic, log, config)
        self._opener.opened(partition)
        self._here.partitions[partition_id] = partition
        log.tell_changes(partial(self._here.changed.__setitem__, partition, None))

    def _done(self, partition_id: PartitionId) -> None:
        self._here.busy.pop(partition_id, None)
        self._apply(partition_id)

    async def reopen(self, partition_id: PartitionId) -> None:
        """Closes a log that failed and opens it again; a rotten one is checked from its beginning."""
        self._opener.failed(partition_id)
        partition = self._here.partitions.pop(partition_id, None)
        if partition is None:
            return
        self._here.busy[partition_id] = None
        is_rotten = partition.failed is not None and partition.failed.context.get("reason") == "rot"
        try:
            await partition.close(clean=False)
        except OncelogError as error:
            _log.warning("closing the failed log of %s: %s", partition_id, error)
        await self._open(partition_id, rescan=is_rotten)

    async def _without_topic(self, partition: LocalPartition) -> None:
        """Closes a log whose topic is not in etcd, and trashes it if the topic was deleted."""
        if self._here.partitions.get(partition.id) is not partition:
            return  # being opened again, which ends without a topic
        del self._here.partitions[partition.id]
        name = f"{partition.topic}-{partition.id.partition}"
        partition.stop_leading(UnknownTopicError("the topic is not in etcd", topic=partition.topic))
        try:
            deleted = await is_deleted(self._context.ports.metadata, partition.id.topic_id)
        except asyncio.CancelledError:
            self._put_back(partition.id, partition)
            self._here.busy.pop(partition.id, None)
            raise
        try:
            await partition.close(clean=not deleted and partition.failed is None)
        except OncelogError as error:
            _log.warning("closing %s: %s", name, error)
        self._here.failed_under.pop(partition.id, None)
        self._here.busy.pop(partition.id, None)
        if deleted:
            _log.info("%s: the topic was deleted", name)
            self._opener.forget(partition.id)
            await self._leftovers.trash_all(self._leftovers.of(partition.id))
        else:
            _log.error("%s: etcd does not know the topic, but nobody has deleted it; its log is closed and kept", name)
            self._view.on_doubt()  # it may have been restored: better to look now than with the next pulse
        self._apply(partition.id)

    async def _remove(self, partition_id: PartitionId, topic: str) -> None:
        """Removes a replica that was moved away, if etcd confirms it."""
        here, name = self._here, f"{topic}-{partition_id.partition}"
        partition = here.partitions.pop(partition_id, None)
        try:
            if await self._is_moved_away(partition_id, partition):
                _log.info("removing the replica of %s: it was moved", name)
                if partition is not None:
                    await partition.close(clean=False)
                for folder in self._leftovers.of(partition_id):
                    await self._leftovers.put_away(folder)
                self._opener.forget(partition_id)
            elif partition is not None and (partition.failed is None or partition_id in here.failed_under):
                here.partitions[partition_id] = partition
            elif partition is not None:  # it failed, and there is a new incarnation since: opened again
                await partition.close(clean=False)
        except OncelogError as error:
            _log.warning("removing the replica of %s: %s", name, error)
            await asyncio.sleep(_RETRY_S)
        finally:
            here.busy.pop(partition_id, None)
        self._apply(partition_id)

    async def _is_moved_away(self, partition_id: PartitionId, partition: LocalPartition | None) -> bool:
        """Asks etcd about a replica that takes no messages meanwhile.

        Not before this process is registered: until then it is not known whether etcd was restored while it was down.
        """
        broker_id, metadata = self._context.config.broker_id, self._context.ports.metadata
        try:
            while not self._context.cluster.me().incarnation:  # noqa: ASYNC110
                await asyncio.sleep(_RETRY_S)
            return await is_moved_away(metadata, self._view, partition_id, broker_id)
        except asyncio.CancelledError:
            self._put_back(partition_id, partition)
            raise

    def _put_back(self, partition_id: PartitionId, partition: LocalPartition | None) -> None:
        """Puts a replica back when the broker stops during a question to etcd, so that its log is closed with all others."""
        if partition is not None:
            self._here.partitions[partition_id] = partition

    async def close_all(self, *, clean: bool) -> bool:
        """Closes every log, and begins no step any more. True when all were closed cleanly."""
        here = self._here
        here.closing = True
        all_clean = clean and not here.busy
        for partition in list(here.partitions.values()):
            all_clean = all_clean and partition.failed is None
            try:
                await partition.close(clean=clean)
            except OncelogError as error:
                all_clean = False
                _log.warning("closing %s: %s", partition.id, error)
        return all_clean

    def require_open(self, partition_id: PartitionId) -> LocalPartition:
        """Returns a replica whose log can tell its end. Raises `StorageError`."""
        partition = self._here.partitions.get(partition_id)
        if partition is None or partition.failed is not None or partition.exclusive.locked():
            why = self._here.unopened.get(partition_id)
            raise StorageError("the log is not open", reason="opening", cause=why.message if why is not None else "")
        return partition
