"""The batch sink: one job is one transaction of as many writers as Spark has tasks.

Its names are made on the driver, once per job, and reach tasks, commit and abort by pickle.  With options txnAppId and
txnVersion a job that runs again changes nothing; without them it is atomic, but a rerun appends its rows again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from oncelog.client.produce.transactions.shared_batch import SharedBatch
from pyspark_oncelog.options.read_write_options import SinkOptions
from pyspark_oncelog.sink.batch_trace import NO_TRACE, BatchTrace
from pyspark_oncelog.worker.worker_memory import freeze_modules

if TYPE_CHECKING:
    from pyarrow import RecordBatch

    from pyspark_oncelog.sink.messages import TaskMessage


class OncelogBatchWriter(DataSourceArrowWriter):
    """See the module. `identity` None = at least once."""

    def __init__(self, options: SinkOptions, identity: SharedBatch | None, trace: BatchTrace = NO_TRACE) -> None:
        self._options = options
        self._identity = identity
        self._trace = trace

    def write(self, iterator: Iterator[RecordBatch]) -> TaskMessage:
        """On an executor, once per task attempt."""
        from pyspark_oncelog.sink.task_writer import write_task

        context = TaskContext.get()
        task_attempt = str(context.taskAttemptId()) if context is not None else "driver"
        message = write_task(self._options, self._identity, task_attempt, iterator, self._trace)
        freeze_modules()
        return message

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """On the driver, when every task has succeeded."""
        from pyspark_oncelog.sink.committing import commit_batch

        commit_batch(self._options, messages, None)
        freeze_modules()

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """On the driver, best effort; never raises."""
        from pyspark_oncelog.sink.committing import abort_batch

        abort_batch(self._options, messages)
