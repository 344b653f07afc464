"""Availability during faults: a prober writes with acks=all all the time, and an oracle says when that must succeed.

It must succeed while a majority of the brokers is fit (up, not paused, its disk answers and has room), connected to each
other and to etcd, and has among them `min_insync_replicas` replicas, one of which holds everything committed. Then a write
may wait for one bounded fail-over: `BASE_MS`, and what `EXTRA_MS` adds for the faults of the run.

Rule: what is measured is a user's write, through the SDK, from its first attempt to its answer.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from itertools import combinations
from typing import Final

from oncelog import errors
from oncelog.client.client import Client
from oncelog.types import PartitionId
from oncelog_runtime.metadata.cluster_keys import Partition, Topic, partition_key, topic_key
from oncelog_runtime.observability.health import READINESS, STARTUP
from oncelog_runtime.sim.faults import FaultPlan
from tests.simulation.cluster import SimCluster
from tests.simulation.hard_plan import HardPlan
from tests.simulation.history import Key, Status
from tests.simulation.losses import LossBudget
from tests.simulation.recorded import RETRY_S, encode
from tests.simulation.workload import API_TIMEOUT_MS, Workload

PROBE: Final = "probe"
PARTITIONS: Final = 2
_MIN_INSYNC: Final = 2
_EVERY_S: Final = 0.25
_LOOK_S: Final = 0.05
_PROMPT_MS: Final = 500
"""A write that waits no longer than this works."""
SETTLED_MS: Final = 3_000
"""After this time without a change of who is fit, a fail-over must be over: its share is shown apart."""

BASE_MS: Final = 3_000
EXTRA_MS: Final[dict[str, tuple[int, str]]] = {
    "stall_link": (6_000, "a stalled link is noticed after up to 3 s, and the next one may stall too"),
    "break_link": (1_000, "each broken link costs a back-off of the client and of the followers"),
    "slow_message": (1_000, "each of the messages of a fail-over may take 0.2 s more"),
    "lose_reply": (
        3_000,
        "a lost answer costs its link, with all that is open on it, and that of a fail-over may be lost too",
    ),
    "slow_metadata": (4_000, "each of the calls of etcd that a fail-over needs may take 1 s more"),
    "lose_metadata_request": (9_000, "a lost call of etcd is noticed after 3 s, and a fail-over needs several"),
    "lose_metadata_answer": (9_000, "as a lost request"),
    "slow_sync": (2_000, "each sync may take 0.3 s more"),
    "disk_errors": (6_000, "a replica whose log failed takes a new incarnation and comes back into the ISR"),
    "lease_loss_every_ms": (3_000, "a broker that lost its lease registers again, and joins every ISR anew"),
    "relist": (1_000, "a watch begins again with a listing"),
    "restore_etcd_every_ms": (15_000, "every broker must notice it, and all replicas of a partition are asked"),
    "corrupt_wire": (1_000, "each broken batch costs a back-off of the link to that follower"),
    "operator": (3_000, "leaders and replicas move"),
}
"""What a fault adds to the bound of the runs that have it, and why."""
_STOPPING: Final = "not stopping"
_DISK_ERRORS: Final = (
    "short_write",
    "disk_full",
    "append_error",
    "read_error",
    "sync_error",
    "rot_every_ms",
    "fail_sync_every_ms",
)


def bound_of(plan: FaultPlan, hard: HardPlan, *, has_operator: bool) -> int:
    """The longest time for which a write may wait while the oracle says that it must succeed."""
    present = {name for name in EXTRA_MS if getattr(plan, name, 0) > 0 or getattr(hard, name, 0) > 0}
    if any(getattr(plan, name, 0) or getattr(hard, name, 0) for name in _DISK_ERRORS):
        present.add("disk_errors")
    if has_operator:
        present.add("operator")
    return BASE_MS + sum(EXTRA_MS[name][0] for name in sorted(present))


@dataclass(slots=True)
class Measured:
    """Milliseconds by kind of fault, in which writes had to work, and in which they did. `add` sums several runs."""

    must: Counter[str] = field(default_factory=Counter)
    works: Counter[str] = field(default_factory=Counter)
    settled: Counter[str] = field(default_factory=Counter)
    settled_works: Counter[str] = field(default_factory=Counter)
    longest: dict[str, int] = field(default_factory=dict)

    def add(self, other: Measured) -> None:
        """One more run."""
        for name in ("must", "works", "settled", "settled_works"):
            getattr(self, name).update(getattr(other, name))
        for kind, gap in other.longest.items():
            self.longest[kind] = max(self.longest.get(kind, 0), gap)

    def table(self) -> list[str]:
        """For a person."""
        lines = [f"{'fault':28} {'seconds':>8} {'works':>7} {f'after {SETTLED_MS // 1000} s':>10} {'longest gap':>12}"]
        for kind in sorted(self.must):
            share = self.works[kind] / self.must[kind]
            settled = self.settled_works[kind] / self.settled[kind] if self.settled[kind] else 1.0
            gap = f"{self.longest.get(kind, 0) / 1000:.1f} s"
            name = kind.removesuffix("_every_ms")
            lines.append(f"{name:28} {self.must[kind] / 1000:8.0f} {share:7.1%} {settled:10.1%} {gap:>12}")
        return lines


class _Oracle:
    """Which majorities can work, and since when. `changed_ms`: when it last became another answer, by partition."""

    def __init__(self, cluster: SimCluster, budget: LossBudget) -> None:
        self._cluster = cluster
        self._budget = budget
        self.changed_ms: dict[PartitionId, int] = {}
        self._since: dict[tuple[PartitionId, tuple[str, ...]], int] = {}
        self._able: dict[PartitionId, set[tuple[PartitionId, tuple[str, ...]]]] = {}

    def since(self, partition: PartitionId, state: Partition, now_ms: int) -> int | None:
        """The time since when one and the same majority must take writes; None = nobody need take any now."""
        able = {(partition, names) for names in self._majorities() if self._is_able(names, partition, state)}
        if self._able.get(partition) != able:
            self._able[partition] = able
            self.changed_ms[partition] = now_ms
        for known in [known for known in self._since if known[0] == partition and known not in able]:
            del self._since[known]
        return min((self._since.setdefault(one, now_ms) for one in sorted(able)), default=None)

    def _majorities(self) -> list[tuple[str, ...]]:
        """Each is named by its processes: a restarted broker makes another one."""
        nodes = self._cluster.world.nodes
        brokers = [name for name in nodes if name.startswith("broker-")]
        fit = [name for name in brokers if self._is_fit(name)]
        groups = combinations(fit, len(brokers) // 2 + 1)
        connected = self._cluster.world.network.is_connected
        return [
            tuple(f"{name}#{nodes[name].lives}" for name in group)
            for group in groups
            if all(connected(a, b) for a, b in combinations(group, 2))
        ]

    def _is_fit(self, name: str) -> bool:
        node, store = self._cluster.node(name), self._cluster.world.metadata
        serves = (
            node.is_up and node.ports.health.serving(STARTUP) and _STOPPING not in node.ports.health.failing(READINESS)
        )
        return serves and not node.disk.is_hung and node.disk.capacity is None and not store.is_cut(name)

    def _is_able(self, names: tuple[str, ...], partition: PartitionId, state: Partition) -> bool:
        ids = {int(name.partition("#")[0].rpartition("-")[2]) for name in names}
        holders = self._budget.holders(partition, state)
        return len(ids.intersection(state.replicas)) >= _MIN_INSYNC and not ids.isdisjoint(holders)


class Availability:
    """`measured` and `violations` grow while `watch` runs. `active`: the kinds of fault that are under way."""

    def __init__(self, workload: Workload, budget: LossBudget, active: Counter[str], bound_ms: int) -> None:
        self.measured = Measured()
        self.violations: list[str] = []
        self._workload = workload
        self._cluster = workload.cluster
        self._oracle = _Oracle(self._cluster, budget)
        self._active = active
        self._bound_ms = bound_ms
        self._waiting: dict[int, int] = {}
        """By partition: since when its write waits."""
        self._kinds: dict[int, dict[str, None]] = {}
        """By partition: which faults there were while its write waited."""

    async def prober(self, partition: int) -> None:
        """Writes to one partition, one record after the other, until the workload stops."""
        name = f"prober-{partition}"
        client = self._cluster.client(name, default_api_timeout_ms=API_TIMEOUT_MS, close_timeout_ms=2_000)
        try:
            while not self._workload.stopping:
                try:
                    await self._probe(client, name, (PROBE, partition))
                except errors.OncelogError as error:
                    self._workload.note(name, "probe", error)
                    await asyncio.sleep(RETRY_S)
        finally:
            await client.close()

    async def _probe(self, client: Client, name: str, key: Key) -> None:
        async with client.producer(delivery_timeout_ms=30_000, request_timeout_ms=1_000) as producer:
            while not self._workload.stopping:
                operation = self._workload.begin(name, "send")
                value = self._workload.history.new_value()
                operation.writes.append((key, value))
                self._waiting[key[1]] = self._now_ms()
                try:
                    written = await producer.send_and_wait(key[0], value=encode(value), partition=key[1])
                except errors.OncelogError as error:
                    self._workload.end(operation, Status.INFO, error)
                    raise
                finally:
                    self._waiting.pop(key[1], None)
                self._workload.answered(operation, written.offset)
                await asyncio.sleep(_EVERY_S)

    # ------------------------------------------------------------ watching

    async def watch(self) -> None:
        """To be run while faults are injected."""
        topic = self._cluster.world.metadata.get(topic_key(PROBE))
        assert topic is not None
        topic_id = Topic.decode(topic.value).topic_id
        while True:
            for number in range(PARTITIONS):
                self._look(PartitionId(topic_id, number))
            await asyncio.sleep(_LOOK_S)

    def _look(self, partition: PartitionId) -> None:
        item = self._cluster.world.metadata.get(partition_key(*partition))
        assert item is not None
        now_ms = self._now_ms()
        since = self._oracle.since(partition, Partition.decode(item.value), now_ms)
        active = [kind for kind, count in self._active.items() if count] or ["none"]
        waits_since = self._waiting.get(partition.partition)
        kinds = self._kinds.setdefault(partition.partition, {})
        if waits_since is None or since is None:
            kinds.clear()
        kinds.update(dict.fromkeys(active))
        if since is None:
            return
        waited_ms = 0 if waits_since is None else now_ms - max(since, waits_since)
        self._count(active, list(kinds), now_ms - self._oracle.changed_ms[partition], waited_ms)
        if waited_ms > self._bound_ms:
            self.violations.append(
                f"unavailable: {PROBE}-{partition.partition} took no write for {waited_ms} ms (bound {self._bound_ms}),"
                f" and a majority could have: faults {sorted(kinds)}, {Partition.decode(item.value)}"
            )
            self._waiting[partition.partition] = now_ms  # told once

    def _count(self, active: list[str], kinds: list[str], stable_ms: int, waited_ms: int) -> None:
        look_ms, measured = int(_LOOK_S * 1000), self.measured
        works = waited_ms <= _PROMPT_MS
        for kind in active:
            measured.must[kind] += look_ms
            measured.works[kind] += look_ms * works
            if stable_ms >= SETTLED_MS:
                measured.settled[kind] += look_ms
                measured.settled_works[kind] += look_ms * works
        for kind in kinds:
            measured.longest[kind] = max(measured.longest.get(kind, 0), waited_ms)

    def _now_ms(self) -> int:
        return self._workload.now_ms()
