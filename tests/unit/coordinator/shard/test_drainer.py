"""The drain of a coordinator when etcd does not answer."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from oncelog.errors import MetadataUnavailableError
from oncelog_coordinator.shard.drainer import CoordinatorDrain
from oncelog_runtime.adapters.system import SystemClock
from oncelog_runtime.metadata.cluster_keys import COORDINATOR_DRAIN_KEY, COORDINATORS, Coordinator
from oncelog_runtime.metadata.cluster_view import ClusterView
from oncelog_runtime.ports import CommitResult, Compare, Put
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


def _view() -> ClusterView:
    cluster = Cluster()
    for address in ("a:1", "b:1"):
        cluster.put(COORDINATORS + address, Coordinator(address).encode())
    return cluster.view
