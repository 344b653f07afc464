"""What a task and the driver ask of the cluster, and what they make of its answers."""

from __future__ import annotations

import dataclasses
import pickle
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

from oncelog.errors import (
    BatchRolledBackError,
    ConfigError,
    IllegalStateError,
    MessageTooLargeError,
    NetworkError,
    ProducerFencedError,
    ReplayMismatchError,
    UnknownTopicError,
)
from pyspark_oncelog import preflight
from pyspark_oncelog.datasource import DefaultSource
from pyspark_oncelog.options.identity import WriteIdentity
from pyspark_oncelog.options.read_write_options import SinkOptions
from pyspark_oncelog.sink import committing
from pyspark_oncelog.sink.batch_trace import BatchTrace
from pyspark_oncelog.sink.messages import TaskMessage, TaskResult
from pyspark_oncelog.sink.task_writer import write_task
from pyspark_oncelog.worker import worker_client
from tests.unit.spark.fakes import FakeClient, FakeParticipant

IDENTITY = WriteIdentity("spark-q", "run", "q", 7, "a")


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> FakeClient:
    fake = FakeClient()
    monkeypatch.setattr(worker_client, "client_for", lambda _connection: fake)
    monkeypatch.setattr(committing, "client_for", lambda _connection: fake)
    preflight._known_topics.clear()
    return fake


def options(**more: str) -> SinkOptions:
    return SinkOptions.parse({"bootstrapServers": "a:1", "topic": "t", **more})


def rows(*values: str, **columns: Any) -> Any:
    return pa.RecordBatch.from_pydict({"value": list(values), **columns})


def write(*batches: Any, identity: WriteIdentity | None = IDENTITY, **more: str) -> TaskMessage:
    return write_task(options(**more), identity, "42", batches)


# ------------------------------------------------------------ tasks


def test_a_task_joins_by_its_names_writes_and_says_what_it_wrote(client: FakeClient) -> None:
    message = write(rows("1", "2"), rows("3"))
    [join], [participant] = client.joins, client.participants
    assert join["names"] == ("spark-q", "run", "q", 7)
    assert (join["write_attempt"], join["task_attempt"]) == ("a", "42")
    assert participant.sent == [("t", {"value": [b"1", b"2", b"3"]})], "small batches are gathered"
    assert participant.is_closed
    assert message == TaskMessage(
        IDENTITY, TaskResult.JOINED, 3, 11, 5, (("id", 0, 3),), session_token=b"of the session"
    )


@pytest.mark.parametrize("more", [{}, {"deliveryGuarantee": "at_least_once"}])
def test_what_writes_the_rows_is_told_the_partitioner(client: FakeClient, more: dict[str, str]) -> None:
    identity = None if more else IDENTITY
    write(rows("1"), identity=identity, **more)
    write(rows("1"), identity=identity, partitioner="Murmur2", **more)
    assert [given["partitioner"] for given in client.options] == ["fnv1a", "murmur2"]
    with pytest.raises(ConfigError, match="option partitioner must be one of fnv1a, murmur2"):
        options(partitioner="crc32")


def test_a_replayed_task_reads_its_rows_and_writes_nothing(client: FakeClient) -> None:
    client.committed_rows = 9
    message = write(rows("1", "2"), rows("3"))
    assert (message.result, message.rows, message.committed_rows) == (TaskResult.ALREADY_COMMITTED, 3, 9)
    assert client.participants[0].sent == []


def test_a_batch_below_the_last_one_names_the_option_or_is_skipped(client: FakeClient) -> None:
    client.join_error = BatchRolledBackError(committed_batch_id=8)
    with pytest.raises(BatchRolledBackError, match=r"onRolledBackBatch=skip.*committed_batch_id=8"):
        write(rows("1"))
    message = write(rows("1", "2"), onRolledBackBatch="skip")
    assert (message.result, message.rows) == (TaskResult.ROLLED_BACK, 2)


def test_a_fenced_run_stops(client: FakeClient) -> None:
    client.join_error = ProducerFencedError()
    with pytest.raises(ProducerFencedError):
        write(rows("1"))


