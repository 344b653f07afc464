"""Rows about topics, their options, rules of access, and what strangers may learn."""

from __future__ import annotations

from typing import Any

from oncelog import errors
from oncelog.v1 import partition_pb2 as pb
from oncelog.v1 import security_pb2 as se
from oncelog.v1 import types_pb2
from oncelog.wire import methods
from oncelog_runtime.metadata.cluster_keys import INTERNAL_TOPICS
from tests.conformance.names import Place
from tests.hostile_inputs.hands import check_sentence, raised, refused
from tests.hostile_inputs.rows import row

ILLEGAL = (
    *("..", ".", "", "t" * 250, "t" * (1 << 20), "a/b", "a\\b", "a%2fb", "a\0b", "a\nb", "a\u202eb", "\u0661\u0662"),
    *("a b", "a:b", "caf\u00e9", "\U0001f600", "a\x7fb", "(a+)+$", "a*"),
)


def create(topic: str, **more: Any) -> pb.CreateTopicRequest:
    """Of a topic."""
    return pb.CreateTopicRequest(**{"topic": topic, "partitions": 1, "timeout_ms": 5_000, **more})


async def _names(s: Any) -> list[str]:
    async with s.client() as client:
        return sorted(topic.name for topic in await client.admin.list_topics())


@row(38, 55, says="topic names that act as a path, an end of a line, a look-alike or a pattern")
async def names(s: Any, place: Place) -> None:
    before, controller = await _names(s), await s.controller()
    for name in ILLEGAL:
        await refused(s.call(controller, methods.CREATE_TOPIC, create(name)), errors.InvalidTopicError)
        for spec, request in (
            (methods.DELETE_TOPIC, pb.DeleteTopicRequest(topic=name)),
            (methods.ALTER_TOPIC, pb.AlterTopicRequest(topic=name, partitions=2)),
            (
                methods.PRODUCE_RECORDS,
                pb.ProduceRecordsRequest(topic=name, records=[types_pb2.Record(value=b"x")], acks=-1),
            ),
            (
                methods.FETCH_RECORDS,
                pb.FetchRecordsRequest(topic=name, isolation_level=types_pb2.ISOLATION_LEVEL_READ_COMMITTED),
            ),
            (methods.GET_METADATA, pb.GetMetadataRequest(topics=[name])),
            (methods.DESCRIBE_TOPIC_CONFIGS, pb.DescribeTopicConfigsRequest(topics=[name])),
        ):
            await refused(s.call(controller, spec, request), errors.UnknownTopicError, errors.InvalidTopicError)
    assert await _names(s) == before


@row(40, says="the cluster's own topics: a write, a creation, a change, a deletion")
async def internal(s: Any, place: Place) -> None:
    controller = await s.controller()
    for name in (*INTERNAL_TOPICS, "__mine"):
        await refused(
            s.call(controller, methods.CREATE_TOPIC, create(name)),
            errors.InvalidTopicError,
            errors.TopicAuthorizationError,
        )
    for name in INTERNAL_TOPICS:
        records = pb.ProduceRecordsRequest(
            topic=name, records=[types_pb2.Record(value=b"x")], acks=-1, timeout_ms=1_000
        )
        await refused(s.call(controller, methods.PRODUCE_RECORDS, records), errors.TopicAuthorizationError)
        gone = pb.DeleteTopicRequest(topic=name)
        await refused(s.call(controller, methods.DELETE_TOPIC, gone), errors.TopicAuthorizationError)
        more = pb.AlterTopicRequest(topic=name, partitions=60)
        await refused(s.call(controller, methods.ALTER_TOPIC, more), errors.TopicAuthorizationError)


@row(41, says="topics of no partitions, of a million, of more replicas than brokers")
async def sizes(s: Any, place: Place) -> None:
    before, controller = await _names(s), await s.controller()
    for partitions in (0, -1, 1_000_000, -(1 << 31), (1 << 31) - 1):
        request = create(f"{place.topic}.n", partitions=partitions)
        await refused(s.call(controller, methods.CREATE_TOPIC, request), errors.InvalidPartitionsError)
        if partitions:
            alter = pb.AlterTopicRequest(topic=place.topic, partitions=partitions)
            await refused(s.call(controller, methods.ALTER_TOPIC, alter), errors.InvalidPartitionsError)
    for factor in (-1, 100, (1 << 31) - 1):
        request = create(f"{place.topic}.n", replication_factor=factor)
        await refused(s.call(controller, methods.CREATE_TOPIC, request), errors.InvalidReplicationFactorError)
    assert await _names(s) == before


