"""A group whose position is committed in two ways: inside transactions, and plainly, by an operator or another consumer.

Rule 1: what was committed last counts. A plain commit that was answered while a transaction with older offsets was open stays
        when that transaction's marker comes.
Rule 2: after an error nobody knows what was committed, and a late request may still act: the next session has another group.
"""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any, Final

from oncelog.client.client import Client
from oncelog.client.consume.offsets import GroupMetadata
from tests.simulation.topics import WORK
from tests.simulation.workload import Workload

_PAUSE_MAX_S: Final = 0.3


class GroupWork:
    """`rounds` counts what was checked; `problems` grows."""

    def __init__(self, workload: Workload) -> None:
        self.rounds = 0
        self.problems: list[str] = []
        self._workload = workload
        self._sessions = 0
        self._position = 0

    async def main(self, name: str) -> None:
        """To be spawned; ends when the workload stops."""
        await self._workload.for_ever(name, self._session)

    async def _session(self, client: Client, name: str, random: Random) -> None:
        self._sessions += 1
        group = f"{name}-{self._sessions}"
        async with client.producer(
            transactional_id=name, transaction_timeout_ms=3_000, delivery_timeout_ms=4_000, request_timeout_ms=1_500
        ) as producer:
            for _ in range(random.randint(2, 8)):
                if self._workload.stopping or not await self._round(client, producer, group, random):
                    return
                await asyncio.sleep(random.random() * _PAUSE_MAX_S)

    async def _round(self, client: Client, producer: Any, group: str, random: Random) -> bool:
        """False: it is not known whether the transaction is visible."""
        self._position += 10
        expected = self._position
        async with producer.transaction() as txn:
            await txn.send_offsets({(WORK, 0): expected}, GroupMetadata(group))
            if random.random() < 0.5:
                expected += random.choice([-5, 5])
                await client.admin.set_group_offsets(group, {(WORK, 0): expected})
            await txn.commit(wait="visible")
        if not txn.visible:
            return False
        found = [item.offset for item in (await client.admin.describe_group(group)).offsets]
        self.rounds += 1
        if found != [expected]:
            self.problems.append(f"offset-went-back: {group} committed {expected} last, and has {found}")
        return True
