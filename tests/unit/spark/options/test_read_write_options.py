"""What users may write in options, and what they get told."""

from __future__ import annotations

import pytest

from oncelog.errors import ConfigError
from pyspark_oncelog.options.offsets import (
    EARLIEST,
    LATEST,
)
from pyspark_oncelog.options.read_write_options import SinkOptions, SourceOptions, Subscription
from pyspark_oncelog.worker.worker_client import client_for

BASE = {"bootstrapServers": "a:1", "subscribe": "t"}


def test_names_are_case_insensitive_and_kafkas_name_is_known() -> None:
    parsed = SourceOptions.parse({"KAFKA.bootstrap.servers": "a:1", "SUBSCRIBE": "t, u"}, streaming=True)
    assert parsed.subscription.topics == ("t", "u")
    assert parsed.connection.bootstrap_servers == "a:1"
    assert parsed.read_committed


@pytest.mark.parametrize(
    ("raw", "streaming", "says"),
    [
        ({**BASE, "startingOfsets": "earliest"}, True, "did you mean startingOffsets"),
        ({"subscribe": "t"}, True, "bootstrapServers is required"),
        ({"bootstrapServers": "a:1"}, True, "subscribe is required"),
        ({**BASE, "endingOffsets": "latest"}, True, "batch reads only"),
        ({**BASE, "startingOffsets": "latest"}, False, "cannot be latest"),
        ({**BASE, "endingOffsets": "earliest"}, False, "cannot be earliest"),
        ({**BASE, "endingOffsets": '{"t":{"0":-2}}'}, False, "cannot be earliest"),
        ({**BASE, "startingOffsets": '{"t":{"0":-1}}'}, False, "cannot be latest"),
        ({**BASE, "isolation": "dirty"}, True, "must be one of"),
        ({**BASE, "subscribePattern": "t.*"}, True, "exclude each other"),
        ({"bootstrapServers": "a:1", "subscribe": " , "}, True, "option subscribe names no topic"),
        ({"bootstrapServers": "a:1", "subscribePattern": "("}, True, "no regular expression"),
        ({"bootstrapServers": "a:1", "subscribePattern": "(" * 9_999 + ")" * 9_999}, True, "no regular expression"),
        ({"bootstrapServers": "a:1", "subscribePattern": "a{99999999999}"}, True, "no regular expression"),
        ({"bootstrapServers": "a:1", "assign": '{"t":[]}'}, True, "option assign is JSON"),
        ({"bootstrapServers": "a:1", "assign": '{"t":[-1]}'}, True, "option assign is JSON"),
        ({**BASE, "endingTimestamp": "1"}, True, "batch reads only"),
        ({**BASE, "startingOffsetsByTimestamp": "soon"}, True, "startingOffsetsByTimestamp is JSON"),
        ({**BASE, "maxTriggerDelay": "soon"}, True, "must be a duration"),
        ({**BASE, "maxTriggerDelay": "9" * 5_000 + "s"}, True, "maxTriggerDelay must be a duration"),
        ({**BASE, "requestTimeoutMs": str((1 << 40) + 1)}, True, "requestTimeoutMs must be at most 1099511627776"),
        ({**BASE, "minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "3"}, True, "above maxOffsetsPerTrigger"),
        ({**BASE, "maxOffsetsPerTrigger": "0"}, True, "at least 1"),
        ({**BASE, "commitGroup": "a\tb"}, True, "option commitGroup: a group id is 1-1024 bytes of printable text"),
        ({**BASE, "commitGroup": "x" * 1025}, True, "option commitGroup: a group id is 1-1024 bytes"),
        ({**BASE, "minPartitions": "many"}, True, "whole number"),
        ({**BASE, "startingOffsets": "[1]"}, True, "earliest, latest, or JSON"),
        ({**BASE, "startingOffsets": '{"t":{"0":-7}}'}, True, "0 and up"),
    ],
)
def test_a_bad_source_option_is_named(raw: dict[str, str], streaming: bool, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        SourceOptions.parse(raw, streaming)


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        ({"txnAppId": "a"}, "together"),
        ({"txnAppId": "a", "txnVersion": "1", "deliveryGuarantee": "at_least_once"}, "exactly_once"),
        ({"deliveryGuarantee": "twice"}, "must be one of"),
        ({"asyncProgressTrackingEnabled": "true"}, "not supported"),
        ({"topik": "x"}, "did you mean topic"),
        ({"topic": "t", "createTopicPartitions": str(1 << 31)}, "createTopicPartitions must be at most 2147483647"),
        ({"topic": "t", "leaseMs": "86400001"}, "leaseMs must be at most 86400000"),
        ({"topic": "t", "maxDurationMs": "604800001"}, "maxDurationMs must be at most 604800000"),
        ({"topic": "t", "transactionalId": "a\tb"}, "option transactionalId: a transactional id is 1-1024 bytes"),
        ({"topic": "t", "transactionalId": "x" * 1025}, "option transactionalId: a transactional id is 1-1024 bytes"),
        ({"topic": "t", "txnAppId": "x" * 257, "txnVersion": "1"}, "option txnAppId is 1-256 characters"),
        ({"topic": "t", "txnAppId": "", "txnVersion": "1"}, "option txnAppId is 1-256 characters"),
        ({"topic": "t", "txnAppId": "\U0001f300" * 256, "txnVersion": "1"}, "option txnAppId: a transactional id is"),
        ({"topic": "a\tb"}, "option topic: topic names are 1-249 characters"),
        ({"topic": "x" * 250, "txnAppId": "a", "txnVersion": "1"}, "option topic: topic names are 1-249 characters"),
        ({"topic": "a b", "transactionalId": "job"}, "option topic: topic names are 1-249 characters"),
    ],
)
def test_a_bad_sink_option_is_named(raw: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        SinkOptions.parse({"bootstrapServers": "a:1", **raw})


def test_what_is_not_named_is_read_from_the_start_and_to_the_end() -> None:
    parsed = SourceOptions.parse({**BASE, "startingOffsets": '{"t":{"0":3}}', "endingOffsets": '{"t":{"0":7}}'}, False)
    assert [parsed.starting.at("t", p) for p in range(2)] == [3, EARLIEST]
    assert [parsed.ending.at("t", p) for p in range(2)] == [7, LATEST]


def test_what_to_read_is_one_of_three() -> None:
    def parsed(**more: str) -> Subscription:
        return SourceOptions.parse({"bootstrapServers": "a:1", **more}, streaming=True).subscription

    assert parsed(subscribe="t,u,t") == Subscription(topics=("t", "u"))
    assert parsed(subscribePattern="t.*") == Subscription(pattern="t.*")
    assert parsed(assign='{"t":[2,0,2]}') == Subscription(topics=("t",), partitions={"t": (0, 2)})


def test_a_time_for_all_beats_a_time_per_partition_and_that_beats_offsets() -> None:
    given = {**BASE, "startingOffsets": "latest"}
    by_partition = {**given, "startingOffsetsByTimestamp": '{"t":{"0":5}}'}
    starting = SourceOptions.parse(by_partition, streaming=True).starting
    assert [starting.time_of("t", p) for p in range(2)] == [5, None]
    assert starting.at("t", 1) == EARLIEST
    starting = SourceOptions.parse({**by_partition, "startingTimestamp": "7"}, streaming=True).starting
    assert [starting.time_of("t", p) for p in range(2)] == [7, 7]


@pytest.mark.parametrize(("text", "delay_ms"), [("250ms", 250), ("90s", 90_000), (" 15M ", 900_000), ("2h", 7_200_000)])
def test_a_delay_has_a_unit(text: str, delay_ms: int) -> None:
    assert SourceOptions.parse({**BASE, "maxTriggerDelay": text}, streaming=True).max_trigger_delay_ms == delay_ms


@pytest.mark.parametrize(("text", "says"), [("1000", "at least 1024"), ("8000000", "at most 7340032"), ("1m", "whole")])
def test_a_batch_has_a_sensible_size(text: str, says: str) -> None:
    assert SinkOptions.parse({**BASE, "topic": "t"}).batch_bytes == 3 << 20
    with pytest.raises(ConfigError, match=f"batchBytes must be (a )?{says}"):
        SinkOptions.parse({**BASE, "topic": "t", "batchBytes": text})


def test_a_batch_leaves_room_in_its_request() -> None:
    def sizes(**more: str) -> tuple[int, int]:
        parsed = SinkOptions.parse({**BASE, "topic": "t", **more})
        return parsed.batch_bytes, parsed.max_request_bytes

    assert sizes() == (3 << 20, 8 << 20)
    assert sizes(maxRequestBytes=str(32 << 20)) == (3 << 20, 32 << 20)
    assert sizes(maxRequestBytes=str(1 << 20)) == (7 << 17, 1 << 20), "the default batch is as large as fits"
    assert sizes(**{"kafka.max.request.size": str(16 << 20)}) == (3 << 20, 16 << 20)
    for request_bytes in range(1 << 20, 9 << 20, 333_333):
        batch_bytes, _ = sizes(maxRequestBytes=str(request_bytes))
        assert sizes(maxRequestBytes=str(request_bytes), batchBytes=str(batch_bytes)) == (batch_bytes, request_bytes)
        with pytest.raises(ConfigError, match=r"batchBytes (is above seven eighths of|must be at most)"):
            sizes(maxRequestBytes=str(request_bytes), batchBytes=str(request_bytes // 8 * 7 + 1))


@pytest.mark.parametrize(("text", "says"), [("1000", "at least 1048576"), ("33554433", "at most 33554432")])
def test_a_request_has_a_size_that_brokers_take(text: str, says: str) -> None:
    with pytest.raises(ConfigError, match=f"maxRequestBytes must be {says}"):
        SinkOptions.parse({**BASE, "topic": "t", "maxRequestBytes": text})


def test_tls_options_reach_the_connection() -> None:
    raw = {**BASE, "securityProtocol": "ssl", "sslCafile": "/ca", "sslCertfile": "/me.crt", "sslKeyfile": "/me.key"}
    connection = SourceOptions.parse(raw, streaming=True).connection
    assert (connection.security_protocol, connection.ssl_cafile) == ("SSL", "/ca")
    assert (connection.ssl_certfile, connection.ssl_keyfile) == ("/me.crt", "/me.key")
    assert SourceOptions.parse({**BASE, "kafka.security.protocol": "SSL"}, True).connection.security_protocol == "SSL"


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        ({"securityProtocol": "SASL_SSL"}, "securityProtocol must be PLAINTEXT or SSL"),
        ({"sslCafile": "/ca"}, "sslCafile has no use in plaintext: set option securityProtocol to SSL"),
        ({"securityProtocol": "SSL", "sslKeyfile": "/k"}, "sslCertfile and sslKeyfile belong together"),
    ],
)
def test_tls_options_that_contradict_each_other_are_refused(raw: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        SourceOptions.parse({**BASE, **raw}, streaming=True)


def test_a_file_that_is_not_on_this_machine_is_named_with_its_option() -> None:
    raw = {**BASE, "securityProtocol": "SSL", "sslCafile": "/nowhere/ca.crt"}
    with pytest.raises(ConfigError, match=r"option sslCafile: /nowhere/ca.crt cannot be read on .* on every worker"):
        client_for(SourceOptions.parse(raw, streaming=True).connection)


def test_who_the_job_is_reaches_the_connection_and_no_repr() -> None:
    parsed = SourceOptions.parse({**BASE, "token": "hidden"}, streaming=True).connection
    assert parsed.token == "hidden"
    assert "hidden" not in repr(parsed)
    parsed = SourceOptions.parse({**BASE, "username": "u", "password": "hidden"}, streaming=True).connection
    assert (parsed.username, parsed.password) == ("u", "hidden")
    assert "hidden" not in repr(parsed)


@pytest.mark.parametrize(
    "options",
    [
        {"token": "t", "tokenFile": "f"},
        {"token": "t", "username": "u", "password": "p"},
        {"username": "u"},
        {"password": "p"},
        {"username": "u", "password": "p", "passwordFile": "f"},
    ],
    ids=str,
)
def test_ways_of_saying_who_the_job_is_exclude_each_other(options: dict[str, str]) -> None:
    with pytest.raises(ConfigError):
        SourceOptions.parse({**BASE, **options}, streaming=True)
