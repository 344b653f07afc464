"""What a change of a group costs its members: `python -m bench.groups [--members 50] [--partitions 200] [--rounds 10]`.

A local cluster with three brokers and a group of `--members` in five processes, which reads every partition while a producer
writes `--rate` records a second into each. In each round the last member joins and leaves again; at the end it is killed
(SIGKILL). Printed for each kind of change:

    moved       partitions that changed their reader, beside the fewest that the change allows
    stable      milliseconds until every partition has its reader for good
    pause       the longest time from send to read, of all partitions that kept their reader, while the change went on
    calm        the same in the second before it

Run it on a machine that does nothing else: all members, brokers and the producer share its cores.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from bench.group_host import now_ms
from oncelog.sync import Client
from oncelog_cli.laptop.local_cluster import LocalCluster

GROUP = TOPIC = "shared"
SESSION_MS = 6_000
SETTLED_S = 2.0
"""Nothing has moved for this long: the change is over."""
TIMEOUT_S = 90.0


@dataclass
class History:
    """What all members have told."""

    events: list[tuple[float, int, str, list[int]]] = field(default_factory=list)
    late: list[tuple[float, dict[int, float]]] = field(default_factory=list)
    gone: set[int] = field(default_factory=set)
    """Members that were killed: they told nothing of it."""

    def owners(self) -> dict[int, set[int]]:
        """Partition -> members that read it, by what was told last."""
        owners: dict[int, set[int]] = defaultdict(set)
        for _, member, what, partitions in list(self.events):
            for partition in partitions:
                (owners[partition].add if what == "+" else owners[partition].discard)(member)
        return {partition: members - self.gone for partition, members in owners.items()}

    def worst_ms(self, since_ms: float, until_ms: float, partitions: set[int]) -> float:
        """The longest time from send to read of these partitions that was told in this span."""
        told = (late for at_ms, late in list(self.late) if since_ms <= at_ms < until_ms)
        return max((ms for late in told for partition, ms in late.items() if partition in partitions), default=0.0)


class Host:
    """A process with members."""

    def __init__(self, servers: str, first: int, count: int, history: History) -> None:
        command = [sys.executable, "-m", "bench.group_host", servers, GROUP, TOPIC, str(first), str(count)]
        self.members = {*range(first, first + count)}
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._history = history
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            at_ms, member, what, more = json.loads(line)
            if what == "late":
                self._history.late.append((at_ms, {int(partition): ms for partition, ms in more.items()}))
            else:
                self._history.events.append((at_ms, member, what, more))

    def leave(self) -> None:
        """Its members leave the group; returns at once."""
        assert self.process.stdin is not None
        self.process.stdin.close()

    def kill(self) -> None:
        """SIGKILL."""
        self._history.gone |= self.members
        self.process.kill()


@dataclass(frozen=True)
class Change:
    """One line of the table."""

    kind: str
    moved: int
    fewest: int
    stable_ms: float
    pause_ms: float
    calm_ms: float


class Trial:
    """A group on a cluster."""

    def __init__(self, servers: str, members: int, partitions: int) -> None:
        self.history = History()
        self._servers = servers
        self._members = members
        self._partitions = partitions
        sizes = [members // 4 + (number < members % 4) for number in range(4)]
        firsts = [sum(sizes[:number]) for number in range(4)]
        self._hosts = [Host(servers, first, size, self.history) for first, size in zip(firsts, sizes, strict=True)]
        self._next = members

    def begin(self) -> float:
        """Returns when every partition is read; in ms since the start."""
        began_ms = now_ms()
        return self._until_stable(began_ms, self._members)

    def join_and_leave(self) -> list[Change]:
        """One more member comes, and goes."""
        guest: list[Host] = []

        def join() -> None:
            guest.append(Host(self._servers, self._next, 1, self.history))
            while not self._joined_ms():
                time.sleep(0.001)

        come = self._change("join", join, self._members + 1, self._partitions // (self._members + 1))
        go = self._change("leave", guest[0].leave, self._members, come.moved)
        guest[0].process.wait(20)
        self._next += 1
        return [come, go]

    def kill(self) -> Change:
        """One more member comes, and dies."""
        guest = Host(self._servers, self._next, 1, self.history)
        came_ms = now_ms()
        self._until_stable(came_ms, self._members + 1)
        owned = sum(bool(members & guest.members) for members in self.history.owners().values())
        return self._change("kill -9", guest.kill, self._members, owned)

    def _change(self, kind: str, act: Callable[[], None], members: int, fewest: int) -> Change:
        before = self.history.owners()
        began_ms = now_ms()
        calm_ms = self.history.worst_ms(began_ms - 1000, began_ms, set(before))
        act()
        if kind == "join":  # the start of its process is not the group's work
            began_ms = self._joined_ms()
        stable_ms = self._until_stable(began_ms, members)
        after = self.history.owners()
        kept = {partition for partition, owners in after.items() if owners == before[partition]}
        pause_ms = self.history.worst_ms(began_ms, began_ms + stable_ms + 1000, kept)
        return Change(kind, self._partitions - len(kept), fewest, stable_ms, pause_ms, calm_ms)

    def _joined_ms(self) -> float:
        """When the last member began to join; 0 = not yet."""
        return min((at_ms for at_ms, member, _, _ in list(self.history.events) if member == self._next), default=0.0)

    def _until_stable(self, began_ms: float, members: int) -> float:
        deadline_s = time.monotonic() + TIMEOUT_S
        while time.monotonic() < deadline_s:
            time.sleep(0.05)
            owners = self.history.owners()
            loads: dict[int, int] = defaultdict(int)
            for found in owners.values():
                for member in found:
                    loads[member] += 1
            one_each = len(owners) == self._partitions and all(len(found) == 1 for found in owners.values())
            balanced = len(loads) == members and max(loads.values()) - min(loads.values()) <= 1
            last_ms = max((at_ms for at_ms, _, _, _ in list(self.history.events)), default=0.0)
            if one_each and balanced and now_ms() - last_ms > SETTLED_S * 1000:
                return last_ms - began_ms
        raise TimeoutError(f"the group of {members} members is not stable: {sorted(loads.items())}")

    def close(self) -> None:
        """Everybody leaves."""
        for host in self._hosts:
            host.leave()
        for host in self._hosts:
            host.process.wait(60)


def write(servers: str, partitions: int, rate: float, stop: threading.Event) -> None:
    """`rate` records a second into each partition, until `stop`: one after the other, since a burst to all waits for itself."""
    with Client(servers) as client, client.producer(linger_ms=5) as producer:
        due_s = time.monotonic()
        while not stop.is_set():
            for number in range(partitions):
                producer.send(TOPIC, f"{now_ms():.3f}".encode(), partition=number)
                due_s += 1 / (rate * partitions)
                time.sleep(max(0.0, due_s - time.monotonic()))


def table(changes: list[Change]) -> str:
    """Each kind of change, in the middle and at worst."""
    titles = ("stable p50 / worst ms", "pause p50 / worst ms")
    lines = [f"{'change':8} {'times':>5} {'moved':>6} {'fewest':>6}  {titles[0]:>22}  {titles[1]:>21}  calm p50"]
    for kind in dict.fromkeys(change.kind for change in changes):
        found = [change for change in changes if change.kind == kind]
        stable, pause = [one.stable_ms for one in found], [one.pause_ms for one in found]
        lines.append(
            f"{kind:8} {len(found):5} {max(one.moved for one in found):6} {min(one.fewest for one in found):6}  "
            f"{median(stable):13.0f} / {max(stable):6.0f}  {median(pause):12.0f} / {max(pause):6.0f}  "
            f"{median(one.calm_ms for one in found):8.0f}"
        )
    return "\n".join(lines)


def main() -> int:
    """Exit code 0: a benchmark informs, it does not gate."""
    parser = argparse.ArgumentParser(prog="python -m bench.groups")
    parser.add_argument("--members", type=int, default=50)
    parser.add_argument("--partitions", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--rate", type=float, default=0.5, help="records a second into each partition")
    args = parser.parse_args()
    cluster = LocalCluster(Path(tempfile.mkdtemp()))
    for name, process in cluster.processes.items():
        if name.startswith("coordinator"):
            process.command += [f"--group-session-timeout-ms={SESSION_MS}", "--group-heartbeat-interval-ms=2000"]
    with cluster:
        servers = cluster.bootstrap_servers
        with Client(servers) as client:
            client.admin.create_topic(TOPIC, partitions=args.partitions, replication_factor=3)
        stop = threading.Event()
        trial = Trial(servers, args.members - 1, args.partitions)
        print(
            f"{args.members - 1} members are stable after {trial.begin():.0f} ms, their processes included", flush=True
        )
        writing = threading.Thread(target=write, args=(servers, args.partitions, args.rate, stop))
        writing.start()
        time.sleep(5)
        changes: list[Change] = []
        for _ in range(args.rounds):
            changes += trial.join_and_leave()
            print(table(changes[-2:]).partition("\n")[2], flush=True)
        changes.append(trial.kill())
        stop.set()
        writing.join()
        trial.close()
    print(table(changes))
    return 0


if __name__ == "__main__":
    sys.exit(main())
