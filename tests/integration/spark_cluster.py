"""A Spark cluster on this machine from the pyspark that is installed: a standalone master and workers, one executor each.

Here executors are processes of their own, as they are for users: they can die without the driver, and share nothing with it.
"""

from __future__ import annotations

import re
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Final

import pyspark

SPARK_CLASS: Final = Path(pyspark.__file__).parent / "bin" / "spark-class"
_JAVA_OPTIONS: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_START_S: Final = 60.0
_MASTER: Final = re.compile(r"Starting Spark master at (spark://\S+)")
_READY: Final = "Successfully registered with master"


class SparkCluster:
    """`with SparkCluster(folder, environment) as cluster:` gives `cluster.master`, an address for `builder.master`."""

    def __init__(self, folder: Path, environment: dict[str, str], workers: int = 2) -> None:
        self._folder = folder
        self._environment = {
            **environment,
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": _JAVA_OPTIONS,
            "SPARK_NO_DAEMONIZE": "1",
        }
        self._workers = workers
        self._processes: list[subprocess.Popen[bytes]] = []
        self.master = ""

    def __enter__(self) -> SparkCluster:
        try:
            log = self._start("master", "master.Master", "--port", "0", "--webui-port", "0")
            self.master = self._wait_for(log, _MASTER)[1]
            logs = [
                self._start(
                    f"worker-{number}",
                    "worker.Worker",
                    *("--cores", "1", "--memory", "768m", "--webui-port", "0"),
                    *("--work-dir", str(self._folder / f"work-{number}"), self.master),
                )
                for number in range(self._workers)
            ]
            for log in logs:
                self._wait_for(log, re.compile(_READY))
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def _start(self, name: str, role: str, *arguments: str) -> Path:
        log = self._folder / f"{name}.log"
        command = [str(SPARK_CLASS), f"org.apache.spark.deploy.{role}", "--host", "127.0.0.1", *arguments]
        with log.open("wb") as out:
            self._processes.append(
                subprocess.Popen(
                    command, stdout=out, stderr=out, stdin=subprocess.DEVNULL, env=self._environment, cwd=self._folder
                )
            )
        return log

    def _wait_for(self, log: Path, words: re.Pattern[str]) -> re.Match[str]:
        deadline = time.monotonic() + _START_S
        while time.monotonic() < deadline:
            if (found := words.search(log.read_text())) is not None:
                return found
            time.sleep(0.1)
        raise TimeoutError(f"{log.name} does not say {words.pattern}: {log.read_text()[-2000:]}")

    def _stop(self) -> None:
        """Workers end their executors when they are told to end."""
        for process in reversed(self._processes):
            process.terminate()
        for process in self._processes:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
