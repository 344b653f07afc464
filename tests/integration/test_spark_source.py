"""The source against a real cluster: what is committed is read once, by any plan, and loss is never silent."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pytest

from oncelog.sync import Client
from oncelog_cli.laptop.local_cluster import LocalCluster
from tests.integration.spark_tools import committed, once

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
NewTopic = Callable[..., str]


@pytest.fixture
def client(cluster: LocalCluster) -> Any:
    with Client(cluster.bootstrap_servers) as client:
        yield client


def produce(client: Any, topic: str, values: range) -> None:
    with client.producer() as producer:
        for value in values:
            producer.send(topic, str(value), key=str(value))
        producer.flush()


def read(spark: SparkSession, cluster: LocalCluster, topic: str, **options: str) -> Any:
    reader = spark.read.format("oncelog").option("bootstrapServers", cluster.bootstrap_servers)
    for name, value in options.items():
        reader = reader.option(name, value)
    return reader.option("subscribe", topic).load()


def values_of(frame: Any) -> Counter[str]:
    return Counter(row["value"].decode() for row in frame.select("value").collect())


class Stream:
    """A streaming read into parquet, run until it has what is there."""

    def __init__(self, spark: SparkSession, cluster: LocalCluster, topic: str, folder: Path) -> None:
        self.spark, self.cluster, self.topic, self.folder = spark, cluster, topic, folder

    def run(self, **options: str) -> Any:
        query = self.start({"availableNow": True}, **options)
        query.awaitTermination()
        return query

    def start(
        self, trigger: Mapping[str, Any] = MappingProxyType({"processingTime": "0 seconds"}), **options: str
    ) -> Any:
        reader = self.spark.readStream.format("oncelog").option("bootstrapServers", self.cluster.bootstrap_servers)
        for name, value in {"subscribe": self.topic, "startingOffsets": "earliest", **options}.items():
            reader = reader.option(name, value)
        rows = reader.load().selectExpr("CAST(value AS STRING) AS value", "partition", "offset")
        return (
            rows.writeStream.format("parquet")
            .option("path", str(self.folder / "out"))
            .option("checkpointLocation", str(self.folder / "checkpoint"))
            .trigger(**trigger)
            .start()
        )

    def seen(self) -> Counter[str]:
        rows = self.spark.read.parquet(str(self.folder / "out")).collect()
        return Counter(row["value"] for row in rows)


@pytest.fixture
def stream(spark: SparkSession, cluster: LocalCluster, tmp_path: Path, new_topic: NewTopic) -> Stream:
    return Stream(spark, cluster, new_topic(), tmp_path)


# ------------------------------------------------------------ wrong options


def test_names_of_options_are_looked_at_where_they_are_written(spark: SparkSession) -> None:
    """Regression: a copied option of Kafka's was refused only when the query ran."""
    given = {"kafka.bootstrap.servers": "localhost:1", "subscribe": "t", "kafka.group.id": "g"}
    for reader in (spark.read, spark.readStream):
        with pytest.raises(Exception, match=r"option kafka.group.id is not taken: .* commitGroup") as caught:
            reader.format("oncelog").options(**given).load()
        assert last_error(caught.value).startswith("oncelog.errors.ConfigError: option kafka.group.id")


@pytest.mark.parametrize("trigger", [{"availableNow": True}, {"processingTime": "0 seconds"}], ids=str)
def test_the_cause_is_the_last_thing_that_a_stream_says(stream: Stream, trigger: Mapping[str, Any]) -> None:
    """Regression: an UnboundLocalError of Spark's hid the cause."""
    with pytest.raises(Exception, match="at least 1") as caught:
        stream.start(trigger, maxOffsetsPerTrigger="0").awaitTermination()
    assert (
        last_error(caught.value)
        == "oncelog.errors.ConfigError: option maxOffsetsPerTrigger must be at least 1 (given=0)"
    )


def last_error(error: BaseException) -> str:
    """The last line of the Python traceback in an error of Spark's that names an exception."""
    return re.findall(r"^[\w.]+(?:Error|Exception): .*$", str(error), re.MULTILINE)[-1]


