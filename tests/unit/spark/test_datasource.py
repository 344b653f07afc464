"""What Spark asks for by name: everything that can be refused is refused where it is planned."""

from __future__ import annotations

import pickle

import pytest
from pyspark.sql.types import StructType

from oncelog.errors import (
    ConfigError,
    UnknownTopicError,
)
from pyspark_oncelog.datasource import DefaultSource
from pyspark_oncelog.sink.batch_writer import OncelogBatchWriter
from pyspark_oncelog.source.read_schema import READ_SCHEMA, READ_SCHEMA_WITH_HEADERS
from tests.unit.spark.fakes import FakeClient
from tests.unit.spark.writing import rows, write

VALUE = StructType().add("value", "string")


@pytest.mark.parametrize("kind", ["streamWriter", "writer"])
def test_a_topic_that_is_gone_stops_the_plan_and_neither_commit_nor_abort(client: FakeClient, kind: str) -> None:
    """Spark makes the writer anew to commit, from a data source that came by pickle: it raised there, before the abort."""
    source = DefaultSource({"bootstrapServers": "a:1", "topic": "gone"})
    with pytest.raises(UnknownTopicError, match="oncelog topic create gone"):
        getattr(source, kind)(VALUE, False)
    committer = pickle.loads(pickle.dumps(source))
    message = write(rows("1"))
    committer.streamWriter(schema=VALUE, overwrite=False).abort([message], 7)
    committer.streamWriter(schema=VALUE, overwrite=False).commit([message], 7)
    assert (len(client.aborts), len(client.commits)) == (1, 1)


def test_a_stream_that_writes_says_what_has_no_effect(client: FakeClient) -> None:
    given = {"bootstrapServers": "a:1", "topic": "t", "maxOffsetsPerTrigger": "5"}
    DefaultSource(given).writer(VALUE, False)
    with pytest.raises(ConfigError, match="option maxOffsetsPerTrigger is for a read"):
        DefaultSource(given).streamWriter(VALUE, False)


def source(**more: str) -> DefaultSource:
    return DefaultSource({"bootstrapServers": "a:1", "topic": "t", **more})


def test_it_is_asked_for_by_its_name() -> None:
    assert DefaultSource.name() == "oncelog"


def test_a_read_has_the_columns_of_sparks_kafka_source_and_headers_when_asked() -> None:
    assert DefaultSource({}).schema() == READ_SCHEMA
    assert DefaultSource({"includeHeaders": "TRUE"}).schema() == READ_SCHEMA_WITH_HEADERS
    with pytest.raises(ConfigError, match="did you mean subscribe"):
        DefaultSource({"subscibe": "t"}).schema()


def test_what_is_wrong_with_a_batch_read_is_said_where_it_is_planned() -> None:
    with pytest.raises(ConfigError, match="no column valeu"):
        DefaultSource({"bootstrapServers": "a:1", "subscribe": "t"}).reader(StructType().add("valeu", "binary"))
    with pytest.raises(ConfigError, match="subscribe is required"):
        DefaultSource({"bootstrapServers": "a:1"}).reader(StructType().add("value", "binary"))


@pytest.mark.parametrize("kind", ["streamWriter", "writer"])
def test_a_log_is_not_overwritten_unless_the_user_means_append(client: FakeClient, kind: str) -> None:
    with pytest.raises(ConfigError, match="option onOverwrite=append"):
        getattr(source(), kind)(VALUE, True)
    assert getattr(source(onOverwrite="append"), kind)(VALUE, True)


def test_a_stream_has_names_of_its_own(client: FakeClient) -> None:
    with pytest.raises(ConfigError, match="txnAppId and txnVersion are for batch writes"):
        source(txnAppId="etl", txnVersion="3").streamWriter(VALUE, False)


def test_columns_that_cannot_be_written_are_refused_before_any_data(client: FakeClient) -> None:
    with pytest.raises(ConfigError):
        source().writer(StructType().add("price", "double"), False)


def test_a_job_is_named_by_its_app_and_version_and_else_by_chance(client: FakeClient) -> None:
    def names(*jobs: OncelogBatchWriter) -> list[tuple[str, str, int]]:
        found = [job._identity for job in jobs]
        return [(name.transactional_id, name.app_id, name.batch_id) for name in found if name is not None]

    again = [source(txnAppId="etl", txnVersion="3").writer(VALUE, False) for _ in range(2)]
    assert names(*again) == [("spark-etl:t", "etl", 3)] * 2
    chance = names(*(source().writer(VALUE, False) for _ in range(2)))
    assert chance[0] != chance[1]
    assert names(source(deliveryGuarantee="at_least_once").writer(VALUE, False)) == []
