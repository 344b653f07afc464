"""The drain of a coordinator when etcd does not answer."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from oncelog.errors import MetadataUnavailableError, OncelogError
from oncelog_coordinator.shard.drainer import CoordinatorDrain
from oncelog_runtime.adapters.system import SystemClock
from oncelog_runtime.metadata.cluster_keys import COORDINATOR_DRAIN_KEY, COORDINATORS, Coordinator
from oncelog_runtime.metadata.cluster_view import ClusterView
from oncelog_runtime.ports import CommitResult, Compare, KeyValue, Put
from oncelog_runtime.sim.world import SimWorld
from tests.unit.coordinator.fake_cluster import Cluster


class Moody:
    """A metadata store whose next deletion is not answered."""

    def __init__(self, store: object) -> None:
        self._store = store
        self.refuse = True

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    async def commit(
        self, compares: Sequence[Compare] = (), puts: Sequence[Put] = (), deletes: Sequence[str] = ()
    ) -> CommitResult:
        if deletes and self.refuse:
            raise MetadataUnavailableError("no answer")
        result: CommitResult = await self._store.commit(compares, puts, deletes)  # type: ignore[attr-defined]
        return result


def test_a_cancel_that_failed_half_way_can_be_repeated() -> None:
    """Else the key stays as long as this process, and no other coordinator can drain."""
    with SimWorld(1) as world:

        async def scenario() -> None:
            store = world.metadata_client()
            moody = Moody(store)
            drain = CoordinatorDrain(moody, _view(), SystemClock(), {}, [].append)  # type: ignore[arg-type]
            drain.address, drain.lease_id = "a:1", await store.grant_lease(60_000)
            assert await drain.start()
            with pytest.raises(MetadataUnavailableError):
                await drain.cancel()
            assert await store.get(COORDINATOR_DRAIN_KEY) is not None
            moody.refuse = False
            await drain.cancel()
            assert await store.get(COORDINATOR_DRAIN_KEY) is None

        world.run(scenario())


def test_a_drain_without_a_lease_leaves_no_key_that_would_stand_for_ever() -> None:
    with SimWorld(1) as world:

        async def scenario() -> None:
            store = world.metadata_client()
            drain = CoordinatorDrain(store, _view(), SystemClock(), {}, [].append)
            drain.address = "a:1"
            with pytest.raises(MetadataUnavailableError, match="no lease"):
                await drain.start()
            assert not drain.wanted
            assert await store.get(COORDINATOR_DRAIN_KEY) is None

        world.run(scenario())


def test_a_lease_that_ends_while_the_drain_key_is_read_leaves_no_key() -> None:
    with SimWorld(1) as world:

        async def scenario() -> None:
            store = world.metadata_client()

            class Slow(Moody):
                async def get(self, key: str) -> KeyValue | None:
                    found = await store.get(key)
                    await store.revoke_lease(drain.lease_id)
                    drain.lease_id = 0
                    return found

            drain = CoordinatorDrain(Slow(store), _view(), SystemClock(), {}, [].append)  # type: ignore[arg-type]
            drain.address, drain.lease_id = "a:1", await store.grant_lease(60_000)
            with pytest.raises(OncelogError):
                await drain.start()
            assert await store.get(COORDINATOR_DRAIN_KEY) is None

        world.run(scenario())


def test_a_cancel_waits_for_the_drain_that_is_being_begun() -> None:
    with SimWorld(1) as world:

        async def scenario() -> None:
            store = world.metadata_client()
            reading, go_on = asyncio.Event(), asyncio.Event()

            class Slow(Moody):
                async def get(self, key: str) -> KeyValue | None:
                    reading.set()
                    await go_on.wait()
                    return await store.get(key)

            slow = Slow(store)
            slow.refuse = False
            drain = CoordinatorDrain(slow, _view(), SystemClock(), {}, [].append)  # type: ignore[arg-type]
            drain.address, drain.lease_id = "a:1", await store.grant_lease(60_000)
            begun = asyncio.ensure_future(drain.start())
            await reading.wait()
            cancelled = asyncio.ensure_future(drain.cancel())
            await asyncio.sleep(0.1)
            go_on.set()
            await asyncio.gather(begun, cancelled)
            assert not drain.wanted
            assert await store.get(COORDINATOR_DRAIN_KEY) is None

        world.run(scenario())


def _view() -> ClusterView:
    cluster = Cluster()
    for address in ("a:1", "b:1"):
        cluster.put(COORDINATORS + address, Coordinator(address).encode())
    return cluster.view
