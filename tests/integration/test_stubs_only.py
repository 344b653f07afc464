"""A caller of any language, with the generated stubs alone: no batch format, no metadata, no link, no hash function.

Rule 1: nothing of oncelog is imported but `oncelog.v1`.
Rule 2: every call begins at the one address that the caller was given, and goes where answers send it (`go_to`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import pytest
from google.protobuf import descriptor_pool, json_format, message_factory
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

from oncelog.v1 import coordinator_pb2 as co
from oncelog.v1 import errors_pb2 as err
from oncelog.v1 import partition_pb2 as pb
from oncelog.v1 import security_pb2 as se
from oncelog.v1 import types_pb2
from oncelog.v1.coordinator_pb2_grpc import CoordinatorStub
from oncelog.v1.partition_pb2_grpc import PartitionLeaderStub
from oncelog.v1.security_pb2_grpc import SecurityStub
from oncelog_cli.laptop.local_cluster import LocalCluster

NOW_MS = 1_700_000_000_000
TRIES = 100
AGAIN_S = 0.1
LARGE = [("grpc.max_receive_message_length", 64 << 20)]
"""`FetchRecords` answers with up to 16 MiB."""


def detail_of(error: grpc.RpcError) -> err.ErrorDetail:
    """What the trailer says; empty when no server spoke."""
    trailer = dict(error.trailing_metadata() or ())
    return err.ErrorDetail.FromString(trailer.get("oncelog-error-bin", b""))


class Caller:
    """Knows one address. A method that another process serves is called there from then on."""

    def __init__(self, address: str) -> None:
        self._channels: dict[str, grpc.Channel] = {}
        self.first = address
        self.went_to: list[str] = []

    def channel(self, address: str) -> grpc.Channel:
        if address not in self._channels:
            self._channels[address] = grpc.insecure_channel(address, options=LARGE)
        return self._channels[address]

    def call(self, stub: type[Any], method: str, request: Any) -> Any:
        """The answer of whoever can give it. What may be repeated is asked again, from the beginning, as any client does."""
        address = self.first
        for _ in range(TRIES):
            try:
                return getattr(stub(self.channel(address)), method)(request, timeout=20)
            except grpc.RpcError as error:
                detail = detail_of(error)
                if detail.go_to:
                    address = detail.go_to
                    self.went_to.append(address)
                elif detail.action in (err.ERROR_ACTION_RETRY, err.ERROR_ACTION_REFRESH):
                    time.sleep(AGAIN_S)
                    address = self.first
                else:
                    raise
        raise AssertionError(f"nobody serves {method}; was sent to {self.went_to}")

    def broker(self, method: str, request: Any) -> Any:
        return self.call(PartitionLeaderStub, method, request)

    def coordinator(self, method: str, request: Any) -> Any:
        return self.call(CoordinatorStub, method, request)

    def at_leader(self, method: str, request: Any) -> Any:
        """The only item of an answer by partition, from the leader: who is wrong says so in the item."""
        address = self.first
        for _ in range(TRIES):
            reply = getattr(PartitionLeaderStub(self.channel(address)), method)(request, timeout=20)
            (item,) = reply.partitions
            if not item.HasField("error"):
                return item
            assert item.error.action in (err.ERROR_ACTION_RETRY, err.ERROR_ACTION_REFRESH), item
            address = item.error.go_to or self.first
            if not item.error.go_to:
                time.sleep(AGAIN_S)
        raise AssertionError(item)

    def topic_id(self, topic: str) -> str:
        (info,) = self.broker("GetMetadata", pb.GetMetadataRequest(topics=[topic])).topics
        return str(info.topic_id)

    def session(self, name: str) -> co.InitProducerIdReply:
        request = co.InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=30_000, nonce="1")
        return self.coordinator("InitProducerId", request)  # type: ignore[no-any-return]

    def read(self, topic: str, partition: int) -> list[bytes]:
        request = pb.FetchRecordsRequest(
            topic=topic,
            partition=partition,
            offset=0,
            isolation_level=types_pb2.ISOLATION_LEVEL_READ_COMMITTED,
            max_wait_ms=100,
        )
        values: list[bytes] = []
        while True:
            reply = self.broker("FetchRecords", request)
            values += [record.value for record in reply.records]
            if reply.next_offset >= reply.last_stable_offset:
                return values
            request.offset = reply.next_offset

    def close(self) -> None:
        for channel in self._channels.values():
            channel.close()


@pytest.fixture(params=[0, 1, 2], ids=lambda number: f"broker-{number}")
def caller(cluster: LocalCluster, request: pytest.FixtureRequest) -> Iterator[Caller]:
    """One who was given the address of just this broker."""
    made = Caller(cluster.bootstrap_servers.split(",")[request.param])
    yield made
    made.close()


def records(*values: bytes) -> list[types_pb2.Record]:
    return [types_pb2.Record(key=b"k", value=value, timestamp_ms=NOW_MS) for value in values]


def test_records_without_acks_are_acknowledged_not_thrown_at_the_cluster(
    caller: Caller, new_topic: Callable[..., str]
) -> None:
    """Regression: `acks` left unset was 0, so each answer said base_offset -1, and a record could be lost."""
    topic = new_topic(1)
    request = pb.ProduceRecordsRequest(topic=topic, partition=0, records=records(b"a", b"b"))
    assert not request.HasField("acks")
    assert [caller.broker("ProduceRecords", request).base_offset for _ in range(2)] == [0, 2]
    assert caller.read(topic, 0) == [b"a", b"b", b"a", b"b"]
    request.acks = 0
    assert caller.broker("ProduceRecords", request).base_offset == -1, "who asks for it is not told an offset"


def in_transaction(topic: str, partition: int, name: str, session: co.InitProducerIdReply) -> pb.ProduceRecordsRequest:
    return pb.ProduceRecordsRequest(
        topic=topic,
        partition=partition,
        records=records(b"t"),
        producer_id=session.producer_id,
        producer_epoch=session.producer_epoch,
        transactional_id=name,
        txn_no=session.next_txn_no,
        session_token=session.session_token,
    )


def name_of(name: str, session: co.InitProducerIdReply) -> co.TransactionName:
    return co.TransactionName(
        transactional_id=name,
        txn_shard=session.txn_shard,
        txn_producer_id=session.producer_id,
        txn_no=session.next_txn_no,
        producer_epoch=session.producer_epoch,
        session_token=session.session_token,
    )


def test_records_are_written_and_read(caller: Caller, new_topic: Callable[..., str]) -> None:
    topic = new_topic(1)
    reply = caller.broker("ProduceRecords", pb.ProduceRecordsRequest(topic=topic, records=records(b"a", b"b")))
    assert (reply.partition, reply.base_offset, reply.duplicate) == (0, 0, False)
    assert caller.read(topic, 0) == [b"a", b"b"]


def test_a_repeated_request_of_an_idempotent_caller_is_written_once(
    caller: Caller, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(1)
    session = caller.coordinator("InitProducerId", co.InitProducerIdRequest(nonce="n"))
    request = pb.ProduceRecordsRequest(topic=topic, partition=0, records=records(b"x"), producer_id=session.producer_id)
    first, second = (caller.broker("ProduceRecords", request) for _ in range(2))
    assert (second.base_offset, second.duplicate) == (first.base_offset, True)
    assert caller.read(topic, 0) == [b"x"]


@pytest.mark.parametrize("outcome", ["COMMITTED", "ABORTED"])
def test_a_transaction_over_three_partitions_with_offsets(
    caller: Caller, new_topic: Callable[..., str], outcome: str
) -> None:
    topic, name = new_topic(3), f"stubs-{outcome}-{caller.first}"
    group = f"group-{name}"
    session = caller.session(name)
    for partition in range(3):
        caller.broker("ProduceRecords", in_transaction(topic, partition, name, session))
    position = co.OffsetEntry(topic_id=caller.topic_id(topic), topic=topic, partition=2, offset=1, leader_epoch=-1)
    member = co.GroupMember(group_id=group, member_epoch=-1)
    sent = co.SendOffsetsRequest(name=name_of(name, session), member=member, commit_sequence=1, offsets=[position])
    caller.coordinator("SendOffsets", sent)
    assert caller.read(topic, 0) == []
    assert caller.coordinator("GetOutcome", outcome_of(name, session)).outcome == types_pb2.TRANSACTION_OUTCOME_ONGOING
    decided = types_pb2.TransactionOutcome.Value(f"TRANSACTION_OUTCOME_{outcome}")
    end = co.EndTransactionRequest(name=name_of(name, session), outcome=decided, wait=co.END_WAIT_VISIBLE)
    assert caller.coordinator("EndTransaction", end).visible
    assert caller.coordinator("GetOutcome", outcome_of(name, session)).outcome == decided
    committed = outcome == "COMMITTED"
    assert [caller.read(topic, p) for p in range(3)] == [[b"t"] if committed else []] * 3
    stored = caller.coordinator("FetchOffsets", co.FetchOffsetsRequest(group_id=group, require_stable=True)).offsets
    assert [(item.partition, item.offset) for item in stored] == ([(2, 1)] if committed else [])


def outcome_of(name: str, session: co.InitProducerIdReply) -> co.GetOutcomeRequest:
    return co.GetOutcomeRequest(transactional_id=name, txn_no=session.next_txn_no)


def test_a_member_joins_a_group_hands_over_and_waits_for_news(caller: Caller, new_topic: Callable[..., str]) -> None:
    topic, group = new_topic(4), f"members-{caller.first}"

    def heartbeat(member: str, **more: Any) -> Any:
        return caller.coordinator("GroupHeartbeat", co.GroupHeartbeatRequest(group_id=group, member_id=member, **more))

    def owned(reply: Any) -> list[int]:
        return [number for item in reply.assignment.topics for number in item.partitions]

    first = heartbeat("a", subscription=co.GroupSubscription(version=1, pattern=topic))
    while len(owned(first)) < 4:  # the coordinator has not seen the new topic yet
        number = first.assignment.number
        first = heartbeat("a", member_epoch=first.member_epoch, assignment_received=number, assignment_applied=number)
        time.sleep(AGAIN_S)
    second = heartbeat("b", subscription=co.GroupSubscription(version=1, topics=[topic]))
    epoch, number = first.member_epoch, first.assignment.number
    told = heartbeat("a", member_epoch=epoch, assignment_received=number, assignment_applied=number, max_wait_ms=3_000)
    assert len(owned(told)) == 2, "it is told at once to let go of the others"
    heartbeat(
        "a", member_epoch=epoch, assignment_received=told.assignment.number, assignment_applied=told.assignment.number
    )
    got = heartbeat("b", member_epoch=second.member_epoch, max_wait_ms=3_000)
    assert sorted(owned(got) + owned(told)) == [0, 1, 2, 3]
    described = caller.coordinator("DescribeGroup", co.DescribeGroupRequest(group_id=group))
    assert [member.member_id for member in described.members] == ["a", "b"]
    for member in ("a", "b"):
        heartbeat(member, member_epoch=-1)


def test_offsets_of_many_groups_are_found_whoever_owns_their_shards(
    caller: Caller, new_topic: Callable[..., str]
) -> None:
    """Of twenty names, some belong to either coordinator."""
    topic_id = caller.topic_id(new_topic(1))
    for number in range(20):
        group = f"many-{caller.first}-{number}"
        entry = co.OffsetEntry(topic_id=topic_id, partition=0, offset=number, leader_epoch=-1)
        member = co.GroupMember(group_id=group, member_epoch=-1)
        commit = co.CommitOffsetsRequest(member=member, commit_sequence=1, offsets=[entry])
        assert not caller.coordinator("CommitOffsets", commit).errors
        described = caller.coordinator("DescribeGroup", co.DescribeGroupRequest(group_id=group))
        assert [item.offset.offset for item in described.offsets] == [number]
        deleted = caller.coordinator("DeleteOffsets", co.DeleteOffsetsRequest(group_id=group, all=True))
        assert deleted.deleted == 1
    assert len(set(caller.went_to)) == 2, "both coordinators have served"


def test_a_coordinator_sends_on_to_the_other_one(caller: Caller) -> None:
    """A caller that keeps the address of one coordinator for every name is sent on, too.

    Regression: the error named the shard and no address.
    """
    caller.session("warm-up")
    one = caller.went_to[-1]
    astray = Caller(one)
    try:
        for number in range(20):
            astray.session(f"astray-{caller.first}-{number}")
    finally:
        astray.close()
    assert {one, *astray.went_to} > {one}


def test_topics_are_administered_through_any_broker(caller: Caller) -> None:
    """Regression: CreateTopic and ListOffsets were refused without the address of who serves them."""
    topic = f"administered-{caller.first.replace(':', '-')}"
    created = caller.broker("CreateTopic", pb.CreateTopicRequest(topic=topic, partitions=1, timeout_ms=10_000))
    assert created.created
    option = pb.ConfigEntry(name="retention_ms", value="3600000")
    altered = caller.broker(
        "AlterTopic", pb.AlterTopicRequest(topic=topic, set=[option], partitions=3, timeout_ms=9000)
    )
    assert (altered.partitions, altered.changed) == (3, True)
    caller.broker("ProduceRecords", pb.ProduceRecordsRequest(topic=topic, partition=2, records=records(b"a", b"b")))
    place = {"topic_id": created.topic_id, "partition": 2}
    asked = pb.ListOffsetsRequest(
        isolation_level=types_pb2.ISOLATION_LEVEL_READ_COMMITTED,
        partitions=[pb.ListOffsetsPartition(timestamp_ms=-1, **place)],
    )
    assert caller.at_leader("ListOffsets", asked).offset == 2
    described = pb.DescribePartitionsRequest(partitions=[pb.DescribePartition(**place)])
    assert caller.at_leader("DescribePartitions", described).log_end_offset == 2
    assert caller.broker("DeleteRecords", pb.DeleteRecordsRequest(before_offset=1, **place)).log_start_offset == 1
    quota = se.Quota(subject=f"Address:10.9.8.{len(topic)}", limits=[se.QuotaLimit(kind="connections", limit=9)])
    caller.call(SecurityStub, "AlterQuotas", se.AlterQuotasRequest(set=[quota]))
    removed = se.AlterQuotasRequest(remove=[se.QuotaRemoval(subject=quota.subject)])
    assert caller.call(SecurityStub, "AlterQuotas", removed).removed == 1
    assert caller.broker("DeleteTopic", pb.DeleteTopicRequest(topic=topic)).topic_id == created.topic_id


def test_another_broker_that_is_meant_is_found(caller: Caller) -> None:
    for number in range(3):
        reply = caller.broker("DrainBroker", pb.DrainBrokerRequest(broker_id=number))  # only looks at it
        assert reply.broker.broker_id == number


def test_an_error_comes_as_a_status_with_its_detail_in_the_trailer(caller: Caller) -> None:
    request = pb.FetchRecordsRequest(topic="nobody-made-this", isolation_level=types_pb2.ISOLATION_LEVEL_READ_COMMITTED)
    with pytest.raises(grpc.RpcError) as raised:
        caller.broker("FetchRecords", request)
    assert raised.value.code() is grpc.StatusCode.NOT_FOUND
    detail = detail_of(raised.value)
    assert (detail.code, detail.go_to) == (err.ERROR_CODE_UNKNOWN_TOPIC_OR_PARTITION, "")


def test_what_the_contract_limits_is_refused_with_what_to_do(caller: Caller, new_topic: Callable[..., str]) -> None:
    """Regression: the contract did not name ProduceRecords' limit (1 MiB), nor that CommitOffsets wants a topic's id."""
    topic = new_topic(1)
    with pytest.raises(grpc.RpcError, match="above 1 MiB: use Produce") as too_large:
        caller.broker("ProduceRecords", pb.ProduceRecordsRequest(topic=topic, records=records(bytes(1 << 20))))
    assert detail_of(too_large.value).code == err.ERROR_CODE_MESSAGE_TOO_LARGE
    by_name = co.CommitOffsetsRequest(
        member=co.GroupMember(group_id="by-name", member_epoch=-1),
        offsets=[co.OffsetEntry(topic=topic, partition=0, offset=1, leader_epoch=-1)],
    )
    (refused,) = caller.coordinator("CommitOffsets", by_name).errors
    assert refused.error.code == err.ERROR_CODE_INVALID_REQUEST
    assert "a topic id of 32 hex digits" in refused.error.message


def test_people_see_the_address_in_the_text(caller: Caller) -> None:
    """grpcurl shows no trailers."""
    with pytest.raises(grpc.RpcError, match="a coordinator must answer: go to") as raised:
        CoordinatorStub(caller.channel(caller.first)).FetchOffsets(co.FetchOffsetsRequest(group_id="g"), timeout=20)
    assert raised.value.details().endswith(detail_of(raised.value).go_to)


def test_every_service_describes_itself(caller: Caller) -> None:
    """As grpcurl does it: no stub at all, not even of oncelog.v1; descriptors from the server, JSON in and JSON out."""
    shown = by_json(caller, caller.first, "oncelog.v1.PartitionLeader", "GetMetadata", {})
    address = shown["transaction_shards"][0]["address"]
    assert int(by_json(caller, address, "oncelog.v1.Coordinator", "InitProducerId", {"nonce": "n"})["producer_id"]) > 0
    allocator = shown["pid_allocators"][0]
    found = by_json(caller, allocator, "oncelog.v1.PidAllocator", "AllocateProducerIds", {"count": 2})
    assert sum(item["count"] for item in found["ranges"]) == 2


def by_json(caller: Caller, address: str, service: str, method: str, request: dict[str, Any]) -> dict[str, Any]:
    pool = descriptor_pool.DescriptorPool(ProtoReflectionDescriptorDatabase(caller.channel(address)))
    found = pool.FindServiceByName(service).FindMethodByName(method)
    kinds = [message_factory.GetMessageClass(kind) for kind in (found.input_type, found.output_type)]
    call = caller.channel(address).unary_unary(
        f"/{service}/{method}", lambda message: message.SerializeToString(), kinds[1].FromString
    )
    reply = call(json_format.ParseDict(request, kinds[0]()), timeout=20)
    return dict(json_format.MessageToDict(reply, preserving_proto_field_name=True))
