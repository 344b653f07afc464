"""A loop that stood still is told to the log, with what to do, and not with every record."""

from __future__ import annotations

import asyncio

import pytest

from oncelog.client.work.standstill import STOOD_STILL_MS, Standstill
from oncelog.client.work.worker import Worker
from tests.unit.sdk.client.fake_cluster import FakeCluster
from tests.unit.sdk.client.reading import append
from tests.unit.sdk.client.work.fake_channels import FakeChannels
from tests.unit.sdk.client.work.working import at_work, received


def test_it_is_said_once_per_minute_what_to_do(caplog: pytest.LogCaptureFixture) -> None:
    standstill = Standstill("orders", "billing")
    for now_ms in (0, 5_000, 59_999):
        standstill.noted(now_ms, 4_200, 3)
    (text,) = caplog.messages
    for part in ("channel billing of orders", "4.2 s", "3 records", "asyncio.to_thread", "SyncClient", "auto_touch"):
        assert part in text
    standstill.noted(60_000, 4_200, 3)
    assert len(caplog.messages) == 2


def test_a_worker_that_holds_nothing_loses_nothing(caplog: pytest.LogCaptureFixture) -> None:
    standstill = Standstill("orders", "billing")
    standstill.noted(0, 60_000, 0)
    assert caplog.messages == []
    standstill.noted(1, 60_000, 1)
    assert len(caplog.messages) == 1, "the time of silence begins with a warning"


@pytest.mark.parametrize(("stood_ms", "warnings"), [(STOOD_STILL_MS, 0), (STOOD_STILL_MS + 1, 1)])
def test_a_worker_whose_loop_stood_still_warns(
    cluster: FakeCluster,
    channels: FakeChannels,
    caplog: pytest.LogCaptureFixture,
    stood_ms: int,
    warnings: int,
) -> None:
    append(cluster, [b"0"])

    async def work(worker: Worker) -> None:
        (message,) = await received(worker, 1)
        worker._receiver._look_at_clock()
        worker._receiver.seen_ms -= stood_ms  # nothing of the process has run for so long
        worker._receiver._look_at_clock()
        assert len(caplog.messages) == warnings
        await asyncio.sleep(20)
        assert len(caplog.messages) == warnings, "a loop that runs gives no reason to warn"
        await message.ack()

    at_work(cluster, work)
