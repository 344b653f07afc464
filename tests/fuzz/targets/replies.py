"""What a client is told: replies, errors, metadata, records; and what it reads back of its own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from random import Random

from google.protobuf.message import DecodeError

from oncelog.client.consume.fetched_records import Leftover, arrow_of
from oncelog.client.consume.fetcher import Fetched
from oncelog.client.home.context import Context
from oncelog.client.routing.metadata import Metadata
from oncelog.config import ClientConfig, ConsumerConfig
from oncelog.core.consume.consumer import Aborted, Cursor, by_name
from oncelog.core.verification import Place, open_record, seal_record
from oncelog.errors import ConfigError, OncelogError
from oncelog.types import PartitionId, TopicPartition
from oncelog.v1 import errors_pb2, types_pb2
from oncelog.v1 import partition_pb2 as pb
from oncelog.wire.wire_errors import from_detail, to_detail
from pyspark_oncelog.options.offsets import Position
from tests.fuzz.target import Target, add
from tests.fuzz.targets.batches import keep_header, mend_chunk, plain_payloads, samples
from tests.fuzz.targets.wire import filled
from tests.unit.partition_leader.log_helpers import TOPIC_ID

CONFIG = ConsumerConfig(max_uncompressed_batch_bytes=4 << 20)


def error_detail(data: bytes) -> object:
    """An error of a server, and of a trailer."""
    error = from_detail(errors_pb2.ErrorDetail.FromString(data))
    assert str(error).isprintable()
    assert len(error.message) < 2_100
    again = from_detail(to_detail(error))
    assert (type(again), again.message) == (type(error), error.message)
    return error


def error_details() -> Iterator[bytes]:
    yield filled(errors_pb2.ErrorDetail()).SerializeToString()
    yield errors_pb2.ErrorDetail(code=42, message="no", retry_after_ms=5).SerializeToString()  # type: ignore[arg-type]


add(Target("error_detail", error_detail, (DecodeError,), error_details, words=(b"message", b"retry_after_ms", b"self")))


def fetched_bytes(data: bytes) -> object:
    """The batches of an answer, record by record and as Arrow, from a position in their middle."""
    cursor = Cursor(TopicPartition("t", 0), PartitionId(TOPIC_ID, 0))
    cursor.seek(1)
    aborted = by_name([Aborted(7, 1, True, frozenset(), False), Aborted(8, 1, False, frozenset({8}), True)])
    taken = 0
    leftover = Leftover(Fetched(cursor, data, 100, aborted, 1), CONFIG)
    for _ in range(1_000):
        if leftover.is_empty:
            break
        rows, _ = leftover.take(50, 1 << 20)
        taken += len(rows)
        assert all(row.offset >= 1 for row in rows)
    table, _ = arrow_of(Fetched(cursor, data, 100, aborted, 1), CONFIG, include_headers=True)
    assert table is None or table.num_rows >= 0
    return [None] * taken


def fetched_byteses() -> Iterator[bytes]:
    yield from plain_payloads()
    yield from samples()


def mend_fetched(data: bytes, random: Random) -> bytes:
    return mend_chunk(data, random) if random.random() < 0.5 else keep_header(data, random)


add(Target("fetched_batches", fetched_bytes, (OncelogError,), fetched_byteses, mend=mend_fetched, limit_mib=96))


def metadata_reply(data: bytes) -> object:
    """What a broker says of the cluster, and all questions that are asked of it."""
    return asyncio.run(_learnt(pb.GetMetadataReply.FromString(data)))


async def _learnt(reply: pb.GetMetadataReply) -> object:
    metadata = Metadata(Context(ClientConfig(), None, None, Random(1)))  # type: ignore[arg-type]
    metadata._learn(reply)
    for topic in list(metadata._topics.values()):
        for number in (-1, 0, 1, 1 << 30):
            metadata.leader(PartitionId(topic.topic_id, number))
        metadata.topic_name(topic.topic_id)
    for group in ("g", ""):
        metadata.group_epoch(group)
    metadata.shard_owners("transaction")
    metadata.broker_addresses()
    return reply


def metadata_replies() -> Iterator[bytes]:
    yield filled(pb.GetMetadataReply()).SerializeToString()
    reply = pb.GetMetadataReply(cluster_id="c", transaction_shard_count=2, group_shard_count=2)
    reply.brokers.add(address="a:1", broker=types_pb2.BrokerRef(broker_id=1, incarnation=5))
    topic = reply.topics.add(name="t", topic_id=TOPIC_ID)
    topic.partitions.add(
        partition=0, leader=types_pb2.BrokerRef(broker_id=1, incarnation=5), leader_epoch=3, replicas=[1]
    )
    yield reply.SerializeToString()


add(Target("metadata_reply", metadata_reply, (DecodeError, OncelogError), metadata_replies))


def fetch_reply(data: bytes) -> object:
    """The halves of an answer, as they were joined."""
    reply = pb.FetchReply.FromString(data)
    start = 0
    for item in reply.partitions:
        if item.HasField("error"):
            from_detail(item.error)
        start += item.length
        by_name(Aborted(a.txn_producer_id, a.txn_no, a.all, frozenset(a.winners), a.data_loss) for a in item.aborted)
    return reply


add(Target("fetch_reply", fetch_reply, (DecodeError,), lambda: [filled(pb.FetchReply()).SerializeToString()]))


def verified_record(data: bytes) -> object:
    """The value of a record that `oncelog verify` wrote, or somebody else."""
    place = open_record(data)
    assert place is None or seal_record(place, len(data)) == data
    return place


add(
    Target(
        "verified_record",
        verified_record,
        (),
        lambda: [seal_record(Place(1, 2, 3, 4, 5), size) for size in (0, 100, 200)],
    )
)


def spark_checkpoint(data: bytes) -> object:
    """A position in a checkpoint of Spark."""
    try:
        values = json.loads(data)
    except (ValueError, RecursionError):
        return None
    position = Position.from_json(values)
    assert Position.from_json(position.to_json()) == position
    return position


add(
    Target(
        "spark_checkpoint",
        spark_checkpoint,
        (ConfigError,),
        lambda: [b'{"v":1,"topics":{"orders":{"id":"0123456789abcdef0123456789abcdef","p":{"0":[5,1],"7":[9,-1]}}}}'],
        words=(b'"p":{', b'"id":', b'"v":1', b"Infinity"),
    )
)