def test_rows_that_were_not_acknowledged_are_never_committed(client: FakeClient) -> None:
    client.lose_rows = 1
    with pytest.raises(IllegalStateError, match="not every row"):
        write(rows("1", "2"))
    assert client.participants[0].is_closed


def test_a_topic_that_a_row_names_must_exist_or_is_created(client: FakeClient) -> None:
    new = rows("1", topic=["new"])
    with pytest.raises(UnknownTopicError, match="oncelog topic create new --partitions 6 --bootstrap-servers a:1"):
        write(new, topic="")
    write(new, topic="", createTopicPartitions="3")
    assert client.created == [("new", 3)]


def test_at_least_once_joins_nothing(client: FakeClient) -> None:
    message = write(rows("1"), identity=None)
    assert (message.result, message.rows, client.joins) == (TaskResult.APPENDED, 1, [])


# ------------------------------------------------------------ the driver


def test_the_winners_of_a_batch_are_committed_in_one_call(client: FakeClient) -> None:
    messages = [write(rows("1", "2")), write(rows("3"))]
    committing.commit_batch(options(), messages, 7)
    [(*names, winners)] = client.commits
    assert names == ["spark-q", "run", "q", 7, 5]
    assert [(w.producer_id, w.rows, w.counts) for w in winners] == [(11, 2, (("id", 0, 2),)), (11, 1, (("id", 0, 1),))]


@pytest.mark.parametrize("is_only_run", [False, True])
def test_the_token_of_a_batch_that_nobody_writes_again_may_be_forgotten(client: FakeClient, is_only_run: bool) -> None:
    identity = dataclasses.replace(IDENTITY, is_only_run=is_only_run)
    committing.commit_batch(options(), [write(rows("1"), identity=identity)], None)
    assert client.tokens_expire == [is_only_run]


def test_a_replay_commits_nothing_and_must_have_the_same_rows(client: FakeClient) -> None:
    client.committed_rows = 3
    committing.commit_batch(options(), [write(rows("1", "2")), write(rows("3"))], 7)
    short = [write(rows("1", "2"))]
    with pytest.raises(ReplayMismatchError, match=r"onReplayMismatch=keep.*committed_rows=3, rows=2"):
        committing.commit_batch(options(), short, 7)
    committing.commit_batch(options(onReplayMismatch="keep"), short, 7)
    assert client.commits == []


def test_a_commit_that_was_in_already_must_have_the_same_rows(client: FakeClient) -> None:
    messages = [write(rows("1", "2"))]
    client.committed_rows = 1
    with pytest.raises(ReplayMismatchError):
        committing.commit_batch(options(), messages, 7)


def test_a_skipped_or_appended_batch_has_nothing_to_commit(client: FakeClient) -> None:
    committing.commit_batch(options(), [write(rows("1"), identity=None)], 7)
    client.join_error = BatchRolledBackError()
    committing.commit_batch(options(), [write(rows("1"), onRolledBackBatch="skip")], 7)
    assert client.commits == []


def test_an_abort_names_the_transaction_and_never_raises(client: FakeClient) -> None:
    message = write(rows("1"))
    client.abort_error = NetworkError()
    committing.abort_batch(options(), [None, message])
    assert client.aborts == [("spark-q", "run", "q", 7, 5)]


