"""Requests above a quota start later, in the order in which they came."""

from __future__ import annotations

import asyncio

from oncelog_runtime.adapters.grpc.link.delayed_starts import DelayedStarts
from oncelog_runtime.sim import SimLoop


def test_requests_of_a_method_start_in_their_order_whatever_their_delays() -> None:
    started: list[tuple[str, int]] = []

    async def work() -> None:
        loop = asyncio.get_running_loop()
        delayed = DelayedStarts(loop)

        def start(name: str) -> None:
            delayed.started("A.B")
            started.append((name, round(loop.time() * 1000)))

        delayed.start_later("A.B", 500, start, "first")
        delayed.start_later("A.B", 10, start, "second")
        delayed.start_later("A.B", 700, start, "third")
        assert delayed.waits("A.B")
        assert not delayed.waits("A.C")
        await asyncio.sleep(0.6)
        assert delayed.waits("A.B")
        await asyncio.sleep(0.6)
        assert not delayed.waits("A.B")

    SimLoop(1).run(work())  # type: ignore[abstract]
    assert [name for name, _ in started] == ["first", "second", "third"]
    begun = started[0][1]
    assert [at - begun for _, at in started] == [0, 0, 200]


def test_a_start_that_was_cancelled_and_reported_leaves_room() -> None:
    async def work() -> None:
        delayed = DelayedStarts(asyncio.get_running_loop())
        timer = delayed.start_later("A.B", 500, lambda: None)
        timer.cancel()
        delayed.started("A.B")
        assert not delayed.waits("A.B")

    SimLoop(1).run(work())  # type: ignore[abstract]
