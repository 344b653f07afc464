"""What idle members cost a coordinator: `python -m bench.group_idle [--members 1000] [--groups 20] [--format table|json]`.

A local cluster with one coordinator, and `--members` members of `--groups` groups in `--processes` processes, each member with
a client and links of its own. Each group reads one topic that has a partition for each of its members, and nothing is written.
Printed: the coordinator's CPU in percent of one core over `--seconds`, before the members come and when all of them have been
there for `--settle` seconds; the heartbeats that it answered in that time, and what one takes; and the resident memory that a
member adds. CPU and memory are from /proc, and may be compared on a busy machine.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from bench.processes import percent_over, rss_bytes
from oncelog.sync import Client
from oncelog_cli.laptop.local_cluster import LocalCluster

TOPIC: Final = "idle"
COORDINATOR: Final = "coordinator-0"
JOIN_TIMEOUT_S: Final = 300.0


@dataclass(frozen=True, slots=True)
class Found:
    """What one run has found."""

    members: int
    groups: int
    heartbeat_interval_ms: int
    empty_cpu_percent: float
    idle_cpu_percent: float
    heartbeats_per_s: float
    empty_mib: float
    idle_mib: float
    join_s: float

    @property
    def kib_per_member(self) -> float:
        """Resident memory that a member adds to the coordinator, its links included."""
        return (self.idle_mib - self.empty_mib) * 1024 / self.members

    @property
    def us_per_heartbeat(self) -> float:
        """Microseconds of CPU that a heartbeat takes."""
        return (self.idle_cpu_percent - self.empty_cpu_percent) * 1e4 / max(self.heartbeats_per_s, 1e-9)


def table(found: Found) -> str:
    """For people."""
    rows = [
        ("members", f"{found.members} in {found.groups} groups, all there after {found.join_s:.0f} s"),
        ("heartbeats", f"every {found.heartbeat_interval_ms} ms each, {found.heartbeats_per_s:.0f}/s answered"),
        ("coordinator, CPU without members", f"{found.empty_cpu_percent:.2f} % of a core"),
        ("coordinator, CPU with idle members", f"{found.idle_cpu_percent:.2f} % of a core"),
        ("CPU of a heartbeat", f"{found.us_per_heartbeat:.0f} us"),
        ("memory of a member", f"{found.kib_per_member:.1f} KiB ({found.empty_mib:.0f} -> {found.idle_mib:.0f} MiB)"),
    ]
    return "\n".join(f"{name:<36} {value}" for name, value in rows)


def heartbeats_in(exposition: Iterable[str]) -> float:
    """The heartbeats that a process has answered, from the text of its metrics."""
    return sum(
        float(line.rpartition(" ")[2])
        for line in exposition
        if line.startswith("oncelog_request_duration_seconds_count") and "GroupHeartbeat" in line
    )


def shares(members: int, processes: int) -> list[tuple[int, int]]:
    """(first, count) of each process."""
    sizes = [members // processes + (number < members % processes) for number in range(processes)]
    return [(sum(sizes[:number]), size) for number, size in enumerate(sizes)]


def heartbeat_interval_ms(command: Iterable[str]) -> int:
    """The interval that a coordinator with this command line asks of its members."""
    from oncelog_coordinator.config import CoordinatorConfig

    given = [word.partition("=")[2] for word in command if word.startswith("--group-heartbeat-interval-ms=")]
    return int(given[-1]) if given else CoordinatorConfig(node_id=0).group_heartbeat_interval_ms


@contextmanager
def members_of(servers: str, members: int, groups: int, processes: int) -> Iterator[None]:
    """Returns when all members have their partitions."""
    hosts = [
        subprocess.Popen(
            [sys.executable, "-m", "bench.idle_members", servers, TOPIC, str(groups), str(first), str(count)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for first, count in shares(members, processes)
    ]
    try:
        for host in hosts:
            assert host.stdout is not None
            if host.stdout.readline() != "joined\n":
                raise SystemExit("a process with members ended by itself")
        yield
    finally:
        for host in hosts:
            host.kill()
            host.wait()


def measure(args: argparse.Namespace) -> Found:
    """All of it, on a cluster that is made for it."""
    with (
        tempfile.TemporaryDirectory(prefix="oncelog-bench-") as folder,
        LocalCluster(Path(folder), coordinators=1, metrics=True) as cluster,
    ):
        process = cluster.processes[COORDINATOR]
        assert process.popen is not None
        pid = process.popen.pid
        with Client(cluster.bootstrap_servers) as client:
            client.admin.create_topic(TOPIC, partitions=-(-args.members // args.groups), replication_factor=3)
        time.sleep(args.settle)
        empty_cpu, empty_bytes = percent_over({"": pid}, args.seconds)[""], rss_bytes(pid)
        print("members join ...", file=sys.stderr, flush=True)
        began_s = time.monotonic()
        with members_of(cluster.bootstrap_servers, args.members, args.groups, args.processes):
            join_s = time.monotonic() - began_s
            time.sleep(args.settle)
            print("members are idle ...", file=sys.stderr, flush=True)
            before, began_s = _heartbeats(process.metrics_url), time.monotonic()
            idle_cpu = percent_over({"": pid}, args.seconds)[""]
            seconds = time.monotonic() - began_s
            answered = _heartbeats(process.metrics_url) - before
            idle_bytes = rss_bytes(pid)
        interval_ms = heartbeat_interval_ms(process.command)
    mib = 1 << 20
    return Found(
        args.members, args.groups, interval_ms, empty_cpu, idle_cpu, answered / seconds, empty_bytes / mib,
        idle_bytes / mib, join_s,
    )  # fmt: skip


def _heartbeats(url: str) -> float:
    with urllib.request.urlopen(url, timeout=10) as answer:
        return heartbeats_in(answer.read().decode().splitlines())


def main() -> int:
    """Exit code 0: a benchmark informs, it does not gate."""
    parser = argparse.ArgumentParser(prog="python -m bench.group_idle")
    parser.add_argument("--members", type=int, default=1_000)
    parser.add_argument("--groups", type=int, default=20)
    parser.add_argument("--processes", type=int, default=4, help="that the members share (default %(default)s)")
    parser.add_argument("--seconds", type=float, default=30.0, help="how long CPU is measured (default %(default)s)")
    parser.add_argument("--settle", type=float, default=10.0, help="seconds before that (default %(default)s)")
    parser.add_argument("--format", choices=("table", "json"), default="table")
    args = parser.parse_args()
    found = measure(args)
    told = {**asdict(found), "kib_per_member": found.kib_per_member, "us_per_heartbeat": found.us_per_heartbeat}
    print(json.dumps(told, indent=1) if args.format == "json" else table(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
