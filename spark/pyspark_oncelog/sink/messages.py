"""The message that a task sends to the driver, and the agreement of all messages of a batch. Pure.

Rule: the driver believes the messages, never itself: its commit worker is a fresh object that made an attempt name of
its own. So all messages must agree on the batch, and a streaming batch id must be the one that Spark commits.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence, Set
from dataclasses import dataclass, field

from pyspark.sql.datasource import WriterCommitMessage

from oncelog.client.produce.transactions.shared_batch import SharedBatch
from oncelog.errors import IllegalStateError
from pyspark_oncelog.sink.batch_trace import NO_TRACE, BatchTrace


class TaskResult(enum.Enum):
    """The fate of a task's rows."""

    JOINED = "joined"  # written as a participant, commit decides
    ALREADY_COMMITTED = "already committed"  # a replay: drained and counted
    ROLLED_BACK = "rolled back"  # below the last committed batch, skipped by option
    APPENDED = "appended"  # at least once: visible already


@dataclass(frozen=True)
class TaskMessage(WriterCommitMessage):
    """The result of one task attempt. `counts` are its acknowledged records as (topic id, partition, records), sorted."""

    identity: SharedBatch | None
    result: TaskResult
    rows: int
    producer_id: int = -1
    txn_no: int = 0
    counts: tuple[tuple[str, int, int], ...] = ()
    committed_rows: int = -1
    trace: BatchTrace = NO_TRACE
    session_token: bytes = field(default=b"", repr=False)
    """A secret of the joined transaction: the driver shows it."""


@dataclass(frozen=True, slots=True)
class BatchMessages:
    """The messages of a batch, checked. `committed_rows` is of the earlier commit, -1 = unknown."""

    identity: SharedBatch
    result: TaskResult
    txn_no: int
    rows: int
    committed_rows: int
    winners: tuple[TaskMessage, ...]


def agree(messages: Sequence[WriterCommitMessage | None], batch_id: int | None) -> BatchMessages | None:
    """Merges the messages of a batch; None when the batch was written at least once, so there is nothing to commit.

    `batch_id` is what Spark says it commits (None in batch writes). Raises `IllegalStateError` when they contradict
    each other: that would be a change in Spark, and must never become a commit.
    """
    found = [m for m in messages if isinstance(m, TaskMessage)]
    if not found or len(found) != len(messages):
        raise IllegalStateError("Spark commits a batch without a message from every task", messages=len(messages))
    _require_one({m.result for m in found}, "results of the tasks")
    if found[0].result is TaskResult.APPENDED:
        return None
    _require_one({m.identity for m in found}, "batches")
    _require_one({m.txn_no for m in found}, "transactions")
    identity = found[0].identity
    assert identity is not None
    if batch_id is not None and identity.batch_id != batch_id:
        raise IllegalStateError(
            "Spark commits another batch than its tasks wrote", commits=batch_id, tasks_wrote=identity.batch_id
        )
    return BatchMessages(
        identity=identity,
        result=found[0].result,
        txn_no=found[0].txn_no,
        rows=sum(m.rows for m in found),
        committed_rows=max(m.committed_rows for m in found),
        winners=tuple(m for m in found if m.result is TaskResult.JOINED),
    )


def first_joined(messages: Sequence[WriterCommitMessage | None]) -> TaskMessage | None:
    """Returns a message of a failed batch that names the transaction to abort, or None (its lease ends it then)."""
    for message in messages:
        if isinstance(message, TaskMessage) and message.result is TaskResult.JOINED:
            return message
    return None


def trace_of(messages: Sequence[WriterCommitMessage | None]) -> BatchTrace:
    """The trace of a batch: all its tasks know it."""
    return next((m.trace for m in messages if isinstance(m, TaskMessage) and m.trace.context), NO_TRACE)


def _require_one(values: Set[object], what: str) -> None:
    if len(values) != 1:
        raise IllegalStateError(f"the tasks of one batch speak of different {what}", found=len(values))
