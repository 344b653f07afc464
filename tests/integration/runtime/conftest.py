"""Both event loops, for the tests of links."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
import uvloop

from tests.integration.runtime.links import Loop


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Loop:
    def on_loop(test: Callable[[], Awaitable[None]]) -> None:
        async def bounded() -> None:
            async with asyncio.timeout(20):
                await test()

        (uvloop.run if request.param == "uvloop" else asyncio.run)(bounded())

    return on_loop
