"""What the integration tests share: one cluster and one Spark session for the whole run (a start of Spark costs 13 s).

Rule: a test makes topics of its own and leaves the cluster as healthy as it found it.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from oncelog_cli.laptop.local_cluster import LocalCluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.log.level": "OFF",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.streaming.stopTimeout": "30s",
    # Short tests do not pay for the optimising compiler, nor for parallel garbage collection.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Three brokers, two coordinators, one id allocator, etcd: all real processes."""
    with LocalCluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture
def new_topic(cluster: LocalCluster, request: pytest.FixtureRequest) -> Callable[..., str]:
    """Creates a topic for this test and returns its name."""
    from oncelog.sync import Client

    numbers = itertools.count()
    base = "".join(c if c.isalnum() else "-" for c in request.node.name)[:150]

    def create(partitions: int = 4) -> str:
        name = f"{base}-{next(numbers)}"
        with Client(cluster.bootstrap_servers) as client:
            client.admin.create_topic(name, partitions=partitions)
        return name

    return create


@pytest.fixture(scope="session")
def spark_environment() -> dict[str, str]:
    """Environment of a Spark driver: this Python for the workers, and a Java."""
    found = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "java_home.py")], capture_output=True, text=True, check=False
    )
    if found.returncode != 0:
        pytest.skip(f"no Java for Spark: {found.stderr.strip()}")
    chosen = {"JAVA_HOME": found.stdout.strip(), "SPARK_LOCAL_IP": "127.0.0.1"}
    return {**os.environ, **chosen, "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}


@pytest.fixture(scope="session")
def spark(spark_environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A local session whose tasks are tried twice."""
    from pyspark.sql import SparkSession

    os.environ.update(spark_environment)
    builder = SparkSession.builder.master("local[2,2]").appName("oncelog-tests")  # type: ignore[attr-defined]
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    warehouse = tmp_path_factory.mktemp("warehouse")
    session: SparkSession = builder.config("spark.sql.warehouse.dir", str(warehouse)).getOrCreate()
    yield session
    session.stop()
