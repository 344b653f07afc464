"""One task attempt of a write: join, send Arrow batches, flush, and tell the driver what was written.

Rule 1: the rows are always read to their end, also when they are not written: reading them is what commits the state
        of stateful operators, and counting them is what shows a replay with other rows.
Rule 2: a task that fails says nothing and undoes nothing: it is not among the winners, so the commit aborts its rows.
Rule 3: the lease is renewed by a task on the client's loop from join to the end of this call, and never longer.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, Protocol

from oncelog.client.produce.transactions.shared_batch import SharedBatch
from oncelog.errors import BatchRolledBackError, IllegalStateError, MessageTooLargeError, UnknownTopicError
from oncelog.trace import span_names
from pyspark_oncelog import preflight
from pyspark_oncelog.options.read_write_options import SinkOptions
from pyspark_oncelog.sink.batch_gatherer import GATHERED_BATCHES, Gatherer
from pyspark_oncelog.sink.batch_trace import NO_TRACE, BatchTrace, connection_of, part
from pyspark_oncelog.sink.columns import pieces
from pyspark_oncelog.sink.messages import TaskMessage, TaskResult

if TYPE_CHECKING:
    from pyarrow import RecordBatch

    from oncelog.option_types import ParticipantOptions
    from oncelog.sync import Client


_RAISE_TOPICS: Final = "oncelog topic alter-config TOPIC --set max_message_bytes=N"
_SPLIT: Final = "Or split the row, or write a reference to where its content is"
_MORE_THAN_THE_SINK_SENDS: Final = (
    "a row is larger than option maxRequestBytes: raise that, and max_message_bytes of the topic if it is below "
    f"({_RAISE_TOPICS}). {_SPLIT}"
)
_MORE_THAN_THE_TOPIC_TAKES: Final = (
    "a row, or a batch of rows, is larger than the topic's max_message_bytes: raise that, up to option maxRequestBytes "
    f"({_RAISE_TOPICS}), or, for a batch of small rows, make option batchBytes smaller. {_SPLIT}"
)


class ArrowWriter(Protocol):
    """The receiver of rows: a participant of a transaction, or a plain producer."""

    def send_batch(self, topic: str, data: RecordBatch) -> object:
        """Queues rows; waits for room."""
        ...


def write_task(
    options: SinkOptions,
    identity: SharedBatch | None,
    task_attempt: str,
    batches: Iterable[RecordBatch],
    trace: BatchTrace = NO_TRACE,
) -> TaskMessage:
    """Writes the rows of a task. Raises what the log refuses; Spark then tries the task again elsewhere."""
    preflight.require_python()
    from pyspark_oncelog.worker.worker_client import client_for, forgetting_wrong_cluster

    named = {span_names.SPARK_TASK_ATTEMPT: task_attempt, span_names.DESTINATION: options.topic}
    with forgetting_wrong_cluster():
        client = client_for(connection_of(options, trace))
        with part(trace, lambda: client.tracer, span_names.SPARK_TASK, named) as span:
            message = _write(client, options, identity, task_attempt, batches)
            span.set({span_names.ROWS: message.rows, span_names.RESULT: message.result.value})
    return dataclasses.replace(message, trace=trace)


def _write(
    client: Client,
    options: SinkOptions,
    identity: SharedBatch | None,
    task_attempt: str,
    batches: Iterable[RecordBatch],
) -> TaskMessage:
    try:
        if identity is None:
            return _append(client, options, batches)
        return _write_joined(client, options, identity, task_attempt, batches)
    except MessageTooLargeError as error:
        raise too_large(error) from error


def _append(client: Client, options: SinkOptions, batches: Iterable[RecordBatch]) -> TaskMessage:
    """At least once: visible as it is written, and again if the task or the batch is tried again."""
    with client.producer(**_producer_options(options)) as producer:
        rows = _send_all(client, options, producer, batches)
        producer.flush()
    return TaskMessage(None, TaskResult.APPENDED, rows)


def _write_joined(
    client: Client, options: SinkOptions, identity: SharedBatch, task_attempt: str, batches: Iterable[RecordBatch]
) -> TaskMessage:
    try:
        participant = client.join_transaction(
            identity,
            task_attempt=task_attempt,
            lease_ms=options.lease_ms,
            max_duration_ms=options.max_duration_ms,
            **_producer_options(options),
        )
    except BatchRolledBackError as error:
        if not options.skip_rolled_back:
            raise rolled_back(error) from None
        return TaskMessage(identity, TaskResult.ROLLED_BACK, _drain(batches))
    with participant:
        if participant.already_committed:
            return TaskMessage(
                identity,
                TaskResult.ALREADY_COMMITTED,
                _drain(batches),
                committed_rows=participant.committed_rows,
            )
        rows = _send_all(client, options, participant, batches)
        written = participant.flush()
    if written.rows != rows:
        raise IllegalStateError("not every row was acknowledged", rows=rows, acknowledged=written.rows)
    return TaskMessage(
        identity,
        TaskResult.JOINED,
        rows,
        producer_id=written.producer_id,
        txn_no=written.txn_no,
        counts=written.counts,
        session_token=written.session_token,
    )


def _producer_options(options: SinkOptions) -> ParticipantOptions:
    return {
        "partitioner": options.partitioner,
        "compression_type": options.compression_type,
        "batch_size": options.batch_bytes,
        "max_request_size": options.max_request_bytes,
        "max_block_ms": options.connection.request_timeout_ms,
    }


def _drain(batches: Iterable[RecordBatch]) -> int:
    return sum(batch.num_rows for batch in batches)


def _send_all(client: Client, options: SinkOptions, writer: ArrowWriter, batches: Iterable[RecordBatch]) -> int:
    def send(topic: str, rows: RecordBatch) -> None:
        try:
            writer.send_batch(topic, rows)
        except UnknownTopicError:  # deleted since; what did go out would be counted, and refused
            preflight.forget_topic(options, topic)
            preflight.ensure_topic(lambda: client, options, topic)
            writer.send_batch(topic, rows)

    gatherer = Gatherer(send, GATHERED_BATCHES * options.batch_bytes)
    rows = 0
    for batch in batches:
        rows += batch.num_rows
        for piece in pieces(batch, options.topic):
            if not options.topic:
                preflight.ensure_topic(lambda: client, options, piece.topic)
            gatherer.add(piece.topic, piece.rows)
    gatherer.flush()
    return rows


def too_large(error: MessageTooLargeError) -> MessageTooLargeError:
    """Translates the error to options of the source: it names the limit, and the option that raises it."""
    named: dict[str, Any] = dict(error.context)
    if "max_request_size" not in named:
        return MessageTooLargeError(_MORE_THAN_THE_TOPIC_TAKES, **named)
    limit = named.pop("max_request_size")
    return MessageTooLargeError(_MORE_THAN_THE_SINK_SENDS, **named, maxRequestBytes=limit)


def rolled_back(error: BatchRolledBackError) -> BatchRolledBackError:
    """Translates the error to options of the sink."""
    named: dict[str, Any] = dict(error.context)
    return BatchRolledBackError(
        "this batch is below the last committed one: the checkpoint was rolled back, or txnVersion went down; "
        "option onRolledBackBatch=skip leaves such batches out, another txnAppId or a new checkpoint writes them again",
        **named,
    )
