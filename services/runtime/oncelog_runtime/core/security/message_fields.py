"""The fields of requests and answers that the table of rights reads.

Rule: a field is named as in `protos/oncelog/v1/`. The core knows no generated message, so it states here what it needs of
      one; the tests of the table walk it with real messages.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableSequence, Sequence
from typing import Literal, Protocol


class OfTopic(Protocol):
    """A request, or an item of one, that names a topic."""

    topic: str


class OfTopicId(Protocol):
    """A request or an item of one that names a topic by its id."""

    topic_id: str


class OfGroup(Protocol):
    """A request about a consumer group."""

    group_id: str


class OfTransactionalId(Protocol):
    """A request or an item of one about a transactional id; empty = none."""

    transactional_id: str


class OfMember(Protocol):
    """A request of a member of a consumer group."""

    @property
    def member(self) -> OfGroup: ...


class OfNamedTransaction(Protocol):
    """A request about one transaction."""

    @property
    def name(self) -> OfTransactionalId: ...


class TopicRecords(OfTopic, OfTransactionalId, Protocol):
    """`ProduceRecordsRequest`."""


class TopicChange(OfTopic, Protocol):
    """`AlterTopicRequest`: a new number of partitions (0 = no change), options to set, and options to unset."""

    partitions: int

    @property
    def set(self) -> Mapping[str, str]: ...
    @property
    def unset(self) -> Sequence[str]: ...


class DrainRequest(Protocol):
    """A request of a drain or decommission; its action is a number of the wire contract."""

    action: int


class Enrolment(OfNamedTransaction, Protocol):
    """`EnrolPartitionsRequest`."""

    @property
    def partitions(self) -> Sequence[OfTopicId]: ...
    @property
    def groups(self) -> Sequence[str]: ...


class TokenOfApp(Protocol):
    """A token of an application; empty `app_id` = none."""

    app_id: str


class OfToken(OfTransactionalId, Protocol):
    """A request of a Spark run, which may carry a token."""

    @property
    def token(self) -> TokenOfApp: ...


class SentOffsets(OfMember, OfNamedTransaction, Protocol):
    """`SendOffsetsRequest`."""

    @property
    def offsets(self) -> Sequence[OfTopicId]: ...


class DeletedOffsets(OfGroup, Protocol):
    """`DeleteOffsetsRequest`."""

    @property
    def partitions(self) -> Sequence[OfTopicId]: ...


class Subscribed(Protocol):
    """A subscription of a group's member."""

    @property
    def topics(self) -> Sequence[str]: ...


class Heartbeat(OfGroup, Protocol):
    """`GroupHeartbeatRequest`."""

    member_epoch: int
    by_operator: bool

    @property
    def subscription(self) -> Subscribed: ...


class OfChannel(Protocol):
    """A request about a channel of a topic, both by name."""

    topic: str
    channel: str


class OfChannelWork(Protocol):
    """A request of a worker, or about one channel of the topic with this id."""

    topic_id: str
    channel: str


class ChannelSettings(Protocol):
    """`ChannelOptions`."""

    dead_letter_topic: str


class NewChannel(OfChannel, Protocol):
    """`CreateChannelRequest` or `AlterChannelRequest`."""

    @property
    def options(self) -> ChannelSettings: ...


class Settled(OfChannelWork, Protocol):
    """`SettleRequest`."""

    @property
    def transaction(self) -> OfTransactionalId: ...
    def HasField(self, name: Literal["transaction"], /) -> bool: ...  # noqa: N802 - protobuf's name


class OfPrincipal(Protocol):
    """A request about a principal; empty = the caller."""

    principal: str


class OfSubject(Protocol):
    """A request about the subject of a quota; empty = the caller."""

    subject: str


class TopicsRequest(Protocol):
    """`GetMetadataRequest`."""

    all_topics: bool


class NamedItem(Protocol):
    """An item of an answer that has a name."""

    name: str


class TopicsReply(Protocol):
    """`GetMetadataReply`."""

    @property
    def topics(self) -> MutableSequence[NamedItem]: ...


class MovesReply(Protocol):
    """`ListReassignmentsReply`."""

    @property
    def moves(self) -> MutableSequence[OfTopicId]: ...


class OffsetsReply(Protocol):
    """An answer, or a part of one, with offsets of partitions."""

    @property
    def offsets(self) -> MutableSequence[OfTopicId]: ...


class GroupsReply(Protocol):
    """`ListGroupsReply`."""

    @property
    def groups(self) -> MutableSequence[OfGroup]: ...


class CommittedItem(Protocol):
    """A committed offset of a group."""

    @property
    def offset(self) -> OfTopicId: ...


class MemberInfo(Protocol):
    """A member of a group, with all that it reads."""

    @property
    def topics(self) -> MutableSequence[str]: ...
    @property
    def assigned(self) -> MutableSequence[OfTopicId]: ...
    @property
    def revoking(self) -> MutableSequence[OfTopicId]: ...
    @property
    def target(self) -> MutableSequence[OfTopicId]: ...


class GroupReply(Protocol):
    """`DescribeGroupReply`."""

    @property
    def offsets(self) -> MutableSequence[CommittedItem]: ...
    @property
    def pending(self) -> Sequence[OffsetsReply]: ...
    @property
    def members(self) -> Sequence[MemberInfo]: ...


class AssignedTopics(Protocol):
    """Everything that a member owns."""

    @property
    def topics(self) -> MutableSequence[OfTopicId]: ...


class HeartbeatReply(Protocol):
    """`GroupHeartbeatReply`."""

    @property
    def assignment(self) -> AssignedTopics: ...


class ChannelsReply(Protocol):
    """`ListChannelsReply`."""

    @property
    def channels(self) -> MutableSequence[OfChannelWork]: ...


class TransactionInfo(OfTransactionalId, Protocol):
    """A transaction in an answer, with all that it contains."""

    @property
    def partitions(self) -> MutableSequence[OfTopicId]: ...
    @property
    def groups(self) -> MutableSequence[str]: ...
    @property
    def tokens(self) -> MutableSequence[TokenOfApp]: ...


class TransactionsReply(Protocol):
    """`ListTransactionsReply`."""

    @property
    def transactions(self) -> MutableSequence[TransactionInfo]: ...


class TransactionReply(Protocol):
    """`DescribeTransactionReply`."""

    @property
    def transaction(self) -> TransactionInfo: ...
