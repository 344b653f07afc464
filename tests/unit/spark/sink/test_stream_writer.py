"""The streaming sink as Spark calls it: tasks learn their batch from Spark, the committing object from their messages."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from oncelog.errors import IllegalStateError
from pyspark_oncelog.options.identity import BATCH_ID_PROPERTY, QUERY_ID_PROPERTY, RUN_ID_PROPERTY
from pyspark_oncelog.sink import stream_writer
from pyspark_oncelog.sink.messages import TaskResult
from pyspark_oncelog.sink.stream_writer import OncelogStreamWriter
from tests.unit.spark.fakes import FakeClient
from tests.unit.spark.writing import IDENTITY, options, rows

TOLD = {QUERY_ID_PROPERTY: "q", BATCH_ID_PROPERTY: "7", RUN_ID_PROPERTY: "run"}


def in_task(monkeypatch: pytest.MonkeyPatch, told: dict[str, str] | None) -> None:
    """What Spark tells the task that runs; None = no task runs."""
    context = None
    if told is not None:
        context = SimpleNamespace(getLocalProperty=told.get, taskAttemptId=lambda: 42)
    monkeypatch.setattr(stream_writer, "TaskContext", SimpleNamespace(get=lambda: context))


def writer(**more: str) -> OncelogStreamWriter:
    return OncelogStreamWriter(options(**more), "a")


def write(**more: str) -> Any:
    return writer(**more).write(iter([rows("1", "2")]))


def test_a_task_learns_its_batch_from_spark(client: FakeClient, monkeypatch: pytest.MonkeyPatch) -> None:
    in_task(monkeypatch, TOLD)
    message = write()
    [join] = client.joins
    assert join["batch"] == IDENTITY
    assert join["task_attempt"] == "42"
    assert message.rows == 2


def test_another_object_commits_by_the_messages_alone(client: FakeClient, monkeypatch: pytest.MonkeyPatch) -> None:
    in_task(monkeypatch, TOLD)
    message = write()
    in_task(monkeypatch, None)
    OncelogStreamWriter(options(), "of the committer").commit([message], 7)
    [(batch, txn_no, winners)] = client.commits
    assert (batch, txn_no, len(winners)) == (IDENTITY, 5, 1)
    OncelogStreamWriter(options(), "of the committer").abort([None, message], 7)
    assert client.aborts == [(IDENTITY, 5)]


def test_spark_commits_the_batch_of_the_messages_or_none(client: FakeClient, monkeypatch: pytest.MonkeyPatch) -> None:
    in_task(monkeypatch, TOLD)
    message = write()
    with pytest.raises(IllegalStateError):
        writer().commit([message], 8)
    assert client.commits == []


def test_an_engine_that_names_no_batch_writes_nothing_exactly_once(
    client: FakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_task(monkeypatch, {QUERY_ID_PROPERTY: "q"})
    with pytest.raises(IllegalStateError, match="deliveryGuarantee=at_least_once"):
        write()
    message = write(deliveryGuarantee="at_least_once")
    assert (message.result, message.identity, client.joins) == (TaskResult.APPENDED, None, [])


def test_outside_of_a_task_nothing_is_written(client: FakeClient, monkeypatch: pytest.MonkeyPatch) -> None:
    in_task(monkeypatch, None)
    with pytest.raises(IllegalStateError, match="in a Spark task only"):
        write()
    assert client.participants == []
