"""`format("idle")`: a sink in Python that writes nothing, to see what Spark takes for any sink in Python.

The sink `noop` is written for the JVM, and needs no Python process: it does not say what a Python sink can reach.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyspark.sql.types import StructType


class IdleSource(DataSource):
    """Reads all rows of its task, and writes none."""

    @classmethod
    def name(cls) -> str:
        """The name in `format(...)`."""
        return "idle"

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """Of a batch job."""
        return _BatchWriter()

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802
        """Of a stream."""
        return _StreamWriter()


class _BatchWriter(DataSourceArrowWriter):
    def write(self, iterator: Iterator[RecordBatch]) -> WriterCommitMessage:
        deque(iterator, maxlen=0)
        return WriterCommitMessage()


class _StreamWriter(DataSourceStreamArrowWriter):
    def write(self, iterator: Iterator[RecordBatch]) -> WriterCommitMessage:
        deque(iterator, maxlen=0)
        return WriterCommitMessage()
