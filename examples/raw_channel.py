"""A worker of a channel with gRPC stubs alone, as any language has them: no batch format, no metadata, no SDK.

`Receive` says which records are this worker's, `FetchRecords` brings them, unpacked by the broker, `Settle` ends them.

python examples/raw_channel.py [BOOTSTRAP_SERVERS [TOPIC]]
"""

from __future__ import annotations

import os
import sys
import time
import uuid
from typing import Any

import grpc

from oncelog.v1 import channel_pb2 as ch
from oncelog.v1 import errors_pb2, types_pb2
from oncelog.v1 import partition_pb2 as pb
from oncelog.v1.channel_pb2_grpc import ChannelsStub
from oncelog.v1.partition_pb2_grpc import PartitionLeaderStub

COUNT = 5
LARGE = [("grpc.max_receive_message_length", 64 << 20)]
MAY_REPEAT = (errors_pb2.ERROR_ACTION_RETRY, errors_pb2.ERROR_ACTION_REFRESH)
connections: dict[str, grpc.Channel] = {}


def call(first: str, stub: type[Any], method: str, request: Any) -> Any:
    """Asks at the first address, and goes where answers send it."""
    address = first
    for _ in range(100):
        connection = connections.setdefault(address, grpc.insecure_channel(address, options=LARGE))
        try:
            return getattr(stub(connection), method)(request, timeout=30)
        except grpc.RpcError as error:
            detail = errors_pb2.ErrorDetail.FromString(
                dict(error.trailing_metadata() or ()).get("oncelog-error-bin", b"")
            )
            if not detail.go_to and detail.action not in MAY_REPEAT:
                raise
            address = detail.go_to or first
            time.sleep(0 if detail.go_to else 0.1)
    raise TimeoutError(method)


def receive(first: str, request: ch.ReceiveRequest) -> tuple[str, ch.ReceiveReply]:
    """The answer of the partition's leader, and where that is."""
    address = first
    while True:
        reply = call(address, ChannelsStub, "Receive", request)
        if not reply.errors:
            return address, reply
        address = reply.errors[0].error.go_to or first
        time.sleep(0.1)


def records_of(first: str, topic: str, given: ch.ReceivedRecords) -> list[types_pb2.Record]:
    """The records themselves. (Or read the Arrow batch in `ReceiveReply.batches`: protos/oncelog/v1/BATCH.md.)"""
    found: list[types_pb2.Record] = []
    offset = given.first_offset
    while offset <= given.last_offset:
        read = pb.FetchRecordsRequest(
            topic=topic,
            partition=given.partition,
            offset=offset,
            isolation_level=types_pb2.ISOLATION_LEVEL_READ_COMMITTED,
        )
        reply = call(first, PartitionLeaderStub, "FetchRecords", read)
        found += [record for record in reply.records if offset <= record.offset <= given.last_offset]
        offset = reply.next_offset
    return found


def main(servers: str, topic: str) -> None:
    first = servers.partition(",")[0]
    call(
        first,
        PartitionLeaderStub,
        "CreateTopic",
        pb.CreateTopicRequest(topic=topic, partitions=1, if_not_exists=True, timeout_ms=10_000, nonce=uuid.uuid4().hex),
    )
    now_ms = int(time.time() * 1000)
    tasks = [types_pb2.Record(value=f"task {i}".encode(), timestamp_ms=now_ms) for i in range(COUNT)]
    call(
        first,
        PartitionLeaderStub,
        "ProduceRecords",
        pb.ProduceRecordsRequest(topic=topic, records=tasks),
    )
    made = call(
        first,
        ChannelsStub,
        "CreateChannel",
        ch.CreateChannelRequest(topic=topic, channel="raw", if_not_exists=True, nonce=uuid.uuid4().hex),
    ).channel
    named = {"topic_id": made.topic_id, "channel": made.channel, "channel_id": made.channel_id}
    worker_id = f"raw-{os.getpid()}"
    done = 0
    address = first
    while done < COUNT:
        request = ch.ReceiveRequest(**named, worker_id=worker_id, partitions=[0], max_in_flight=2, max_wait_ms=5_000)
        address, reply = receive(address, request)
        settle = ch.SettleRequest(**named, worker_id=worker_id)
        for given in reply.records:
            for record in records_of(first, topic, given):
                print(f"{record.value.decode()}, delivery {given.delivery}")
                done += 1
            settle.items.add(
                partition=given.partition,
                first_offset=given.first_offset,
                last_offset=given.last_offset,
                delivery=given.delivery,
                verdict=ch.VERDICT_ACK,
            )
        if settle.items:
            failed = call(address, ChannelsStub, "Settle", settle).errors
            print(f"settled, {len(failed)} failed")
    call(address, ChannelsStub, "Settle", ch.SettleRequest(**named, worker_id=worker_id, leaves=True))


if __name__ == "__main__":
    main(*sys.argv[1:], *["localhost:9092", "raw-tasks"][len(sys.argv) - 1 :])
