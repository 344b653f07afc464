"""Works on records once, in a process of its own: python -m tests.hostile.once_worker SERVERS GROUP TOPIC FILE ID_HEADER FLAW

An effect is a row of the table `effects` in the SQLite file FILE. Each line of its input is an order, a signal and a point, as
in "SIGKILL wrote": when it comes to that point with its next record it sends itself the signal. It ends with its input, and
prints how often it was refused, by the name of the error.

Points: `begun`, the record is claimed and nothing is written; `wrote`, the effect is written and not committed; `committed`, it
is committed, and the record's offset is not committed in the log yet.

FLAW is `none`, or breaks the promise on purpose: `before` commits the effect outside of the work's transaction before that one
ends, `after` does it when that one has ended.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
import sys
from collections import Counter
from contextlib import suppress

from oncelog.client.client import Client
from oncelog.client.once.once import Once
from oncelog.client.once.work import Work
from oncelog.errors import OncelogError

LEASE_MS = 2_000
_BUSY_S = 5.0
_AGAIN_S = 0.3
_INSERT = (
    "INSERT INTO effects (key_no, number, partition_no, record_offset, fencing, process) VALUES (?, ?, ?, ?, ?, ?)"
)


class Orders:
    """The parent's last order, and the end of the input."""

    def __init__(self) -> None:
        self.ended = asyncio.Event()
        self._order = ("", "")
        asyncio.get_running_loop().add_reader(sys.stdin, self._heard)

    def _heard(self) -> None:
        lines = os.read(sys.stdin.fileno(), 4096).decode().splitlines()
        if lines:
            name, _, point = lines[-1].partition(" ")
            self._order = name, point
        else:
            asyncio.get_running_loop().remove_reader(sys.stdin)
            self.ended.set()

    def at(self, point: str) -> None:
        """The work has come to this point."""
        name, ordered = self._order
        if ordered == point:
            self._order = ("", "")
            os.kill(os.getpid(), signal.Signals[name])


class Worker:
    """Its work on each record, with the flaw that it was given."""

    def __init__(self, orders: Orders, file: str, flaw: str) -> None:
        self._orders = orders
        self._flaw = flaw
        self.connection = sqlite3.connect(file, timeout=_BUSY_S)
        self._outside = sqlite3.connect(file, timeout=_BUSY_S, isolation_level=None)
        self.refused: Counter[str] = Counter()

    async def each(self, work: Work) -> None:
        """An effect for the record; a refusal is counted, and the record comes again."""
        try:
            async with work:
                self._orders.at("begun")
                row = self._row(work)
                if self._flaw == "before":
                    self._outside.execute(_INSERT, row)
                elif self._flaw == "none":
                    work.execute(_INSERT, row)
                self._orders.at("wrote")
            self._orders.at("committed")
            if self._flaw == "after":
                self._outside.execute(_INSERT, row)
        except (OncelogError, sqlite3.OperationalError) as error:
            self.refused[type(error).__name__] += 1

    def _row(self, work: Work) -> tuple[object, ...]:
        record = work.record
        return int(record.key), int(record.value), record.partition, record.offset, work.fencing, os.getpid()


async def read(servers: str, group: str, topic: str, once: Once, worker: Worker) -> None:
    """Works until it is cancelled. Raises what ended the reading."""
    async with (
        Client(servers) as client,
        client.consumer(
            group_id=group, auto_offset_reset="earliest", enable_auto_commit=True, auto_commit_interval_ms=500
        ) as consumer,
    ):
        consumer.subscribe(topic)
        async for work in once.each(consumer):
            await worker.each(work)


async def work(servers: str, group: str, topic: str, file: str, id_header: str, flaw: str) -> None:
    """Works until the input ends, whatever fails meanwhile."""
    orders = Orders()
    worker = Worker(orders, file, flaw)
    once = Once(worker.connection, group, lease_ms=LEASE_MS, id_header=id_header)

    async def again_and_again() -> None:
        while True:
            try:
                await read(servers, group, topic, once, worker)
            except (OncelogError, sqlite3.OperationalError) as error:
                worker.refused[type(error).__name__] += 1
            await asyncio.sleep(_AGAIN_S)

    working = asyncio.create_task(again_and_again())
    await orders.ended.wait()
    working.cancel()
    with suppress(asyncio.CancelledError):
        await working
    print(json.dumps(worker.refused), flush=True)


if __name__ == "__main__":
    asyncio.run(work(*sys.argv[1:]))
