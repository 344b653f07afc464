"""Every field that the table of rights reads is one of the message that comes over the wire."""

from __future__ import annotations

from typing import Any, Final

import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from oncelog.wire import methods
from oncelog_runtime.core.security import message_fields as f

REQUESTS: Final[dict[type, tuple[methods.MethodSpec[Any, Any], ...]]] = {
    f.OfTopic: (methods.FETCH_RECORDS, methods.CREATE_TOPIC, methods.DELETE_TOPIC),
    f.OfTopicId: (methods.OFFSET_FOR_LEADER_EPOCH, methods.GET_PRODUCER_STATE, methods.DELETE_RECORDS),
    f.OfGroup: (methods.FETCH_OFFSETS, methods.DESCRIBE_GROUP),
    f.OfTransactionalId: (methods.INIT_PRODUCER_ID, methods.GET_OUTCOME, methods.DESCRIBE_TRANSACTION),
    f.OfMember: (methods.COMMIT_OFFSETS,),
    f.OfNamedTransaction: (methods.END_TRANSACTION, methods.RENEW_TRANSACTION),
    f.TopicRecords: (methods.PRODUCE_RECORDS,),
    f.TopicChange: (methods.ALTER_TOPIC,),
    f.DrainRequest: (methods.DRAIN_BROKER, methods.DRAIN_COORDINATOR, methods.DECOMMISSION_BROKERS),
    f.Enrolment: (methods.ENROL_PARTITIONS,),
    f.OfToken: (methods.JOIN_TRANSACTION, methods.COMMIT_TRANSACTION, methods.ABORT_TRANSACTION),
    f.SentOffsets: (methods.SEND_OFFSETS,),
    f.DeletedOffsets: (methods.DELETE_OFFSETS,),
    f.Heartbeat: (methods.GROUP_HEARTBEAT,),
    f.OfPrincipal: (methods.CHECK_ACL,),
    f.OfSubject: (methods.DESCRIBE_QUOTA,),
    f.TopicsRequest: (methods.GET_METADATA,),
}
REPLIES: Final[dict[type, tuple[methods.MethodSpec[Any, Any], ...]]] = {
    f.TopicsReply: (methods.GET_METADATA,),
    f.MovesReply: (methods.LIST_REASSIGNMENTS,),
    f.OffsetsReply: (methods.FETCH_OFFSETS,),
    f.GroupsReply: (methods.LIST_GROUPS,),
    f.GroupReply: (methods.DESCRIBE_GROUP,),
    f.TransactionsReply: (methods.LIST_TRANSACTIONS,),
    f.TransactionReply: (methods.DESCRIBE_TRANSACTION,),
}
PARTS: Final[dict[tuple[type, str], type]] = {
    (f.OfMember, "member"): f.OfGroup,
    (f.SentOffsets, "member"): f.OfGroup,
    (f.OfNamedTransaction, "name"): f.OfTransactionalId,
    (f.Enrolment, "name"): f.OfTransactionalId,
    (f.Enrolment, "partitions"): f.OfTopicId,
    (f.SentOffsets, "offsets"): f.OfTopicId,
    (f.DeletedOffsets, "partitions"): f.OfTopicId,
    (f.Heartbeat, "subscription"): f.Subscribed,
    (f.OfToken, "token"): f.TokenOfApp,
    (f.TopicsReply, "topics"): f.NamedItem,
    (f.MovesReply, "moves"): f.OfTopicId,
    (f.OffsetsReply, "offsets"): f.OfTopicId,
    (f.GroupsReply, "groups"): f.OfGroup,
    (f.GroupReply, "offsets"): f.CommittedItem,
    (f.GroupReply, "pending"): f.OffsetsReply,
    (f.CommittedItem, "offset"): f.OfTopicId,
    (f.TransactionsReply, "transactions"): f.TransactionInfo,
    (f.TransactionReply, "transaction"): f.TransactionInfo,
    (f.TransactionInfo, "partitions"): f.OfTopicId,
    (f.TransactionInfo, "tokens"): f.TokenOfApp,
}
"""The type that a part of a message is read as."""


def names_of(fields: type) -> set[str]:
    """The fields that a protocol names, with those that it inherits."""
    found: set[str] = set()
    for kind in fields.__mro__:
        found |= {name for name in getattr(kind, "__annotations__", {}) if not name.startswith("_")}
        found |= {name for name, value in vars(kind).items() if isinstance(value, property)}
    return found


def missing(fields: type, message: Descriptor) -> list[str]:
    """Fields that the message lacks, in it and in its parts."""
    found = []
    for name in sorted(names_of(fields)):
        field: FieldDescriptor | None = message.fields_by_name.get(name)
        if field is None:
            found.append(f"{message.name}.{name}")
        elif (part := PARTS.get((fields, name))) is not None:
            assert field.message_type is not None
            found += missing(part, field.message_type)
    return found


@pytest.mark.parametrize(("fields", "specs"), REQUESTS.items())
def test_requests_have_the_fields_that_questions_are_about(
    fields: type, specs: tuple[methods.MethodSpec[Any, Any], ...]
) -> None:
    assert names_of(fields)
    assert [name for spec in specs for name in missing(fields, spec.request.DESCRIPTOR)] == []


@pytest.mark.parametrize(("fields", "specs"), REPLIES.items())
def test_answers_have_the_fields_of_which_items_are_hidden(
    fields: type, specs: tuple[methods.MethodSpec[Any, Any], ...]
) -> None:
    assert names_of(fields)
    assert [name for spec in specs for name in missing(fields, spec.reply.DESCRIPTOR)] == []


def test_a_field_that_a_message_lacks_is_found() -> None:
    assert missing(f.OfTopic, methods.END_TRANSACTION.request.DESCRIPTOR) == ["EndTransactionRequest.topic"]
