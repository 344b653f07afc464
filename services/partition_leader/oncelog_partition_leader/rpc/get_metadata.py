"""Answers clients' requests for metadata, from this broker's view of etcd."""

from __future__ import annotations

from oncelog.errors import LeaderNotAvailableError, TopicAuthorizationError, UnknownTopicError
from oncelog.types import BrokerRef, Buffer, PartitionId
from oncelog.v1 import partition_pb2 as pb
from oncelog.v1 import types_pb2
from oncelog.wire import methods
from oncelog.wire.wire_errors import to_detail
from oncelog_partition_leader.config import BrokerConfig
from oncelog_runtime.metadata.cluster_keys import INTERNAL_TOPICS, KIND_GROUP, KIND_TXN, Topic
from oncelog_runtime.metadata.cluster_view import ClusterView
from oncelog_runtime.metadata.waiting_topics import is_waiting
from oncelog_runtime.ports import RpcServer
from oncelog_runtime.security.gate import register
from oncelog_runtime.serving.call_context import asked_on
from oncelog_runtime.serving.topic_access import TopicOperation, require_access


class MetadataService:
    """The handler of `GetMetadata`."""

    def __init__(self, config: BrokerConfig, view: ClusterView) -> None:
        self._config = config
        self._view = view

    def register(self, server: RpcServer) -> None:
        """Registers the method with the server."""
        register(server, methods.GET_METADATA, self.get_metadata)

    async def get_metadata(
        self, request: pb.GetMetadataRequest, _payload: Buffer
    ) -> tuple[pb.GetMetadataReply, Buffer]:
        """Answers with the cluster as this broker last saw it. Raises `LeaderNotAvailableError` before its first listing."""
        require_listing(self._view)
        listener = asked_on(client_listener=self._config.has_client_listener)
        return metadata_reply(self._view, request, listener), b""


def require_listing(view: ClusterView) -> None:
    """Raises `LeaderNotAvailableError` before the first listing: what is not in the view may be there."""
    if view.revision == 0:
        raise LeaderNotAvailableError("this broker has not read the cluster's metadata yet")


def to_ref(ref: BrokerRef) -> types_pb2.BrokerRef:
    """Returns the wire form."""
    return types_pb2.BrokerRef(broker_id=ref.broker_id, incarnation=ref.incarnation)


def metadata_reply(view: ClusterView, request: pb.GetMetadataRequest, listener: str) -> pb.GetMetadataReply:
    """Makes the answer: brokers, shards, and the requested topics; an unknown one carries its error.

    Addresses are those of `listener`; producer id services have an internal one only.
    """
    reply = pb.GetMetadataReply(revision=view.revision, searches_logs=not view.logs_are_told)
    if view.cluster is not None:
        reply.cluster_id = view.cluster.cluster_id
        reply.transaction_shard_count = view.cluster.transaction_shards
        reply.group_shard_count = view.cluster.group_shards
    for broker_id, entry in sorted(view.brokers.items()):
        broker = entry.value
        reply.brokers.add(
            broker=to_ref(BrokerRef(broker_id, entry.mod_revision)),
            address=broker.addresses.on(listener),
            rack=broker.rack,
        )
    if view.controller is not None and view.is_live(view.controller.value):
        reply.controller.CopyFrom(to_ref(view.controller.value))
        reply.controller_term = view.controller.mod_revision
    for kind, items in ((KIND_TXN, reply.transaction_shards), (KIND_GROUP, reply.group_shards)):
        for (of_kind, shard), _ in sorted(view.shard_owners.items()):
            owner = view.owner_of(kind, shard) if of_kind == kind else None
            if owner is not None:
                address = owner.addresses.on(listener)
                items.add(shard=shard, address=address, epoch=owner.epoch, trouble=view.trouble_of(kind, shard))
    reply.pid_allocators.extend(sorted(view.allocators))
    for name in sorted(view.topics) if request.all_topics else request.topics:
        _add_topic(view, name, reply.topics.add(name=name))
    return reply


def _add_topic(view: ClusterView, name: str, info: pb.TopicInfo) -> None:
    try:
        topic = view.topic(name)
        require_access(name, TopicOperation.PLACEMENT)
    except (UnknownTopicError, TopicAuthorizationError) as error:
        info.error.CopyFrom(to_detail(error))
        return
    info.topic_id = topic.topic_id
    info.internal = name in INTERNAL_TOPICS or is_waiting(name)
    for key, value in sorted(topic.config.items()):
        info.config.add(name=key, value=value)
    _add_partitions(view, topic, info)


def _add_partitions(view: ClusterView, topic: Topic, info: pb.TopicInfo) -> None:
    for number in range(topic.partitions):
        partition = info.partitions.add(partition=number)
        entry = view.partitions.get(PartitionId(topic.topic_id, number))
        if entry is None:
            continue
        state = entry.value
        partition.leader_epoch = state.leader_epoch
        partition.replicas.extend(state.replicas)
        adding = view.adding(PartitionId(topic.topic_id, number))
        partition.adding.extend(broker_id for broker_id in adding if broker_id in state.replicas)
        partition.isr.extend(map(to_ref, state.isr))
        if state.leader is not None and view.is_live(state.leader):
            partition.leader.CopyFrom(to_ref(state.leader))
