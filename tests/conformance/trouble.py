"""Trouble on command: messages, etcd answers, disks, processes, links."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from oncelog import errors
from oncelog.wire.methods import MethodSpec
from oncelog_runtime.metadata import cluster_keys as keys
from oncelog_runtime.metadata.cluster_keys import KIND_GROUP, KIND_TXN
from tests.conformance.looking import Looking
from tests.conformance.names import Place
from tests.conformance.tap import Match, Tap, Wire
from tests.simulation.cluster import SHARDS, SimCluster


class DelayedWrites:
    """Writes of one node that are on their way to etcd."""

    def __init__(self, store: Any, prefix: str) -> None:
        self.waiting = 0
        self.results: list[bool] = []
        self._original = store.commit
        self._go = asyncio.Event()
        self._store, self._prefix = store, prefix
        store.commit = self._commit

    async def _commit(self, compares: Any = (), puts: Any = (), deletes: Any = ()) -> Any:
        if self._go.is_set() or not any(put.key.startswith(self._prefix) for put in puts):
            return await self._original(compares, puts, deletes)
        self.waiting += 1
        await self._go.wait()
        result = self._store.store.commit(compares, puts, deletes)
        self.results.append(result.succeeded)
        return result

    def release(self) -> None:
        """They arrive now, and later ones pass."""
        self._go.set()


class Trouble(Looking):
    """Nothing here happens by chance."""

    def __init__(self, started: SimCluster) -> None:
        super().__init__(started)
        self.wire = Wire(started.world.network)

    # ------------------------------------------------------------ trouble

    def hold(
        self, spec: MethodSpec[Any, Any], *, source: str = "", target: str = "", match: Match | None = None
    ) -> Tap:
        """Stops matching requests in the network."""
        return self.wire.tap(spec, "hold", source, target, match)

    def lose_answers(
        self, spec: MethodSpec[Any, Any], *, source: str = "", target: str = "", match: Match | None = None
    ) -> Tap:
        """Matching requests are executed, and their callers hear that the link broke."""
        return self.wire.tap(spec, "lose", source, target, match)

    def delay_answers(
        self, spec: MethodSpec[Any, Any], *, source: str = "", target: str = "", match: Match | None = None
    ) -> Tap:
        """Matching requests are executed, and their answers wait in the network."""
        return self.wire.tap(spec, "delay", source, target, match)

    def watch(
        self, spec: MethodSpec[Any, Any], *, source: str = "", target: str = "", match: Match | None = None
    ) -> Tap:
        """Matching requests pass and are kept."""
        return self.wire.tap(spec, "watch", source, target, match)

    def lose_etcd_answers(self, node: str, prefix: str, count: int = 1, *, and_cut: bool = False) -> None:
        """So many writes of the node to keys with this prefix happen, and it hears no answer (`and_cut`: nor ever again)."""
        store = self.world.nodes[node].ports.metadata
        original = store.commit
        left = count

        async def commit(compares: Any = (), puts: Any = (), deletes: Any = ()) -> Any:
            nonlocal left
            if not left or not any(put.key.startswith(prefix) for put in puts):
                return await original(compares, puts, deletes)
            left -= 1
            if and_cut:  # before it happens, or its watch would tell the node
                self.cut_from_etcd(node)
            store.store.commit(compares, puts, deletes)
            raise errors.MetadataUnavailableError("the answer was lost", unknown="true")

        store.commit = commit  # type: ignore[method-assign]

    def count_etcd_writes(self, node: str, prefix: str) -> Callable[[], int]:
        """How many writes to keys with this prefix the node has tried from now on."""
        store = self.world.nodes[node].ports.metadata
        original = store.commit
        tried = 0

        async def commit(compares: Any = (), puts: Any = (), deletes: Any = ()) -> Any:
            nonlocal tried
            tried += any(put.key.startswith(prefix) for put in puts)
            return await original(compares, puts, deletes)

        store.commit = commit  # type: ignore[method-assign]
        return lambda: tried

    def delay_etcd_writes(self, node: str, prefix: str) -> DelayedWrites:
        """The node's writes to keys with this prefix wait in the network until they are released."""
        return DelayedWrites(self.world.nodes[node].ports.metadata, prefix)

    def cut_from_etcd(self, node: str) -> None:
        """The node gets no answers and no changes from etcd any more."""
        self.world.metadata.cut(node)

    def heal_etcd(self, node: str) -> None:
        """Ends `cut_from_etcd`."""
        self.world.metadata.heal(node)

    def cut(self, node: str, *others: str) -> None:
        """Nothing gets from the node to the others (all other nodes by default), nor back."""
        targets = [name for name in (others or self.world.nodes) if name != node]
        self.world.network.partition([node], targets)

    def heal(self) -> None:
        """Ends every cut of the network."""
        self.world.network.heal()

    def expire_registration(self, node: str) -> None:
        """etcd takes a broker's lease away: it is not registered any more, and registers anew if it reaches etcd."""
        item = self.world.metadata.get(keys.broker_key(int(node.rpartition("-")[2])))
        assert item is not None
        self.world.metadata.expire_lease(item.lease_id)

    def expire_ownership(self, node: str) -> None:
        """etcd takes a coordinator's lease away: its registration and its shards are free."""
        item = self.world.metadata.get(f"{keys.COORDINATORS}{self.world.nodes[node].address}")
        assert item is not None
        self.world.metadata.expire_lease(item.lease_id)

    async def depose_coordinator(self, node: str) -> None:
        """The node keeps running and hears nothing of it: others own its shards, and it believes that it still does."""
        self.cut_from_etcd(node)
        self.expire_ownership(node)
        await self.until(
            lambda: all(self._others_own(kind, n, node) for kind in (KIND_TXN, KIND_GROUP) for n in range(SHARDS))
        )

    def _others_own(self, kind: str, shard: int, node: str) -> bool:
        owner = self._owner(kind, shard)
        if owner in ("", node) or self.world.nodes[owner].life.dead:
            return False
        found = self.coordinator(owner)._owned.get((kind, shard))
        return found is not None and found.is_serving

    def kill(self, *nodes: str) -> None:
        """kill -9."""
        for node in nodes:
            self.world.nodes[node].kill()
            self.cluster.services.pop(node, None)

    def power_cut(self, *nodes: str, keep: Callable[[str], bool] | None = None) -> None:
        """Unsynced bytes are lost to the last one; files for which `keep(path)` holds happen to be on the platter."""
        for node in nodes:
            for path, inode in self.world.nodes[node].disk._files.items():
                if keep is not None and keep(path):
                    inode.synced = len(inode.data)
            self.lose_unsynced(node)
            self.world.nodes[node].crash(silent=False)
            self.cluster.services.pop(node, None)

    def lose_volume(self, node: str) -> None:
        """The node is off, and its next process finds an empty disk."""
        self.world.nodes[node].lose_volume()
        self.cluster.services.pop(node, None)

    def lose_unsynced(self, node: str) -> None:
        """The kernel drops pages that were not written back."""
        for inode in self.world.nodes[node].disk._files.values():
            del inode.data[inode.synced :]

    def fail_syncs(self, node: str) -> None:
        """Every sync of the node's disk fails from now on, until `heal_disk`."""
        disk = self.world.nodes[node].disk
        disk.plan = replace(disk.plan, sync_error=1.0)

    def slow_syncs(self, node: str) -> None:
        """A sync of the node's disk takes six seconds, until `heal_disk`."""
        disk = self.world.nodes[node].disk
        disk.plan = replace(disk.plan, sync_min_ms=6_000.0, sync_max_ms=6_000.0)

    def broken(self, node: str, place: Place) -> bool:
        """The replica's log has failed and was not opened anew yet."""
        partition = self.broker(node).replicas.partitions.get(place.id)
        return partition is None or partition.failed is not None

    async def rejoined(self, node: str, *places: Place) -> None:
        """Waits until the node's process of now is in the ISR of these partitions."""
        await self.until(lambda: node in self.cluster.services and self.broker(node).registration.registered)
        for place in places:
            await self.until(lambda place=place: self.broker(node).me() in self.state(place).isr)  # type: ignore[misc]

    def heal_disk(self, node: str) -> None:
        """Ends `fail_syncs` and `slow_syncs`, for syncs that begin from now on."""
        self.world.nodes[node].disk.plan = self.world.plan

    def restart(self, *nodes: str) -> None:
        """New processes on the same disks; those that still run are killed."""
        for node in nodes:
            self.world.nodes[node].restart()
