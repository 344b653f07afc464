"""Moves replicas, step by step, for the controller. The decisions are made in `core/cluster/reassignment.py`.

Rule 1: a step is one commit: the partition's new value, under the revisions of partition and move, and the registrations of
        each broker that it names. The last one removes the move too.
Rule 2: the only state is in etcd: any controller continues where the last one stopped.
Rule 3: at most `reassignments_max` moves at a time; the others wait as keys. A move to a broker that is not registered does
        not count, so it holds up no other.
Rule 4: a change of anything that a step depends on wakes the mover: moves, their partitions, brokers, topics' options
        (`saw`), and the set of dead brokers (the controller). A step that could not be taken is tried at no other time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Sequence
from typing import Final

from oncelog.errors import InvalidReplicaAssignmentError, ReassignmentInProgressError, UnknownTopicError
from oncelog.types import BrokerRef, PartitionId
from oncelog_partition_leader.cluster.controller_term import Commit
from oncelog_partition_leader.config import BrokerConfig
from oncelog_partition_leader.core.cluster import reassignment
from oncelog_partition_leader.log.topic_config import TopicConfig, min_insync_of
from oncelog_runtime.metadata.cluster_keys import (
    BROKERS,
    PARTITIONS,
    REASSIGNMENTS,
    TOPICS,
    Partition,
    Reassignment,
    broker_key,
    partition_key,
    reassignment_key,
)
from oncelog_runtime.metadata.cluster_view import ClusterView, Versioned, partition_of
from oncelog_runtime.ports import Compare, MetadataStore, Put

_log = logging.getLogger(__name__)
_AGAIN_S: Final = 0.01
_CHUNK: Final = 50


class Mover:
    """Moves replicas. Only the controller's task uses it, except for operators' requests."""

    def __init__(self, config: BrokerConfig, metadata: MetadataStore, view: ClusterView, commit: Commit) -> None:
        self._defaults = TopicConfig(min_insync_replicas=config.min_insync_replicas)
        self._most = config.reassignments_max
        self._metadata = metadata
        self._view = view
        self._commit = commit
        self.dirty = True

    def saw(self, key: str) -> bool:
        """Notes a changed key of etcd. True when a step may be due."""
        moves = self._view.reassignments
        about_moves = key.startswith(REASSIGNMENTS) or (bool(moves) and key.startswith((BROKERS, TOPICS)))
        if about_moves or (moves and key.startswith(PARTITIONS) and partition_of(key) in moves):
            self.dirty = True
        return self.dirty

    # ------------------------------------------------------------ what is wanted

    async def want(self, moves: dict[PartitionId, tuple[int, ...]]) -> bool:
        """Writes moves of partitions that have none. False: a value changed meanwhile, and not all are written."""
        written = True
        items = sorted(moves.items())
        for start in range(0, len(items), _CHUNK):
            compares: list[Compare] = []
            puts: list[Put] = []
            for partition_id, target in items[start : start + _CHUNK]:
                entry, key = self._view.partitions.get(partition_id), reassignment_key(*partition_id)
                if entry is None:  # deleted while the chunk before was written
                    written = False
                    continue
                compares += [Compare(key, 0), Compare(partition_key(*partition_id), entry.mod_revision)]
                puts.append(Put(key, Reassignment(entry.value.replicas, target).encode()))
                _log.info("replicas of %s shall be %s, not %s", partition_id, target, entry.value.replicas)
            if puts:
                written = await self._commit(compares, puts) and written
        return written

    async def reassign(self, partition_id: PartitionId, target: Sequence[int]) -> None:
        """Starts a move on an operator's request; an empty target cancels it. Safe to repeat.

        Raises `UnknownTopicError`, `InvalidReplicaAssignmentError` or `ReassignmentInProgressError`.
        """
        entry, move = self._view.partitions.get(partition_id), self._view.reassignments.get(partition_id)
        if entry is None:
            raise UnknownTopicError("no such partition", partition=partition_id.partition)
        if not target:
            await self._cancel(partition_id, move)
            return
        wanted = tuple(target)
        self._check(partition_id, wanted)
        if move is not None and move.value.target == wanted:
            return
        if move is not None:
            raise ReassignmentInProgressError(target=",".join(map(str, move.value.target)), retry_after_ms=1_000)
        if entry.value.replicas != wanted and not await self.want({partition_id: wanted}):
            raise ReassignmentInProgressError("the partition changed meanwhile: try again")

    async def _cancel(self, partition_id: PartitionId, move: Versioned[Reassignment] | None) -> None:
        if move is None or move.value.target == move.value.original:
            return
        key = reassignment_key(*partition_id)
        back = Put(key, reassignment.cancelled(move.value).encode())
        if not await self._commit([Compare(key, move.mod_revision)], [back]):
            raise ReassignmentInProgressError("the move went on meanwhile: try again")

    async def give_up_hopeless(self) -> None:
        """Cancels moves to brokers that are not registered."""
        for partition_id, move in sorted(self._view.reassignments.items()):
            gone = [broker_id for broker_id in move.value.adding if broker_id not in self._view.brokers]
            if gone:
                _log.warning("the move of %s is taken back: broker %d is gone", partition_id, gone[0])
                await self._cancel(partition_id, move)

    def _check(self, partition_id: PartitionId, target: tuple[int, ...]) -> None:
        topic = self._view.topic_by_id(partition_id.topic_id)
        unknown = [broker_id for broker_id in target if broker_id not in self._view.brokers]
        if len(set(target)) != len(target) or unknown:
            raise InvalidReplicaAssignmentError(unknown=",".join(map(str, unknown)))
        if topic is not None and len(target) != topic.replication_factor:
            raise InvalidReplicaAssignmentError(
                f"the topic has {topic.replication_factor} replicas, and {len(target)} brokers are given"
            )

    # ------------------------------------------------------------ steps

    async def step(self, dead: Collection[BrokerRef], avoid: Collection[BrokerRef]) -> None:
        """Takes every step that can be taken now. Raises as the controller's commits do."""
        self.dirty = False
        running = 0
        waiting: list[PartitionId] = []
        for partition_id, move in sorted(self._view.reassignments.items()):
            entry = self._view.partitions.get(partition_id)
            if entry is None:
                await self._forget_orphan(partition_id, move)
            elif self._view.is_doubtful(entry):
                pass  # an election comes first: the restored etcd does not know where the replicas are
            elif reassignment.is_done(entry.value, move.value):
                await self._write(partition_id, entry, move, None, done=True)
            elif (last := self._finished(entry.value, move.value, dead, avoid)) is not None:
                await self._write(partition_id, entry, move, last, done=True)
            elif not reassignment.has_begun(entry.value, move.value):
                waiting.append(partition_id)
            else:
                running += all(broker_id in self._view.brokers for broker_id in move.value.target)
        for partition_id in waiting:
            if running >= self._most:
                return
            running += await self._begin(partition_id, dead)

    def _finished(
        self, partition: Partition, move: Reassignment, dead: Collection[BrokerRef], avoid: Collection[BrokerRef]
    ) -> Partition | None:
        return reassignment.finish(partition, move, self._view.live(), self._min_insync(partition), dead, avoid)

    def _min_insync(self, partition: Partition) -> int:
        return min_insync_of(self._view, partition.topic, self._defaults)

    async def _begin(self, partition_id: PartitionId, dead: Collection[BrokerRef]) -> bool:
        entry, move = self._view.partitions.get(partition_id), self._view.reassignments.get(partition_id)
        if entry is None or move is None:
            return False
        wanted = reassignment.begin(entry.value, move.value, self._view.live(), self._min_insync(entry.value), dead)
        return wanted is not None and await self._write(partition_id, entry, move, wanted, done=False)

    async def _write(
        self,
        partition_id: PartitionId,
        entry: Versioned[Partition],
        move: Versioned[Reassignment],
        wanted: Partition | None,
        *,
        done: bool,
    ) -> bool:
        key, move_key = partition_key(*partition_id), reassignment_key(*partition_id)
        compares = [Compare(key, entry.mod_revision), Compare(move_key, move.mod_revision)]
        puts: list[Put] = []
        if wanted is not None:
            live = self._view.live()
            named = {ref.broker_id: ref.incarnation for ref in wanted.isr}
            if not done:
                named |= {broker_id: live[broker_id] for broker_id in move.value.target}
            compares += [Compare(broker_key(broker_id), named[broker_id]) for broker_id in sorted(named)]
            puts.append(Put(key, wanted.encode()))
        if await self._commit(compares, puts, [move_key] if done else []):
            _log.info(
                "replicas of %s: %s", partition_id, f"{(wanted or entry.value).replicas}{'' if done else ' for now'}"
            )
            return True
        await self._look_again(key, move_key)
        return False

    async def _forget_orphan(self, partition_id: PartitionId, move: Versioned[Reassignment]) -> None:
        """Removes a move whose topic was deleted."""
        if partition_id.topic_id not in self._view.topic_names:
            key = reassignment_key(*partition_id)
            compares = [Compare(key, move.mod_revision), Compare(partition_key(*partition_id), 0)]
            if not await self._commit(compares, [], [key]):
                await self._look_again(key)

    async def _look_again(self, *keys: str) -> None:
        """Reads the keys after a failed condition: the view is behind, or a broker died."""
        for key in keys:
            found = await self._metadata.get(key)
            if found is not None:
                self._view.learn([found])
        self.dirty = True
        await asyncio.sleep(_AGAIN_S)
