"""What we rely on in Spark and Spark does not promise: a new version that changes it fails here, by name.

The names of local properties, equality of batch ids, the keywords of calls, what survives from planner to task to
commit, the type of messages.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pyspark_oncelog.options.identity import BATCH_ID_PROPERTY, QUERY_ID_PROPERTY, RUN_ID_PROPERTY
from tests.integration.spark_tools import add_file

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
PROPERTIES = (QUERY_ID_PROPERTY, BATCH_ID_PROPERTY, RUN_ID_PROPERTY)


def probe_source(log: str, properties: tuple[str, ...]) -> type:
    """A sink that only writes down what Spark tells it. Defined here, so that it is pickled by value."""
    from dataclasses import dataclass

    from pyspark import TaskContext
    from pyspark.sql.datasource import DataSource, DataSourceStreamArrowWriter, WriterCommitMessage

    @dataclass
    class Message(WriterCommitMessage):
        properties: dict[str, str | None]
        maker: str
        attempt: int

    class Writer(DataSourceStreamArrowWriter):
        def __init__(self, maker: str) -> None:
            self.maker = maker

        def write(self, iterator: Iterator[Any]) -> Message:
            for _ in iterator:
                pass
            context = TaskContext.get()
            assert context is not None
            found = {name: context.getLocalProperty(name) for name in properties}
            return Message(found, self.maker, context.taskAttemptId())

        def commit(self, messages: list[Any], batchId: int) -> None:  # noqa: N803
            line = {
                "batch_id": batchId,
                "messages": [[m.properties, m.maker, m.attempt] for m in messages],
                "types": sorted({type(m).__name__ for m in messages}),
                "committer": self.maker,
            }
            with Path(log).open("a") as out:
                out.write(json.dumps(line) + "\n")

    class Probe(DataSource):
        @classmethod
        def name(cls) -> str:
            return "contract_probe"

        def streamWriter(self, schema: Any, overwrite: bool) -> Writer:
            import secrets

            return Writer(secrets.token_hex(8))

    return Probe


@pytest.fixture(scope="module")
def commits(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, list[dict[str, Any]]]:
    """A query of two micro-batches over the probe: the query and its commits."""
    folder = tmp_path_factory.mktemp("contract")
    (folder / "in").mkdir()
    for name in ("a", "b"):
        add_file(folder / "in", name, ["1", "2"])
    spark.dataSource.register(probe_source(str(folder / "log"), PROPERTIES))
    query = (
        spark.readStream.format("text")
        .option("maxFilesPerTrigger", 1)
        .load(str(folder / "in"))
        .repartition(2)
        .writeStream.format("contract_probe")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return query, [json.loads(line) for line in (folder / "log").read_text().splitlines()]


def test_tasks_are_told_query_run_and_batch(commits: tuple[Any, list[dict[str, Any]]]) -> None:
    query, lines = commits
    assert [line["batch_id"] for line in lines] == [0, 1]
    for line in lines:
        for properties, _, _ in line["messages"]:
            expected = {
                QUERY_ID_PROPERTY: query.id,
                RUN_ID_PROPERTY: query.runId,
                BATCH_ID_PROPERTY: str(line["batch_id"]),
            }
            assert properties == {name: str(value) for name, value in expected.items()}


def test_every_task_has_a_message_of_our_type_and_attempt_ids_differ(commits: tuple[Any, list[dict[str, Any]]]) -> None:
    for line in commits[1]:
        assert line["types"] == ["Message"]
        attempts = [attempt for _, _, attempt in line["messages"]]
        assert len(attempts) == 2 == len(set(attempts))


def test_the_planners_writer_reaches_all_tasks_and_another_one_commits(
    commits: tuple[Any, list[dict[str, Any]]],
) -> None:
    planners = []
    for line in commits[1]:
        makers = {maker for _, maker, _ in line["messages"]}
        assert len(makers) == 1
        assert line["committer"] not in makers
        planners += makers
    assert len(set(planners)) == len(planners)


def test_our_methods_have_the_parameter_names_that_spark_calls() -> None:
    from pyspark.sql import datasource as api

    from pyspark_oncelog import DefaultSource
    from pyspark_oncelog.sink.batch_writer import OncelogBatchWriter
    from pyspark_oncelog.sink.stream_writer import OncelogStreamWriter
    from pyspark_oncelog.source.batch_reader import OncelogBatchReader
    from pyspark_oncelog.source.stream_reader import OncelogStreamReader

    pairs: list[tuple[type, type]] = [
        (DefaultSource, api.DataSource),
        (OncelogBatchReader, api.DataSourceReader),
        (OncelogStreamReader, api.DataSourceStreamReader),
        (OncelogBatchWriter, api.DataSourceArrowWriter),
        (OncelogStreamWriter, api.DataSourceStreamArrowWriter),
    ]
    for ours, theirs in pairs:
        for name in [n for n in vars(ours) if not n.startswith("_") and hasattr(theirs, n)]:
            parameters = list(inspect.signature(getattr(ours, name)).parameters)
            assert parameters == list(inspect.signature(getattr(theirs, name)).parameters), (ours, name)


def test_the_source_is_found_by_name_alone(spark: SparkSession) -> None:
    with pytest.raises(Exception, match="option bootstrapServers is required"):
        spark.read.format("oncelog").option("subscribe", "t").load().count()


def test_the_arrow_types_of_a_read_are_sparks(spark: SparkSession) -> None:
    import pyarrow as pa
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType, _parse_datatype_string

    from pyspark_oncelog.source.read_schema import READ_SCHEMA_WITH_HEADERS

    schema = _parse_datatype_string(READ_SCHEMA_WITH_HEADERS)
    assert isinstance(schema, StructType)
    arrow = to_arrow_schema(schema, timezone="UTC")
    types = {field.name: field.type for field in arrow}
    assert types["key"] == types["value"] == pa.binary()
    assert types["timestamp"] == pa.timestamp("us", "UTC")
    assert (types["partition"], types["offset"], types["timestampType"]) == (pa.int32(), pa.int64(), pa.int32())
