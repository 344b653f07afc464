"""Spark against the counting limits, in a process of its own: python -m bench.spark_job SERVERS TOPIC ROWS OUT.json

Each side runs in turn, A B A B, and the medians are kept.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from bench.counting import CountingSource

_ROUNDS = 3


def _timed(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def input_rows(spark: SparkSession, rows: int) -> DataFrame:
    """16-byte keys that do not compress and 100-byte JSON values that halve; cached, so that making them is not measured."""
    customer = """',"customer":"', md5(cast(id AS string))"""
    order = f"""concat('{{"order":', id, {customer}, '","amount":', id % 997, ',"state":"shipped"}}')"""
    frame = spark.range(rows, numPartitions=2).selectExpr(
        "unhex(md5(cast(id + 1 AS string))) AS key", f"cast(rpad({order}, 100, ' ') AS binary) AS value"
    )
    frame.cache().count()
    return frame


def main() -> None:
    """Writes seconds per side."""
    servers, topic, rows, out = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
    spark: Any = (
        SparkSession.builder.master("local[2,4]")  # type: ignore[attr-defined]
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.memory", "3g")
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )
    spark.dataSource.register(CountingSource)
    frame = input_rows(spark, rows)

    def write() -> None:
        sink = frame.write.format("oncelog").mode("append").option("bootstrapServers", servers)
        sink.option("topic", topic).save()

    def count_write() -> None:
        frame.write.format("counting").mode("append").save()

    def read() -> None:
        source = spark.read.format("oncelog").option("bootstrapServers", servers).option("subscribe", topic)
        loaded = source.option("endingOffsets", "latest").load().selectExpr("sum(length(value))").collect()
        assert loaded[0][0] == 100 * rows * writes, (loaded, writes)

    def count_read() -> None:
        source = spark.read.format("counting").option("rows", str(rows * writes)).load()
        source.selectExpr("sum(length(value))").collect()

    write()  # warm-up of both sides
    count_write()
    times: dict[str, list[float]] = {"write": [], "count_write": [], "read": [], "count_read": []}
    for _ in range(_ROUNDS):
        times["write"].append(_timed(write))
        times["count_write"].append(_timed(count_write))
    writes = 1 + _ROUNDS
    read()
    for _ in range(_ROUNDS):
        times["read"].append(_timed(read) / writes)
        times["count_read"].append(_timed(count_read) / writes)
    Path(out).write_text(json.dumps({name: statistics.median(values) for name, values in times.items()}))
    spark.stop()


if __name__ == "__main__":
    main()
