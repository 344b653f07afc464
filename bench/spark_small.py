"""What Spark pays beside the rows: a micro-batch with next to nothing in it, and a job of many small tasks.

    python -m bench.spark_small SERVERS TOPIC OUT.json [BATCHES] [TASKS]

A micro-batch goes from the source `rate` to a sink as soon as the one before it is done; its time is Spark's own figure
`triggerExecution`. The same with the sink `noop` says what Spark itself takes, and with `bench.idle_sink` what it takes for any
sink in Python: the least that ours can reach. Spark talks to its Python workers over
unix domain sockets, as docs/spark.md advises.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession

from bench.idle_sink import IdleSource

_ROUNDS: Final = 3
_WARM_UP: Final = 5


def session() -> Any:
    """Two cores, as the machines that this is measured on."""
    return (
        SparkSession.builder.master("local[2,4]")  # type: ignore[attr-defined]
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.memory", "2g")
        .config("spark.log.level", "OFF")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.python.unix.domain.socket.enabled", "true")
        .getOrCreate()
    )


def micro_batches_ms(spark: Any, sink: str, options: dict[str, str], batches: int) -> dict[str, float]:
    """Median milliseconds of a micro-batch, by Spark's names of its parts, after some to warm up."""
    rows = spark.readStream.format("rate").option("rowsPerSecond", "1000").option("numPartitions", "2").load()
    values = rows.selectExpr("cast(value AS string) AS key", "cast(value AS string) AS value")
    with tempfile.TemporaryDirectory(prefix="oncelog-bench-") as checkpoint:
        query = (
            values.writeStream.format(sink)
            .options(**options)
            .option("checkpointLocation", checkpoint)
            .trigger(processingTime="0 seconds")
            .start()
        )
        seen: dict[int, dict[str, float]] = {}
        while len(seen) < batches + _WARM_UP and query.isActive:
            time.sleep(0.2)
            for progress in query.recentProgress:
                if progress["numInputRows"] > 0:
                    seen[progress["batchId"]] = progress["durationMs"]
        failure = query.exception()
        query.stop()
        if failure is not None:
            raise failure
    counted = [seen[number] for number in sorted(seen)[_WARM_UP:]]
    return {part: statistics.median(found.get(part, 0) for found in counted) for part in counted[0]}


def tasks_ms(spark: Any, sink: str, options: dict[str, str], tasks: int) -> float:
    """Median milliseconds of a job that writes one row in each of `tasks` tasks."""
    rows = spark.range(tasks, numPartitions=tasks).selectExpr(
        "cast(id AS string) AS key", "cast(id AS string) AS value"
    )
    took: list[float] = []
    for _ in range(_ROUNDS + 1):
        begin = time.perf_counter()
        rows.write.format(sink).mode("append").options(**options).save()
        took.append((time.perf_counter() - begin) * 1000)
    return statistics.median(took[1:])


def main() -> None:
    """Writes milliseconds, of oncelog, of a sink in Python that writes nothing, and of `noop`."""
    servers, topic, out = sys.argv[1:4]
    batches, tasks = (int(given) for given in (sys.argv[4:6] or ("60", "100")))
    spark = session()
    spark.dataSource.register(IdleSource)
    options = {"bootstrapServers": servers, "topic": topic}
    found: dict[str, Any] = {}
    for sink, own in (("oncelog", options), (IdleSource.name(), {}), ("noop", {})):
        found[sink] = {
            "micro_batch": micro_batches_ms(spark, sink, own, batches),
            "tasks": tasks_ms(spark, sink, own, tasks),
        }
    Path(out).write_text(json.dumps(found, indent=1) + "\n")
    spark.stop()


if __name__ == "__main__":
    main()
