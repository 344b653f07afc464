"""Cells of a notebook: the event loop runs already, `await` stands at the top level, and blocking calls are made beside it.

The cells are compiled and run as IPython's kernel does it, each in a task of its own in one loop.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import textwrap
from random import Random
from typing import Any

import oncelog
from oncelog import sync
from oncelog.client.defaults import SystemClock
from tests.unit.sdk.client.fake_cluster import BROKERS, TOPIC, FakeCluster


async def _cell(source: str, names: dict[str, Any]) -> None:
    code = compile(textwrap.dedent(source), "<cell>", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    result = eval(code, names)
    if inspect.iscoroutine(result):
        await result


def notebook(*cells: str) -> dict[str, Any]:
    """The names that the cells leave behind."""
    cluster = FakeCluster()
    given = {"transport": cluster, "clock": SystemClock(), "random": Random(1)}
    names: dict[str, Any] = {"oncelog": oncelog, "sync": sync, "TOPIC": TOPIC, "BROKERS": BROKERS, "given": given}

    async def kernel() -> None:
        for source in cells:
            await asyncio.create_task(_cell(source, names))

    asyncio.run(asyncio.wait_for(kernel(), 60))
    return names


def test_await_at_the_top_level() -> None:
    """A client lives from cell to cell."""
    names = notebook(
        "client = oncelog.Client(BROKERS, **given)",
        "producer = await client.producer(transactional_id='t').start()",
        """
        async with producer.transaction() as txn:
            await txn.send(TOPIC, b"a", partition=0)
            await txn.send_many(TOPIC, [oncelog.Message(b"b", partition=0)])
        """,
        "consumer = await client.consumer(TOPIC, auto_offset_reset='earliest').start()",
        """
        read = []
        async for record in consumer:
            read.append(record.value)
            if len(read) == 2:
                break
        """,
        "more = await consumer.getmany(timeout_ms=10)",
        "await client.close()",
    )
    assert (names["txn"].outcome, names["read"], names["more"]) == ("committed", [b"a", b"b"], [])


def test_blocking_calls_beside_the_loop_that_runs() -> None:
    """The client without `await` has a loop of its own, so it may be used within another one."""
    names = notebook(
        "client = sync.Client(BROKERS, **given).start()",
        "producer = client.producer()",
        """
        first = producer.send(TOPIC, b"a", partition=0).result()
        many = producer.send_many(TOPIC, [oncelog.Message(b"b", partition=0)]).result()
        """,
        """
        with client.consumer(TOPIC, auto_offset_reset="earliest") as consumer:
            read = [record.value for _, record in zip(range(2), consumer)]
        """,
        """
        import asyncio
        await asyncio.sleep(0)  # the notebook's own loop goes on
        client.close()
        """,
    )
    assert (names["first"].offset, names["many"][0].base_offset, names["read"]) == (0, 1, [b"a", b"b"])
