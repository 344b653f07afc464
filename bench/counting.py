"""A Spark source and sink that only count: the limit for any Python data source on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

_BATCH_ROWS = 10_000


class CountingSource(DataSource):
    """`format("counting")`: reads `rows` rows of the benchmark's shape from memory, writes to nowhere."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "counting"

    def schema(self) -> str:
        """Key and value, as the oncelog source has them, and what a reader adds."""
        return "key binary, value binary"

    def reader(self, schema: StructType) -> DataSourceReader:
        """From memory."""
        return CountingReader(int(self.options["rows"]), int(self.options.get("tasks", "2")))

    def writer(self, schema: StructType, overwrite: bool) -> CountingWriter:
        """To nowhere."""
        return CountingWriter()


class CountingReader(DataSourceReader):
    """Yields one prepared batch again and again."""

    def __init__(self, rows: int, tasks: int) -> None:
        self._rows = rows
        self._tasks = tasks

    def partitions(self) -> list[InputPartition]:
        """One per task."""
        return [InputPartition(i) for i in range(self._tasks)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Arrow batches of exactly Spark's types."""
        keys = pa.array([i.to_bytes(16, "big") for i in range(_BATCH_ROWS)], pa.binary())
        values = pa.array([bytes(100)] * _BATCH_ROWS, pa.binary())
        batch = pa.record_batch({"key": keys, "value": values})
        for _ in range(self._rows // self._tasks // _BATCH_ROWS):
            yield batch


class CountingWriter(DataSourceArrowWriter):
    """Counts rows."""

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """Reads every batch and forgets it."""
        rows = sum(batch.num_rows for batch in iterator)
        return CountMessage(rows)


class CountMessage(WriterCommitMessage):
    """How many rows a task saw."""

    def __init__(self, rows: int) -> None:
        self.rows = rows
