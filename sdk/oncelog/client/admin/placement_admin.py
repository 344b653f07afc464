"""Administration of where partitions stand: leaders and replicas; a part of `client.admin`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from oncelog.client.admin.admin_base import AdminBase
from oncelog.client.admin.descriptions import Reassignment, RefusedMove, ReplicaSurvey, SurveyedReplica
from oncelog.client.consume.offsets import as_partition
from oncelog.errors import UnknownTopicError
from oncelog.types import PartitionId, TopicPartition
from oncelog.v1 import placement_pb2 as pl
from oncelog.wire import methods
from oncelog.wire.wire_errors import from_detail

_STANDINGS: Final = {
    pl.REPLICA_STANDING_INTACT: "intact",
    pl.REPLICA_STANDING_UNCLEAN: "unclean",
    pl.REPLICA_STANDING_LOST: "lost",
}


class PlacementAdmin(AdminBase):
    """See the module."""

    async def _id_of(self, partition: tuple[str, int]) -> PartitionId:
        """Raises `UnknownTopicError`."""
        where = as_partition(partition)
        found = await self._metadata.topic(where.topic, self._context.deadline_ms())
        if not 0 <= where.partition < found.partitions:
            raise UnknownTopicError(
                f"{where.topic} has the partitions 0 to {found.partitions - 1}", partition=where.partition
            )
        return PartitionId(found.topic_id, where.partition)

    async def transfer_leadership(self, topic: str, partition: int, broker_id: int) -> None:
        """Lets another member of the ISR lead. Raises why that cannot be."""
        where = await self._id_of((topic, partition))
        await self._metadata.refresh(self._context.deadline_ms())
        request = pl.TransferLeadershipRequest(topic_id=where.topic_id, partition=where.partition, broker_id=broker_id)
        known = self._metadata.leader(where).leader_epoch
        if known >= 0:
            request.leader_epoch = known
        await self._caller.to_controller(methods.TRANSFER_LEADERSHIP, request)

    async def survey_replicas(self, topic: str, partition: int) -> ReplicaSurvey:
        """Asks every replica of a partition what it has. Raises `UnknownTopicError`."""
        where = await self._id_of((topic, partition))
        request = pl.SurveyReplicasRequest(topic_id=where.topic_id, partition=where.partition)
        reply = await self._caller.to_controller(methods.SURVEY_REPLICAS, request)
        replicas = tuple(
            SurveyedReplica(
                broker_id=item.broker_id,
                answered=item.answered,
                holder=item.holder,
                standing=_STANDINGS.get(item.standing, ""),
                last_epoch=item.last_epoch,
                log_end_offset=item.log_end_offset,
                high_watermark=item.high_watermark,
            )
            for item in reply.replicas
        )
        return ReplicaSurvey(topic, partition, reply.leader_epoch, reply.has_leader, replicas)

    async def elect_unclean(self, topic: str, partition: int, broker_id: int, *, leader_epoch: int) -> None:
        """Makes a replica lead that may lack acknowledged records: what only others had is lost for good.

        `leader_epoch`: as `survey_replicas` told it. Raises `IneligibleReplicaError` when the partition has a leader or has
        changed since, or the broker does not answer.
        """
        where = await self._id_of((topic, partition))
        request = pl.ElectUncleanRequest(
            topic_id=where.topic_id, partition=where.partition, broker_id=broker_id, leader_epoch=leader_epoch
        )
        await self._caller.to_controller(methods.ELECT_UNCLEAN, request)

    async def reassign_partitions(
        self, targets: Mapping[TopicPartition, Sequence[int]] | Mapping[tuple[str, int], Sequence[int]]
    ) -> list[RefusedMove]:
        """(topic, partition) -> broker ids, the preferred leader first; none of them = cancel the move.

        Returns when the moves are durably wanted; `list_reassignments` says how far they are. What was refused is in the
        answer, the others go on. Raises `UnknownTopicError`.
        """
        replicas = {as_partition(partition): brokers for partition, brokers in targets.items()}
        names = {await self._id_of(partition): partition for partition in replicas}
        request = pl.ReassignPartitionsRequest()
        for where, name in names.items():
            request.partitions.add(topic_id=where.topic_id, partition=where.partition, replicas=replicas[name])
        reply = await self._caller.to_controller(methods.REASSIGN_PARTITIONS, request, once=True)
        refused = []
        for item in reply.errors:
            name = names[PartitionId(item.partition.topic_id, item.partition.partition)]
            refused.append(RefusedMove(name.topic, name.partition, from_detail(item.error)))
        return refused

    async def list_reassignments(self) -> list[Reassignment]:
        """Moves under way, by topic and partition, as one broker sees them."""
        reply = await self._caller.to_any_broker(methods.LIST_REASSIGNMENTS, pl.ListReassignmentsRequest())
        return [
            Reassignment(
                topic=move.topic or move.topic_id,
                partition=move.partition,
                original=tuple(move.original),
                target=tuple(move.target),
                replicas=tuple(move.replicas),
                isr=tuple(move.isr),
            )
            for move in sorted(reply.moves, key=lambda move: (move.topic, move.partition))
        ]
