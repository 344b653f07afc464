"""Rows, options and one task's write over the fake client, for tests."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from oncelog.client.produce.transactions.shared_batch import SharedBatch
from pyspark_oncelog.options.read_write_options import SinkOptions
from pyspark_oncelog.sink.messages import TaskMessage
from pyspark_oncelog.sink.task_writer import write_task

IDENTITY = SharedBatch("spark-q", "run", "q", 7, "a")


def options(**more: str) -> SinkOptions:
    return SinkOptions.parse({"bootstrapServers": "a:1", "topic": "t", **more})


def rows(*values: str, **columns: Any) -> Any:
    return pa.RecordBatch.from_pydict({"value": list(values), **columns})


def write(*batches: Any, identity: SharedBatch | None = IDENTITY, **more: str) -> TaskMessage:
    return write_task(options(**more), identity, "42", batches)
