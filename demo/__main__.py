"""`make demo`: a local cluster, a Spark job that is killed three times over, and a reader that verifies every line.

Ends with one line and exit code 0 only if every file was read back with its count and its content hash.
With --bootstrap-servers it runs against a cluster that is there already, with a topic of its own: only Spark is killed.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, Final

from demo.corpus import FileDigest, stage
from demo.jaeger import Jaeger, NoJaeger, find_jaeger
from demo.processes import MARK, end_marked, kill_all, marked
from oncelog.errors import OncelogError
from oncelog.trace import span_names
from oncelog_cli.laptop.local_cluster import LocalCluster

TOPIC: Final = "stdlib"
PARTITIONS: Final = 6
FILES_PER_BATCH: Final = 60
_JOB_DEADLINE_S: Final = 600.0


class DemoFailed(Exception):
    """One sentence that says what was not as promised."""


@dataclass(slots=True)
class Demo:
    """One run. `folder` holds the cluster's data, the input, the checkpoint and the logs."""

    folder: Path
    mark: str
    bootstrap_servers: str = ""
    """Of a cluster that is there already; empty = a local one is started."""
    topic: str = TOPIC
    begin: float = field(default_factory=time.monotonic)
    crashes: int = 0
    jaeger: Jaeger | None = None
    """Takes the traces; None = nothing is traced."""

    def say(self, line: str) -> None:
        """Progress, with seconds since the start."""
        print(f"[{time.monotonic() - self.begin:5.1f} s] {line}", flush=True)

    # ------------------------------------------------------------ the job

    def settings(self, bootstrap_servers: str) -> dict[str, Any]:
        """What the Spark process is told."""
        return {
            "bootstrap_servers": bootstrap_servers,
            "topic": self.topic,
            "input": str(self.folder / "input"),
            "checkpoint": str(self.folder / "checkpoint"),
            "result": str(self.folder / "result.json"),
            "files_per_batch": FILES_PER_BATCH,
            "otlp_endpoint": self.jaeger.endpoint if self.jaeger is not None else "",
        }

    def start_job(self, number: int) -> subprocess.Popen[bytes]:
        """A Spark driver in a session of its own."""
        with (self.folder / f"spark-{number}.log").open("wb") as log:
            command = [sys.executable, "-m", "demo.job", str(self.folder / "settings.json")]
            # Spark's workers must run on this interpreter: it is the one that has oncelog.
            here = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
            environment = {**os.environ, **here, "SPARK_LOCAL_IP": "127.0.0.1"}
            return subprocess.Popen(
                command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True, env=environment
            )

    def _numbers(self, name: str) -> set[int]:
        folder = self.folder / "checkpoint" / name
        return {int(p.name) for p in folder.iterdir() if p.name.isdigit()} if folder.is_dir() else set()

    def batches_done(self) -> int:
        """Micro-batches whose commit is in Spark's log."""
        return len(self._numbers("commits"))

    def in_mid_batch(self) -> bool:
        """True while a micro-batch is planned and not committed."""
        return bool(self._numbers("offsets") - self._numbers("commits"))

    def wait_for(self, what: str, condition: Callable[[], bool], job: subprocess.Popen[bytes], number: int) -> None:
        """Waits until `condition`, shows progress, fails when the job ends or hangs."""
        deadline = time.monotonic() + _JOB_DEADLINE_S
        shown = self.batches_done()
        while not condition():
            if job.poll() is not None:
                log = (self.folder / f"spark-{number}.log").read_text(errors="replace")
                raise DemoFailed(f"the Spark job ended while waiting for {what}:\n{log[-3000:]}")
            if time.monotonic() > deadline:
                raise DemoFailed(f"waited {_JOB_DEADLINE_S:.0f} s for {what}")
            if self.batches_done() >= shown + 5:
                shown = self.batches_done()
                self.say(f"{shown} micro-batches committed")
            time.sleep(0.01)

    # ------------------------------------------------------------ the crashes

    def kill_broker(self, cluster: LocalCluster) -> None:
        """SIGKILL to one broker; it comes back two seconds later."""
        cluster.processes["broker-1"].kill(signal.SIGKILL)
        self.crashes += 1
        self.say("crash 1: broker-1 killed")
        time.sleep(2.0)
        cluster.restart("broker-1")
        self.say("broker-1 started again")

    def kill_coordinator(self, cluster: LocalCluster) -> None:
        """SIGKILL to one coordinator; the other one takes its shards."""
        cluster.processes["coordinator-0"].kill(signal.SIGKILL)
        self.crashes += 1
        self.say("crash 2: coordinator-0 killed")

    def kill_driver(self, job: subprocess.Popen[bytes]) -> None:
        """SIGKILL to the Spark driver, its JVM and its workers at once."""
        services = {int(p) for p in self._service_pids}
        kill_all([pid for pid in marked(self.mark) if pid not in services])
        job.wait()
        self.crashes += 1
        self.say(f"crash {self.crashes}: the Spark driver killed in the middle of a micro-batch")

    _service_pids: set[int] = field(default_factory=set)

    def _note_services(self, cluster: LocalCluster) -> None:
        self._service_pids = {p.popen.pid for p in cluster.processes.values() if p.popen is not None}

    # ------------------------------------------------------------ the story

    def run(self) -> str:
        """Returns the closing line; raises `DemoFailed`."""
        self.say("staging the standard library's source files")
        expected = stage(self.folder / "input")
        total = sum(d.lines for d in expected.values())
        self.say(f"{len(expected)} files, {total} lines")
        if self.bootstrap_servers:
            self._begin(self.bootstrap_servers)
            self._finish(self._first_batches())
            return self._verify(expected)
        flags = () if self.jaeger is None else ("--otlp-endpoint", self.jaeger.endpoint)
        with LocalCluster(self.folder / "cluster", flags=flags) as cluster:
            self.say(f"cluster is up: {cluster.bootstrap_servers}")
            self._begin(cluster.bootstrap_servers)
            self._note_services(cluster)
            job = self._first_batches()
            self._crash_services(cluster, job)
            self._finish(job)
        return self._verify(expected)

    def show_trace(self, jaeger: Jaeger) -> None:
        """The link of the last micro-batch that was committed."""
        traces = jaeger.traces("spark", span_names.SPARK_BATCH)
        if not traces:
            raise DemoFailed(f"no trace of a micro-batch has come to {jaeger.url}")
        self.say(f"the last micro-batch, {len(traces[0]['spans'])} spans: {jaeger.link(traces[0]['traceID'])}")

    def _begin(self, bootstrap_servers: str) -> None:
        from oncelog.sync import Client

        with Client(bootstrap_servers) as client:
            client.admin.create_topic(self.topic, partitions=PARTITIONS)
        (self.folder / "settings.json").write_text(json.dumps(self.settings(bootstrap_servers)))

    def _first_batches(self) -> subprocess.Popen[bytes]:
        self.say("starting Spark (takes some seconds)")
        job = self.start_job(1)
        self.wait_for("the first micro-batches", lambda: self.batches_done() >= 3, job, 1)
        return job

    def _crash_services(self, cluster: LocalCluster, job: subprocess.Popen[bytes]) -> None:
        self.kill_broker(cluster)
        self._note_services(cluster)
        after = self.batches_done() + 3
        self.wait_for("micro-batches after the broker's crash", lambda: self.batches_done() >= after, job, 1)
        self.kill_coordinator(cluster)
        after_coordinator = self.batches_done() + 3
        self.wait_for("life after the coordinator's crash", lambda: self.batches_done() >= after_coordinator, job, 1)

    def _finish(self, job: subprocess.Popen[bytes]) -> None:
        """The driver's crash, and the second driver's work to the end."""
        self.wait_for("the middle of a micro-batch", self.in_mid_batch, job, 1)
        self.kill_driver(job)
        self.say("starting Spark again from its checkpoint")
        job = self.start_job(2)
        self.wait_for("the end of the job", (self.folder / "result.json").exists, job, 2)
        job.wait(60)
        self.say(f"{self.batches_done()} micro-batches committed; the batch job has read the topic")

    def _verify(self, expected: dict[str, FileDigest]) -> str:
        found = json.loads((self.folder / "result.json").read_text())
        written = sum(d.lines for d in expected.values())
        read = sum(lines for lines, _, _ in found.values())
        lost = sum(max(0, d.lines - found.get(name, [0])[0]) for name, d in expected.items())
        duplicated = sum(
            max(0, got[0] - (expected[name].lines if name in expected else 0)) for name, got in found.items()
        )
        wrong = [
            n for n, d in expected.items() if n in found and found[n][:2] == [d.lines, d.sha256] and found[n][2] != 1
        ]
        wrong += [n for n, d in expected.items() if n not in found or found[n][:2] != [d.lines, d.sha256]]
        line = (
            f"exactly once: {written} written, {read} read, {lost} lost, {duplicated} duplicated, "
            f"{self.crashes} {'crash' if self.crashes == 1 else 'crashes'} survived, {time.monotonic() - self.begin:.0f} s"
        )
        if wrong or lost or duplicated or read != written or self.crashes != (1 if self.bootstrap_servers else 3):
            raise DemoFailed(f"NOT {line}; {len(wrong)} files differ, for example {sorted(wrong)[:3]}")
        return line


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def main() -> int:
    """Exit code 0: verified. 1: something was not as promised. 130: interrupted."""
    parser = argparse.ArgumentParser(prog="make demo")
    parser.add_argument("--trace", action="store_true", help="send traces to a Jaeger, and print the last one's link")
    parser.add_argument("--keep", metavar="DIR", help="keep data and logs in this folder")
    parser.add_argument("--bootstrap-servers", metavar="HOST:PORT,...", default="", help="use this cluster")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, _interrupt)
    mark = os.environ[MARK] = uuid.uuid4().hex
    with tempfile.TemporaryDirectory(prefix="oncelog-demo-", ignore_cleanup_errors=True) as temporary:
        folder = Path(args.keep).resolve() if args.keep else Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        jaeger: Jaeger | None = None
        try:
            jaeger = find_jaeger() if args.trace else None
            topic = f"{TOPIC}-{mark[:8]}" if args.bootstrap_servers else TOPIC
            demo = Demo(folder, mark, args.bootstrap_servers, topic, jaeger=jaeger)
            print(demo.run(), flush=True)
            if jaeger is not None:
                demo.show_trace(jaeger)
                _keep_open(jaeger)
            return 0
        except (DemoFailed, NoJaeger, OncelogError) as error:
            print(f"demo failed: {error}", file=sys.stderr)
            return 1
        except KeyboardInterrupt:
            print("interrupted", file=sys.stderr)
            return 130
        finally:
            if jaeger is not None:
                jaeger.stop()
            end_marked(mark)


def _keep_open(jaeger: Jaeger) -> None:
    """A Jaeger that was started here keeps its traces in memory: it stays while somebody looks."""
    if jaeger.process is not None and sys.stdin.isatty():
        input("Jaeger runs until you press Enter ")


if __name__ == "__main__":
    sys.exit(main())
