"""The Spark side of the demo, in a process of its own so that it can be killed: stream into the topic, then read it back.

Usage: python -m demo.job SETTINGS.json. It ends with exit code 0 after the result is written.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from demo.corpus import STAGED_PREFIX


def session() -> SparkSession:
    """A local Spark with two cores, whose tasks are tried again."""
    builder = SparkSession.builder.master("local[2,4]").appName("oncelog-demo")  # type: ignore[attr-defined]
    settings = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.log.level": "ERROR",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    made: SparkSession = builder.getOrCreate()
    return made


def _lines(spark: SparkSession, settings: dict[str, Any]) -> DataFrame:
    """One row per line: key = file path below the input folder, value = the line's bytes."""
    prefix = f"file://{settings['input']}/"
    path = F.expr("url_decode(_metadata.file_path)")
    staged = F.substring_index(path, prefix.removeprefix("file://"), -1)
    key = F.regexp_replace(staged, f"(^|/){STAGED_PREFIX}", "$1")
    return (
        spark.readStream.format("text")
        .option("recursiveFileLookup", "true")
        .option("maxFilesPerTrigger", settings["files_per_batch"])
        .load(settings["input"])
        .select(key.cast("binary").alias("key"), F.col("value").cast("binary").alias("value"))
    )


def stream(spark: SparkSession, settings: dict[str, Any]) -> None:
    """Writes all files, `files_per_batch` in each micro-batch, as one transaction per micro-batch."""
    writer = (
        _lines(spark, settings)
        .writeStream.format("oncelog")
        .option("bootstrapServers", settings["bootstrap_servers"])
        .option("topic", settings["topic"])
        .option("checkpointLocation", settings["checkpoint"])
    )
    if settings["otlp_endpoint"]:
        writer = writer.option("otlpEndpoint", settings["otlp_endpoint"])
    writer.trigger(availableNow=True).start().awaitTermination()


def read_back(spark: SparkSession, settings: dict[str, Any]) -> dict[str, Any]:
    """Count, hash and number of partitions of each key, as a read_committed reader sees the topic."""
    records = (
        spark.read.format("oncelog")
        .option("bootstrapServers", settings["bootstrap_servers"])
        .option("subscribe", settings["topic"])
        .option("isolation", "read_committed")
        .load()
    )
    lines = F.array_sort(F.collect_list(F.struct("offset", "value")))
    text = F.concat_ws("\n", F.transform(lines, lambda row: row["value"].cast("string")))
    rows = (
        records.groupBy(F.col("key").cast("string").alias("key"))
        .agg(
            F.count("*").alias("lines"),
            F.sha2(text.cast("binary"), 256).alias("sha256"),
            F.countDistinct("partition").alias("partitions"),
        )
        .collect()
    )
    return {row["key"]: [row["lines"], row["sha256"], row["partitions"]] for row in rows}


def main() -> int:
    """Runs what the settings say."""
    settings = json.loads(Path(sys.argv[1]).read_text())
    spark = session()
    stream(spark, settings)
    result = Path(settings["result"])
    temporary = result.with_suffix(".tmp")
    temporary.write_text(json.dumps(read_back(spark, settings)))
    os.replace(temporary, result)
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
