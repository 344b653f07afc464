"""Who owns which shard, on a simulated etcd with faults (holes 17, 18; case A25)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from oncelog.errors import MetadataUnavailableError, OncelogError
from oncelog_coordinator.core.vitality import Vitality
from oncelog_coordinator.shard.drainer import CoordinatorDrain
from oncelog_coordinator.shard.monotonic_wall_clock import SteadyClock
from oncelog_coordinator.shard.ownership import LeaseTimes, Owner, ShardOwnership
from oncelog_coordinator.shard.shard import Shard
from oncelog_runtime.core.listeners import Addresses
from oncelog_runtime.metadata import cluster_keys
from oncelog_runtime.metadata.cluster_view import ClusterView
from oncelog_runtime.node_ports import NodePorts
from oncelog_runtime.ports import Put
from oncelog_runtime.sim.fault_driver import FaultDriver
from oncelog_runtime.sim.faults import FaultPlan
from oncelog_runtime.sim.world import SimWorld

SHARDS = 4


class FakeShard:
    """Records its lives instead of serving. `running` counts, per shard, who believes to own it."""

    def __init__(self, kind: str, number: int, lives: list[tuple[str, int, int]], running: dict[str, int]) -> None:
        self.kind, self.number, self.name = kind, number, f"{kind}-{number}"
        self.lives = lives
        self.running = running
        self.vitality = Vitality(50, 5_000, 5_000)

    async def run(self, epoch: int) -> None:
        self.lives.append((self.kind, self.number, epoch))
        self.running[self.name] = self.running.get(self.name, 0) + 1
        try:
            await asyncio.Event().wait()
        finally:
            self.running[self.name] -= 1


class Node:
    """The ownership of one process."""

    def __init__(
        self, address: str, ports: NodePorts, lives: list[tuple[str, int, int]], running: dict[str, int]
    ) -> None:
        self.view = ClusterView()
        self.shards: dict[tuple[str, int], Shard] = {}
        self.ports = ports
        self.draining: list[bool] = []
        self.drain = CoordinatorDrain(ports.metadata, self.view, ports.clock, self.shards, self.draining.append)
        self.ownership = ShardOwnership(
            owner=Owner(Addresses(address), f"{ports.random.getrandbits(64):x}"),
            metadata=ports.metadata,
            view=self.view,
            clock=SteadyClock(ports.clock),
            make_shard=lambda kind, number: FakeShard(kind, number, lives, running),  # type: ignore[arg-type,return-value]
            times=LeaseTimes(ttl_ms=3_000, handover_delay_ms=500),
            shards=self.shards,
            drain=self.drain,
        )
        self.task: asyncio.Task[None] | None = None

    async def run(self) -> None:
        following = asyncio.get_running_loop().create_task(self.view.follow(self.ports.metadata))
        self.task = asyncio.get_running_loop().create_task(self.ownership.run())
        await asyncio.gather(following, self.task)

    async def stop(self) -> None:
        assert self.task is not None
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        await self.ownership.stop()


class Cluster:
    """Coordinators of one world. Epochs given out are kept for ever."""

    def __init__(self, world: SimWorld) -> None:
        self.world = world
        self.nodes: dict[str, Node] = {}
        self.lives: list[tuple[str, int, int]] = []
        self.running: dict[str, int] = {}

    def add(self, name: str) -> None:
        async def main(ports: NodePorts) -> None:
            node = self.nodes[name] = Node(f"{name}:9092", ports, self.lives, self.running)
            await node.run()

        self.world.node(name, main)

    async def found(self) -> None:
        value = cluster_keys.Cluster("c", SHARDS, SHARDS).encode()
        await self.world.metadata_client().commit(puts=[Put(cluster_keys.CLUSTER_KEY, value)])

    async def until_found(self) -> None:
        """As `found`, through faults."""
        while True:
            try:
                return await self.found()
            except OncelogError:
                await asyncio.sleep(0.1)

    async def until(self, condition: Callable[[], bool], what: str) -> None:
        for _ in range(300):
            if condition():
                return
            await asyncio.sleep(0.1)
        raise AssertionError(f"not within 30 s: {what}")

    def owned(self, name: str) -> int:
        return len(self.nodes[name].shards) if name in self.nodes else 0

    def settled(self) -> bool:
        """Every shard has exactly one owner among the living."""
        living = [node for name, node in self.nodes.items() if not self.world.nodes[name].life.dead]
        keys = sorted(key for node in living for key in node.shards)
        return keys == sorted((kind, n) for kind in ("txn", "group") for n in range(SHARDS))

    def check(self) -> None:
        assert len(set(self.lives)) == len(self.lives), "an epoch came twice"


@pytest.fixture
def world() -> Iterator[SimWorld]:
    with SimWorld(11) as one:
        yield one


def run(world: SimWorld, count: int, scenario: Callable[[Cluster], Awaitable[None]]) -> Cluster:
    nodes = Cluster(world)
    for i in range(count):
        nodes.add(f"c{i}")

    async def whole() -> None:
        await nodes.found()
        await scenario(nodes)
        nodes.check()

    world.run(whole())
    return nodes


def test_one_coordinator_owns_everything_in_one_life_each(world: SimWorld) -> None:
    async def scenario(nodes: Cluster) -> None:
        await nodes.until(nodes.settled, "one owner")

    nodes = run(world, 1, scenario)
    assert sorted(life[:2] for life in nodes.lives) == [(kind, n) for kind in ("group", "txn") for n in range(SHARDS)]


def test_a_restored_etcd_gives_no_epoch_twice_though_nobody_remembers_them(world: SimWorld) -> None:
    """Two coordinators, and the first is gone for good: no process knows the epochs that etcd has forgotten."""

    async def scenario(nodes: Cluster) -> None:
        backup = world.metadata.snapshot()
        await nodes.until(nodes.settled, "owners")
        highest = 0
        for _ in range(5):
            highest = await nodes.nodes["c0"].ownership.next_epoch("txn", 1) or 0
            await asyncio.sleep(1)
        world.nodes["c0"].kill()
        world.metadata.restore(backup)
        nodes.add("c1")
        await nodes.until(lambda: nodes.owned("c1") == 2 * SHARDS, "another owner of all")
        assert min(epoch for _, _, epoch in nodes.lives[-2 * SHARDS :]) > highest

    run(world, 1, scenario)


def test_a_coordinator_that_hears_of_a_restore_begins_anew(world: SimWorld) -> None:
    async def scenario(nodes: Cluster) -> None:
        await nodes.until(nodes.settled, "owners")
        before = len(nodes.lives)
        nodes.nodes["c0"].ownership.etcd_was_restored()
        await nodes.until(lambda: len(nodes.lives) == before + 2 * SHARDS, "a new life for each")
        assert max(nodes.running.values()) == 1

    run(world, 1, scenario)


def test_shards_are_spread_evenly_also_when_one_comes_later(world: SimWorld) -> None:
    async def scenario(nodes: Cluster) -> None:
        await nodes.until(nodes.settled, "one owner")
        nodes.add("c9")
        await nodes.until(lambda: nodes.owned("c9") == SHARDS and nodes.settled(), "an even share")

    run(world, 1, scenario)


def test_a_killed_coordinator_is_replaced_and_epochs_rise(world: SimWorld) -> None:
    async def scenario(nodes: Cluster) -> None:
        await nodes.until(nodes.settled, "owners")
        lost = list(nodes.nodes["c0"].shards)
        world.nodes["c0"].kill()
        await nodes.until(nodes.settled, "other owners")
        for kind, number in lost:
            first, second = (epoch for *shard, epoch in nodes.lives if shard == [kind, number])
            assert second > first

    run(world, 2, scenario)


def test_a_shard_that_does_not_come_to_life_is_told_until_it_does(world: SimWorld) -> None:
    async def scenario(nodes: Cluster) -> None:
        await nodes.until(nodes.settled, "owners")
        key, shard = next(iter(nodes.nodes["c0"].shards.items()))
        views = [node.view for node in nodes.nodes.values()]
        for _ in range(2):
            shard.vitality.ended("the log is rotten", 0)
        await nodes.until(lambda: all(view.trouble_of(*key) == "the log is rotten" for view in views), "told")
        shard.vitality.ended("the log is gone", 0)
        await nodes.until(lambda: all(view.trouble_of(*key) == "the log is gone" for view in views), "the last error")
        shard.vitality.serves(0)
        shard.vitality.look(5_000)
        await nodes.until(lambda: not any(view.shard_troubles for view in views), "taken back")
        for _ in range(2):
            shard.vitality.ended("the log is rotten", 0)
        await nodes.until(lambda: all(view.trouble_of(*key) for view in views), "told again")
        world.nodes["c0"].kill()
        await nodes.until(lambda: nodes.settled() and not views[1].shard_troubles, "the dead owner's word is over")

    run(world, 2, scenario)


def test_a_clean_stop_hands_over_at_once(world: SimWorld) -> None:
    async def scenario(nodes: Cluster) -> None:
        await nodes.until(nodes.settled, "owners")
        await asyncio.sleep(2)
        began = world.loop.time()
        await nodes.nodes["c0"].stop()
        await nodes.until(lambda: nodes.owned("c1") == 2 * SHARDS, "one owner of all")
        assert world.loop.time() - began < 1.0, "no lease had to run out"

    run(world, 2, scenario)


@pytest.mark.case("hole 17")
def test_who_hears_nothing_from_etcd_drops_everything_before_somebody_else_can_own(world: SimWorld) -> None:
    async def scenario(nodes: Cluster) -> None:
        await nodes.until(nodes.settled, "owners")
        world.metadata.cut("c0")
        for _ in range(4_000):
            await asyncio.sleep(0.001)
            assert max(nodes.running.values()) == 1, "two owners at a time"
        await nodes.until(lambda: nodes.owned("c1") == 2 * SHARDS, "the other owns all")
        world.metadata.heal()
        await nodes.until(lambda: nodes.owned("c0") == SHARDS and nodes.settled(), "it is back")

    run(world, 2, scenario)


def test_a_coordinator_outlives_its_lease(world: SimWorld) -> None:
    """Found on Kubernetes, with Python 3.11.2, where etcd was rolled: the process ended with its lease."""

    async def scenario(nodes: Cluster) -> None:
        await nodes.until(nodes.settled, "owners")
        first = nodes.nodes["c0"]
        world.metadata.cut("c0")
        await asyncio.sleep(10)
        world.metadata.heal()
        await nodes.until(nodes.settled, "it owns again")
        assert nodes.nodes["c0"] is first, "the process ended"

    run(world, 1, scenario)


def test_a_shard_below_an_epoch_that_somebody_wrote_back_is_taken_again_above_it(world: SimWorld) -> None:
    """After a restore of etcd: brokers and clients have heard of that epoch, and obey no lower one."""

    async def scenario(nodes: Cluster) -> None:
        await nodes.until(nodes.settled, "owners")
        await world.metadata_client().commit(puts=[Put(cluster_keys.shard_epoch_key("txn", 1), b"90000000")])
        await nodes.until(lambda: ("txn", 1, 90_000_001) in nodes.lives, "a life above it")
        await nodes.until(nodes.settled, "owners again")
        assert nodes.nodes["c0"].view.owner_of("txn", 1) is not None

    run(world, 1, scenario)


def test_a_shard_whose_owner_key_is_gone_is_taken_again(world: SimWorld) -> None:
    """Found by the torture: the owner went on serving, so the shard had an owner that no client could find."""

    async def scenario(nodes: Cluster) -> None:
        await nodes.until(nodes.settled, "owners")
        (epoch,) = (epoch for *shard, epoch in nodes.lives if shard == ["txn", 1])
        await world.metadata_client().commit(deletes=[cluster_keys.shard_owner_key("txn", 1)])
        await nodes.until(
            lambda: any(life > ("txn", 1, epoch) for life in nodes.lives if life[:2] == ("txn", 1)), "a life"
        )
        await nodes.until(lambda: nodes.nodes["c0"].view.owner_of("txn", 1) is not None, "an owner that can be found")
        assert nodes.settled()
        assert nodes.running["txn-1"] == 1
        lives = len(nodes.lives)
        await asyncio.sleep(5)
        assert len(nodes.lives) == lives, "once"

    run(world, 1, scenario)


def test_a_leftover_key_that_became_anothers_meanwhile_stays(world: SimWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """Found by the torture: a coordinator that came back deleted its old keys one after the other, and from the second one on
    with the revisions that its view had learned meanwhile, which were those of the next owner.
    """

    async def scenario(nodes: Cluster) -> None:
        await nodes.until(nodes.settled, "owners")
        node, client = nodes.nodes["c0"], world.metadata_client()
        first, second = (cluster_keys.shard_owner_key("txn", number) for number in (90, 91))
        mine = cluster_keys.ShardOwner("c0:9092", node.ownership._nonce, 1).encode()
        next_owner = cluster_keys.ShardOwner("c1:9092", "another", 2).encode()
        commit = node.ports.metadata.commit

        async def late(compares: Any = (), puts: Any = (), deletes: Any = ()) -> Any:
            if first in deletes:
                await client.commit(puts=[Put(second, next_owner)])
                await nodes.until(lambda: node.view.shard_owners["txn", 91].nonce == "another", "the view knows it")
            return await commit(compares, puts, deletes)

        monkeypatch.setattr(node.ports.metadata, "commit", late)
        await client.commit(puts=[Put(first, mine), Put(second, mine)])
        await nodes.until(lambda: node.view.revision_of(first) == 0, "the leftover is deleted")
        await asyncio.sleep(5)
        found = await client.get(second)
        assert found is not None
        assert found.value == next_owner

    run(world, 1, scenario)


def test_an_etcd_that_does_not_take_a_word_of_trouble_costs_no_shard(
    world: SimWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(nodes: Cluster) -> None:
        await nodes.until(nodes.settled, "owners")
        node, lives, refused = nodes.nodes["c0"], len(nodes.lives), 0
        key, shard = next(iter(node.shards.items()))
        commit = node.ports.metadata.commit

        async def moody(compares: Any = (), puts: Any = (), deletes: Any = ()) -> Any:
            nonlocal refused
            if refused < 3 and any(put.key == cluster_keys.shard_trouble_key(*key) for put in puts):
                refused += 1
                raise MetadataUnavailableError("busy")
            return await commit(compares, puts, deletes)

        monkeypatch.setattr(node.ports.metadata, "commit", moody)
        for _ in range(2):
            shard.vitality.ended("the log is rotten", 0)
        await nodes.until(lambda: node.view.trouble_of(*key) == "the log is rotten", "told in the end")
        assert (refused, len(nodes.lives)) == (3, lives)

    run(world, 1, scenario)


def test_a_coordinator_that_drains_keeps_its_shards_while_it_is_registered(
    world: SimWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(nodes: Cluster) -> None:
        await nodes.until(nodes.settled, "owners")
        await asyncio.sleep(2)
        node, refused = nodes.nodes["c0"], 0
        commit = node.ports.metadata.commit

        async def moody(compares: Any = (), puts: Any = (), deletes: Any = ()) -> Any:
            nonlocal refused
            if refused < 3 and f"{cluster_keys.COORDINATORS}c0:9092" in deletes:
                refused += 1
                assert nodes.owned("c0") == SHARDS, "another one takes them when it sees that this one has left"
                raise MetadataUnavailableError("busy")
            return await commit(compares, puts, deletes)

        monkeypatch.setattr(node.ports.metadata, "commit", moody)
        await node.drain.start()
        await nodes.until(lambda: nodes.owned("c1") == 2 * SHARDS, "the other owns all")
        assert refused == 3

    run(world, 2, scenario)


def test_another_life_needs_the_ownership(world: SimWorld) -> None:
    async def scenario(nodes: Cluster) -> None:
        await nodes.until(nodes.settled, "owners")
        ownership = nodes.nodes["c0"].ownership
        (epoch,) = (epoch for *shard, epoch in nodes.lives if shard == ["txn", 1])
        await asyncio.sleep(1)
        assert await ownership.next_epoch("txn", 1) == epoch + 1
        assert await ownership.next_epoch("txn", 1) == epoch + 2
        assert await ownership.next_epoch("txn", 1, epoch) == epoch + 3
        assert await ownership.next_epoch("txn", 1, epoch + 90) == epoch + 91, "the log knows an epoch that etcd forgot"
        assert await ownership.next_epoch("txn", 1, (1 << 31) - 1) == epoch + 92, "there is none above that one"
        client = world.metadata_client()
        await client.commit(deletes=[cluster_keys.shard_owner_key("txn", 1)])
        assert await ownership.next_epoch("txn", 1) is None

    run(world, 1, scenario)


@pytest.mark.parametrize("seed", range(6))
def test_under_faults_no_epoch_comes_twice_and_in_the_end_every_shard_has_one_owner(seed: int) -> None:
    plan = FaultPlan.draw(SimWorld(seed).random("plan"))
    with SimWorld(seed, plan) as world:
        nodes = Cluster(world)
        for i in range(3):
            nodes.add(f"c{i}")

        async def whole() -> None:
            await nodes.until_found()
            driver = FaultDriver(world, plan, world.random("faults"), max_down=2)
            driver.start()
            await asyncio.sleep(60)
            await driver.stop()
            world.set_plan(FaultPlan())
            world.heal()
            await nodes.until(nodes.settled, "one owner each")
            nodes.check()
            assert len(nodes.lives) > 2 * SHARDS, "the faults moved nothing"

        world.run(whole())
