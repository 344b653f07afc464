"""Options of Spark's Kafka source and sink: each one is taken, or refused with what to write instead."""

from __future__ import annotations

import re

import pytest

from oncelog.errors import ConfigError
from pyspark_oncelog.options import kafka_options, option_table
from pyspark_oncelog.options.read_write_options import SinkOptions, SourceOptions, check_names

READ = {"kafka.bootstrap.servers": "a:1", "subscribe": "t"}
WRITE = {"kafka.bootstrap.servers": "a:1", "topic": "t"}
OURS = {**option_table.CONNECTION, **option_table.SOURCE, **option_table.SINK}

SOURCES_OF_SPARK = {
    "startingOffsets": "earliest",
    "startingTimestamp": "1",
    "startingOffsetsByTimestamp": '{"t":{"0":1}}',
    "startingOffsetsByTimestampStrategy": "latest",
    "endingOffsets": "latest",
    "endingTimestamp": "1",
    "endingOffsetsByTimestamp": '{"t":{"0":1}}',
    "failOnDataLoss": "false",
    "maxOffsetsPerTrigger": "1000",
    "minOffsetsPerTrigger": "10",
    "maxTriggerDelay": "5m",
    "minPartitions": "4",
    "maxRecordsPerPartition": "100",
    "includeHeaders": "true",
}
"""Of the guide to Spark's Kafka integration; `subscribe`, `subscribePattern` and `assign` are in test_options.py."""
REFUSED_OF_SPARK = {
    "kafkaConsumer.pollTimeoutMs": "requestTimeoutMs",
    "fetchOffset.numRetries": "requestTimeoutMs",
    "fetchOffset.retryIntervalMs": "requestTimeoutMs",
    "groupIdPrefix": "commitGroup",
    "kafka.group.id": "commitGroup",
}
OF_CLIENTS = {
    "kafka.acks": "leave it out",
    "kafka.linger.ms": "leave it out",
    "kafka.batch.size": "option batchBytes",
    "kafka.retries": "leave it out",
    "kafka.enable.idempotence": "leave it out",
    "kafka.max.block.ms": "option requestTimeoutMs",
    "kafka.transactional.id": "option transactionalId",
    "kafka.transaction.timeout.ms": "option maxDurationMs",
    "kafka.partitioner.class": "option partitioner",
    "kafka.auto.offset.reset": "option startingOffsets",
    "kafka.enable.auto.commit": "leave it out",
    "kafka.max.poll.records": "maxRecordsPerPartition",
    "kafka.fetch.max.bytes": "leave it out",
    "kafka.value.deserializer": "cast columns",
    "kafka.ssl.truststore.location": "option sslCafile",
    "kafka.ssl.truststore.password": "option sslCafile",
    "kafka.ssl.keystore.location": "options sslCertfile and sslKeyfile",
    "kafka.ssl.cipher.suites": "leave it out",
    "kafka.sasl.mechanism": "passwordFile",
    "kafka.sasl.jaas.config": "passwordFile",
    "kafka.sasl.oauthbearer.token.endpoint.url": "tokenFile",
    "kafka.allow.auto.create.topics": "option createTopicPartitions",
    "kafka.interceptor.classes": "leave it out",
    "kafka.metadata.max.age.ms": "leave it out",
    "group.id": "commitGroup",
    "acks": "leave it out",
}


@pytest.mark.parametrize("name", SOURCES_OF_SPARK)
def test_what_sparks_source_takes_is_taken(name: str) -> None:
    is_of_batch = name.startswith("ending")
    SourceOptions.parse({**READ, name: SOURCES_OF_SPARK[name]}, streaming=not is_of_batch)


def test_what_sparks_sink_takes_is_taken() -> None:
    assert SinkOptions.parse({**WRITE, "includeHeaders": "true"}).topic == "t", "the column headers is written anyway"


@pytest.mark.parametrize(("name", "says"), [*REFUSED_OF_SPARK.items(), *OF_CLIENTS.items()])
def test_what_is_not_taken_is_refused_with_what_to_do(name: str, says: str) -> None:
    for given in (name, name.lower()):
        with pytest.raises(ConfigError, match=rf"option (kafka\.)?{re.escape(name)} is not taken: .*{says}"):
            SourceOptions.parse({**READ, given: "1"}, streaming=True)
        with pytest.raises(ConfigError, match=says):
            SinkOptions.parse({**WRITE, given: "1"})


def test_what_means_the_same_is_taken_with_kafkas_name() -> None:
    source = SourceOptions.parse(
        {
            **READ,
            "kafka.isolation.level": "read_uncommitted",
            "kafka.client.id": "me",
            "KAFKA.Security.Protocol": "SSL",
        },
        streaming=True,
    )
    assert (source.read_committed, source.connection.client_id) == (False, "me")
    assert source.connection.security_protocol == "SSL"
    sink = SinkOptions.parse({**WRITE, "kafka.compression.type": "lz4", "kafka.default.api.timeout.ms": "5000"})
    assert (sink.compression_type, sink.connection.request_timeout_ms) == ("lz4", 5000)
    assert SinkOptions.parse({**WRITE, "kafka.max.request.size": "10485760"}).max_request_bytes == 10 << 20
    assert SinkOptions.parse({**WRITE, "kafka.isolation.level": "read_committed"}).topic == "t", "it is of the read"


def test_a_codec_that_is_not_there_names_those_that_are() -> None:
    with pytest.raises(ConfigError, match="compressionType must be one of zstd, lz4, none"):
        SinkOptions.parse({**WRITE, "kafka.compression.type": "snappy"})