def test_an_abort_does_not_raise_what_making_a_client_raises(
    client: FakeClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Without a trace, and with one, whose span asks for the client first."""
    message = write(rows("1"))

    def refuse(_connection: Any) -> Any:
        raise ConfigError("option sslCafile: /ca cannot be read")

    monkeypatch.setattr(committing, "client_for", refuse)
    trace = BatchTrace(f"00-{1:032x}-{2:016x}-01", 5)
    for failed in (message, dataclasses.replace(message, trace=trace)):
        committing.abort_batch(options(otlpEndpoint="http://collector:4317"), [failed])
    assert caplog.text.count("the abort of batch 7 was not answered; its lease ends it") == 2


# ------------------------------------------------------------ where Spark makes a writer


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


def test_the_driver_shows_the_token_of_its_tasks_and_prints_it_nowhere(client: FakeClient) -> None:
    message = write(rows("1"))
    committing.commit_batch(options(), [message], 7)
    committing.abort_batch(options(), [None, message])
    [(*_, winners)] = client.commits
    assert [winner.session_token for winner in winners] == client.abort_tokens == [b"of the session"]
    assert "of the session" not in f"{message!r} {winners!r}"


def test_an_abort_without_a_name_leaves_it_to_the_lease(client: FakeClient) -> None:
    committing.abort_batch(options(), [None, None])
    assert client.aborts == []


# ------------------------------------------------------------ checks


def test_a_known_topic_is_asked_for_once(client: FakeClient) -> None:
    preflight.require_topic(options())
    client.topics.clear()
    preflight.require_topic(options())


@pytest.mark.parametrize("identity", [IDENTITY, None], ids=["in a transaction", "at least once"])
def test_a_topic_that_was_deleted_since_is_created_again_or_named(
    client: FakeClient, identity: WriteIdentity | None
) -> None:
    """A worker remembered it, and option createTopicPartitions had no effect until the worker ended."""
    row = rows("1", topic=["new"])
    creates = {"topic": "", "createTopicPartitions": "3"}
    write(row, identity=identity, **creates)
    client.topics.remove("new")
    write(row, identity=identity, **creates)
    assert client.created == [("new", 3)] * 2
    assert client.participants[-1].sent == [("new", {"value": [b"1"]})]
    client.topics.remove("new")
    with pytest.raises(UnknownTopicError, match=r"oncelog topic create new .* or set option createTopicPartitions"):
        write(row, identity=identity, topic="")


def test_a_python_that_lacks_a_package_is_named() -> None:
    with pytest.raises(ConfigError, match=r"lacks no_such_package, no\.such.*PYSPARK_PYTHON"):
        preflight.require_python(("pyarrow", "no_such_package", "no.such"))


def test_a_worker_python_that_does_not_run_is_named() -> None:
    from pyspark_oncelog.registration import require_worker_python

    with pytest.raises(ConfigError, match="no-such-python lacks a Python that runs: set PYSPARK_PYTHON"):
        require_worker_python("no-such-python")


def test_this_python_has_what_a_worker_needs() -> None:
    import sys

    from pyspark_oncelog.registration import require_worker_python

    require_worker_python(sys.executable)


BY_THE_SDK = MessageTooLargeError(
    "the record is larger than max_request_size", bytes=9_000_000, max_request_size=8 << 20
)
BY_THE_TOPIC = MessageTooLargeError(batch_bytes=9_000_000, max_message_bytes=8 << 20)


@pytest.mark.parametrize("identity", [IDENTITY, None], ids=["in a transaction", "at least once"])
@pytest.mark.parametrize(
    ("refusal", "says", "named"),
    [
        (
            BY_THE_SDK,
            "larger than option maxRequestBytes: raise that, and max_message_bytes",
            ("bytes", "maxRequestBytes"),
        ),
        (BY_THE_TOPIC, "larger than the topic's max_message_bytes: raise that", ("batch_bytes", "max_message_bytes")),
    ],
)
def test_a_row_that_is_too_large_names_the_limit_by_the_option_that_raises_it(
    client: FakeClient,
    monkeypatch: pytest.MonkeyPatch,
    identity: WriteIdentity | None,
    refusal: MessageTooLargeError,
    says: str,
    named: tuple[str, str],
) -> None:
    """Regression: the advice was `max_request_size`, which is the SDK's."""

    def refuse(*_: Any) -> None:
        raise refusal

    monkeypatch.setattr(FakeParticipant, "send_batch", refuse)
    with pytest.raises(MessageTooLargeError, match=says) as caught:
        write(rows("1"), identity=identity)
    assert "max_request_size" not in str(caught.value)
    assert caught.value.context == dict(zip(named, ("9000000", str(8 << 20)), strict=True))


@pytest.mark.parametrize("identity", [IDENTITY, None], ids=["in a transaction", "at least once"])
def test_the_largest_row_is_that_of_the_option(client: FakeClient, identity: WriteIdentity | None) -> None:
    """Regression: rows of 9 MB could not be written at all."""
    write(rows("1"), identity=identity, maxRequestBytes=str(16 << 20))
    assert (client.options[0]["max_request_size"], client.options[0]["batch_size"]) == (16 << 20, 3 << 20)
