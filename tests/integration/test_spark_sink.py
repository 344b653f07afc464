"""The sink against a real cluster: whatever is tried again, each row is read exactly once."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import oncelog
from oncelog.errors import ProducerFencedError
from oncelog.sync import Client
from oncelog_cli.laptop.local_cluster import LocalCluster
from tests.integration.spark_tools import Pipeline, committed, once

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
NewTopic = Callable[..., str]


@pytest.fixture
def pipeline(spark: SparkSession, cluster: LocalCluster, tmp_path: Path, new_topic: NewTopic) -> Pipeline:
    return Pipeline(spark, cluster, tmp_path, new_topic())


def write(frame: Any, cluster: LocalCluster, **options: str) -> None:
    writer = frame.write.format("oncelog").mode("append").option("bootstrapServers", cluster.bootstrap_servers)
    for name, value in options.items():
        writer = writer.option(name, value)
    writer.save()


def numbers(spark: SparkSession, count: int, slices: int = 2) -> Any:
    return spark.range(0, count, 1, slices).selectExpr("CAST(id AS STRING) AS key", "CAST(id AS STRING) AS value")


def failing_first_attempt(frame: Any, fails_at: str) -> Any:
    """The same rows; but the first attempt of the task that has this value fails there, after it wrote some rows."""
    from pyspark.sql import functions as F

    @F.udf("string", useArrow=False)
    def flaky(value: str) -> str:
        import time

        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        if value == fails_at and context.attemptNumber() == 0:
            time.sleep(0.5)
            raise ValueError("planted: the first attempt fails")
        return value

    return frame.withColumn("value", flaky("value"))


# ------------------------------------------------------------ batch writes


def test_a_row_of_nine_mebibytes_is_written_when_sink_and_topic_take_it(
    spark: SparkSession, cluster: LocalCluster, new_topic: NewTopic
) -> None:
    """Regression: the error about a row of 9 MB named an SDK option that Spark users cannot set."""
    topic, value = new_topic(1), os.urandom(9 << 20)  # random, so that no compression makes it small
    frame = spark.createDataFrame([(bytearray(value),)], "value binary")
    with pytest.raises(Exception, match="a row is larger than option maxRequestBytes"):
        write(frame, cluster, topic=topic)
    larger = {"kafka.max.request.size": str(16 << 20)}
    with pytest.raises(Exception, match="larger than the topic's max_message_bytes"):
        write(frame, cluster, topic=topic, **larger)
    with Client(cluster.bootstrap_servers) as client:
        client.admin.alter_topic(topic, config={"max_message_bytes": str(16 << 20)})
    write(frame, cluster, topic=topic, **larger)
    reader = spark.read.format("oncelog").option("bootstrapServers", cluster.bootstrap_servers)
    [row] = reader.option("subscribe", topic).load().select("value").collect()
    assert bytes(row.value) == value


def test_a_job_is_written_once_and_its_rerun_changes_nothing(
    spark: SparkSession, cluster: LocalCluster, new_topic: NewTopic
) -> None:
    topic = new_topic()
    for _ in range(2):
        write(numbers(spark, 100), cluster, topic=topic, txnAppId="job", txnVersion="1")
    assert committed(spark, cluster, topic) == once(*range(100))
    write(numbers(spark, 3), cluster, topic=topic, txnAppId="job", txnVersion="2")
    assert sum(committed(spark, cluster, topic).values()) == 103


def test_one_name_and_number_for_two_topics_are_two_writes(
    spark: SparkSession, cluster: LocalCluster, new_topic: NewTopic
) -> None:
    """The second one was taken for the first one run again, and dropped without a word."""
    topics = new_topic(), new_topic()
    for topic in (*topics, *topics):
        write(numbers(spark, 20), cluster, topic=topic, txnAppId="both", txnVersion="1")
    assert [committed(spark, cluster, topic) for topic in topics] == [once(*range(20))] * 2


def test_without_tokens_a_rerun_appends_again(spark: SparkSession, cluster: LocalCluster, new_topic: NewTopic) -> None:
    topic = new_topic()
    for _ in range(2):
        write(numbers(spark, 5), cluster, topic=topic)
    assert set(committed(spark, cluster, topic).values()) == {2}


def test_a_task_that_fails_and_is_tried_again_is_written_once(
    spark: SparkSession, cluster: LocalCluster, new_topic: NewTopic
) -> None:
    topic = new_topic()
    write(failing_first_attempt(numbers(spark, 50_000), "45000"), cluster, topic=topic)
    assert committed(spark, cluster, topic) == once(*range(50_000))


def test_a_job_that_fails_leaves_nothing(spark: SparkSession, cluster: LocalCluster, new_topic: NewTopic) -> None:
    topic = new_topic()
    broken = numbers(spark, 40).selectExpr("key", "IF(key = '30', raise_error('planted'), value) AS value")
    with pytest.raises(Exception, match="planted"):
        write(broken, cluster, topic=topic)
    assert committed(spark, cluster, topic) == once()


def test_rows_name_topic_partition_and_headers(spark: SparkSession, cluster: LocalCluster, new_topic: NewTopic) -> None:
    one, two = new_topic(), new_topic()
    frame = spark.range(20).selectExpr(
        f"IF(id % 2 = 0, '{one}', '{two}') AS topic",
        "CAST(id AS STRING) AS value",
        "CAST(id % 3 AS INT) AS partition",
        "array(named_struct('key', 'h', 'value', CAST('x' AS BINARY))) AS headers",
        "timestamp_seconds(1000000 + id) AS timestamp",
    )
    write(frame, cluster)
    assert committed(spark, cluster, one) == once(*range(0, 20, 2))
    reader = spark.read.format("oncelog").option("bootstrapServers", cluster.bootstrap_servers)
    rows = reader.option("subscribe", two).option("includeHeaders", "true").load().collect()
    assert {int(r["value"]): r["partition"] for r in rows} == {i: i % 3 for i in range(1, 20, 2)}
    for row in rows:
        assert row["timestamp"].timestamp() == 1_000_000 + int(row["value"])
        assert [(h["key"], bytes(h["value"])) for h in row["headers"]] == [("h", b"x")]
        assert (row["topic"], row["timestampType"], row["key"]) == (two, 0, None)


def test_an_unknown_topic_is_named_with_the_command_that_creates_it(spark: SparkSession, cluster: LocalCluster) -> None:
    with pytest.raises(Exception, match="oncelog topic create no-such --partitions"):
        write(numbers(spark, 5), cluster, topic="no-such")
    write(numbers(spark, 5), cluster, topic="made-by-spark", createTopicPartitions="3")
    assert committed(spark, cluster, "made-by-spark") == once(*range(5))


@pytest.mark.parametrize(
    ("columns", "options", "says"),
    [
        (["id AS value"], {"topic": "t"}, "column value has type bigint"),
        (["CAST(id AS STRING) AS v"], {"topic": "t"}, "column v cannot be written"),
        (["CAST(id AS STRING) AS value"], {}, "no topic"),
        (["CAST(id AS STRING) AS value"], {"topik": "t"}, "did you mean topic"),
        (["CAST(id AS STRING) AS value"], {"topic": "t", "txnAppId": "a"}, "together"),
    ],
)
def test_mistakes_are_named_before_data_is_computed(
    spark: SparkSession, cluster: LocalCluster, columns: list[str], options: dict[str, str], says: str
) -> None:
    with pytest.raises(Exception, match=says):
        write(spark.range(3).selectExpr(*columns), cluster, **options)


def test_at_least_once_is_visible_at_once(spark: SparkSession, cluster: LocalCluster, new_topic: NewTopic) -> None:
    topic = new_topic()
    write(numbers(spark, 30), cluster, topic=topic, deliveryGuarantee="at_least_once")
    assert committed(spark, cluster, topic) == once(*range(30))


# ------------------------------------------------------------ streams


def test_a_stream_is_written_once_with_tasks_that_fail(pipeline: Pipeline) -> None:
    pipeline.add("a", [f"a{i}" for i in range(300)])
    pipeline.add("b", [f"b{i}" for i in range(300)])
    pipeline.run(failing_first_attempt(pipeline.frame().repartition(2), "b250"))
    expected = once(*[f"{f}{i}" for f in "ab" for i in range(300)])
    assert committed(pipeline.spark, pipeline.cluster, pipeline.topic) == expected


def test_a_replayed_micro_batch_changes_nothing(pipeline: Pipeline) -> None:
    pipeline.add("a", ["a1", "a2"])
    pipeline.add("b", ["b1"])
    pipeline.run()
    pipeline.forget_commit(1)
    pipeline.add("c", ["c1"])
    pipeline.run()
    assert committed(pipeline.spark, pipeline.cluster, pipeline.topic) == once("a1", "a2", "b1", "c1")


def test_a_replayed_stateful_query_keeps_its_state(pipeline: Pipeline) -> None:
    """Draining the rows of a replay is what commits the state stores."""
    pipeline.add("a", ["x", "y"])
    pipeline.add("b", ["y", "z"])
    pipeline.run(pipeline.frame().dropDuplicates(["value"]))
    pipeline.forget_commit(1)
    pipeline.add("c", ["x", "y", "z", "w"])
    pipeline.run(pipeline.frame().dropDuplicates(["value"]))
    assert committed(pipeline.spark, pipeline.cluster, pipeline.topic) == once("x", "y", "z", "w")


def test_a_replay_with_other_rows_is_an_error_not_silence(pipeline: Pipeline) -> None:
    pipeline.add("a", ["a1", "a2"])
    pipeline.run()
    pipeline.forget_commit(0)
    doubled = pipeline.frame().selectExpr("key", "explode(array(value, value)) AS value")
    with pytest.raises(Exception, match="onReplayMismatch"):
        pipeline.run(doubled)
    pipeline.run(doubled, onReplayMismatch="keep")
    assert committed(pipeline.spark, pipeline.cluster, pipeline.topic) == once("a1", "a2")


def test_a_checkpoint_that_went_back_is_an_error_not_silence(pipeline: Pipeline) -> None:
    for name in ("a", "b", "c"):
        pipeline.add(name, [name])
    pipeline.run()
    for batch in (1, 2):
        pipeline.forget_batch(batch)
    with pytest.raises(Exception, match="onRolledBackBatch"):
        pipeline.run()
    pipeline.run(onRolledBackBatch="skip")
    assert committed(pipeline.spark, pipeline.cluster, pipeline.topic) == once("a", "b", "c")


def test_a_deleted_checkpoint_is_another_query(pipeline: Pipeline) -> None:
    pipeline.add("a", ["a"])
    pipeline.run()
    first = pipeline.last_id
    pipeline.forget_everything()
    pipeline.run()
    assert pipeline.last_id != first
    assert committed(pipeline.spark, pipeline.cluster, pipeline.topic) == {"a": 2}


def test_a_driver_that_lost_its_query_changes_nothing(pipeline: Pipeline) -> None:
    """Two drivers on one checkpoint: the later run owns the transactional id, whatever the old one still sends."""
    pipeline.add("a", ["a"])
    pipeline.run()
    rows = pa.RecordBatch.from_pydict({"value": [b"written by the old driver"]})
    with Client(pipeline.cluster.bootstrap_servers) as old:
        batch = oncelog.SharedBatch(f"spark-{pipeline.last_id}", "old-run", pipeline.last_id, 1, "9")
        with old.join_transaction(batch) as participant:
            participant.send_batch(pipeline.topic, rows)
            written = participant.flush()
        pipeline.add("b", ["b"])
        pipeline.run()
        answer = old.commit_transaction(batch, written.txn_no, [written])
        assert answer.already_committed
        with pytest.raises(ProducerFencedError):
            old.join_transaction(dataclasses.replace(batch, batch_id=2))
        assert not old.abort_transaction(batch, written.txn_no)
    assert committed(pipeline.spark, pipeline.cluster, pipeline.topic) == once("a", "b")


def test_foreach_batch_with_tokens_is_written_once(pipeline: Pipeline) -> None:
    """The way for update mode: the batch id is the version."""
    topic, cluster = pipeline.topic, pipeline.cluster

    def each(frame: Any, batch_id: int) -> None:
        for _ in range(2):
            write(frame, cluster, topic=topic, txnAppId="each", txnVersion=str(batch_id))

    for name in ("a", "b"):
        pipeline.add(name, [name])
    stream = pipeline.frame().writeStream.foreachBatch(each)
    stream.option("checkpointLocation", str(pipeline.checkpoint)).trigger(availableNow=True).start().awaitTermination()
    assert committed(pipeline.spark, cluster, topic) == once("a", "b")


def test_the_guides_aggregation_in_update_mode_is_written_once(pipeline: Pipeline) -> None:
    """Spark refuses update mode for sinks in Python; the guide says what to do instead."""
    page = (Path(__file__).resolve().parents[2] / "docs" / "spark.md").read_text()
    (code,) = re.findall(r"^## An aggregation in update mode\n.*?^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    for told, here in {
        "broker-0:9092": pipeline.cluster.bootstrap_servers,
        '"counts"': f'"{pipeline.topic}"',
        "s3a://jobs/counts": str(pipeline.checkpoint),
    }.items():
        assert told in code
        code = code.replace(told, here)

    def run() -> None:
        names: dict[str, Any] = {"orders": pipeline.frame().withColumnRenamed("value", "product")}
        exec(compile(code, "docs/spark.md", "exec"), names)
        names["query"].processAllAvailable()
        names["query"].stop()

    pipeline.add("a", ["x", "x"])
    pipeline.add("b", ["x", "y"])
    run()
    assert committed(pipeline.spark, pipeline.cluster, pipeline.topic) == once(2, 3, 1)
    pipeline.forget_commit(1)
    run()
    assert committed(pipeline.spark, pipeline.cluster, pipeline.topic) == once(2, 3, 1)


def test_complete_mode_is_refused_or_appends_by_option(pipeline: Pipeline) -> None:
    pipeline.add("a", ["x", "x"])
    counted = pipeline.frame().groupBy("value").count().selectExpr("CONCAT(value, count) AS value")

    def run(**options: str) -> None:
        writer = counted.writeStream.format("oncelog").outputMode("complete").option("topic", pipeline.topic)
        writer = writer.option("bootstrapServers", pipeline.cluster.bootstrap_servers)
        writer = writer.option("checkpointLocation", str(pipeline.checkpoint))
        for name, value in options.items():
            writer = writer.option(name, value)
        writer.trigger(availableNow=True).start().awaitTermination()

    with pytest.raises(Exception, match="onOverwrite=append"):
        run()
    run(onOverwrite="append")
    assert committed(pipeline.spark, pipeline.cluster, pipeline.topic) == once("x2")
