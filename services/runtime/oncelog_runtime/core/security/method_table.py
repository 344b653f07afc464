"""The table of rights: what each remote method requires of its caller. docs/security.md shows it to people.

Rule 1: every method has a row (a test walks them); a method without one is refused to every caller.
Rule 2: `asks` are about the whole request: a refusal refuses all of it, before anything was looked at. `each` is about
        the items of a request: a refused item gets its error in its place, and the others are served.
Rule 3: `hides` removes from an answer what the caller may not describe, as if it did not exist.
Rule 4: existence is not revealed. A question about a name is decided by the name alone. A question about a topic id
        whose topic the caller may not describe is answered as for an unknown id.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableSequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeVar

from oncelog.core.names import WAITING_PREFIX
from oncelog_runtime.core.security import message_fields as f
from oncelog_runtime.core.security.access import Access
from oncelog_runtime.core.security.acl import CLUSTER_NAME, Operation, ResourceType

T = TypeVar("T")
_O, _R = Operation, ResourceType
_DRAIN_STATUS: Final = 0
_DECOMMISSION_STATUS: Final = 0
_LEAVE: Final = -1
"""The epoch in the heartbeat of a member that leaves, or that an operator removes."""


class Question(NamedTuple):
    """Asks whether the caller may do this. `by_id`: `name` is a topic id. `anywhere`: on any resource of the type."""

    operation: Operation
    resource_type: ResourceType
    name: str
    by_id: bool = False
    anywhere: bool = False

    def holds(self, access: Access) -> bool:
        """True when the caller may."""
        if self.by_id:
            return access.allows_topic(self.operation, self.name)
        if self.anywhere:
            return access.allows_any(self.operation, self.resource_type)
        return access.allows(self.operation, self.resource_type, self.name)


Alternatives = tuple[Question, ...]
"""One of them is enough; a refusal names the first one."""
Item = str | f.OfTopicId
"""An item of a request: the name of a topic, or a message that holds the id of one."""
Asks = Callable[[Any], Iterator[Alternatives]]
Hides = Callable[[Any, Any, Access], None]
"""(request, reply, caller): removes items from the reply."""


@dataclass(frozen=True, slots=True)
class Each:
    """The rights on the items of a request. `field` of the request holds them; `answers` is the field of the reply,
    with an answer for each item in the same order, or (`errors_only`) only with those that failed.

    `operation` is required on the topic whose id each item names; where items are names, `by_name` is the field of an
    answer for it. `asks`: further questions about an item. `applies`: whether the items of this request count at all.
    `says_more`: the method is useful without any item too.
    """

    field: str
    operation: Operation
    answers: str
    by_name: str = ""
    asks: Asks | None = None
    errors_only: bool = False
    applies: Callable[[Any], bool] | None = None
    says_more: bool = False

    def questions(self, item: Item) -> Iterator[Alternatives]:
        """Yields all questions about one item."""
        yield (self.question(item),)
        if self.asks is not None:
            yield from self.asks(item)

    def question(self, item: Item) -> Question:
        """Returns the question about the topic of an item."""
        if isinstance(item, str):
            return Question(self.operation, _R.TOPIC, item)
        return Question(self.operation, _R.TOPIC, item.topic_id, by_id=True)


@dataclass(frozen=True, slots=True)
class Row:
    """The rights that one method requires."""

    asks: Asks | None = None
    each: Each | None = None
    hides: Hides | None = None


# ---------------------------------------------------------------- questions


def _one(operation: Operation, resource_type: ResourceType, name: str, *, by_id: bool = False) -> Alternatives:
    return (Question(operation, resource_type, name, by_id),)


def _cluster(operation: Operation) -> Asks:
    def asks(_request: object) -> Iterator[Alternatives]:
        yield _one(operation, _R.CLUSTER, CLUSTER_NAME)

    return asks


def _topic(operation: Operation) -> Asks:
    def asks(request: f.OfTopic) -> Iterator[Alternatives]:
        yield _one(operation, _R.TOPIC, request.topic)

    return asks


def _topic_id(operation: Operation) -> Asks:
    def asks(request: f.OfTopicId) -> Iterator[Alternatives]:
        yield _one(operation, _R.TOPIC, request.topic_id, by_id=True)

    return asks


def _group(operation: Operation) -> Asks:
    def asks(request: f.OfGroup) -> Iterator[Alternatives]:
        yield _one(operation, _R.GROUP, request.group_id)

    return asks


def _transactional_id(operation: Operation) -> Asks:
    def asks(request: f.OfTransactionalId) -> Iterator[Alternatives]:
        yield _one(operation, _R.TRANSACTIONAL_ID, request.transactional_id)

    return asks


def _named_transaction(request: f.OfNamedTransaction) -> Iterator[Alternatives]:
    yield _one(_O.WRITE, _R.TRANSACTIONAL_ID, request.name.transactional_id)


def _item_of_transaction(item: f.OfTransactionalId) -> Iterator[Alternatives]:
    if item.transactional_id:
        yield _one(_O.WRITE, _R.TRANSACTIONAL_ID, item.transactional_id)


def _produce_records(request: f.TopicRecords) -> Iterator[Alternatives]:
    yield _one(_O.WRITE, _R.TOPIC, request.topic)
    yield from _item_of_transaction(request)


def _create_topic(request: f.OfTopic) -> Iterator[Alternatives]:
    """A principal that may write to a topic may have its waiting topic made."""
    if request.topic.startswith(WAITING_PREFIX):
        yield _one(_O.WRITE, _R.TOPIC, request.topic)
        return
    yield (Question(_O.CREATE, _R.TOPIC, request.topic), Question(_O.CREATE, _R.CLUSTER, CLUSTER_NAME))


def _alter_topic(request: f.TopicChange) -> Iterator[Alternatives]:
    if request.partitions:
        yield _one(_O.ALTER, _R.TOPIC, request.topic)
    if request.set or request.unset or not request.partitions:
        yield _one(_O.ALTER_CONFIGS, _R.TOPIC, request.topic)


def _unless_status(status: int) -> Asks:
    def asks(request: f.DrainRequest) -> Iterator[Alternatives]:
        operation = _O.DESCRIBE if request.action == status else _O.ALTER
        yield _one(operation, _R.CLUSTER, CLUSTER_NAME)

    return asks


def _init_producer_id(request: f.OfTransactionalId) -> Iterator[Alternatives]:
    if request.transactional_id:
        yield _one(_O.WRITE, _R.TRANSACTIONAL_ID, request.transactional_id)
    else:
        yield (
            Question(_O.IDEMPOTENT_WRITE, _R.CLUSTER, CLUSTER_NAME),
            Question(_O.WRITE, _R.TOPIC, "", anywhere=True),
        )


def _enrol(request: f.Enrolment) -> Iterator[Alternatives]:
    yield from _named_transaction(request)
    for item in request.partitions:
        yield _one(_O.WRITE, _R.TOPIC, item.topic_id, by_id=True)
    for group in request.groups:
        yield _one(_O.READ, _R.GROUP, group)


def _with_token(request: f.OfToken) -> Iterator[Alternatives]:
    yield _one(_O.WRITE, _R.TRANSACTIONAL_ID, request.transactional_id)
    if request.token.app_id:
        yield _one(_O.WRITE, _R.TOKEN_APP_ID, request.token.app_id)


def _commit_offsets(request: f.OfMember) -> Iterator[Alternatives]:
    yield _one(_O.READ, _R.GROUP, request.member.group_id)


def _send_offsets(request: f.SentOffsets) -> Iterator[Alternatives]:
    yield from _named_transaction(request)
    yield _one(_O.READ, _R.GROUP, request.member.group_id)
    for item in request.offsets:
        yield _one(_O.READ, _R.TOPIC, item.topic_id, by_id=True)


def _group_heartbeat(request: f.Heartbeat) -> Iterator[Alternatives]:
    removes = request.by_operator and request.member_epoch == _LEAVE
    yield _one(_O.DELETE if removes else _O.READ, _R.GROUP, request.group_id)
    for topic in request.subscription.topics:
        yield _one(_O.DESCRIBE, _R.TOPIC, topic)


def _delete_offsets(request: f.DeletedOffsets) -> Iterator[Alternatives]:
    yield _one(_O.DELETE, _R.GROUP, request.group_id)
    for item in request.partitions:
        yield _one(_O.READ, _R.TOPIC, item.topic_id, by_id=True)


def _channel(operation: Operation, topic_operation: Operation) -> Asks:
    """Asks for the channel, a resource of the type group, and for its topic by name."""

    def asks(request: f.OfChannel) -> Iterator[Alternatives]:
        yield _one(operation, _R.GROUP, request.channel)
        yield _one(topic_operation, _R.TOPIC, request.topic)

    return asks


def _work(operation: Operation) -> Asks:
    """Asks for the channel, and for its topic by id."""

    def asks(request: f.OfChannelWork) -> Iterator[Alternatives]:
        yield _one(operation, _R.GROUP, request.channel)
        yield _one(operation, _R.TOPIC, request.topic_id, by_id=True)

    return asks


def _settle(request: f.Settled) -> Iterator[Alternatives]:
    yield from _work(_O.READ)(request)
    if request.HasField("transaction"):
        yield _one(_O.WRITE, _R.TRANSACTIONAL_ID, request.transaction.transactional_id)


def _create_channel(request: f.NewChannel) -> Iterator[Alternatives]:
    """A channel takes no more than a group that begins to read; who may write dead letters is asked here, once for all."""
    yield from _channel(_O.READ, _O.READ)(request)
    yield from _dead_letters(request)


def _alter_channel(request: f.NewChannel) -> Iterator[Alternatives]:
    yield from _channel(_O.READ, _O.READ)(request)
    yield from _dead_letters(request)


def _dead_letters(request: f.NewChannel) -> Iterator[Alternatives]:
    if request.options.dead_letter_topic:
        yield _one(_O.WRITE, _R.TOPIC, request.options.dead_letter_topic)


def _check_acl(request: f.OfPrincipal) -> Iterator[Alternatives]:
    if request.principal:  # without one it is about the caller itself, which is always allowed
        yield _one(_O.DESCRIBE, _R.CLUSTER, CLUSTER_NAME)


def _describe_quota(request: f.OfSubject) -> Iterator[Alternatives]:
    if request.subject:  # without one it is about the caller itself, which is always allowed
        yield _one(_O.DESCRIBE_CONFIGS, _R.CLUSTER, CLUSTER_NAME)


# ---------------------------------------------------------------- what is left out of answers


def _keep(items: MutableSequence[T], is_seen: Callable[[T], bool]) -> None:
    """Drops items that are not visible from a repeated field."""
    hidden = [number for number, item in enumerate(items) if not is_seen(item)]
    for number in reversed(hidden):
        del items[number]


def _sees_topic(access: Access, topic_id: str) -> bool:
    return access.allows_topic(_O.DESCRIBE, topic_id)


def _metadata(request: f.TopicsRequest, reply: f.TopicsReply, access: Access) -> None:
    """Hides topics when all were requested. Topics requested by name are items of the request."""
    if request.all_topics:
        _keep(reply.topics, lambda topic: access.allows(_O.DESCRIBE, _R.TOPIC, topic.name))


def _moves(_request: object, reply: f.MovesReply, access: Access) -> None:
    _keep(reply.moves, lambda move: _sees_topic(access, move.topic_id))


def _fetched_offsets(_request: object, reply: f.OffsetsReply, access: Access) -> None:
    _keep(reply.offsets, lambda item: _sees_topic(access, item.topic_id))


def _groups(_request: object, reply: f.GroupsReply, access: Access) -> None:
    _keep(reply.groups, lambda group: access.allows(_O.DESCRIBE, _R.GROUP, group.group_id))


def _described_group(_request: object, reply: f.GroupReply, access: Access) -> None:
    _keep(reply.offsets, lambda item: _sees_topic(access, item.offset.topic_id))
    for pending in reply.pending:
        _keep(pending.offsets, lambda item: _sees_topic(access, item.topic_id))
    for member in reply.members:
        for topics in (member.assigned, member.revoking, member.target):
            _keep(topics, lambda item: _sees_topic(access, item.topic_id))
        _keep(member.topics, lambda topic: access.allows(_O.DESCRIBE, _R.TOPIC, topic))


def _assignment(_request: object, reply: f.HeartbeatReply, access: Access) -> None:
    _keep(reply.assignment.topics, lambda item: _sees_topic(access, item.topic_id))


def _channels(_request: object, reply: f.ChannelsReply, access: Access) -> None:
    _keep(
        reply.channels,
        lambda found: access.allows(_O.DESCRIBE, _R.GROUP, found.channel) and _sees_topic(access, found.topic_id),
    )


def _transactions(_request: object, reply: f.TransactionsReply, access: Access) -> None:
    _keep(reply.transactions, lambda info: access.allows(_O.DESCRIBE, _R.TRANSACTIONAL_ID, info.transactional_id))
    for info in reply.transactions:
        _parts(info, access)


def _described_transaction(_request: object, reply: f.TransactionReply, access: Access) -> None:
    _parts(reply.transaction, access)


def _parts(info: f.TransactionInfo, access: Access) -> None:
    _keep(info.partitions, lambda item: _sees_topic(access, item.topic_id))
    _keep(info.groups, lambda group: access.allows(_O.DESCRIBE, _R.GROUP, group))
    _keep(info.tokens, lambda token: access.allows(_O.DESCRIBE, _R.TOKEN_APP_ID, token.app_id))


# ---------------------------------------------------------------- the table

_SERVICES: Final = Row(_cluster(_O.CLUSTER_ACTION))
_ALTERS_CLUSTER: Final = Row(_cluster(_O.ALTER))
_DESCRIBES_CLUSTER: Final = Row(_cluster(_O.DESCRIBE))
_WRITES_TRANSACTION: Final = Row(_named_transaction)

TABLE: Final[dict[str, Row]] = {
    "PartitionLeader.Produce": Row(each=Each("partitions", _O.WRITE, "partitions", asks=_item_of_transaction)),
    "PartitionLeader.Fetch": Row(each=Each("partitions", _O.READ, "partitions")),
    "PartitionLeader.ProduceRecords": Row(_produce_records),
    "PartitionLeader.FetchRecords": Row(_topic(_O.READ)),
    "PartitionLeader.ListOffsets": Row(each=Each("partitions", _O.DESCRIBE, "partitions")),
    "PartitionLeader.OffsetForLeaderEpoch": Row(_topic_id(_O.DESCRIBE)),
    "PartitionLeader.GetProducerState": Row(_topic_id(_O.WRITE)),
    "PartitionLeader.DescribeProducers": Row(_topic_id(_O.READ)),
    "PartitionLeader.DeleteRecords": Row(_topic_id(_O.DELETE)),
    "PartitionLeader.CancelDelayed": Row(_topic_id(_O.WRITE)),
    "PartitionLeader.DescribeDelayed": Row(_topic_id(_O.DESCRIBE)),
    "PartitionLeader.GetMetadata": Row(
        each=Each(
            *("topics", _O.DESCRIBE, "topics"),
            by_name="name",
            applies=lambda request: not request.all_topics,
            says_more=True,
        ),
        hides=_metadata,
    ),
    "PartitionLeader.CreateTopic": Row(_create_topic),
    "PartitionLeader.DeleteTopic": Row(_topic(_O.DELETE)),
    "PartitionLeader.AlterTopic": Row(_alter_topic),
    "PartitionLeader.DescribeTopicConfigs": Row(each=Each("topics", _O.DESCRIBE_CONFIGS, "topics", by_name="topic")),
    "PartitionLeader.DescribePartitions": Row(each=Each("partitions", _O.DESCRIBE, "partitions")),
    "PartitionLeader.DrainBroker": Row(_unless_status(_DRAIN_STATUS)),
    "PartitionLeader.ReassignPartitions": _ALTERS_CLUSTER,
    "PartitionLeader.ListReassignments": Row(_cluster(_O.DESCRIBE), hides=_moves),
    "PartitionLeader.TransferLeadership": _ALTERS_CLUSTER,
    "PartitionLeader.SurveyReplicas": _DESCRIBES_CLUSTER,
    "PartitionLeader.ElectUnclean": _ALTERS_CLUSTER,
    "PartitionLeader.DecommissionBrokers": Row(_unless_status(_DECOMMISSION_STATUS)),
    "Channels.CreateChannel": Row(_create_channel),
    "Channels.AlterChannel": Row(_alter_channel),
    "Channels.DeleteChannel": Row(_channel(_O.DELETE, _O.DESCRIBE)),
    "Channels.ListChannels": Row(hides=_channels),
    "Channels.Receive": Row(_work(_O.READ)),
    "Channels.Settle": Row(_settle),
    "Channels.Claim": Row(_work(_O.READ)),
    "Channels.DescribeChannel": Row(_work(_O.DESCRIBE)),
    "Channels.SeekChannel": Row(_work(_O.READ)),
    "Security.CreateAcls": _ALTERS_CLUSTER,
    "Security.DeleteAcls": _ALTERS_CLUSTER,
    "Security.ListAcls": _DESCRIBES_CLUSTER,
    "Security.CheckAcl": Row(_check_acl),
    "Security.AlterUser": _ALTERS_CLUSTER,
    "Security.DeleteUser": _ALTERS_CLUSTER,
    "Security.ListUsers": _DESCRIBES_CLUSTER,
    "Security.AlterQuotas": Row(_cluster(_O.ALTER_CONFIGS)),
    "Security.ListQuotas": Row(_cluster(_O.DESCRIBE_CONFIGS)),
    "Security.DescribeQuota": Row(_describe_quota),
    "PartitionLeader.Replicate": _SERVICES,
    "PartitionLeader.WriteTxnMarkers": _SERVICES,
    "PartitionLeader.SyncReplica": _SERVICES,
    "PartitionLeader.ReportBroker": _SERVICES,
    "PartitionLeader.Ping": _SERVICES,
    "PartitionLeader.ReplicaStatus": _SERVICES,
    "Coordinator.InitProducerId": Row(_init_producer_id),
    "Coordinator.EnrolPartitions": Row(_enrol),
    "Coordinator.EndTransaction": _WRITES_TRANSACTION,
    "Coordinator.GetOutcome": Row(_transactional_id(_O.DESCRIBE)),
    "Coordinator.JoinTransaction": Row(_with_token),
    "Coordinator.RenewTransaction": _WRITES_TRANSACTION,
    "Coordinator.CommitTransaction": Row(_with_token),
    "Coordinator.AbortTransaction": Row(_with_token),
    "Coordinator.ResolveTransaction": _SERVICES,
    "Coordinator.CommitOffsets": Row(_commit_offsets, Each("offsets", _O.READ, "errors", errors_only=True)),
    "Coordinator.FetchOffsets": Row(_group(_O.DESCRIBE), hides=_fetched_offsets),
    "Coordinator.SendOffsets": Row(_send_offsets),
    "Coordinator.GroupHeartbeat": Row(_group_heartbeat, hides=_assignment),
    "Coordinator.WriteGroupMarkers": _SERVICES,
    "Coordinator.OpenChannelPartition": _SERVICES,
    "Coordinator.WriteChannelState": _SERVICES,
    "Coordinator.SendChannelAcks": _SERVICES,
    "Coordinator.ListTransactions": Row(hides=_transactions),
    "Coordinator.DescribeTransaction": Row(_transactional_id(_O.DESCRIBE), hides=_described_transaction),
    "Coordinator.ForceAbort": _ALTERS_CLUSTER,
    "Coordinator.ListGroups": Row(hides=_groups),
    "Coordinator.DescribeGroup": Row(_group(_O.DESCRIBE), hides=_described_group),
    "Coordinator.DeleteOffsets": Row(_delete_offsets),
    "Coordinator.DrainCoordinator": Row(_unless_status(_DRAIN_STATUS)),
    "PidAllocator.AllocateProducerIds": _SERVICES,
}
