"""The batch sink as Spark calls it: its names are made once, and reach tasks, commit and abort by pickle."""

from __future__ import annotations

import pickle

from oncelog.client.produce.transactions.shared_batch import SharedBatch
from pyspark_oncelog.sink.batch_writer import OncelogBatchWriter
from pyspark_oncelog.sink.messages import TaskResult
from tests.unit.spark.fakes import FakeClient
from tests.unit.spark.writing import IDENTITY, options, rows


def writer(identity: SharedBatch | None = IDENTITY) -> OncelogBatchWriter:
    """The one that a task gets."""
    found: OncelogBatchWriter = pickle.loads(pickle.dumps(OncelogBatchWriter(options(), identity)))
    return found


def test_tasks_write_and_the_driver_commits_under_the_names_of_the_job(client: FakeClient) -> None:
    messages = [writer().write(iter([rows("1", "2")])), writer().write(iter([rows("3")]))]
    writer().commit([*messages])
    assert [join["batch"] for join in client.joins] == [IDENTITY] * 2
    [(batch, txn_no, winners)] = client.commits
    assert (batch, txn_no) == (IDENTITY, 5)
    assert sum(winner.rows for winner in winners) == 3


def test_the_driver_itself_may_write_without_a_task(client: FakeClient) -> None:
    writer().write(iter([rows("1")]))
    assert client.joins[0]["task_attempt"] == "driver"


def test_a_job_that_failed_is_aborted(client: FakeClient) -> None:
    writer().abort([None, writer().write(iter([rows("1")]))])
    assert client.aborts == [(IDENTITY, 5)]
    assert client.commits == []


def test_at_least_once_there_is_nothing_to_commit_or_abort(client: FakeClient) -> None:
    message = writer(None).write(iter([rows("1")]))
    assert message.result is TaskResult.APPENDED
    writer(None).commit([message])
    writer(None).abort([message])
    assert (client.joins, client.commits, client.aborts) == ([], [], [])
