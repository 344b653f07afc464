"""How somebody who reads waits."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.unit.sdk.client.fake_cluster import FakeCluster
from tests.unit.sdk.client.reading import EARLIEST, P0, append
from tests.unit.sdk.client.virtual_loop import VirtualLoop


@pytest.mark.parametrize("how", ["getmany", "getone", "read_arrow"])
def test_a_wait_for_ever_does_not_turn_round_after_an_hour(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = FakeCluster()
    waits: list[int] = []

    async def work(_: FakeCluster) -> None:
        options: dict[str, Any] = {"fetch_max_wait_ms": 3_000_000}
        async with cluster.client(metadata_max_age_ms=3_000_000) as client, client.consumer(**options) as consumer:
            await consumer.assign([P0])
            assert await consumer.position(P0) == 0
            wait = consumer._fetcher.wait

            async def counted(timeout_ms: int) -> None:
                waits.append(timeout_ms)
                if len(waits) > 50:
                    await consumer.close()  # or this would never end
                await wait(timeout_ms)

            monkeypatch.setattr(consumer._fetcher, "wait", counted)
            monkeypatch.setattr("oncelog.client.consume.polling._FOREVER_MS", 1_000)
            waiting = asyncio.get_running_loop().create_task(getattr(consumer, how)())
            await asyncio.sleep(10.5)
            append(cluster, [b"at last"])
            assert await waiting
            assert min(waits) > 0
            assert len(waits) < 15

    cluster.run(work)


def test_a_wait_ends_when_the_consumer_closes() -> None:
    cluster = FakeCluster()

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.consumer() as consumer:
            await consumer.assign([P0])
            waiting = asyncio.get_running_loop().create_task(consumer.getmany())
            await asyncio.sleep(1)
            assert not waiting.done()
            await consumer.close()
            assert await waiting == []

    cluster.run(work)


@pytest.mark.parametrize("how", ["getmany", "getone", "__anext__"])
def test_a_loop_over_what_is_here_lets_others_run(how: str) -> None:
    cluster = FakeCluster()
    cluster.loop = loop = VirtualLoop()  # type: ignore[assignment]
    append(cluster, [b"%d" % number for number in range(100)])
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.consumer(**EARLIEST, max_poll_records=2) as consumer:
            await consumer.assign([P0])
            await consumer.getone()
            running = asyncio.get_running_loop().create_task(other())
            for _round in range(20):
                loop.block(6)
                await getattr(consumer, how)()
            running.cancel()

    cluster.run(work)
    assert turns >= 8  # 120 ms of work
