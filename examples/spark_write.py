"""A batch write by Spark that may be run again: the second time changes nothing.

python examples/spark_write.py [BOOTSTRAP_SERVERS [TOPIC]]      (Java 17, and pip install 'oncelog[spark]')
"""

from __future__ import annotations

import sys

from pyspark.sql import DataFrame, SparkSession


def write(rows: DataFrame, servers: str, topic: str, day: int) -> None:
    """One transaction, known by its application and number."""
    writer = rows.write.format("oncelog").mode("append")
    writer = writer.option("bootstrapServers", servers).option("topic", topic).option("createTopicPartitions", 3)
    writer.option("txnAppId", f"daily-{topic}").option("txnVersion", day).save()


def main(servers: str, topic: str) -> None:
    spark = SparkSession.builder.appName("oncelog-example").master("local[2]").getOrCreate()
    try:
        rows = spark.range(1000).selectExpr("CAST(id AS STRING) AS key", "concat('row ', id) AS value")
        for _ in range(2):  # the second run finds its batch committed
            write(rows, servers, topic, day=1)
        read = spark.read.format("oncelog").option("bootstrapServers", servers).option("subscribe", topic).load()
        print(f"rows: {read.count()}")
    finally:
        spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:], *["localhost:9092", "daily"][len(sys.argv) - 1 :])
