"""Work runs beside the event loop."""

from __future__ import annotations

import asyncio
import threading

import pytest

from oncelog_runtime.adapters.loop_threads import LoopThreads

pytestmark = pytest.mark.asyncio


async def test_the_loop_goes_on_while_work_runs() -> None:
    seen = threading.Event()
    working = asyncio.ensure_future(LoopThreads().run(lambda: seen.wait(10)))
    await asyncio.sleep(0)
    seen.set()
    assert await working, "the loop has set it meanwhile"
