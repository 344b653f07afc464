"""A caller of any language, with the generated stubs alone: no batch format, no metadata cache, no link.

Rule: nothing of oncelog is imported but `oncelog.v1`.
"""

from __future__ import annotations

from collections.abc import Callable

import grpc
import pytest

from oncelog.v1 import coordinator_pb2 as co
from oncelog.v1 import coordinator_pb2_grpc, partition_pb2_grpc, types_pb2
from oncelog.v1 import errors_pb2 as err
from oncelog.v1 import partition_pb2 as pb
from oncelog_runtime.local import LocalCluster


class Caller:
    """Asks one broker where things are, then calls the right process."""

    def __init__(self, address: str) -> None:
        self._channels = {address: grpc.insecure_channel(address)}
        self._first = address

    def broker(self, address: str = "") -> partition_pb2_grpc.PartitionLeaderStub:
        return partition_pb2_grpc.PartitionLeaderStub(self._channel(address or self._first))

    def coordinator(self, address: str) -> coordinator_pb2_grpc.CoordinatorStub:
        return coordinator_pb2_grpc.CoordinatorStub(self._channel(address))

    def _channel(self, address: str) -> grpc.Channel:
        if address not in self._channels:
            self._channels[address] = grpc.insecure_channel(address)
        return self._channels[address]

    def metadata(self, topic: str) -> pb.GetMetadataReply:
        reply: pb.GetMetadataReply = self.broker().GetMetadata(pb.GetMetadataRequest(topics=[topic]), timeout=10)
        return reply

    def leader(self, topic: str, partition: int) -> partition_pb2_grpc.PartitionLeaderStub:
        reply = self.metadata(topic)
        leaders = {p.partition: p.leader.broker_id for p in reply.topics[0].partitions}
        addresses = {b.broker.broker_id: b.address for b in reply.brokers}
        return self.broker(addresses[leaders[partition]])

    def owner(self, transactional_id: str, topic: str) -> coordinator_pb2_grpc.CoordinatorStub:
        """The transaction shard is FNV-1a (64 bit) of the id, modulo the number of shards."""
        reply = self.metadata(topic)
        value = 0xCBF29CE484222325
        for byte in transactional_id.encode():
            value = ((value ^ byte) * 0x100000001B3) % 2**64
        shard = value % reply.transaction_shard_count
        return self.coordinator(next(o.address for o in reply.transaction_shards if o.shard == shard))

    def read(self, topic: str, partition: int) -> list[bytes]:
        request = pb.FetchRecordsRequest(
            topic=topic, partition=partition, offset=0, isolation_level=types_pb2.READ_COMMITTED, max_wait_ms=100
        )
        values: list[bytes] = []
        while True:
            reply = self.leader(topic, partition).FetchRecords(request, timeout=10)
            values += [record.value for record in reply.records]
            if reply.next_offset >= reply.last_stable_offset:
                return values
            request.offset = reply.next_offset

    def close(self) -> None:
        for channel in self._channels.values():
            channel.close()


@pytest.fixture
def caller(cluster: LocalCluster) -> Caller:
    made = Caller(cluster.bootstrap_servers.split(",")[0])
    yield made  # type: ignore[misc]
    made.close()


def records(*values: bytes) -> list[types_pb2.Record]:
    return [types_pb2.Record(key=b"k", value=value, timestamp_ms=1_700_000_000_000) for value in values]


def test_records_are_written_and_read(caller: Caller, new_topic: Callable[..., str]) -> None:
    topic = new_topic(1)
    request = pb.ProduceRecordsRequest(topic=topic, partition=0, records=records(b"a", b"b"), acks=-1, timeout_ms=5000)
    reply = caller.leader(topic, 0).ProduceRecords(request, timeout=10)
    assert (reply.partition, reply.base_offset, reply.duplicate) == (0, 0, False)
    assert caller.read(topic, 0) == [b"a", b"b"]


def test_a_repeated_request_of_an_idempotent_caller_is_written_once(
    caller: Caller, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(1)
    some = caller.metadata(topic).transaction_shards[0].address
    session = caller.coordinator(some).InitProducerId(co.InitProducerIdRequest(nonce="n"), timeout=10)
    request = pb.ProduceRecordsRequest(
        topic=topic, partition=0, records=records(b"x"), acks=-1, timeout_ms=5000, producer_id=session.producer_id
    )
    first = caller.leader(topic, 0).ProduceRecords(request, timeout=10)
    second = caller.leader(topic, 0).ProduceRecords(request, timeout=10)
    assert (second.base_offset, second.duplicate) == (first.base_offset, True)
    assert caller.read(topic, 0) == [b"x"]


@pytest.mark.parametrize("outcome", ["COMMITTED", "ABORTED"])
def test_a_transaction_over_two_partitions(caller: Caller, new_topic: Callable[..., str], outcome: str) -> None:
    topic, name = new_topic(2), f"stubs-{outcome}"
    owner = caller.owner(name, topic)
    session = owner.InitProducerId(
        co.InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=30_000, nonce="1"), timeout=10
    )
    for partition in (0, 1):
        request = pb.ProduceRecordsRequest(
            topic=topic,
            partition=partition,
            records=records(b"t"),
            acks=-1,
            timeout_ms=5000,
            producer_id=session.producer_id,
            producer_epoch=session.producer_epoch,
            transactional_id=name,
            txn_no=session.next_txn_no,
        )
        caller.leader(topic, partition).ProduceRecords(request, timeout=10)
    assert caller.read(topic, 0) == []
    end = co.EndTransactionRequest(
        name=co.TransactionName(
            transactional_id=name,
            txn_shard=session.txn_shard,
            txn_producer_id=session.producer_id,
            txn_no=session.next_txn_no,
            producer_epoch=session.producer_epoch,
        ),
        outcome=types_pb2.TransactionOutcome.Value(outcome),
        wait=co.VISIBLE,
    )
    reply = owner.EndTransaction(end, timeout=10)
    assert reply.visible
    expected = [b"t"] if outcome == "COMMITTED" else []
    assert [caller.read(topic, p) for p in (0, 1)] == [expected, expected]


def test_an_error_comes_as_a_status_with_its_detail_in_the_trailer(caller: Caller) -> None:
    request = pb.FetchRecordsRequest(topic="nobody-made-this", isolation_level=types_pb2.READ_COMMITTED)
    with pytest.raises(grpc.RpcError) as raised:
        caller.broker().FetchRecords(request, timeout=10)
    assert raised.value.code() is grpc.StatusCode.NOT_FOUND
    trailer = dict(raised.value.trailing_metadata())
    detail = err.ErrorDetail.FromString(trailer["oncelog-error-bin"])
    assert detail.code == err.UNKNOWN_TOPIC_OR_PARTITION