def test_a_topic_is_a_view_and_no_table(
    spark: SparkSession, cluster: LocalCluster, client: Any, new_topic: NewTopic
) -> None:
    """Regression: CREATE TABLE lost its options, and reading it said that there were none."""
    topic = new_topic()
    produce(client, topic, range(3))
    options = f"OPTIONS (bootstrapServers '{cluster.bootstrap_servers}', subscribe '{topic}', topic '{topic}')"
    with pytest.raises(Exception, match=r"CREATE TABLE makes no table of a topic.*CREATE TEMPORARY VIEW"):
        spark.sql(f"CREATE TABLE lost USING oncelog {options}")
    spark.sql(f"CREATE TABLE forgotten (value BINARY) USING oncelog {options}")
    for sql in ("SELECT * FROM forgotten", "INSERT INTO forgotten VALUES (X'78')"):
        with pytest.raises(Exception, match=r"made by CREATE TABLE.*CREATE TEMPORARY VIEW"):
            spark.sql(sql).collect()
    spark.sql("DROP TABLE forgotten")
    spark.sql(f"CREATE TEMPORARY VIEW written (key STRING, value STRING) USING oncelog {options}")
    spark.sql("INSERT INTO written VALUES ('k', 'of SQL')")
    spark.sql(f"CREATE TEMPORARY VIEW seen USING oncelog {options}")
    rows = spark.sql("SELECT CAST(value AS STRING) AS value FROM seen").collect()
    assert Counter(row["value"] for row in rows) == once(*range(3), "of SQL")


# ------------------------------------------------------------ batch reads


def test_every_column_has_sparks_type(
    spark: SparkSession, cluster: LocalCluster, client: Any, new_topic: NewTopic
) -> None:
    topic = new_topic(1)
    with client.producer() as producer:
        producer.send(topic, b"v", key=b"k", timestamp_ms=1_700_000_000_123, headers={"h": b"x"})
        producer.send(topic, None, key=None, timestamp_ms=0)
        producer.flush()
    frame = read(spark, cluster, topic, includeHeaders="true")
    assert [f"{f.name} {f.dataType.simpleString()}" for f in frame.schema.fields] == [
        "key binary",
        "value binary",
        "topic string",
        "partition int",
        "offset bigint",
        "timestamp timestamp",
        "timestampType int",
        "headers array<struct<key:string,value:binary>>",
    ]
    first, second = frame.orderBy("offset").collect()
    assert (bytes(first["key"]), bytes(first["value"]), first["partition"], first["offset"]) == (b"k", b"v", 0, 0)
    assert first["timestamp"].timestamp() == 1_700_000_000.123
    assert [(h["key"], bytes(h["value"])) for h in first["headers"]] == [("h", b"x")]
    assert (second["key"], second["value"], second["headers"]) == (None, None, None)
    assert (second["topic"], second["timestampType"]) == (topic, 0)


def test_a_schema_of_some_columns_reads_those(
    spark: SparkSession, cluster: LocalCluster, client: Any, new_topic: NewTopic
) -> None:
    topic = new_topic()
    produce(client, topic, range(3))
    reader = spark.read.format("oncelog").schema("offset bigint, value binary").option("subscribe", topic)
    frame = reader.option("bootstrapServers", cluster.bootstrap_servers).load()
    assert frame.columns == ["offset", "value"]
    assert values_of(frame) == once(*range(3))


@pytest.mark.parametrize("options", [{}, {"minPartitions": "11"}, {"minRowsPerTask": "1"}])
def test_any_plan_reads_each_record_once(
    spark: SparkSession, cluster: LocalCluster, client: Any, new_topic: NewTopic, options: dict[str, str]
) -> None:
    topic = new_topic(3)
    produce(client, topic, range(500))
    assert values_of(read(spark, cluster, topic, **options)) == once(*range(500))


def test_offsets_bound_a_read(spark: SparkSession, cluster: LocalCluster, client: Any, new_topic: NewTopic) -> None:
    topic = new_topic(1)
    produce(client, topic, range(10))
    bounds = {"startingOffsets": json.dumps({topic: {"0": 3}}), "endingOffsets": json.dumps({topic: {"0": 7}})}
    assert values_of(read(spark, cluster, topic, **bounds)) == once(*range(3, 7))
    with pytest.raises(Exception, match=r"endingOffsets.* lies before its start \(startingOffsets"):
        read(
            spark, cluster, topic, startingOffsets=bounds["endingOffsets"], endingOffsets=bounds["startingOffsets"]
        ).count()
    beyond = json.dumps({topic: {"0": 99}})
    with pytest.raises(Exception, match="ends at offset 10"):
        read(spark, cluster, topic, endingOffsets=beyond).count()
    assert read(spark, cluster, topic, endingOffsets=beyond, failOnDataLoss="false").count() == 10


