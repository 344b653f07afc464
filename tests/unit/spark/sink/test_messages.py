"""Messages of a batch must agree before anything is committed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from oncelog.client.produce.transactions.shared_batch import SharedBatch
from oncelog.errors import IllegalStateError
from pyspark_oncelog.sink.messages import TaskMessage, TaskResult, agree, first_joined

IDENTITY = SharedBatch("spark-q", "run", "q", 7, "a")
FIRST = TaskMessage(IDENTITY, TaskResult.JOINED, rows=3, producer_id=11, txn_no=5)
SECOND = replace(FIRST, rows=4, producer_id=12)


def test_what_the_messages_say_together() -> None:
    batch = agree([FIRST, SECOND], 7)
    assert batch is not None
    assert (batch.identity, batch.txn_no, batch.rows, batch.winners) == (IDENTITY, 5, 7, (FIRST, SECOND))


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [FIRST, None],
        [FIRST, replace(SECOND, txn_no=6)],
        [FIRST, replace(SECOND, result=TaskResult.ALREADY_COMMITTED)],
        [FIRST, replace(SECOND, identity=replace(IDENTITY, write_attempt="b"))],
    ],
)
def test_messages_that_do_not_agree_are_never_committed(messages: list[TaskMessage | None]) -> None:
    with pytest.raises(IllegalStateError):
        agree(messages, 7)


def test_another_batch_than_spark_commits_is_refused() -> None:
    with pytest.raises(IllegalStateError, match="commits=8, tasks_wrote=7"):
        agree([FIRST], 8)
    assert agree([FIRST], None) is not None


def test_an_at_least_once_batch_has_nothing_to_commit() -> None:
    assert agree([TaskMessage(None, TaskResult.APPENDED, 3)], 7) is None


def test_a_failed_batch_is_named_by_any_task_that_joined() -> None:
    assert first_joined([None, SECOND]) == SECOND
    assert first_joined([None, replace(FIRST, result=TaskResult.ALREADY_COMMITTED)]) is None
