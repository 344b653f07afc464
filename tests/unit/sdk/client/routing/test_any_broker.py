"""Any broker is asked for metadata."""

from __future__ import annotations

import pytest

from oncelog import errors
from tests.unit.sdk.client.fake_cluster import BROKERS, FakeCluster, Lost


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


def test_an_unreachable_cluster_is_named_address_by_address(cluster: FakeCluster) -> None:
    cluster.down = {BROKERS[0]}
    cluster.fail("GetMetadata", *(Lost() for _ in range(100)))

    async def work(_: FakeCluster) -> None:
        with pytest.raises(errors.ClusterUnreachableError) as caught:
            async with cluster.client(default_api_timeout_ms=900, metadata_attempt_timeout_ms=300):
                pass
        assert "b0:1: connection refused" in str(caught.value)
        assert "b1:1: no answer" in str(caught.value)

    cluster.run(work)
    assert 0.8 < cluster.loop.time() < 1.2


def test_why_there_is_no_connection_says_more_than_that_there_is_none(cluster: FakeCluster) -> None:
    """Regression: later errors hid "Domain name not found"."""
    no_name = errors.NetworkError("no such host name: check its spelling", connect="name", unsent="true")
    nothing = errors.RequestTimedOutError("b0:1 did not answer", unsent="true")
    cluster.fail("GetMetadata", no_name, no_name, *(nothing for _ in range(100)))

    async def work(_: FakeCluster) -> None:
        with pytest.raises(errors.ClusterUnreachableError, match="b0:1: no such host name: check its spelling; b1:1"):
            await cluster.client().start()

    cluster.run(work)


def test_a_silent_broker_does_not_keep_us_from_asking_the_next(cluster: FakeCluster) -> None:
    cluster.fail("GetMetadata", Lost())

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client:
            assert client.cluster_id == "fake"

    cluster.run(work)
    assert cluster.loop.time() < 0.5
