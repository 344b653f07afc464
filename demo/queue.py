"""`python -m demo.queue`: a queue on the log, whose workers die. Nothing is lost, and nothing comes after it was done.

A local cluster with three brokers, a topic with `--records` jobs, and four workers in processes of their own. While they work,
one is killed in the middle of its jobs (SIGKILL), and so is the broker that leads most partitions. Ends with one line of
counts, and exit code 0 only if every job was acknowledged and none came after that.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from oncelog.sync import Client
from oncelog_cli.laptop.local_cluster import LocalCluster

TOPIC: Final = "jobs"
CHANNEL: Final = "workers"
PARTITIONS: Final = 6
WORKERS: Final = 4
_PATIENCE_S: Final = 90.0

_WORKER: Final = """
import asyncio, os, sys, time
import oncelog

async def main(servers, path):
    journal = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def note(kind, message):
        os.write(journal, f"{kind} {int(message.value)} {time.monotonic():.6f}\\n".encode())

    async def job(message):
        note("D", message)
        await asyncio.sleep(0.01)
        note("S", message)
        try:
            await message.ack()
        except oncelog.errors.OncelogError:
            return
        note("A", message)

    async with (
        oncelog.Client(servers) as client,
        client.worker("jobs", channel="workers", max_in_flight=50, ack_wait_ms=2000) as worker,
    ):
        while True:
            async with asyncio.TaskGroup() as group:
                for message in await worker.getmany(timeout_ms=200):
                    group.create_task(job(message))

asyncio.run(main(*sys.argv[1:]))
"""


class DemoFailed(Exception):
    """One sentence that says what was not as promised."""


@dataclass(slots=True)
class Counts:
    """What the workers' journals say."""

    delivered: Counter[int] = field(default_factory=Counter)
    said: set[int] = field(default_factory=set)
    """Jobs that a worker has finished: it has said so to the broker, and may have died before it had the answer."""
    acknowledged: set[int] = field(default_factory=set)
    """Jobs whose acknowledgement was confirmed."""
    after: int = 0

    @staticmethod
    def of(folder: Path) -> Counts:
        """Reads every journal, in the order of time."""
        lines = (line.split() for path in folder.glob("worker-*") for line in path.read_text().splitlines())
        counts = Counts()
        for _, kind, value in sorted((float(at_s), kind, int(value)) for kind, value, at_s in lines):
            if kind == "A":
                counts.acknowledged.add(value)
            elif kind == "S":
                counts.said.add(value)
            else:
                counts.delivered[value] += 1
                counts.after += value in counts.acknowledged
        return counts


@dataclass(slots=True)
class Demo:
    """One run."""

    cluster: LocalCluster
    folder: Path
    records: int
    began_s: float = field(default_factory=time.monotonic)
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def say(self, line: str) -> None:
        """Progress, with seconds since the start."""
        print(f"[{time.monotonic() - self.began_s:5.1f} s] {line}", flush=True)

    def run(self) -> str:
        """Returns the line of counts. Raises `DemoFailed`."""
        with Client(self.cluster.bootstrap_servers) as client:
            client.admin.create_topic(TOPIC, partitions=PARTITIONS)
            self.say(f"writing {self.records} jobs")
            with client.producer() as producer:
                for number in range(self.records):
                    producer.send(TOPIC, b"%d" % number)
                producer.flush()
            self.workers += [self._worker(number) for number in range(WORKERS)]
            self.say(f"{WORKERS} workers share the channel {CHANNEL!r}")
            self._until(self.records // 5)
            number, held = self._kill_one_at_work()
            self.say(f"worker {number} is killed with {held} jobs in its hands; {self._done()} jobs are done")
            self._until(self.records // 2)
            leader = self._busiest(client)
            self.cluster.processes[leader].kill()
            self.say(f"{leader} is killed: others lead its partitions; {self._done()} jobs are done")
            self._until(self.records)
        time.sleep(3)  # what would come again would do so within `ack_wait_ms`
        return self._verdict()

    def _worker(self, number: int) -> subprocess.Popen[bytes]:
        journal = str(self.folder / f"worker-{number}")
        return subprocess.Popen([sys.executable, "-c", _WORKER, self.cluster.bootstrap_servers, journal])

    def _kill_one_at_work(self) -> tuple[int, int]:
        """Kills a worker while it holds jobs; returns its number, and how many those are."""
        ends = time.monotonic() + _PATIENCE_S
        while time.monotonic() < ends:
            for number, worker in enumerate(self.workers):
                worker.send_signal(signal.SIGSTOP)
                if held := self._held(number):
                    worker.kill()
                    return number, held
                worker.send_signal(signal.SIGCONT)
        raise DemoFailed("no worker ever holds a job")

    def _held(self, number: int) -> int:
        path = self.folder / f"worker-{number}"
        kinds = [line[0] for line in path.read_text().splitlines()] if path.exists() else []
        return kinds.count("D") - kinds.count("S")

    def _done(self) -> int:
        return len(Counts.of(self.folder).said)

    def _until(self, count: int) -> None:
        done, deadline = -1, 0.0
        while (now := self._done()) < count:
            if now > done:
                done, deadline = now, time.monotonic() + _PATIENCE_S
            if time.monotonic() > deadline:
                raise DemoFailed(f"{now} of {count} jobs are done, and nothing moves any more")
            time.sleep(0.05)

    def _busiest(self, client: Client) -> str:
        partitions = client.admin.describe_topic(TOPIC).partitions
        leaders = Counter(partition.leader for partition in partitions if partition.leader is not None)
        return f"broker-{leaders.most_common(1)[0][0]}"

    def _verdict(self) -> str:
        counts = Counts.of(self.folder)
        lost, waiting = self.records - len(counts.said), self._depth()
        again = sum(counts.delivered.values()) - len(counts.delivered)
        line = f"{self.records} jobs, {len(counts.said)} done, {lost} lost, {counts.after} came after they were done"
        line += f", {again} came again after the kills, {waiting} wait"
        if lost or counts.after or waiting:
            raise DemoFailed(line)
        return line

    def _depth(self) -> int:
        """How many jobs the channel still holds."""
        with Client(self.cluster.bootstrap_servers) as client:
            return sum(one.depth for one in client.admin.describe_channel(TOPIC, CHANNEL).partitions)

    def end(self) -> None:
        """Leaves no process behind."""
        for worker in self.workers:
            worker.kill()
            worker.wait()


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(prog="python -m demo.queue", description=__doc__)
    parser.add_argument("--records", type=int, default=20_000)
    args = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="oncelog-queue-") as folder,
        LocalCluster(Path(folder) / "cluster", brokers=3) as cluster,
    ):
        demo = Demo(cluster, Path(folder), args.records)
        try:
            line = demo.run()
        except DemoFailed as failed:
            print(f"FAILED: {failed}", flush=True)
            return 1
        finally:
            demo.end()
    print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
