"""`python -m tests.hostile.memory`: what attacks on the memory of a real broker get.

A cluster of one broker is started; a stranger at its client listener, without a name, tries

    unread        one envelope of a few KB asks for 100 answers of 16 MiB, and reads none of them
    bomb          40 batches of 2 KB that unpack to 60 MiB each, and 200 FetchRecords over them, one after another
    half          60 streams on one connection, each with 64 MiB of a message that does not end
    halves        10,000 messages of 64 KiB that do not end, on 200 connections
    links         4,200 links from one address
    connections   10,000 connections, 500 at once, that are silent, speak TLS, noise or half of HTTP/2, and are cut off

Printed: the RSS of the broker before, at its highest, and after; its descriptors and threads before and after; the 99th
percentile of a well-behaved producer's acknowledgements (acks=all, a record every 10 ms, a process of its own) before and
meanwhile, of all rounds of the attack together, for one round lasts a second or two (the stranger's process runs before the
first); the same percentile while the stranger does this to the broker of another cluster on the same machine, which is what
his work costs the machine that he shares with it here; what the stranger was told.
Exit status 1 when the promise is broken: the peak above `--limit-mib`, the memory afterwards twice that of before, descriptors
or threads left over, or the percentile more than three times that of before.
Run it on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from select import select

from oncelog.client.client import Client
from oncelog.errors import OncelogError
from oncelog.sync import Client as Operator
from oncelog_cli.laptop.local_cluster import LocalCluster
from tests.hostile.attacks import ATTACKS, MIB, TOPIC, Target

HEALTHY_TOPIC = "healthy"
CALM_S = 10
"""How long the broker may tidy up after each attack."""
BEFORE_S = 60
"""How long the well-behaved client is watched before the first attack."""


@dataclass(frozen=True, slots=True)
class Given:
    """What the caller asked for."""

    limit_mib: int
    rounds: int


@dataclass(frozen=True, slots=True)
class State:
    """What the broker's process holds."""

    rss_mib: int
    descriptors: int
    threads: int


