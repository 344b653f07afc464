"""Executors in processes of their own, as users have them: one is killed in the midst of a write, one in the midst of a stream.

A local session cannot show this: its one executor lives in the driver.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from oncelog_cli.laptop.local_cluster import LocalCluster
from tests.integration.conftest import ROOT, SETTINGS
from tests.integration.spark_cluster import SparkCluster
from tests.integration.spark_executors_job import ROWS

pytestmark = [pytest.mark.spark, pytest.mark.slow]
DEADLINE_S = 240.0
EXECUTORS = {
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.task.maxFailures": "4",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100",  # ten batches a task, so that there is a middle
}


@pytest.fixture(scope="module")
def found(
    cluster: LocalCluster, spark_environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, dict[str, Any]]:
    """The folder of the job's notes, and what it found."""
    from oncelog.sync import Client

    folder = tmp_path_factory.mktemp("executors")
    topics = ["executors-written", "executors-streamed"]
    with Client(cluster.bootstrap_servers) as client:
        for topic in topics:
            client.admin.create_topic(topic, partitions=3)
    environment = {**spark_environment, "PYTHONPATH": ":".join(filter(None, sys.path))}
    with SparkCluster(folder, environment) as spark:
        settings = {
            "spark": SETTINGS | EXECUTORS,
            "master": spark.master,
            "bootstrap_servers": cluster.bootstrap_servers,
            "folder": str(folder),
            "topics": topics,
        }
        (folder / "settings.json").write_text(json.dumps(settings))
        command = [sys.executable, "-m", "tests.integration.spark_executors_job"]
        done = subprocess.run(
            [*command, str(folder / "settings.json"), str(folder / "result.json")],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
    assert done.returncode == 0, done.stdout[-2_000:] + done.stderr[-4_000:]
    return folder, json.loads((folder / "result.json").read_text())


@pytest.mark.parametrize("name", ["written", "streamed"])
def test_each_row_is_there_once(found: tuple[Path, dict[str, Any]], name: str) -> None:
    assert found[1][name] == {"rows": ROWS, "different": ROWS}


@pytest.mark.parametrize("name", ["write", "stream"])
def test_an_executor_died_on_the_way_and_another_one_went_on(found: tuple[Path, dict[str, Any]], name: str) -> None:
    folder, result = found
    assert (folder / f"{name}-killed").exists()
    executors = {int(path.name.rpartition("-")[2]) for path in folder.glob(f"{name}-executor-*")}
    assert len(executors) >= 2
    assert result["driver"]["jvm"] not in executors