@row(42, says="a topic that a stranger may not see is answered like one that does not exist")
async def no_oracle(s: Any, place: Place) -> None:
    told = []
    for topic, topic_id in ((place.topic, place.topic_id), ("no-such-topic", "f" * 32)):
        named: dict[str, Any] = {"topic_id": topic_id, "partition": 0}
        answers = []
        for spec, request in (
            (methods.GET_METADATA, pb.GetMetadataRequest(topics=[topic])),
            (
                methods.FETCH,
                pb.FetchRequest(isolation_level=1, partitions=[pb.FetchPartition(**named, leader_epoch=-1)]),
            ),
            (
                methods.LIST_OFFSETS,
                pb.ListOffsetsRequest(isolation_level=1, partitions=[pb.ListOffsetsPartition(**named)]),
            ),
            (methods.DESCRIBE_PRODUCERS, pb.DescribeProducersRequest(**named)),
            (methods.FETCH_RECORDS, pb.FetchRecordsRequest(topic=topic, isolation_level=1)),
            (methods.DELETE_TOPIC, pb.DeleteTopicRequest(topic=topic)),
            (methods.PRODUCE_RECORDS, pb.ProduceRecordsRequest(topic=topic, records=[types_pb2.Record()], acks=-1)),
        ):
            try:
                await s.as_stranger(s.leader(place), spec, request)
                answers.append("an answer")
            except errors.OncelogError as error:
                check_sentence(error)
                answers.append(f"{error.code.name}: {error.message}".replace(topic, "TOPIC").replace(topic_id, "ID"))
        told.append(answers)
    assert told[0] == told[1], "nobody learns what there is"
    assert "an answer" not in told[0]


@row(77, says="rules of access with patterns that fit nothing or everything, and without a principal")
async def rules(s: Any, place: Place) -> None:
    controller = await s.controller()
    good = {"principal": "User:ann", "resource_type": "TOPIC", "resource_name": "x", "operation": "READ"}
    for change in (
        {"resource_name": "a*"},
        {"resource_name": ""},
        {"resource_name": "", "pattern_type": "PREFIXED"},
        {"principal": ""},
        {"principal": "ann"},
        {"principal": "User:"},
        {"principal": "User:a*"},
        {"principal": "User:a\nb"},
        {"principal": "User:" + "a" * 100_000},
        {"operation": "EVERYTHING"},
        {"resource_type": "DISK"},
        {"pattern_type": "REGEX"},
        {"permission": "MAYBE"},
        {"host": "not an address"},
    ):
        request = se.CreateAclsRequest(acls=[se.Acl(**{**good, **change})])
        await refused(s.call(controller, methods.CREATE_ACLS, request), errors.InvalidRequestError)
    request = se.CreateAclsRequest(acls=[se.Acl(**{**good, "principal": "User:*", "operation": "ALL"})])
    try:
        raised(await s.as_stranger(controller, methods.CREATE_ACLS, request))
        raise AssertionError("a stranger made a rule")
    except errors.ClusterAuthorizationError as error:
        check_sentence(error)
    listed = await s.call(controller, methods.LIST_ACLS, se.ListAclsRequest())
    assert not listed.acls


@row(82, says="options below zero, that are no number, endless, unknown, or given twice")
async def options(s: Any, place: Place) -> None:
    before, controller = await _names(s), await s.controller()
    for name, value in (
        *(("segment_bytes", value) for value in ("-1", "0", "NaN", "1e400", "inf", "", "9" * 5_000, "0x10", "1_0\0")),
        *(("min_insync_replicas", value) for value in ("0", "-1", "NaN")),
        *(("retention_ms", value) for value in ("-2", "1.5", "forever")),
        *(("max_message_bytes", value) for value in ("0", "-1", str(1 << 40))),
        ("cleanup_policy", "burn"),
        ("flush_mode", ""),
        ("no_such_option", "1"),
        ("a\nb", "1"),
        ("", "1"),
    ):
        entry = pb.ConfigEntry(name=name, value=value)
        request = create(f"{place.topic}.n", config=[entry])
        await refused(s.call(controller, methods.CREATE_TOPIC, request), errors.ConfigError)
        alter = pb.AlterTopicRequest(topic=place.topic, set=[entry])
        await refused(s.call(controller, methods.ALTER_TOPIC, alter), errors.ConfigError)
    twice = create(f"{place.topic}.n", config=[pb.ConfigEntry(name="retention_ms", value="1")] * 2)
    await refused(s.call(controller, methods.CREATE_TOPIC, twice), errors.InvalidRequestError, errors.ConfigError)
    assert await _names(s) == before
