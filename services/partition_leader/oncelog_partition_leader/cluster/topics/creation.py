"""Creates topics and partitions: decides where their replicas are, and writes their keys. Only the controller uses it.

Rule 1: the key of a topic and all its partitions come in one commit; a topic with very many gets them chunk by chunk
        (`TopicUpkeep`), and each chunk compares the topic's key.
Rule 2: the logs of a new partition are empty, so all its replicas are in sync. After a restore of etcd a partition may have
        logs from before: it is made where they lie (`KeptLogs`), without a leader, and all its replicas are asked (`is_guess`).
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import Final

from oncelog.errors import RequestTimedOutError
from oncelog.types import BrokerRef, PartitionId
from oncelog_partition_leader.cluster.controller_term import Commit
from oncelog_partition_leader.core.cluster.assignment import Candidate, alternate_racks, replicas_of
from oncelog_partition_leader.core.cluster.capacity import check_room, held_by
from oncelog_partition_leader.core.cluster.kept_logs import KeptLogs
from oncelog_runtime.metadata.cluster_keys import (
    Partition,
    Topic,
    broker_key,
    deleted_topic_key,
    partition_key,
    topic_key,
)
from oncelog_runtime.metadata.cluster_view import ClusterView
from oncelog_runtime.metadata.waiting_topics import is_waiting
from oncelog_runtime.ports import Compare, Put

_log = logging.getLogger(__name__)
CHUNK: Final = 50
"""Partitions that are created or removed by one commit."""


class TopicCreation:
    """See the module. `changed()` has the controller look at its topics; `kept()`: what the brokers have told of their logs."""

    def __init__(
        self,
        view: ClusterView,
        random: Random,
        commit: Commit,
        changed: Callable[[], None],
        kept: Callable[[], KeptLogs],
    ) -> None:
        self._view = view
        self._random = random
        self._commit = commit
        self._changed = changed
        self._kept = kept

    def new_id(self) -> str:
        """Returns an id that no topic has had."""
        return f"{self._random.getrandbits(128):032x}"

    def id_among(self, ids: Sequence[str]) -> str:
        """Returns that one of these ids of which a broker keeps logs, or the first."""
        kept = self._kept().of_topics(ids)
        return next((one for one in ids if one in kept), ids[0])

    def check_room(self, topic: Topic, numbers: range) -> None:
        """Raises `PolicyViolationError` unless every broker has room for its share of these new partitions."""
        brokers = self._candidates(topic.replication_factor)
        if not numbers or len(brokers) < topic.replication_factor:
            return
        order, start = alternate_racks(brokers), int(topic.topic_id[:8], 16)
        added = held_by(replicas_of(number, topic.replication_factor, order, start) for number in numbers)
        limits = {broker_id: entry.value.partitions_max for broker_id, entry in self._view.brokers.items()}
        check_room(added, _replicas_held(self._view), limits)

    async def create(self, topic: Topic) -> Topic:
        """Writes a new topic; returns it. Raises `RequestTimedOutError` when the cluster changed meanwhile."""
        topic = self._marked(topic)
        puts = [Put(topic_key(topic.name), topic.encode())]
        compares = [Compare(topic_key(topic.name), 0), Compare(deleted_topic_key(topic.topic_id), 0)]
        if topic.partitions <= CHUNK:  # the usual case: everything at once
            more_compares, more_puts = self.partition_writes(topic, list(range(topic.partitions)))
            compares, puts = compares + more_compares, puts + more_puts
        if not await self._commit(compares, puts):
            # Also when another call has just created it: the next try finds that one, and answers as its caller wants.
            raise RequestTimedOutError("the cluster changed meanwhile: try again", topic=topic.name)
        _log.info("created topic %s (%s), %d partitions", topic.name, topic.topic_id, topic.partitions)
        self._changed()
        return topic

    def _marked(self, topic: Topic) -> Topic:
        """Returns a new topic with the restore after which it is made, unless it may have logs from before."""
        partitions, kept = (PartitionId(topic.topic_id, number) for number in range(topic.partitions)), self._kept()
        may_have_logs = any(self._may_have_logs(topic, partition, kept) for partition in partitions)
        return topic if may_have_logs else replace(topic, made_after=self._view.restored_at())

    def partition_writes(self, topic: Topic, numbers: list[int]) -> tuple[list[Compare], list[Put]]:
        """Makes the writes of new partitions. Leaves out those for which brokers must register or answer first."""
        brokers = self._candidates(topic.replication_factor)
        if len(brokers) < topic.replication_factor:
            return [], []
        order, start, kept = alternate_racks(brokers), int(topic.topic_id[:8], 16), self._kept()
        named: dict[BrokerRef, None] = {}
        compares: list[Compare] = []
        puts: list[Put] = []
        for number in numbers:
            planned = replicas_of(number, topic.replication_factor, order, start)
            value = self._value(topic, PartitionId(topic.topic_id, number), planned, kept)
            if value is None:
                continue
            named.update(dict.fromkeys(ref for ref in value.isr if ref.incarnation))
            key = partition_key(topic.topic_id, number)
            compares.append(Compare(key, 0))
            puts.append(Put(key, value.encode()))
        compares += [Compare(broker_key(ref.broker_id), ref.incarnation) for ref in named]
        return compares, puts

    def _value(
        self, topic: Topic, partition: PartitionId, planned: tuple[int, ...], kept: KeptLogs
    ) -> Partition | None:
        """Returns the value of a new partition (rule 2); None while it cannot be known where its logs lie."""
        live = self._view.live()
        if not self._may_have_logs(topic, partition, kept):
            isr = tuple(BrokerRef(broker_id, live[broker_id]) for broker_id in planned)
            return Partition(topic.name, planned, isr[0], 0, isr)
        replicas = kept.replicas_for(partition, planned)
        if replicas is None:
            return None
        guess = tuple(BrokerRef(broker_id, live.get(broker_id, 0)) for broker_id in replicas)
        return Partition(topic.name, replicas, None, -1, guess)

    def _may_have_logs(self, topic: Topic, partition: PartitionId, kept: KeptLogs) -> bool:
        """True for a partition of a topic from before a restore of etcd. The id of a waiting topic follows from its topic's, so
        it may be one from before until the brokers have told what they keep.
        """
        if topic.made_after == self._view.restored_at():  # also when there was none: both are 0
            return False
        is_known = topic.name in self._view.topics or bool(kept.keepers(partition))
        return is_known or (is_waiting(topic.name) and not self._view.logs_are_told)

    def _candidates(self, needed: int) -> list[Candidate]:
        """Returns the brokers for new replicas: without those out of use and draining, unless too few would remain."""
        brokers = [Candidate(broker_id, entry.value.rack) for broker_id, entry in self._view.brokers.items()]
        in_use = [broker for broker in brokers if broker.broker_id not in self._view.decommissioned]
        draining = self._view.draining_broker()
        staying = [broker for broker in in_use if draining is None or broker.broker_id != draining.broker_id]
        return next((some for some in (staying, in_use) if len(some) >= needed), brokers)


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
