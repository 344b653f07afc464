"""Works with `Client.once`, in a process of its own: python -m tests.hostile.once_log_worker SERVERS GROUP FROM TO ID_HEADER

Each record is written once more, with the same key and value. Orders, and the last line, are as in `tests.hostile.once_worker`.

Points: `begun`, the record is claimed and nothing is written; `written`, its transaction has the output and the id;
`offsets sent`, and the offset; `committed`, the block has ended.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from contextlib import suppress
from typing import Any

from oncelog.client.client import Client
from oncelog.client.once.in_log import OnceInLog
from oncelog.client.produce.transactions.transaction import Transaction
from oncelog.errors import OncelogError
from tests.hostile.once_worker import Orders

_AGAIN_S = 0.3


def put_points_into_transactions(orders: Orders) -> None:
    """Before and after the offsets are sent."""
    plain = Transaction.send_offsets

    async def send_offsets(self: Transaction, *given: Any, **options: Any) -> None:
        orders.at("written")
        await plain(self, *given, **options)
        orders.at("offsets sent")

    Transaction.send_offsets = send_offsets  # type: ignore[method-assign]


async def read(once: OnceInLog, to: str, orders: Orders, refused: Counter[str]) -> None:
    """Works until it is cancelled. Raises what ended the reading."""
    await once.create_topic()
    async for work in once.each():
        try:
            async with work:
                orders.at("begun")
                work.send(to, work.record.value, work.record.key)
            orders.at("committed")
        except OncelogError as error:
            refused[type(error).__name__] += 1


async def work(servers: str, group: str, source: str, to: str, id_header: str) -> None:
    """Works until the input ends, whatever fails meanwhile."""
    orders = Orders()
    put_points_into_transactions(orders)
    refused: Counter[str] = Counter()

    async def again_and_again() -> None:
        while True:
            try:
                async with Client(servers) as client, client.once(source, group_id=group, id_header=id_header) as once:
                    await read(once, to, orders, refused)
            except OncelogError as error:
                refused[type(error).__name__] += 1
            await asyncio.sleep(_AGAIN_S)

    working = asyncio.create_task(again_and_again())
    await orders.ended.wait()
    working.cancel()
    with suppress(asyncio.CancelledError):
        await working
    print(json.dumps(refused), flush=True)


if __name__ == "__main__":
    asyncio.run(work(*sys.argv[1:]))