@pytest.mark.parametrize("name", [name for name, option in OURS.items() if option.kafka])
def test_the_name_that_the_reference_gives_leads_to_the_option(name: str) -> None:
    kafkas = OURS[name].kafka
    if kafkas == name or kafka_options.option_of(kafkas) == name:
        return
    assert name in (kafka_options.refusal(kafkas) or "")


@pytest.mark.parametrize("name", kafka_options.INSTEAD)
def test_a_refusal_names_options_that_exist_or_says_that_it_can_go(name: str) -> None:
    said = kafka_options.INSTEAD[name]
    named = set(re.findall(r"\b[a-z]+[A-Z]\w+\b", said))
    assert named <= set(OURS)
    assert named or "leave it out" in said or "option partitioner" in said


def test_all_refusals_come_at_once() -> None:
    """A copied program is not to be tried once for each of its options."""
    given = {**READ, "kafka.group.id": "g", "fetchOffset.numRetries": "3", "startingOfsets": "earliest"}
    with pytest.raises(ConfigError) as caught:
        SourceOptions.parse(given, streaming=True)
    lines = str(caught.value).splitlines()
    assert [line.split(" is not taken")[0] for line in lines[:2]] == [
        "option kafka.group.id",
        "option fetchOffset.numRetries",
    ]
    assert lines[2].startswith("unknown option startingOfsets; did you mean startingOffsets?")
    assert caught.value.context["option"] == "kafka.group.id, fetchOffset.numRetries, startingOfsets"


def test_values_are_in_no_refusal() -> None:
    with pytest.raises(ConfigError) as caught:
        SourceOptions.parse({**READ, "kafka.sasl.jaas.config": 'password="secret"'}, streaming=True)
    assert "secret" not in str(caught.value)


def test_a_mistyped_name_of_kafkas_is_suggested() -> None:
    with pytest.raises(
        ConfigError, match=r"unknown option kafka.bootstrap.server; did you mean kafka.bootstrap.servers"
    ):
        SourceOptions.parse({"kafka.bootstrap.server": "a:1", "subscribe": "t"}, streaming=True)


def test_two_names_of_one_option_must_say_the_same() -> None:
    assert (
        SourceOptions.parse({**READ, "bootstrapServers": "a:1"}, streaming=True).connection.bootstrap_servers == "a:1"
    )
    with pytest.raises(ConfigError, match="option bootstrapServers is given under two names"):
        SourceOptions.parse({**READ, "bootstrapServers": "b:2"}, streaming=True)


def test_sasl_is_led_to_what_says_who_the_job_is() -> None:
    with pytest.raises(ConfigError, match=r"PLAINTEXT or SSL: .*username and passwordFile"):
        SourceOptions.parse({**READ, "kafka.security.protocol": "SASL_SSL"}, streaming=True)


def test_names_are_checked_without_the_rest() -> None:
    check_names({"topic": "only of a write", "queryName": "q", "checkpointLocation": "c"})
    with pytest.raises(ConfigError, match="did you mean subscribe"):
        check_names({"subscrib": "t"})


@pytest.mark.parametrize("name", ["topic", "txnAppId", "createTopicPartitions", "kafka.compression.type"])
def test_a_stream_that_reads_takes_nothing_that_is_for_a_write(name: str) -> None:
    SourceOptions.parse({**READ, name: "zstd"}, streaming=False)  # of a view of SQL, maybe
    with pytest.raises(ConfigError, match=f"option {name} is for a write and has no effect on this read: leave it out"):
        SourceOptions.parse({**READ, name: "zstd"}, streaming=True)


@pytest.mark.parametrize("name", ["subscribe", "maxOffsetsPerTrigger", "isolation", "kafka.isolation.level"])
def test_a_stream_that_writes_takes_nothing_that_is_for_a_read(name: str) -> None:
    SinkOptions.parse({**WRITE, name: "1"}, streaming=False)
    with pytest.raises(ConfigError, match=f"option {name} is for a read and has no effect on this write: leave it out"):
        SinkOptions.parse({**WRITE, name: "1"}, streaming=True)


def test_a_stream_that_writes_is_told_of_headers_as_kafkas_sink_is() -> None:
    assert SinkOptions.parse({**WRITE, "includeHeaders": "true", "queryName": "q"}, streaming=True).topic == "t"


@pytest.mark.parametrize("streaming", [False, True])
def test_a_path_names_no_topic(streaming: bool) -> None:
    with pytest.raises(ConfigError, match=r"option path, which load\(\).* names no topic: write option subscribe"):
        SourceOptions.parse({**READ, "path": "orders"}, streaming)
    with pytest.raises(ConfigError, match="names no topic: write option topic"):
        SinkOptions.parse({**WRITE, "Path": "orders"}, streaming)
    with pytest.raises(ConfigError, match="names no topic"):
        check_names({**READ, "path": "orders"})


def test_a_table_of_the_catalog_is_refused_and_one_that_is_there_is_explained() -> None:
    made = {"option.subscribe": "t", "subscribe": "t", "provider": "oncelog", "owner": "me"}
    with pytest.raises(ConfigError, match=r"CREATE TABLE makes no table of a topic.*CREATE TEMPORARY VIEW"):
        check_names(made)
    for parse in (
        lambda: SourceOptions.parse({}, streaming=False),
        lambda: SourceOptions.parse({"path": "/warehouse/t"}, streaming=False),
        lambda: SinkOptions.parse({}),
    ):
        with pytest.raises(ConfigError, match=r"bootstrapServers is required.*CREATE TEMPORARY VIEW"):
            parse()
    with pytest.raises(ConfigError) as caught:
        SourceOptions.parse({"subscribe": "t"}, streaming=False)
    assert "CREATE TABLE" not in str(caught.value)
