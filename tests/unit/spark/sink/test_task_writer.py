"""One task attempt of a write: it joins, sends its rows, and says what was written; a replay is read and not written."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog.client.produce.transactions.shared_batch import SharedBatch
from oncelog.errors import (
    BatchRolledBackError,
    ConfigError,
    IllegalStateError,
    MessageTooLargeError,
    ProducerFencedError,
    UnknownTopicError,
)
from pyspark_oncelog.sink.messages import TaskMessage, TaskResult
from tests.unit.spark.fakes import FakeClient, FakeParticipant
from tests.unit.spark.writing import IDENTITY, options, rows, write


def test_a_task_joins_by_its_names_writes_and_says_what_it_wrote(client: FakeClient) -> None:
    message = write(rows("1", "2"), rows("3"))
    [join], [participant] = client.joins, client.participants
    assert join["batch"] == IDENTITY
    assert join["task_attempt"] == "42"
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


@pytest.mark.parametrize("identity", [IDENTITY, None], ids=["in a transaction", "at least once"])
def test_a_topic_that_was_deleted_since_is_created_again_or_named(
    client: FakeClient, identity: SharedBatch | None
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
    identity: SharedBatch | None,
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
def test_the_largest_row_is_that_of_the_option(client: FakeClient, identity: SharedBatch | None) -> None:
    """Regression: rows of 9 MB could not be written at all."""
    write(rows("1"), identity=identity, maxRequestBytes=str(16 << 20))
    assert (client.options[0]["max_request_size"], client.options[0]["batch_size"]) == (16 << 20, 3 << 20)
