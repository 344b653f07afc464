"""The batch source: everything between two positions that are fixed when the query is planned."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from oncelog.errors import ConfigError
from pyspark_oncelog.options.read_write_options import SourceOptions
from pyspark_oncelog.worker.worker_memory import freeze_modules

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyspark.sql.types import StructType


class OncelogBatchReader(DataSourceReader):
    """See the module. `read` runs on executors, on a pickled copy."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        """Tasks, planned once. Raises `UnknownTopicError`, `ConfigError`, or `OffsetOutOfRangeError` for lost data."""
        from pyspark_oncelog import preflight
        from pyspark_oncelog.source import positions
        from pyspark_oncelog.source.cluster_view import load_view, resolve, start_of
        from pyspark_oncelog.source.data_loss import report_beyond, report_losses
        from pyspark_oncelog.source.planning import plan_tasks

        options = self._options
        preflight.require_python()
        view = load_view(options)
        start, beyond = start_of(options, view)
        report_beyond(options, "starting", beyond)
        end, beyond = positions.clamp(resolve(options, options.ending, view), view)
        report_beyond(options, "ending", beyond)
        if inverted := positions.inverted(start, end, view):
            raise ConfigError(
                "the end of the read (endingOffsets, endingTimestamp or endingOffsetsByTimestamp) lies before its start "
                f"(startingOffsets, startingTimestamp or startingOffsetsByTimestamp): {'; '.join(inverted)}"
            )
        ranges, losses = positions.ranges(start, end, view)
        report_losses(options, losses)
        tasks = plan_tasks(ranges, options.min_partitions, options.min_rows_per_task, options.max_rows_per_task)
        freeze_modules()
        return [InputPartition(tuple(task)) for task in tasks]

    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        """The rows of one task, as Arrow batches of exactly Spark's types."""
        from pyspark_oncelog.source.task_reader import read_task

        return read_task(self._options, self._schema, partition.value or ())