class Broker:
    """The process that is attacked."""

    def __init__(self, pid: int) -> None:
        self._folder = Path(f"/proc/{pid}")

    def rss_mib(self) -> int:
        """Now."""
        pages = int((self._folder / "statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") // MIB

    def state(self) -> State:
        """Now."""
        return State(self.rss_mib(), len(os.listdir(self._folder / "fd")), len(os.listdir(self._folder / "task")))


class Healthy:
    """The process of the well-behaved producer."""

    def __init__(self, address: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.hostile.memory", "--healthy", address],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def took_ms(self) -> list[float]:
        """Each record since the last time this was asked."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return [float(took_ms) for took_ms in json.loads(self._process.stdout.readline())]

    def close(self) -> None:
        """It ends with its input."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def p99(took_ms: list[float]) -> float:
    """The 99th percentile."""
    return sorted(took_ms)[len(took_ms) * 99 // 100]


async def be_healthy(address: str) -> None:
    """A record every 10 ms; for each line of input, a list of the milliseconds that each took since the last line."""
    took_ms: list[float] = []
    loop = asyncio.get_running_loop()
    lines: asyncio.Queue[str] = asyncio.Queue()
    loop.add_reader(sys.stdin, lambda: lines.put_nowait(sys.stdin.readline()))
    async with Client(address) as client, client.producer() as producer:
        while True:
            began_s = time.monotonic()
            try:
                await producer.send_and_wait(HEALTHY_TOPIC, b"still there")
            except OncelogError as error:
                print(f"the well-behaved client was refused: {error}", file=sys.stderr, flush=True)
            took_ms.append(1000 * (time.monotonic() - began_s))
            while not lines.empty():
                if not lines.get_nowait():
                    return
                print(json.dumps(took_ms), flush=True)
                took_ms.clear()
            await asyncio.sleep(0.01)


class Stranger:
    """His process. It runs before he attacks: elsewhere it is not the broker's machine that starts it."""

    def __init__(self, name: str, target: Target) -> None:
        command = [sys.executable, "-m", "tests.hostile.attacks", name, *target]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def attack(self) -> None:
        """Begins once more."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it has ended, and got nothing
            self._process.stdin.write("\n")
            self._process.stdin.flush()

    def is_done(self, within_s: float) -> bool:
        """Whether the attack has ended."""
        return bool(select([self._process.stdout], [], [], within_s)[0])

    def got(self) -> str:
        """What the attack that has ended got; nothing when the process broke off."""
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def leave(self) -> bool:
        """The process ends with its input; whether it did without an error."""
        self._process.communicate()
        return self._process.returncode == 0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What some rounds of an attack did."""

    peak_mib: int
    took_ms: list[float]
    got: str
    went_well: bool


def attack(names: list[str], broker: Broker, healthy: Healthy, targets: tuple[Target, Target], given: Given) -> bool:
    """Runs the attacks on the first target; whether everything that is promised was kept."""
    victim, other = targets
    for target in targets:
        filler = Stranger("fill", target)
        filler.attack()
        assert filler.got() == "filled"
        filler.leave()
    time.sleep(CALM_S)
    healthy.took_ms()
    time.sleep(BEFORE_S)
    calm_ms, start = p99(healthy.took_ms()), broker.state()
    print(f"before: {start}, p99 of the well-behaved client {calm_ms:.1f} ms, {given.rounds} rounds of each attack")
    print(f"{'attack':12} {'peak':>6} {'after':>6} MiB  descriptors  threads   p99 ms  of another  what it got")
    kept = True
    for name in names:
        beside = rounds(name, other, broker, healthy, given.rounds)
        outcome = rounds(name, victim, broker, healthy, given.rounds)
        after, p99_ms = broker.state(), p99(outcome.took_ms)
        print(
            f"{name:12} {outcome.peak_mib:6} {after.rss_mib:6}      {after.descriptors:11}  {after.threads:7}  {p99_ms:7.1f}  "
            f"{p99(beside.took_ms):10.1f}  {outcome.got}",
            flush=True,
        )
        kept &= is_kept(start, after, calm_ms, p99_ms) and outcome.peak_mib <= given.limit_mib and outcome.went_well
    return kept


def rounds(name: str, target: Target, broker: Broker, healthy: Healthy, count: int) -> Outcome:
    """Attacks the target so many times, with a calm time before each and after the last."""
    peak_mib, took_ms, got = 0, [], ""
    stranger = Stranger(name, target)
    for _ in range(count):
        time.sleep(CALM_S)
        healthy.took_ms()
        stranger.attack()
        while not stranger.is_done(within_s=0.02):
            peak_mib = max(peak_mib, broker.rss_mib())
        took_ms += healthy.took_ms()
        got = stranger.got()
        if not got:
            break
    went_well = stranger.leave()
    time.sleep(CALM_S)
    return Outcome(peak_mib, took_ms, got, went_well)


def is_kept(start: State, after: State, calm_ms: float, p99_ms: float) -> bool:
    """Of one attack. A few descriptors and threads come and go by themselves."""
    return (
        after.rss_mib < 2 * start.rss_mib
        and after.descriptors <= start.descriptors + 5
        and after.threads <= start.threads + 5
        and p99_ms <= 3 * calm_ms
    )


def main() -> int:
    """The exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("attacks", nargs="*", default=list(ATTACKS), help=f"of {', '.join(ATTACKS)}")
    parser.add_argument("--limit-mib", type=int, default=1_500, help="highest memory that is allowed")
    parser.add_argument("--rounds", type=int, default=5, help="how often each attack is made")
    parser.add_argument("--healthy", metavar="ADDRESS", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.healthy:
        asyncio.run(be_healthy(given.healthy))
        return 0
    with tempfile.TemporaryDirectory() as folder, _small_cluster(folder) as other, _small_cluster(folder) as cluster:
        kept = story(cluster, other, given.attacks, Given(given.limit_mib, given.rounds))
    print("kept" if kept else "BROKEN")
    return 0 if kept else 1


def _small_cluster(folder: str) -> LocalCluster:
    cluster = LocalCluster(Path(tempfile.mkdtemp(dir=folder)), 1, 1, doors=True)
    cluster.processes["broker-0"].command += ["--transaction-shards=2", "--group-shards=2"]  # it starts sooner
    return cluster


def story(cluster: LocalCluster, other: LocalCluster, names: list[str], given: Given) -> bool:
    """Prepares both running clusters, fills them, attacks them."""
    victim, bystander = (_prepare(one) for one in (cluster, other))
    process = cluster.processes["broker-0"]
    assert process.popen is not None
    healthy = Healthy(victim.address)
    try:
        return attack(names, Broker(process.popen.pid), healthy, (victim, bystander), given)
    finally:
        healthy.close()


def _prepare(cluster: LocalCluster) -> Target:
    with Operator(cluster.bootstrap_servers) as client:
        client.admin.create_topic(TOPIC, partitions=2, replication_factor=1)
        client.admin.create_topic(HEALTHY_TOPIC, partitions=1, replication_factor=1)
        return Target(cluster.processes["broker-0"].doors["client"], client.admin.describe_topic(TOPIC).topic_id)


if __name__ == "__main__":
    sys.exit(main())
