"""The driver's last word on a batch: one call that commits all winners, or one that aborts.

Rule 1: whatever the answer to a commit was, asking again is safe: the token is checked first.
Rule 2: a batch that runs again and finds itself committed waits for its markers like the first run.
Rule 3: abort never raises an error of the cluster, and changes nothing of a batch that is committed: Spark also calls it
        when only the answer to the commit was lost.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from oncelog.client.produce.transactions.shared_batch import SharedBatch
from oncelog.errors import BatchRolledBackError, OncelogError, ReplayMismatchError
from oncelog.trace import span_names
from pyspark_oncelog.options.read_write_options import ConnectionOptions, SinkOptions
from pyspark_oncelog.sink.batch_trace import TracerOf, connection_of, last_part
from pyspark_oncelog.sink.messages import BatchMessages, TaskMessage, TaskResult, agree, first_joined, trace_of
from pyspark_oncelog.sink.task_writer import rolled_back
from pyspark_oncelog.worker.worker_client import client_for, forgetting_wrong_cluster

if TYPE_CHECKING:
    from pyspark.sql.datasource import WriterCommitMessage

    from oncelog.client.produce.transactions.participant import BatchCommit, ParticipantResult

_ABORT_TIMEOUT_MS: Final = 10_000
_log = logging.getLogger(__name__)


@forgetting_wrong_cluster()
def commit_batch(options: SinkOptions, messages: Sequence[WriterCommitMessage | None], batch_id: int | None) -> None:
    """Commits what the messages say. Raises `ProducerFencedError`, `ReplayMismatchError`, `IllegalStateError` and others."""
    trace = trace_of(messages)
    connection = connection_of(options, trace)
    identity = next((m.identity for m in messages if isinstance(m, TaskMessage)), None)
    app_id, number = (identity.app_id, identity.batch_id) if identity is not None else ("", batch_id or 0)
    tracer = _tracer_of(connection)
    with last_part(trace, tracer, span_names.SPARK_COMMIT, app_id, number, len(messages)):
        _commit(options, connection, agree(messages, batch_id))


def _tracer_of(connection: ConnectionOptions) -> TracerOf:
    return lambda: client_for(connection).tracer


def _commit(options: SinkOptions, connection: ConnectionOptions, batch: BatchMessages | None) -> None:
    if batch is None or batch.result is TaskResult.ROLLED_BACK:
        return
    if batch.result is TaskResult.ALREADY_COMMITTED:
        _check_replay(options, batch, batch.committed_rows)
        _wait_visible(connection, batch.identity)
        return
    try:
        answer = _ask_commit(connection, batch.identity, batch.txn_no, _winners(batch))
    except BatchRolledBackError as error:
        raise rolled_back(error) from None
    if answer.already_committed:
        _check_replay(options, batch, answer.committed_rows)


def _ask_commit(
    connection: ConnectionOptions, identity: SharedBatch, txn_no: int, winners: Sequence[ParticipantResult]
) -> BatchCommit:
    return client_for(connection).commit_transaction(
        identity,
        txn_no,
        winners,
        wait="visible",  # so that a read which begins after this job sees it
    )


def _wait_visible(connection: ConnectionOptions, identity: SharedBatch) -> None:
    """The run before died after its commit, and its markers may still be on their way: a commit of what is committed waits.

    Nothing depends on the answer: the batch is committed, and is visible a little later if it cannot be had.
    """
    try:
        _ask_commit(connection, identity, 0, ())
    except OncelogError as error:
        _log.warning("batch %d is committed; that it is visible was not confirmed: %s", identity.batch_id, error)


def _winners(batch: BatchMessages) -> list[ParticipantResult]:
    from oncelog.client.produce.transactions.participant import ParticipantResult

    return [ParticipantResult(m.txn_no, m.producer_id, m.rows, m.counts, m.session_token) for m in batch.winners]


def _check_replay(options: SinkOptions, batch: BatchMessages, committed_rows: int) -> None:
    """A replay must have the rows of the first time: else the query is not deterministic, or the checkpoint went back."""
    if batch.rows == committed_rows:
        return
    error = ReplayMismatchError(
        "the batch is committed already, with another number of rows: the query is not deterministic, or its checkpoint "
        "was rolled back by one batch; option onReplayMismatch=keep keeps what is committed and goes on",
        batch_id=batch.identity.batch_id,
        committed_rows=committed_rows,
        rows=batch.rows,
    )
    if not options.keep_on_replay_mismatch:
        raise error
    _log.warning("%s", error)


def abort_batch(options: SinkOptions, messages: Sequence[WriterCommitMessage | None]) -> None:
    """Aborts the open transaction of a failed batch, if any message names it; else its lease ends it. Never raises."""
    message = first_joined(messages)
    if message is None or message.identity is None:
        return
    try:
        _abort(options, message, message.identity, len(messages))
    except OncelogError as error:
        _log.warning("the abort of batch %d was not answered; its lease ends it: %s", message.identity.batch_id, error)


@forgetting_wrong_cluster()
def _abort(options: SinkOptions, message: TaskMessage, identity: SharedBatch, tasks: int) -> None:
    connection = connection_of(options, message.trace)
    tracer = _tracer_of(connection)
    with last_part(message.trace, tracer, span_names.SPARK_ABORT, identity.app_id, identity.batch_id, tasks):
        client_for(connection).abort_transaction(
            identity, message.txn_no, session_token=message.session_token, timeout_ms=_ABORT_TIMEOUT_MS
        )
