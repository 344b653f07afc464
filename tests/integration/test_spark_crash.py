"""The driver is killed inside commit(), before and after the coordinator hears of it; the next run changes nothing twice.

Both drivers die at the same time in processes of their own; the runs that follow share this session's Spark.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from oncelog_cli.laptop.local_cluster import LocalCluster
from tests.integration.conftest import ROOT, SETTINGS
from tests.integration.spark_tools import Pipeline, add_file, committed, once

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]
CRASH_IN_BATCH = 1
DEADLINE_S = 120.0


class Crash:
    """A driver that will die, and its pipeline."""

    def __init__(
        self, folder: Path, topic: str, cluster: LocalCluster, after: bool, environment: dict[str, str]
    ) -> None:
        self.folder, self.topic, self.after = folder, topic, after
        (folder / "input").mkdir(parents=True)
        for name in "abc":
            add_file(folder / "input", name, [f"{name}{i}" for i in range(50)])
        settings = {
            "spark": SETTINGS,
            "bootstrap_servers": cluster.bootstrap_servers,
            "folder": str(folder),
            "topic": topic,
            "batch": CRASH_IN_BATCH,
            "after": after,
        }
        (folder / "settings.json").write_text(json.dumps(settings))
        with (folder / "log").open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.integration.spark_crash_job", str(folder / "settings.json")],
                cwd=ROOT,
                env=environment,
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
            )

    def wait(self) -> None:
        """Until the driver is dead; the process around it ends with an error then."""
        code = self.process.wait(DEADLINE_S)
        commits = self.folder / "checkpoint" / "commits"
        assert code != 0
        assert (commits / str(CRASH_IN_BATCH - 1)).exists(), (self.folder / "log").read_text()[-2000:]
        assert not (commits / str(CRASH_IN_BATCH)).exists()


@pytest.fixture(scope="module")
def crashes(
    cluster: LocalCluster, spark_environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[bool, Crash]]:
    from oncelog.sync import Client

    found: dict[bool, Crash] = {}
    with Client(cluster.bootstrap_servers) as client:
        for after in (False, True):
            topic = f"crash-{'after' if after else 'before'}-commit"
            client.admin.create_topic(topic, partitions=3)
            found[after] = Crash(tmp_path_factory.mktemp("crash"), topic, cluster, after, spark_environment)
    yield found
    for crash in found.values():
        crash.process.kill()


@pytest.mark.parametrize("after", [False, True], ids=["before the commit", "after the commit"])
def test_a_driver_that_dies_in_mid_commit_writes_each_row_once(
    spark: SparkSession, cluster: LocalCluster, crashes: dict[bool, Crash], after: bool
) -> None:
    crash = crashes[after]
    crash.wait()
    in_topic = committed(spark, cluster, crash.topic)
    assert in_topic == once(*[f"{n}{i}" for n in ("ab" if after else "a") for i in range(50)])
    Pipeline(spark, cluster, crash.folder, crash.topic).run()
    assert committed(spark, cluster, crash.topic) == once(*[f"{n}{i}" for n in "abc" for i in range(50)])


def test_the_crashes_were_real(crashes: dict[bool, Crash]) -> None:
    for crash in crashes.values():
        assert crash.process.poll() not in (None, 0)
