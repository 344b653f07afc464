"""The streaming sink: each micro-batch is one transaction of as many writers as Spark has tasks.

Spark makes a new object of this class for every micro-batch on the driver, pickles it to the tasks, and makes yet
another one to commit.  So nothing is kept in `self` between calls: tasks learn the batch from Spark, the committing
object from their messages.
Rule: a replayed micro-batch changes nothing, whatever crashed and when (the token is checked before anything else).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from oncelog.client.produce.transactions.shared_batch import SharedBatch
from oncelog.errors import IllegalStateError
from pyspark_oncelog.options.identity import streaming_identity
from pyspark_oncelog.options.read_write_options import SinkOptions
from pyspark_oncelog.sink.batch_trace import NO_TRACE, BatchTrace
from pyspark_oncelog.worker.worker_memory import freeze_modules

if TYPE_CHECKING:
    from pyarrow import RecordBatch

    from pyspark_oncelog.sink.messages import TaskMessage


class OncelogStreamWriter(DataSourceStreamArrowWriter):
    """See the module. `attempt` names this attempt to write the batch; a later one sorts above."""

    def __init__(self, options: SinkOptions, attempt: str, trace: BatchTrace = NO_TRACE) -> None:
        self._options = options
        self._attempt = attempt
        self._trace = trace

    def write(self, iterator: Iterator[RecordBatch]) -> TaskMessage:
        """On an executor, once per task attempt."""
        from pyspark_oncelog.sink.task_writer import write_task

        context = TaskContext.get()
        if context is None:
            raise IllegalStateError("write() runs in a Spark task only")
        identity, task_attempt = self._identity(context), str(context.taskAttemptId())
        message = write_task(self._options, identity, task_attempt, iterator, self._trace)
        freeze_modules()
        return message

    def _identity(self, context: TaskContext) -> SharedBatch | None:
        if not self._options.exactly_once:
            return None
        return streaming_identity(context.getLocalProperty, self._options.transactional_id, self._attempt)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """On the driver, when every task has succeeded. Raises what makes the query fail; then the batch is replayed."""
        from pyspark_oncelog.sink.committing import commit_batch

        commit_batch(self._options, messages, batchId)
        freeze_modules()

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """On the driver, best effort; never raises. A batch that is committed stays so."""
        from pyspark_oncelog.sink.committing import abort_batch

        abort_batch(self._options, messages)
