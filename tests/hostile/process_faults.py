"""Kills and freezes members, coordinators and brokers under `Client.process`, whose every input has to be in the output once.

    python -m tests.hostile.process_faults [--minutes 20] [--seed 1] [--workers 3]

It runs a cluster of its own, feeds numbered records under many keys all the time, and does harm every few seconds. In the end
everything is healed, and the output is compared with what was fed. Prints one line of counts; exits 1 unless all is right.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from oncelog.sync import Client, Producer
from oncelog_cli.laptop.local_cluster import LocalCluster

GROUP, FROM, TO = "copies", "copies-in", "copies-out"
IN_PARTITIONS, OUT_PARTITIONS = 6, 4
SESSION_S = 6.0
KEYS = 40
_SETTLE_S = 180.0


def new_cluster(folder: Path, brokers: int = 3) -> LocalCluster:
    """A cluster with a short session, not started."""
    made = LocalCluster(folder, brokers=brokers, coordinators=2)
    for name, process in made.processes.items():
        if name.startswith("coordinator"):
            process.command += [
                f"--group-session-timeout-ms={int(SESSION_S * 1000)}",
                "--group-heartbeat-interval-ms=500",
            ]
    return made


class Worker:
    """One member in a process of its own: a module of tests.hostile, and its parameters."""

    def __init__(self, module: str, *parameters: str) -> None:
        command = [sys.executable, "-m", f"tests.hostile.{module}", *parameters]
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115 (it lives as long as the process)
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True
        )

    def kill(self) -> None:
        """Kills it with -9, wherever it is."""
        self.process.kill()
        self.process.communicate()

    def freeze(self) -> None:
        """Nothing of it runs until `thaw`."""
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """It goes on as if no time had passed."""
        self.process.send_signal(signal.SIGCONT)

    def stop(self) -> str:
        """It leaves the group; returns what it says that it has done."""
        said, _ = self.process.communicate(timeout=60)
        self._log.seek(0)
        assert self.process.returncode == 0, f"a worker ended with an error: {self._log.read()[-3000:]}"
        return said.strip()


class Feeder(threading.Thread):
    """Writes numbered records under every key until it is stopped; `fed` counts what is acknowledged, per key."""

    pause_s = 0.02

    def __init__(self, servers: str) -> None:
        super().__init__(name="feeder", daemon=True)
        self._servers = servers
        self._ended = threading.Event()
        self.fed: Counter[int] = Counter()
        self.error: BaseException | None = None

    def run(self) -> None:
        """See the class."""
        try:
            with Client(self._servers) as client, client.producer() as producer:
                while not self._ended.wait(self.pause_s):
                    for key in range(KEYS):
                        self.send(producer, key)
                        self.fed[key] += 1
                    producer.flush()
        except BaseException as error:
            self.error = error

    def send(self, producer: Producer[Any, Any], key: int) -> None:
        """Sends the next number of the key."""
        producer.send(FROM, b"%d" % self.fed[key], key=b"%d" % key)

    def stop(self) -> None:
        """Returns when everything is acknowledged. Raises what went wrong."""
        self._ended.set()
        self.join(_SETTLE_S)
        assert self.error is None, f"the feeder failed: {self.error!r}"
        assert not self.is_alive(), "the feeder hangs"


@dataclass
class Verdict:
    """What is in the output, against what was fed."""

    inputs: int = 0
    outputs: int = 0
    missing: int = 0
    repeated: int = 0
    out_of_order: int = 0

    @property
    def is_right(self) -> bool:
        """Each input is there once, in order per key."""
        return (
            self.inputs > 0 and self.inputs == self.outputs and not (self.missing or self.repeated or self.out_of_order)
        )


class Output:
    """Key -> numbers, in the order of the output's log, of what is committed there."""

    def __init__(self) -> None:
        self._found: dict[int, list[int]] = defaultdict(list)
        self._read: Counter[tuple[str, int]] = Counter()

    def look(self, client: Client) -> dict[int, list[int]]:
        """Reads on where the last look ended: reading it all again would take the processors from those who write it."""
        partitions = [(TO, number) for number in range(OUT_PARTITIONS)]
        with client.consumer() as consumer:
            for partition, end in consumer.end_offsets(partitions).items():
                if end > self._read[partition]:
                    for rows in consumer.read_range(partition, self._read[partition], end):
                        keys, values = rows.column("key").to_pylist(), rows.column("value").to_pylist()
                        for key, value in zip(keys, values, strict=True):
                            self._found[int(key)].append(int(value))
                    self._read[partition] = end
        return self._found


def judged(fed: Counter[int], found: dict[int, list[int]]) -> Verdict:
    """Compares them."""
    verdict = Verdict(sum(fed.values()), sum(map(len, found.values())))
    for key in fed.keys() | found.keys():
        numbers = found.get(key, [])
        verdict.missing += len({*range(fed[key])} - {*numbers})
        verdict.repeated += len(numbers) - len({*numbers})
        verdict.out_of_order += sum(later < earlier for earlier, later in zip(numbers, numbers[1:], strict=False))
    return verdict


