"""The trace context belongs to a task: what it begins inherits the context, and what others set is not its own."""

from __future__ import annotations

import asyncio

from oncelog.trace.trace_context import LINKS, TRACEPARENT

A, B = "00-" + "a" * 32 + "-" + "1" * 16 + "-01", "00-" + "b" * 32 + "-" + "2" * 16 + "-01"


def test_at_first_there_is_neither_a_context_nor_a_link() -> None:
    async def work() -> tuple[str, tuple[str, ...]]:
        return TRACEPARENT.get(), LINKS.get()

    assert asyncio.run(work()) == ("", ())


def test_a_task_inherits_the_context_and_keeps_its_own() -> None:
    async def child() -> str:
        inherited = TRACEPARENT.get()
        TRACEPARENT.set(B)
        await asyncio.sleep(0)
        assert TRACEPARENT.get() == B
        return inherited

    async def work() -> None:
        TRACEPARENT.set(A)
        assert await asyncio.gather(*(asyncio.ensure_future(child()) for _ in range(3))) == [A, A, A]
        assert TRACEPARENT.get() == A

    asyncio.run(work())
