"""Calls find whoever is in charge, are tried again until their deadline, and end with what was said."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog import errors
from tests.unit.sdk.client.fake_cluster import BROKERS, FakeCluster, Lost


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


def patient(**more: Any) -> dict[str, Any]:
    return {"default_api_timeout_ms": 1_000, "request_timeout_ms": 400, "retry_backoff_ms": 50, **more}


def test_silence_at_the_end_does_not_hide_what_was_said_before(cluster: FakeCluster) -> None:
    """new_user.md 6, bug 5, transactional: the coordinator's own word arrives, with the cause that it has."""
    said = "the shard cannot serve without its log: NOT_ENOUGH_REPLICAS on __transaction_state-0: ISR 1 of 2 needed"
    cluster.fail("InitProducerId", errors.CoordinatorLoadInProgressError(said), *(Lost() for _ in range(100)))

    async def work(_: FakeCluster) -> None:
        async with cluster.client(**patient()) as client:
            with pytest.raises(
                errors.RequestTimedOutError, match="before that: COORDINATOR_LOAD_IN_PROGRESS"
            ) as caught:
                await client.producer(transactional_id="t").start()
            assert said in str(caught.value)
            assert isinstance(caught.value.__cause__, errors.CoordinatorLoadInProgressError)

    cluster.run(work)


def test_a_cluster_that_vanishes_does_not_hide_what_was_said_before(cluster: FakeCluster) -> None:
    """new_user.md 6, bug 5."""

    def last_word(address: str, request: Any) -> BaseException:
        cluster.down = {*BROKERS}
        return errors.NotCoordinatorError()

    cluster.fail("InitProducerId", last_word)

    async def work(_: FakeCluster) -> None:
        async with cluster.client(**patient()) as client:
            with pytest.raises(errors.ClusterUnreachableError, match="b0:1: connection refused") as caught:
                await client.producer(transactional_id="t").start()
            assert isinstance(caught.value.__cause__, errors.NotCoordinatorError)

    cluster.run(work)