def test_topics_by_pattern_partitions_by_name_and_starts_by_time(
    spark: SparkSession, cluster: LocalCluster, client: Any, new_topic: NewTopic
) -> None:
    one, two = new_topic(2), new_topic(2)
    with client.producer() as producer:
        for number in range(10):
            topic = one if number < 5 else two
            producer.send(topic, str(number), partition=number % 2, timestamp_ms=1_000_000 + number)
            producer.flush()  # a batch of its own: a look-up by time is precise to the batch

    def found(**options: str) -> Counter[str]:
        reader = spark.read.format("oncelog").option("bootstrapServers", cluster.bootstrap_servers)
        for name, value in options.items():
            reader = reader.option(name, value)
        return values_of(reader.load())

    assert found(subscribePattern=f"{one[:-1]}[01]") == once(*range(10))
    assert found(assign=json.dumps({one: [1], two: [0]})) == once(1, 3, 6, 8)
    assert found(subscribe=one, startingTimestamp="1000002") == once(2, 3, 4)
    assert found(subscribe=one, startingTimestamp="1000001", endingTimestamp="1000003") == once(1, 2)
    by_partition = json.dumps({one: {"0": 1_000_004}})
    assert found(subscribe=one, startingOffsetsByTimestamp=by_partition) == once(1, 3, 4)
    with pytest.raises(Exception, match="startingOffsetsByTimestampStrategy=latest"):
        found(subscribe=one, startingTimestamp="1000004")
    assert found(subscribe=one, startingTimestamp="1000004", startingOffsetsByTimestampStrategy="latest") == once(4)


def test_only_committed_transactions_are_read(
    spark: SparkSession, cluster: LocalCluster, client: Any, new_topic: NewTopic
) -> None:
    topic = new_topic(1)
    with client.producer(transactional_id=f"{topic}-txn") as producer:
        for number, is_committed in ((0, True), (1, False), (2, True)):
            txn = producer.begin_transaction()
            txn.send(topic, str(number))
            if is_committed:
                txn.commit(wait="visible")
            else:
                txn.flush()
                txn.abort()
        assert values_of(read(spark, cluster, topic)) == once(0, 2)
        txn = producer.begin_transaction()
        txn.send(topic, "open")
        txn.flush()
        assert values_of(read(spark, cluster, topic)) == once(0, 2)
        assert values_of(read(spark, cluster, topic, isolation="read_uncommitted")) == once(0, 1, 2, "open")
        txn.abort()


def test_an_unknown_topic_is_named(spark: SparkSession, cluster: LocalCluster) -> None:
    with pytest.raises(Exception, match="oncelog topic create nowhere --partitions"):
        read(spark, cluster, "nowhere").count()


# ------------------------------------------------------------ streams


def test_a_stream_goes_on_where_it_stopped_and_leaves_no_lag(stream: Stream, client: Any) -> None:
    group = f"lag-{stream.topic}"
    produce(client, stream.topic, range(60))
    stream.run(maxOffsetsPerTrigger="40", commitGroup=group)
    produce(client, stream.topic, range(60, 90))
    stream.run(maxOffsetsPerTrigger="40", commitGroup=group)
    assert stream.seen() == once(*range(90))
    partitions = [(stream.topic, p) for p in range(4)]
    with client.consumer(group_id=group) as consumer:
        ends = consumer.end_offsets(partitions)
        found = consumer.committed(*partitions)
    assert {p: at.offset for p, at in found.items()} == ends


def test_a_stream_leaves_a_group_to_its_members(stream: Stream, client: Any) -> None:
    group = f"members-{stream.topic}"
    produce(client, stream.topic, range(40))
    with client.consumer(group_id=group, auto_offset_reset="earliest") as member:
        member.subscribe(stream.topic)
        assert member.getone(timeout_ms=30_000) is not None
        stream.run(commitGroup=group)
        offsets = client.admin.describe_group(group).offsets
        assert not any(at.offset for at in offsets), "neither has committed; the group may begin with the topic"
    produce(client, stream.topic, range(40, 60))
    stream.run(commitGroup=group)
    assert stream.seen() == once(*range(60))
    offsets = client.admin.describe_group(group).offsets
    assert sum(at.offset for at in offsets) == 60, "the member has left, and the stream commits"


def test_a_first_micro_batch_that_fails_begins_again_where_it_began(stream: Stream, client: Any) -> None:
    """The query begins at the end, as streams do, and Spark keeps no start: rows that came meanwhile were "lost", or lost."""
    target = f"{stream.topic}-target"

    def start() -> Any:
        reader = stream.spark.readStream.format("oncelog").option("subscribe", stream.topic)
        rows = reader.option("bootstrapServers", stream.cluster.bootstrap_servers).load()
        writer = rows.select("key", "value").writeStream.format("oncelog").option("topic", target)
        writer = writer.option("bootstrapServers", stream.cluster.bootstrap_servers)
        return writer.option("checkpointLocation", str(stream.folder / "first")).start()

    produce(client, stream.topic, range(10))
    with pytest.raises(Exception, match=f"topic {target} does not exist"):
        start().awaitTermination(60)
    produce(client, stream.topic, range(10, 30))
    client.admin.create_topic(target, partitions=2)
    query = start()
    try:
        query.processAllAvailable()
        produce(client, stream.topic, range(30, 40))
        query.processAllAvailable()
    finally:
        query.stop()
    assert committed(stream.spark, stream.cluster, target) == once(*range(10, 40))


