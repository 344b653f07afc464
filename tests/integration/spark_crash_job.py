"""A Spark driver that dies inside commit(), before or after the call to the coordinator. A process of its own.

Usage: python spark_crash_job.py SETTINGS.json
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession


def crashing_source(jvm_pid: int, batch: int, after: bool) -> type:
    """The oncelog source, whose commit of this batch takes the driver with it. Made here: pickled by value."""
    from pyspark_oncelog.datasource import DefaultSource
    from pyspark_oncelog.sink.stream_writer import OncelogStreamWriter

    class Writer(OncelogStreamWriter):
        def commit(self, messages: list[Any], batchId: int) -> None:  # noqa: N803
            if batchId != batch:
                super().commit(messages, batchId)
                return
            if after:
                super().commit(messages, batchId)
            os.kill(jvm_pid, signal.SIGKILL)
            time.sleep(5)

    class CrashingSource(DefaultSource):
        @classmethod
        def name(cls) -> str:
            return "oncelog_crashing"

        def streamWriter(self, schema: Any, overwrite: bool) -> Writer:
            made = super().streamWriter(schema, overwrite)
            return Writer(made._options, made._attempt)

    return CrashingSource


def main() -> int:
    """Never returns normally: the JVM is killed in mid-commit."""
    from tests.integration.spark_tools import Pipeline

    settings = json.loads(Path(sys.argv[1]).read_text())
    builder = SparkSession.builder.master("local[2,4]").appName("oncelog-crash")  # type: ignore[attr-defined]
    for name, value in settings["spark"].items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    jvm_pid = spark._jvm.ProcessHandle.current().pid()
    spark.dataSource.register(crashing_source(jvm_pid, settings["batch"], settings["after"]))
    cluster: Any = type("Cluster", (), {"bootstrap_servers": settings["bootstrap_servers"]})
    pipeline = Pipeline(spark, cluster, Path(settings["folder"]), settings["topic"], "oncelog_crashing")
    pipeline.run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
