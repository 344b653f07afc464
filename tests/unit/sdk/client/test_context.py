"""Deadlines, waits and time-outs are those of one client, on the clock of its own loop."""

from __future__ import annotations

import pytest

from oncelog import errors
from tests.unit.sdk.client.fake_cluster import FakeCluster, Lost


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


def test_all_calls_of_a_program_that_runs_once_share_its_time(cluster: FakeCluster) -> None:
    """new_user.md 6, bug 5: three calls of 1 s each took 3 s."""

    async def work(_: FakeCluster) -> None:
        async with cluster.client(request_timeout_ms=300) as client:
            cluster.fail("InitProducerId", *(Lost() for _ in range(1_000)))
            client.give_up_after(1_000)
            for _ in range(3):
                with pytest.raises(errors.OncelogError):
                    await client.producer(transactional_id="t").start()

    cluster.run(work)
    assert 0.8 < cluster.loop.time() < 1.2
