"""One Spark session that appends the same rows to a topic again and again."""

from __future__ import annotations

import time
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from bench.spark_job import input_rows


class SparkWriter:
    """Two tasks at a time, `acks=all`, one transaction per write."""

    def __init__(self) -> None:
        self._spark: Any = (
            SparkSession.builder.master("local[2,4]")  # type: ignore[attr-defined]
            .config("spark.ui.enabled", "false")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.memory", "2g")
            .config("spark.log.level", "ERROR")
            .getOrCreate()
        )
        self._frames: dict[int, DataFrame] = {}

    def microseconds_per_row(self, servers: str, topic: str, options: dict[str, Any], rows: int) -> float:
        """Of one write, with the SDK's `options`. Making the rows is not in it."""
        if rows not in self._frames:
            self._frames[rows] = input_rows(self._spark, rows)
        own = {"bootstrapServers": servers, "topic": topic, **{_camel(name): value for name, value in options.items()}}
        writer = self._frames[rows].write.format("oncelog").mode("append").options(**own)
        begin = time.perf_counter()
        writer.save()
        return (time.perf_counter() - begin) / rows * 1e6

    def stop(self) -> None:
        """Ends the session."""
        self._spark.stop()


def _camel(name: str) -> str:
    """`sslCafile` of `ssl_cafile`."""
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
