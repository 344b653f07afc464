"""What the Spark tests share: small inputs, streams that end by themselves, and a look at topics without Spark."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

from oncelog_cli.laptop.local_cluster import LocalCluster


def add_file(folder: Path, name: str, lines: list[str]) -> None:
    """One more file; Spark takes them by age, so each is a minute younger than the last one."""
    age_s = 1_700_000_000 + 60 * len(list(folder.iterdir()))
    path = folder.parent / f"{name}.tmp"
    path.write_text("".join(f"{line}\n" for line in lines))
    os.utime(path, (age_s, age_s))
    path.rename(folder / f"{name}.txt")


class Pipeline:
    """A stream from a folder of text files into a topic: one file is one micro-batch."""

    def __init__(
        self, spark: Any, cluster: LocalCluster, folder: Path, topic: str, source_format: str = "oncelog"
    ) -> None:
        self.spark = spark
        self.cluster = cluster
        self.folder = folder
        self.topic = topic
        self.format = source_format
        self.checkpoint = folder / "checkpoint"
        self.input = folder / "input"
        self.input.mkdir(parents=True, exist_ok=True)
        self.last_id = ""

    def add(self, name: str, lines: list[str]) -> None:
        """The input of one more micro-batch."""
        add_file(self.input, name, lines)

    def frame(self) -> Any:
        """The stream: key and value are the line."""
        lines = self.spark.readStream.format("text").option("maxFilesPerTrigger", 1).load(str(self.input))
        return lines.selectExpr("value AS key", "value")

    def run(self, frame: Any = None, **options: str) -> Any:
        """Runs until the input is used up; raises what made the query fail."""
        writer = (self.frame() if frame is None else frame).writeStream.format(self.format)
        writer = writer.option("bootstrapServers", self.cluster.bootstrap_servers).option("topic", self.topic)
        writer = writer.option("checkpointLocation", str(self.checkpoint))
        for name, value in options.items():
            writer = writer.option(name, value)
        query = writer.trigger(availableNow=True).start()
        self.last_id = str(query.id)
        query.awaitTermination()
        return query

    def forget_commit(self, batch_id: int) -> None:
        """The state that a crash leaves between the sink's commit and Spark's own note of it."""
        folder = self.checkpoint / "commits"
        for path in (folder / str(batch_id), folder / f".{batch_id}.crc"):
            path.unlink(missing_ok=True)

    def forget_batch(self, batch_id: int) -> None:
        """A checkpoint that was rolled back by hand: the batch was never planned."""
        self.forget_commit(batch_id)
        for path in (self.checkpoint / "offsets").glob(f"*{batch_id}*"):
            path.unlink()

    def forget_everything(self) -> None:
        """A checkpoint that was deleted."""
        shutil.rmtree(self.checkpoint)


def committed(spark: Any, cluster: LocalCluster, topic: str) -> Counter[str]:
    """Values that a read_committed batch read sees, with how often."""
    reader = spark.read.format("oncelog").option("bootstrapServers", cluster.bootstrap_servers)
    rows = reader.option("subscribe", topic).load().selectExpr("CAST(value AS STRING) AS value").collect()
    return Counter(row["value"] for row in rows)


def once(*names: Any) -> Counter[str]:
    """Each of these exactly once."""
    return Counter(str(name) for name in names)
