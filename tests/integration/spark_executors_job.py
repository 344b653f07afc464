"""A driver whose executors are processes of their own, and of which one is killed in the midst of a write and of a stream.

Usage: python -m tests.integration.spark_executors_job SETTINGS.json RESULT.json
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.functions import udf

ROWS = 4_000
TASKS = 4


def killer(folder: str, name: str, at: str) -> Any:
    """A function of a column: passes values on, notes the executor, and kills it when it first meets this value.

    Made here: pickled by value, so that executors need no tests.
    """

    def passing(value: str) -> str:
        import os
        import signal
        from pathlib import Path

        def parent_of(pid: int) -> int:
            return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])

        executor = parent_of(os.getppid())  # of the worker: its daemon, then the JVM
        Path(folder, f"{name}-executor-{executor}").touch()
        if value == at:
            try:
                os.close(os.open(Path(folder, f"{name}-killed"), os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                return value
            os.kill(executor, signal.SIGKILL)
        return value

    return udf(passing, "string", useArrow=False)


def counted(spark: Any, servers: str, topic: str) -> dict[str, int]:
    """How many rows a reader of committed rows finds, and how many different ones."""
    frame = spark.read.format("oncelog").option("bootstrapServers", servers).option("subscribe", topic).load()
    row = frame.selectExpr("count(value) AS rows", "count(DISTINCT value) AS different").collect()[0]
    return {"rows": row["rows"], "different": row["different"]}


def main() -> int:
    """Writes, reads, streams; then tells what readers find."""
    settings = json.loads(Path(sys.argv[1]).read_text())
    folder, servers = settings["folder"], settings["bootstrap_servers"]
    builder = SparkSession.builder.master(settings["master"]).appName("oncelog-executors")  # type: ignore[attr-defined]
    for name, value in settings["spark"].items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    written, streamed = settings["topics"]

    rows = spark.range(0, ROWS, numPartitions=TASKS).selectExpr(
        "cast(id AS string) AS key", "cast(id AS string) AS value"
    )
    passed = rows.withColumn("value", killer(folder, "write", str(ROWS * 3 // 8))("value"))  # amid the second task
    passed.write.format("oncelog").mode("append").option("bootstrapServers", servers).option("topic", written).save()

    source = spark.readStream.format("oncelog").option("bootstrapServers", servers).option("subscribe", written)
    lines = source.option("startingOffsets", "earliest").load()
    texts = lines.selectExpr("cast(key AS string) AS key", "cast(value AS string) AS value")
    passed = texts.withColumn("value", killer(folder, "stream", str(ROWS * 5 // 8))("value"))
    sink = passed.writeStream.format("oncelog").option("bootstrapServers", servers).option("topic", streamed)
    sink.option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True).start().awaitTermination()

    found = {"written": counted(spark, servers, written), "streamed": counted(spark, servers, streamed)}
    found["driver"] = {"jvm": spark._jvm.ProcessHandle.current().pid()}
    Path(sys.argv[2]).write_text(json.dumps(found))
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
