"""The driver's last word on a batch: one commit of all winners, or an abort that never raises."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from oncelog.errors import (
    BatchRolledBackError,
    ConfigError,
    NetworkError,
    ReplayMismatchError,
)
from pyspark_oncelog.sink import committing
from pyspark_oncelog.sink.batch_trace import BatchTrace
from tests.unit.spark.fakes import FakeClient
from tests.unit.spark.writing import IDENTITY, options, rows, write


def test_the_winners_of_a_batch_are_committed_in_one_call(client: FakeClient) -> None:
    messages = [write(rows("1", "2")), write(rows("3"))]
    committing.commit_batch(options(), messages, 7)
    [(batch, txn_no, winners)] = client.commits
    assert (batch, txn_no) == (IDENTITY, 5)
    assert [(w.producer_id, w.rows, w.counts) for w in winners] == [(11, 2, (("id", 0, 2),)), (11, 1, (("id", 0, 1),))]


@pytest.mark.parametrize("token_expires", [False, True])
def test_the_token_of_a_batch_that_nobody_writes_again_may_be_forgotten(
    client: FakeClient, token_expires: bool
) -> None:
    identity = dataclasses.replace(IDENTITY, token_expires=token_expires)
    committing.commit_batch(options(), [write(rows("1"), identity=identity)], None)
    assert [batch.token_expires for batch, *_ in client.commits] == [token_expires]


AGAIN = (IDENTITY, 0, ())
"""A commit without winners of what is committed already: its answer comes when the markers are in."""


def test_a_replay_must_have_the_same_rows_and_waits_until_they_are_visible(client: FakeClient) -> None:
    client.committed_rows = 3
    committing.commit_batch(options(), [write(rows("1", "2")), write(rows("3"))], 7)
    assert client.commits == [AGAIN]
    short = [write(rows("1", "2"))]
    with pytest.raises(ReplayMismatchError, match=r"onReplayMismatch=keep.*committed_rows=3, rows=2"):
        committing.commit_batch(options(), short, 7)
    assert client.commits == [AGAIN]
    committing.commit_batch(options(onReplayMismatch="keep"), short, 7)
    assert client.commits == [AGAIN, AGAIN]


def test_a_replay_whose_visibility_cannot_be_confirmed_is_no_failure(
    client: FakeClient, caplog: pytest.LogCaptureFixture
) -> None:
    """The batch is committed, whatever becomes of the question."""
    client.committed_rows = 1
    client.commit_error = NetworkError()
    committing.commit_batch(options(), [write(rows("1"))], 7)
    assert "batch 7 is committed" in caplog.text


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
    assert client.aborts == [(IDENTITY, 5)]


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
