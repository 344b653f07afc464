"""The fault driver of whole clusters: as the world's, and it keeps to what oncelog promises to survive.

Rule 1: the budget of losses (`losses.py`) decides which power cuts and lost volumes are fair; for `kill -9`, pauses, cuts
        and full or hung disks there is no limit.
Rule 2: what a fault changed is as before when the faults are over. A clock that is hours behind would refuse the
        timestamps of every client for ever.
Rule 3: `active` names the kinds of fault that are under way, for whoever measures what works meanwhile.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from random import Random
from typing import Final

from oncelog.wire import methods
from oncelog_runtime.metadata.cluster_keys import PARTITIONS, Partition
from oncelog_runtime.metadata.cluster_view import partition_of
from oncelog_runtime.sim.fault_driver import FaultDriver
from oncelog_runtime.sim.faults import FaultPlan
from oncelog_runtime.sim.node import SimNode
from tests.simulation.cluster import SimCluster
from tests.simulation.hard_plan import HardPlan
from tests.simulation.losses import LossBudget

_STOP_MAX_S: Final = 5.0
_FREEZE_MAX_MS: Final = 10_000
_ISOLATION_MAX_S: Final = 8.0
_LONELY_MAX_S: Final = 8.0
_HANG_MAX_S: Final = 6.0
_FULL_MAX_S: Final = 4.0
_BACKUP_MAX_S: Final = 6.0
_LOOK_S: Final = 0.05
_LEAP_MAX_MS: Final = 6 * 3_600_000
_LEASE_MAX_S: Final = 2.0
"""A registration outlives its process by at least this."""
_ADMINISTRATIVE: Final = (
    methods.CREATE_TOPIC,
    methods.DELETE_TOPIC,
    methods.ALTER_TOPIC,
    methods.DELETE_RECORDS,
    methods.FORCE_ABORT,
    methods.DELETE_OFFSETS,
    methods.COMMIT_OFFSETS,
    methods.DRAIN_BROKER,
    methods.DRAIN_COORDINATOR,
    methods.TRANSFER_LEADERSHIP,
    methods.REASSIGN_PARTITIONS,
    methods.DECOMMISSION_BROKERS,
)


class ClusterFaults(FaultDriver):
    """`durable`: every topic is in `fsync` mode."""

    def __init__(
        self,
        cluster: SimCluster,
        plan: FaultPlan,
        hard: HardPlan,
        random: Random,
        max_down: int,
        budget: LossBudget,
        *,
        durable: bool,
    ) -> None:
        super().__init__(cluster.world, plan, random, max_down)
        self.active: Counter[str] = Counter()
        self._cluster = cluster
        self._hard = hard
        self._budget = budget
        self._durable = durable
        self._was_restored = False
        self._leapt: Counter[SimNode] = Counter()
        self._noise = cluster.world.random("corrupt wire")

    def start(self) -> None:
        """Also stops and restarts nodes in peace now and then, if they are disturbed at all."""
        super().start()
        rates = {kind.name: getattr(self._hard, kind.name) for kind in fields(HardPlan)}
        disturbing = [r for r in (self._plan.kill_every_ms, self._plan.crash_every_ms, self._plan.pause_every_ms) if r]
        self._world.network.repeat = self._hard.repeat_admin
        self._world.network.repeated = frozenset(spec.name for spec in _ADMINISTRATIVE)
        if self._hard.corrupt_wire:
            self._world.network.damage = self._turn_a_bit
        rates["clean_restart"] = min(disturbing, default=0.0)
        for name, inject in self._kinds().items():
            if rates[name]:
                self._tasks.append(self._world.spawn(self._repeat(name, rates[name], inject), name=name))

    def _kinds(self) -> dict[str, Callable[[], Awaitable[bool]]]:
        return {
            "clean_restart": self._restart_cleanly,
            "blackout_every_ms": self._blackout,
            "etcd_outage_every_ms": self._lose_etcd,
            "isolate_every_ms": self._isolate,
            "freeze_every_ms": self._freeze,
            "stale_registrations_every_ms": self._come_back_early,
            "lose_volume_every_ms": self._lose_volume,
            "cut_any_power_every_ms": self._crash,
            "hang_disk_every_ms": self._hang_disk,
            "fill_disk_every_ms": self._fill_disk,
            "fail_sync_every_ms": self._fail_sync,
            "lonely_kill_every_ms": self._kill_alone,
            "rot_every_ms": self._rot,
            "leap_clock_every_ms": self._leap_clock,
            "restore_etcd_every_ms": self._restore_etcd,
        }

    async def stop(self) -> None:
        """Also gives every disk its room and its answers back."""
        self._world.network.damage = lambda method, payload: payload
        self._world.network.repeat = 0.0
        await super().stop()
        for node in self._world.nodes.values():
            node.disk.capacity = None
            node.disk.fails_sync_of = ""
            node.thaw_disk()
        for node, ms in self._leapt.items():
            node.clock.step(-ms)
        self._leapt.clear()

    async def _repeat(self, name: str, mean_ms: float, inject: Callable[[], Awaitable[bool]]) -> None:
        async def noted() -> bool:
            self.active[name] += 1
            try:
                return await inject()
            except asyncio.CancelledError:
                self._world.loop.note_fault(name)  # under way when the faults ended
                raise
            finally:
                self.active[name] -= 1

        await super()._repeat(name, mean_ms, noted)

    # ------------------------------------------------------------ processes

    async def _restart_cleanly(self) -> bool:
        node = self._pick()
        if node is None:
            return False
        self._disturbed += 1
        try:
            self._cluster.ask_to_stop(node.name)
            if node.main_task is not None:
                await asyncio.wait([node.main_task], timeout=_STOP_MAX_S)
            await asyncio.sleep(self._random.random() * self._plan.restart_after_max_ms / 1000)
        finally:  # also when the faults are over: nobody else brings a node back that stopped by itself
            node.restart()
            self._disturbed -= 1
        return True

    async def _blackout(self) -> bool:
        """Every process ends at the same moment: by a power cut in fsync mode, else by kill -9."""
        nodes = list(self._world.nodes.values())
        for node in nodes:
            if not node.life.dead:
                self._cut_power(node, silent=True) if self._durable else node.kill()
        self._random.shuffle(nodes)
        for node in nodes:
            await asyncio.sleep(self._random.random() * self._plan.restart_after_max_ms / 3000)
            if node.life.dead:
                node.restart()
        return True

    async def _come_back_early(self) -> bool:
        """One is back at once, perhaps with an empty volume, while the registrations of the others still live."""
        brokers = self._brokers()
        for node in brokers:
            if not node.life.dead:
                node.kill()
        self._random.shuffle(brokers)
        poor = self._random.choice(brokers)
        if self._random.random() < 0.5 and self._hard.lose_volume_every_ms and self._may_lose_volume(poor):
            self._take_volume(poor)
        for node in brokers:
            await asyncio.sleep(self._random.random() * _LEASE_MAX_S)
            if node.life.dead:
                node.restart()
        return True

    async def _freeze(self) -> bool:
        node = self._pick()
        if node is None:
            return False
        self._disturbed += 1
        try:
            ms = self._random.random() * _FREEZE_MAX_MS
            node.pause(ms)
            await asyncio.sleep(ms / 1000)
        finally:
            self._disturbed -= 1
        return True

    # ------------------------------------------------------------ the network and etcd

    async def _lose_etcd(self) -> bool:
        """Nobody reaches etcd for a while; its leases run out meanwhile."""
        for name in self._world.nodes:
            self._world.metadata.cut(name)
        await asyncio.sleep(self._random.random() * self._plan.partition_max_ms / 1000)
        self._world.metadata.heal()
        return True

    async def _restore_etcd(self) -> bool:
        """Once in a run: a backup is taken, and some seconds later etcd is lost and comes back from it."""
        if self._was_restored:
            return False
        self._was_restored = True
        store = self._world.metadata
        backup = store.snapshot()
        await asyncio.sleep(self._random.random() * _BACKUP_MAX_S)
        await self._until_noticed(backup.revision)
        store.restore(backup, self._random.choice([0, 1_000_000]))
        return True

    async def _until_noticed(self, revision: int) -> None:
        """Waits until most brokers run and have seen more than the backup holds: else nobody may notice (decision 0020)."""
        is_cut, sees = self._world.metadata.is_cut, 0
        while 2 * sees <= len(self._brokers()):
            await asyncio.sleep(_LOOK_S)
            knowing = [name for name, broker in self._cluster.brokers() if broker.view.newest_revision > revision]
            sees = sum(self._cluster.node(name).is_up and not is_cut(name) for name in knowing)

    async def _isolate(self) -> bool:
        names = [node.name for node in self._brokers()]
        one = self._random.choice(names)
        sides = [[one], [name for name in names if name != one]]
        one_way = self._random.random() < 0.5
        self._random.shuffle(sides)
        self._world.network.partition(*sides, one_way=one_way)
        await asyncio.sleep(self._random.random() * _ISOLATION_MAX_S)
        self._world.network.heal()
        return True

    async def _kill_alone(self) -> bool:
        """What a leader took meanwhile is on its disk alone when it comes back to another leader's log."""
        node = self._pick_broker()
        if node is None:
            return False
        others = [other.name for other in self._brokers() if other is not node]
        self._disturbed += 1
        try:
            self._world.network.partition([node.name], others)
            await asyncio.sleep(self._random.random() * _LONELY_MAX_S)
            if self._random.random() < 0.5 and node.main_task is not None:
                self._cluster.ask_to_stop(node.name)
                await asyncio.wait([node.main_task], timeout=_STOP_MAX_S)
            if not node.life.dead:
                node.kill()
            self._world.network.heal()
            await asyncio.sleep(self._random.random() * self._plan.restart_after_max_ms / 1000)
        finally:  # also when the faults are over: nobody else brings a node back that stopped by itself
            node.restart()
            self._disturbed -= 1
        return True

    def _turn_a_bit(self, method: str, payload: bytes) -> bytes:
        """Of what a leader sends to a follower, now and then: the checksums of links and cards miss some."""
        if method != methods.REPLICATE.name or not payload or self._noise.random() >= self._hard.corrupt_wire:
            return payload
        self._world.loop.note_fault("corrupt_wire")
        turned = bytearray(payload)
        turned[self._noise.randrange(len(turned))] ^= 1 << self._noise.randrange(8)
        return bytes(turned)

    # ------------------------------------------------------------ power and disks

    async def _crash(self) -> bool:
        node = self._pick()
        if node is None or not self._may_cut_power(node):
            return False
        self._cut_power(node, silent=self._random.random() < 0.5)
        await self._down_and_up(node)
        return True

    def _may_cut_power(self, node: SimNode) -> bool:
        if not _is_broker(node):
            return True
        if not self._hard.cut_any_power_every_ms and not self._is_everybody_in_sync():
            return False
        return self._budget.may_cut_power(_id_of(node))

    def _is_everybody_in_sync(self) -> bool:
        living = {broker.me() for _, broker in self._cluster.brokers()}
        states = [Partition.decode(item.value) for item in self._world.metadata.list(PARTITIONS).items]
        return self._durable or all(
            len(state.isr) == len(state.replicas) and living.issuperset(state.isr) for state in states
        )

    def _cut_power(self, node: SimNode, *, silent: bool) -> None:
        if _is_broker(node):
            self._budget.power_was_cut(_id_of(node))
        node.crash(silent=silent)

    async def _lose_volume(self) -> bool:
        node = self._pick_broker()
        if node is None or not self._may_lose_volume(node):
            return False
        self._take_volume(node)
        with self._readable_disks():
            await self._down_and_up(node)
            await asyncio.sleep(_LEASE_MAX_S)
        return True

    @contextmanager
    def _readable_disks(self) -> Iterator[None]:
        """No read fails meanwhile: a leader whose log cannot be read hands over to one that has just lost its own."""
        disks = [node.disk for node in self._world.nodes.values()]
        plans = [disk.plan for disk in disks]
        for disk in disks:
            disk.plan = replace(disk.plan, read_error=0.0)
        try:
            yield
        finally:
            for disk, plan in zip(disks, plans, strict=True):
                disk.plan = replace(disk.plan, read_error=plan.read_error)

    def _may_lose_volume(self, node: SimNode) -> bool:
        return self._budget.may_lose_volume(_id_of(node))

    def _take_volume(self, node: SimNode) -> None:
        self._budget.volume_was_lost(_id_of(node))
        node.lose_volume()

    async def _hang_disk(self) -> bool:
        """It answers nothing, without an error: only what is awaited waits, or the whole process with its first write."""
        node = self._pick_broker()
        if node is None:
            return False
        self._disturbed += 1
        try:
            node.hang_disk(appends=self._random.random() < 0.5)
            await asyncio.sleep(self._random.random() * _HANG_MAX_S)
        finally:
            node.thaw_disk()
            self._disturbed -= 1
        return True

    async def _fill_disk(self) -> bool:
        node = self._pick_broker()
        if node is None:
            return False
        self._disturbed += 1
        try:
            node.disk.capacity = node.disk.used() + self._random.randint(0, 2_000)
            await asyncio.sleep(self._random.random() * _FULL_MAX_S)
        finally:
            node.disk.capacity = None
            self._disturbed -= 1
        return True

    async def _fail_sync(self) -> bool:
        """The next one of some log there. That replica counts for nothing until it was opened anew, and joined again."""
        node = self._pick_broker()
        partition = partition_of(self._random.choice(self._world.metadata.list(PARTITIONS).items).key)
        if node is None or not self._budget.may_rot(partition):
            return False
        self._budget.rotted(_id_of(node), partition)
        node.disk.fails_sync_of = "-{}-{}/".format(*partition)
        return True

    async def _rot(self) -> bool:
        """A bit of a log turns, where others still hold it."""
        node = self._pick_broker()
        item = self._random.choice(self._world.metadata.list(PARTITIONS).items)
        if node is None or not self._budget.may_rot(partition_of(item.key)):
            return False
        within = "-{}-{}/".format(*partition_of(item.key))
        rot = node.disk.flip_some_bit(self._random, within=within, suffix=".log")
        if rot is None:
            return False
        self._budget.rotted(_id_of(node), partition_of(item.key), lambda: rot.is_there)
        return True

    async def _leap_clock(self) -> bool:
        node = self._random.choice(list(self._world.nodes.values()))
        ms = self._random.randint(-_LEAP_MAX_MS, _LEAP_MAX_MS)
        node.clock.step(ms)
        self._leapt[node] += ms
        return True

    # ------------------------------------------------------------ who

    def _brokers(self) -> list[SimNode]:
        return [node for node in self._world.nodes.values() if _is_broker(node)]

    def _pick_broker(self) -> SimNode | None:
        up = [node for node in self._brokers() if node.is_up and node.disturbable]
        return self._random.choice(up) if up and self._disturbed < self._max_down else None


def _is_broker(node: SimNode) -> bool:
    return node.name.startswith("broker-")


def _id_of(node: SimNode) -> int:
    return int(node.name.rpartition("-")[2])