def test_a_limit_bounds_every_micro_batch(stream: Stream, client: Any) -> None:
    produce(client, stream.topic, range(100))
    query = stream.run(maxOffsetsPerTrigger="30")
    rows = [p["numInputRows"] for p in query.recentProgress if p["numInputRows"]]
    assert rows == [30, 30, 30, 10]


def test_a_topic_created_again_is_loss_not_silence(stream: Stream, client: Any) -> None:
    produce(client, stream.topic, range(10))
    stream.run()
    client.admin.delete_topic(stream.topic)
    client.admin.create_topic(stream.topic, partitions=4)
    with Client(stream.cluster.bootstrap_servers) as fresh:
        produce(fresh, stream.topic, range(10, 15))
    with pytest.raises(Exception, match="deleted and created again"):
        stream.run()
    stream.run(failOnDataLoss="false")
    assert stream.seen() == once(*range(15))


def test_a_stream_that_may_lose_data_goes_on_without_a_topic_that_is_deleted(
    stream: Stream, client: Any, new_topic: NewTopic
) -> None:
    gone = new_topic()
    both = {"subscribe": f"{stream.topic},{gone}", "failOnDataLoss": "false"}
    produce(client, stream.topic, range(5))
    produce(client, gone, range(5, 10))
    stream.run(**both)
    client.admin.delete_topic(gone)
    produce(client, stream.topic, range(10, 15))
    with pytest.raises(Exception, match=f"topic {gone} does not exist"):
        stream.run(subscribe=both["subscribe"])
    stream.run(**both)
    client.admin.create_topic(gone, partitions=4)
    with Client(stream.cluster.bootstrap_servers) as fresh:
        produce(fresh, gone, range(15, 20))
    stream.run(**both)
    assert stream.seen() == once(*range(20))


def test_a_running_stream_reads_partitions_that_are_added(stream: Stream, client: Any) -> None:
    """Regression: the client of a reused Python worker had old metadata, and the query died."""
    produce(client, stream.topic, range(40))
    query = stream.start()
    try:
        query.processAllAvailable()
        client.admin.add_partitions(stream.topic, 6)
        with Client(stream.cluster.bootstrap_servers) as fresh, fresh.producer() as producer:
            for value in range(40, 60):
                producer.send(stream.topic, str(value), partition=4 + value % 2)
            producer.flush()
        query.processAllAvailable()
        assert failed_tasks(stream.spark, query) == 0, "a second try, by a fresh worker, would hide it"
    finally:
        query.stop()
    assert stream.seen() == once(*range(60))


def failed_tasks(spark: SparkSession, query: Any) -> int:
    tracker = spark.sparkContext.statusTracker()
    jobs = [tracker.getJobInfo(number) for number in tracker.getJobIdsForGroup(query.runId)]
    stages = [tracker.getStageInfo(number) for job in jobs if job is not None for number in job.stageIds]
    assert stages
    return sum(stage.numFailedTasks for stage in stages if stage is not None)


def test_source_and_sink_together_move_each_record_once(stream: Stream, client: Any, new_topic: NewTopic) -> None:
    produce(client, stream.topic, range(200))
    target, checkpoint = new_topic(2), stream.folder / "move"

    def move() -> None:
        reader = stream.spark.readStream.format("oncelog").option("subscribe", stream.topic)
        reader = reader.option("bootstrapServers", stream.cluster.bootstrap_servers)
        rows = reader.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", 60).load()
        writer = rows.select("key", "value").writeStream.format("oncelog").option("topic", target)
        writer = writer.option("bootstrapServers", stream.cluster.bootstrap_servers)
        writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start().awaitTermination()

    move()
    last = max(int(p.name) for p in (checkpoint / "commits").iterdir() if p.name.isdigit())
    (checkpoint / "commits" / str(last)).unlink()
    (checkpoint / "commits" / f".{last}.crc").unlink(missing_ok=True)
    produce(client, stream.topic, range(200, 220))
    move()
    assert committed(stream.spark, stream.cluster, target) == once(*range(220))
