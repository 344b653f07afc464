"""Deadlines, waits and time-outs are those of one client, on the clock of its own loop."""

from __future__ import annotations

import pytest

from oncelog import errors
from oncelog.client.home.context import now_ms
from tests.unit.sdk.client.fake_cluster import FakeCluster, Lost


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


def test_all_calls_of_a_program_that_runs_once_share_its_time(cluster: FakeCluster) -> None:
    """Regression: three calls of 1 s each took 3 s."""

    async def work(_: FakeCluster) -> None:
        async with cluster.client(request_timeout_ms=300) as client:
            cluster.fail("InitProducerId", *(Lost() for _ in range(1_000)))
            client.give_up_after(1_000)
            for _ in range(3):
                with pytest.raises(errors.OncelogError):
                    await client.producer(transactional_id="t").start()

    cluster.run(work)
    assert 0.8 < cluster.loop.time() < 1.2


def test_a_deadline_is_the_given_time_or_that_of_the_options_and_never_behind_the_end_of_all(
    cluster: FakeCluster,
) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client(default_api_timeout_ms=5_000) as client:
            context = client._context
            now = now_ms()
            assert context.deadline_ms() == now + 5_000
            assert context.deadline_ms(70) == now + 70
            client.give_up_after(1_000)
            assert (context.deadline_ms(), context.deadline_ms(70)) == (now + 1_000, now + 70)
            assert client.producer(request_timeout_ms=1)._context.deadline_ms() == now + 1_000, "one end for all parts"

    cluster.run(work)


def test_one_call_gets_the_request_time_but_not_past_the_deadline(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client(request_timeout_ms=300) as client:
            now, timeout_ms = now_ms(), client._context.call_timeout_ms
            assert [timeout_ms(now + left) for left in (1_000, 200, 1, 0, -50)] == [300, 200, 1, 1, 1]

    cluster.run(work)


def test_a_pause_that_would_pass_the_deadline_is_not_waited_for(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client(retry_backoff_ms=100, retry_backoff_max_ms=100) as client:
            begun = now_ms()
            assert not await client._context.pause(1, begun + 40)
            assert now_ms() == begun
            assert await client._context.pause(1, begun + 1_000)
            assert 50 <= now_ms() - begun <= 101
            assert not await client._context.pause(1, now_ms() + 1_000, at_least_ms=2_000), (
                "what the server asked for counts"
            )

    cluster.run(work)


def test_each_call_has_a_name_of_its_own(cluster: FakeCluster) -> None:
    client = cluster.client()
    names = {client._context.nonce() for _ in range(100)}
    assert len(names) == 100
    assert {len(name) for name in names} == {32}
