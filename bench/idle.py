"""What partitions cost that nobody uses: `python -m bench.idle [--partitions 1000] [--format table|json]`.

A local cluster with three brokers gets `--partitions` partitions with three replicas each, beside those of its own topics
(--shards of each). Nobody reads or writes. Printed:

    create          seconds until every partition has a leader and its whole ISR, and each broker's CPU meanwhile
    after creation  each broker's CPU in the ten seconds that follow
    idle            each broker's CPU over `--seconds`, after `--settle` seconds; and the same before the creation
    memory          each broker's resident memory, and what a replica adds to it
    kill -9         seconds until all partitions of the killed broker are led by others: once for a broker that is not the
                    controller, once for the controller
    back            seconds from the start of the killed broker's next process until every ISR is whole again

CPU is in percent of one core, from /proc, and may be compared on a busy machine; seconds need a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from bench.partition_states import PartitionStates
from bench.processes import CpuMeter, percent_over, rss_bytes
from oncelog.sync import Client
from oncelog_cli.laptop.local_cluster import LocalCluster

BROKERS: Final = 3
PER_TOPIC: Final = 1_000
CREATED_S: Final = 10.0
TIMEOUT_MS: Final = 300_000


@dataclass(slots=True)
class Found:
    """What one run has found. Lists have one figure per broker, and one per kill."""

    partitions: int
    internal_partitions: int = 0
    create_s: float = 0.0
    create_cpu_percent: list[float] = field(default_factory=list)
    created_cpu_percent: list[float] = field(default_factory=list)
    empty_cpu_percent: list[float] = field(default_factory=list)
    idle_cpu_percent: list[float] = field(default_factory=list)
    empty_mib: list[float] = field(default_factory=list)
    idle_mib: list[float] = field(default_factory=list)
    kill_led_elsewhere_s: dict[str, float] = field(default_factory=dict)
    back_in_isr_s: dict[str, float] = field(default_factory=dict)

    @property
    def kib_per_replica(self) -> float:
        """Resident memory that one more replica takes, on average over the brokers."""
        grown_mib = sum(self.idle_mib) / len(self.idle_mib) - sum(self.empty_mib) / len(self.empty_mib)
        return grown_mib * 1024 / self.partitions


def table(found: Found) -> str:
    """For people."""
    lines = [
        ("partitions", f"{found.partitions}, and {found.internal_partitions} of the cluster's own"),
        ("create", f"{found.create_s:.1f} s"),
        ("create, CPU", _percents(found.create_cpu_percent)),
        (f"{CREATED_S:.0f} s after creation, CPU", _percents(found.created_cpu_percent)),
        ("before creation, CPU", _percents(found.empty_cpu_percent)),
        ("idle, CPU", _percents(found.idle_cpu_percent)),
        (
            "memory",
            f"{' / '.join(f'{mib:.0f}' for mib in found.idle_mib)} MiB, {found.kib_per_replica:.1f} KiB a replica",
        ),
    ]
    for who, seconds in found.kill_led_elsewhere_s.items():
        lines.append((f"kill -9 of {who}: led elsewhere", f"{seconds:.2f} s"))
        if who in found.back_in_isr_s:
            lines.append((f"{who} again: every ISR whole", f"{found.back_in_isr_s[who]:.2f} s"))
    return "\n".join(f"{name:<42} {value}" for name, value in lines)


def _percents(values: list[float]) -> str:
    return " / ".join(f"{value:.2f}" for value in values) + " % of a core"


class Trial:
    """A cluster under measurement."""

    def __init__(self, cluster: LocalCluster, found: Found) -> None:
        self._cluster = cluster
        self._found = found
        self._states = PartitionStates(cluster.processes["etcd"].address)

    def _pids(self) -> Mapping[str, int]:
        pids = {}
        for number in range(BROKERS):
            popen = self._cluster.processes[f"broker-{number}"].popen
            assert popen is not None
            pids[f"broker-{number}"] = popen.pid
        return pids

    def _mib(self) -> list[float]:
        return [rss_bytes(pid) / (1 << 20) for pid in self._pids().values()]

    def empty(self, seconds: float) -> None:
        """Measures before the creation."""
        self._states.look()
        self._found.internal_partitions = len(self._states.partitions)
        self._found.empty_cpu_percent = [*percent_over(self._pids(), seconds).values()]
        self._found.empty_mib = self._mib()

    def create(self) -> None:
        """Creates the partitions, in topics of `PER_TOPIC`."""
        found, before = self._found, len(self._states.partitions)
        meter, began_s = CpuMeter(self._pids()), time.monotonic()
        with Client(self._cluster.bootstrap_servers, default_api_timeout_ms=TIMEOUT_MS) as client:
            for first in range(0, found.partitions, PER_TOPIC):
                count = min(PER_TOPIC, found.partitions - first)
                client.admin.create_topic(
                    f"idle-{first}", partitions=count, replication_factor=BROKERS, timeout_ms=TIMEOUT_MS
                )
        expected = before + found.partitions
        self._states.wait_until(
            lambda now: len(now.partitions) == expected == now.led() == now.whole(BROKERS), TIMEOUT_MS / 1000
        )
        found.create_s = time.monotonic() - began_s
        found.create_cpu_percent = [*meter.percent().values()]
        found.created_cpu_percent = [*percent_over(self._pids(), CREATED_S).values()]

    def idle(self, settle_s: float, seconds: float) -> None:
        """Measures when all is quiet."""
        time.sleep(settle_s)
        self._found.idle_cpu_percent = [*percent_over(self._pids(), seconds).values()]
        self._found.idle_mib = self._mib()

    def kill(self, broker_id: int, who: str) -> None:
        """SIGKILL to a broker, and a new process for it when its partitions are led by others."""
        name, states = f"broker-{broker_id}", self._states
        states.look()
        assert states.led_by(broker_id), f"{name} leads nothing"
        self._cluster.processes[name].kill()
        expected = len(states.partitions)
        seconds = states.wait_until(lambda now: not now.led_by(broker_id) and now.led() == expected)
        self._found.kill_led_elsewhere_s[who] = seconds
        self._cluster.restart(name)
        self._found.back_in_isr_s[who] = states.wait_until(lambda now: now.whole(BROKERS) == expected)

    def kill_each(self, rest_s: float) -> None:
        """Kills a broker that is not the controller, then the controller; `rest_s` before each."""
        for who, choose in _VICTIMS.items():
            time.sleep(rest_s)  # leadership goes back to the preferred replicas every 30 s
            self.kill(choose(self._controller()), who)

    def _controller(self) -> int:
        with Client(self._cluster.bootstrap_servers) as client:
            controller = client.admin.cluster_health().controller
        assert controller is not None, "a healthy cluster has a controller"
        return controller


_VICTIMS: Final[dict[str, Callable[[int], int]]] = {
    "a broker": lambda controller: (controller + 1) % BROKERS,
    "the controller": lambda controller: controller,
}


def measure(partitions: int, seconds: float, settle_s: float, kills: bool, flags: tuple[str, ...]) -> Found:
    """All of it, on a cluster that is made for it."""
    found = Found(partitions)
    with (
        tempfile.TemporaryDirectory(prefix="oncelog-bench-") as folder,
        LocalCluster(Path(folder), brokers=BROKERS, flags=flags) as cluster,
    ):
        trial = Trial(cluster, found)
        _tell("before the creation")
        time.sleep(settle_s)
        trial.empty(seconds)
        _tell("creating")
        trial.create()
        _tell("idle")
        trial.idle(settle_s, seconds)
        if kills:
            _tell("kill -9")
            trial.kill_each(35.0)
    return found


def _tell(what: str) -> None:
    print(f"{what} ...", file=sys.stderr, flush=True)


def as_json(found: Found) -> dict[str, Any]:
    """For programs."""
    fields = {name: getattr(found, name) for name in Found.__slots__}
    return {**fields, "kib_per_replica": found.kib_per_replica}


def main() -> int:
    """Exit code 0: a benchmark informs, it does not gate."""
    parser = argparse.ArgumentParser(prog="python -m bench.idle")
    parser.add_argument("--partitions", type=int, default=1_000)
    parser.add_argument("--seconds", type=float, default=20.0, help="how long CPU is measured (default %(default)s)")
    parser.add_argument("--settle", type=float, default=15.0, help="seconds before that (default %(default)s)")
    parser.add_argument("--no-kills", action="store_true", help="leave out kill -9")
    parser.add_argument("--format", choices=("table", "json"), default="table")
    args = parser.parse_args()
    found = measure(args.partitions, args.seconds, args.settle, not args.no_kills, ())
    print(json.dumps(as_json(found), indent=1) if args.format == "json" else table(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
