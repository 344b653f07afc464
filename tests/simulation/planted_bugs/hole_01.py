"""A shard begins to serve without a committed epoch record: the new owner only reads its log to the end that it sees."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from oncelog.errors import OncelogError
from oncelog_coordinator.core.transactions.records import EPOCH_KEY
from oncelog_coordinator.shard.log_port import LogItem
from oncelog_coordinator.shard.shard_log import ShardLog
from tests.simulation.planted_bugs import plant, replaced


@contextmanager
def _planted() -> Iterator[None]:
    def without_epoch_record(original: Any) -> Any:
        def append(self: Any, items: Sequence[LogItem]) -> asyncio.Future[None]:
            is_first = self._next_sequence == 0 and not hasattr(self, "_began")
            self._began = True
            if is_first and [key for key, _ in items] == [EPOCH_KEY]:
                done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                done.set_result(None)
                return done
            future: asyncio.Future[None] = original(self, items)
            return future

        return append

    async def to_the_end(self: Any) -> AsyncIterator[list[LogItem]]:
        offset = 0
        while True:
            try:
                following, items, _ = await self._fetch(offset)
            except OncelogError:
                await asyncio.sleep(0.02)
                continue
            if items:
                yield items
            if following == offset:
                return
            offset = following

    with replaced(ShardLog, "append", without_epoch_record), replaced(ShardLog, "replay", lambda _: to_the_end):
        yield


PLANT = plant(
    1,
    "every life of a shard begins with a committed epoch record",
    "transactions/test_coordinator_failures::test_an_append_of_a_deposed_coordinator_never_lands",
)(_planted)