@dataclass
class Run:
    """A cluster, its feeder and its workers. Each harm is a method, and all of them are counted."""

    cluster: LocalCluster
    count: int = 3
    workers: list[Worker] = field(default_factory=list)
    harms: Counter[str] = field(default_factory=Counter)
    said: list[str] = field(default_factory=list)
    """The last words of the workers that were stopped."""
    settle_s: float = _SETTLE_S
    """In the end the output has to grow within this time, until it is whole."""
    output: Output = field(default_factory=Output)

    def __post_init__(self) -> None:
        self.feeder = self.new_feeder()

    def new_feeder(self) -> Feeder:
        """Writes the inputs."""
        return Feeder(self.cluster.bootstrap_servers)

    def new_worker(self) -> Worker:
        """One more member."""
        return Worker("process_worker", self.cluster.bootstrap_servers, GROUP, FROM, TO)

    def found(self, client: Client) -> dict[int, list[int]]:
        """Key -> numbers of what was done, in the order in which it was done."""
        return self.output.look(client)

    @contextlib.contextmanager
    def going(self) -> Iterator[Run]:
        """Topics, workers and feeder are there; in the end no process is left."""
        with Client(self.cluster.bootstrap_servers) as client:
            client.admin.create_topic(FROM, partitions=IN_PARTITIONS)
            client.admin.create_topic(TO, partitions=OUT_PARTITIONS)
        try:
            self.workers += [self.new_worker() for _ in range(self.count)]
            self.feeder.start()
            yield self
        finally:
            for worker in self.workers:
                worker.kill()

    # ------------------------------------------------------------ harm

    def kill_member(self, at: int) -> None:
        """Another one takes its place."""
        self.harms["members killed"] += 1
        self.replace(at)

    def replace(self, at: int) -> None:
        """Kills a worker unless it is dead, and starts another one."""
        self.workers[at].kill()
        self.workers[at] = self.new_worker()

    def freeze_member(self, at: int, seconds: float) -> None:
        """For longer than a session it loses its partitions, and comes back as a zombie."""
        self.harms["members frozen"] += 1
        worker = self.workers[at]
        worker.freeze()
        time.sleep(seconds)
        worker.thaw()

    def kill_service(self, name: str, seconds: float) -> None:
        """It comes back after this time."""
        self.harms[f"{name.partition('-')[0]}s killed"] += 1
        self.cluster.processes[name].kill()
        time.sleep(seconds)
        self.cluster.restart(name)

    def freeze_service(self, name: str, seconds: float) -> None:
        """It does not know that time has passed."""
        self.harms[f"{name.partition('-')[0]}s frozen"] += 1
        process = self.cluster.processes[name].popen
        assert process is not None
        process.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        process.send_signal(signal.SIGCONT)

    def harm(self, chance: random.Random) -> None:
        """Does one thing, chosen by the seed."""
        chance.choice(self.choices(chance))()

    def choices(self, chance: random.Random) -> tuple[Callable[[], object], ...]:
        """Each kind of harm, with its details chosen."""
        at, seconds = chance.randrange(self.count), chance.uniform(0.2, 3)
        names = [name for name in self.cluster.processes if name.startswith(("broker", "coordinator"))]
        name = chance.choice(names)
        return (
            lambda: self.kill_member(at),
            lambda: self.freeze_member(at, chance.choice((1.0, SESSION_S + 4))),
            lambda: self.kill_service(name, seconds),
            lambda: self.freeze_service(name, seconds),
        )

    # ------------------------------------------------------------ the end

    def verdict(self) -> Verdict:
        """Stops the feeding, waits until the output does not grow any more, and compares."""
        self.feeder.stop()
        fed = self.feeder.fed
        outputs, deadline = -1, 0.0
        with Client(self.cluster.bootstrap_servers) as client:
            while (count := sum(map(len, self.found(client).values()))) < fed.total():
                if count > outputs:
                    outputs, deadline = count, time.monotonic() + self.settle_s
                if time.monotonic() > deadline:
                    break
                time.sleep(1)
            for worker in self.workers:
                self.said.append(worker.stop())
            return judged(fed, self.found(client))

    def judged_after(self, minutes: float, seed: int) -> int:
        """Does harm for so long, prints the line of counts, and returns the exit status."""
        chance = random.Random(seed)
        with self.going():
            ends = time.monotonic() + minutes * 60
            while time.monotonic() < ends:
                time.sleep(chance.uniform(0.5, 4))
                self.harm(chance)
            verdict = self.verdict()
        harms = ", ".join(f"{what} {number}" for what, number in sorted(self.harms.items()))
        print(f"{verdict}; {harms}; seed {seed}, {minutes:g} minutes", flush=True)
        return 0 if verdict.is_right else 1


def parser_of(description: str | None) -> argparse.ArgumentParser:
    """The options that every run has."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=3)
    return parser


def main() -> int:
    """See the module."""
    given = parser_of(__doc__).parse_args()
    with tempfile.TemporaryDirectory(prefix="oncelog-process-faults-") as folder, new_cluster(Path(folder)) as cluster:
        return Run(cluster, given.workers).judged_after(given.minutes, given.seed)


if __name__ == "__main__":
    sys.exit(main())
