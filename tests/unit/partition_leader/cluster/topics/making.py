"""The topics of a small cluster, as the controller makes and keeps them, and brokers that tell which logs they keep."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

from oncelog import errors
from oncelog.types import Buffer, PartitionId
from oncelog.v1 import partition_pb2 as pb
from oncelog.v1 import types_pb2
from oncelog.wire import methods
from oncelog_partition_leader.cluster.topics.creation import TopicCreation
from oncelog_partition_leader.cluster.topics.log_survey import LogSurvey
from oncelog_partition_leader.cluster.topics.topics import Topics
from oncelog_partition_leader.cluster.topics.upkeep import TopicUpkeep
from oncelog_partition_leader.config import BrokerConfig
from oncelog_runtime.metadata.cluster_keys import RESTORED_KEY, DeletedTopic, Topic, deleted_topic_key
from tests.unit.partition_leader import cluster_place
from tests.unit.partition_leader.cluster_place import Place


class Making:
    """The topics of a cluster. `charged`: partitions that were made or removed for a caller. `kept`: broker id -> the
    partitions of which it says that it keeps a log; a broker that is not there does not answer. `older`: the brokers of an
    older version, which do not know the question. `seen`: the brokers that each has seen registered. `slow_s`: how long a
    broker takes to answer.
    """

    def __init__(self, place: Place, **config: Any) -> None:
        self.place = place
        self.charged: list[int] = []
        self.changes = 0
        self.kept: dict[int, list[PartitionId]] = {}
        self.older: set[int] = set()
        self.seen: set[int] = set()
        self.slow_s: dict[int, float] = {}
        options = BrokerConfig(node_id=0, **config)
        self.survey = LogSurvey(place.view, place.transport, place.clock, place.tasks, 1_000, self._changed)
        creation = TopicCreation(place.view, Random(3), place.commit, self._changed, self.survey.result)
        self.topics = Topics(
            options, place.view, place.clock, place.commit, self._changed, self.charged.append, creation
        )
        self.upkeep = TopicUpkeep(options, place.view, place.clock, place.commit, self._changed, creation, self.survey)
        for broker_id in range(6):
            place.transport.serve(f"broker-{broker_id}:9092", methods.REPLICA_STATUS, self._status(broker_id))

    def _changed(self) -> None:
        self.changes += 1

    def _status(self, broker_id: int) -> Any:
        async def status(request: pb.ReplicaStatusRequest, _payload: Buffer) -> tuple[pb.ReplicaStatusReply, Buffer]:
            assert (request.broker.broker_id, request.broker.incarnation) == self.place.ref(broker_id)
            assert (request.kept_logs, request.restored_at) == (True, self.place.view.restored_at())
            await asyncio.sleep(self.slow_s.get(broker_id, 0))
            if broker_id not in self.kept:
                raise errors.RequestTimedOutError()
            reply = pb.ReplicaStatusReply()
            if broker_id not in self.older:
                kept = [
                    types_pb2.TopicPartition(topic_id=p.topic_id, partition=p.partition) for p in self.kept[broker_id]
                ]
                reply.kept.CopyFrom(pb.KeptLogs(partitions=kept, brokers_seen=self.seen))
            return reply, b""

        return status

    async def create(
        self, name: str = "t", partitions: int = 2, replicas: int = 2, nonce: str = "", **more: Any
    ) -> tuple[Topic, bool]:
        options = {"if_not_exists": False, **more}
        return await self.topics.create(name, partitions, replicas, {}, nonce=nonce, **options)

    async def alter(self, partitions: int = 0, **more: Any) -> tuple[Topic, bool]:
        options = {"validate_only": False, **more}
        return await self.topics.alter("t", {}, (), partitions, **options)

    def partitions(self) -> list[int]:
        return sorted(partition.partition for partition in self.place.view.partitions)

    async def tombstone(self, topic_id: str, deleted_ms: int, name: str = "t") -> None:
        await self.place.put(deleted_topic_key(topic_id), DeletedTopic(name, deleted_ms).encode())

    async def restore(self, *forgotten: str, brokers: int = 3) -> None:
        """Etcd comes back from a backup without these keys; so many brokers have noticed that and are registered again."""
        if forgotten:
            await self.place.delete(*forgotten)
        await self.place.put(RESTORED_KEY, b"1")
        self.place.view.restart(await self.place.etcd.list("/oncelog/"))
        for broker_id in range(brokers):
            await self.place.register(broker_id)


def run(scenario: Callable[[Making], Awaitable[None]], brokers: int = 3, **config: Any) -> None:
    async def whole(place: Place) -> None:
        await scenario(Making(place, **config))

    cluster_place.run(whole, brokers=brokers)
