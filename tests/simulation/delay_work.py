"""Delayed records beside everything else, under every fault: cancelled ones, those of transactions, and a reader that follows.

Rule 1: a delayed record is there once, in the end; one that was surely not written, aborted or cancelled is not. In this, and
        in transactions, it is what every record is. So the checker judges the history (`without_cancelled`).
Rule 2: none comes before it is due by most brokers' clocks. Where clocks step or leap, that may have been so a moment before,
        and is not judged.
Rule 3: when all is well again, everything that waits comes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final

from oncelog import errors
from oncelog.client.client import Client
from tests.simulation.checker import check
from tests.simulation.cluster import SimCluster
from tests.simulation.later_load import LaterLoad, without_cancelled
from tests.simulation.recorded import RETRY_S
from tests.simulation.topics import SimTopic
from tests.simulation.workload import API_TIMEOUT_MS, Workload, final_read

SHARE: Final = 0.3
"""Of all runs have delayed records."""
LATER: Final = "later"
SOON: Final = "soon"
_DELAYS_MS: Final = (50, 500, 1_500, 4_000, 10_000)
_BROKERS: Final = 3
_LOOK_S: Final = 0.5


class DelayWork:
    """`finish` says what is wrong in the end. `is_there` False: this run has none of it.

    `clock_error_ms`: how far a leader may be wrong about the clocks of others, whose answers are slow; None: no rule 2.
    """

    def __init__(self, cluster: SimCluster, *, is_there: bool, fsync: bool, clock_error_ms: int | None) -> None:
        config = {"min.insync.replicas": "2", "flush.mode": "fsync" if fsync else "replicated"}
        self._topics = [SimTopic(LATER, 2, 3, config, 1), SimTopic(SOON, 1, 3, config, 1)]
        self._cluster = cluster
        self._is_there = is_there
        self._clock_error_ms = clock_error_ms
        self.load = Workload(cluster, self._topics)
        self.early: list[str] = []

    async def create(self) -> None:
        """Makes the topics."""
        if self._is_there:
            async with self._cluster.client("later-setup") as client:
                for topic in self._topics:
                    await topic.create(client)

    def now_ms(self) -> int:
        """The time by most brokers' clocks."""
        clocks = sorted(self._cluster.node(f"broker-{number}").clock.now_ms() for number in range(_BROKERS))
        return clocks[len(clocks) // 2]

    # ------------------------------------------------------------ processes

    def processes(self) -> list[Coroutine[Any, Any, None]]:
        """Those that are to be spawned; they end when `stop` was called."""
        if not self._is_there:
            return []
        later, soon = (topic.keys for topic in self._topics)
        senders = LaterLoad(self.load, "delays", "later-txn", later, soon, _DELAYS_MS, self.now_ms)
        return [*senders.tasks(), self._follow("later-reader")]

    def stop(self) -> None:
        """Senders and readers end after what they are doing."""
        self.load.stopping = True

    async def _follow(self, name: str) -> None:
        """Follows both topics from their beginning."""
        async with (
            self._cluster.client(name, default_api_timeout_ms=API_TIMEOUT_MS) as client,
            client.consumer(auto_offset_reset="earliest", fetch_max_wait_ms=200) as consumer,
        ):
            await consumer.assign(self.load.keys)
            while not self.load.stopping:
                await self.load.poll(consumer, name, "poll")
                self._look_whether_early()

    def _look_whether_early(self) -> None:
        """At what was polled last. Rule 2."""
        operations, now_ms = self.load.history.operations, self.now_ms()
        read = next(operation for operation in reversed(operations) if operation.kind == "poll")
        values = {value for key, records in read.reads.items() if key[0] == LATER for _, value in records}
        if not values or self._clock_error_ms is None:
            return
        for operation in operations:
            ahead_ms = operation.due_ms - now_ms
            for _, value in operation.writes if ahead_ms > self._clock_error_ms else ():
                if value in values:
                    self.early.append(f"early: {value} of {operation} came {ahead_ms} ms before its time")

    # ------------------------------------------------------------ the end

    async def finish(self) -> list[str]:
        """Waits for rule 3, when all is well again; returns what is wrong."""
        if not self._is_there:
            return []
        async with self._cluster.client("later-last") as client:
            while await self._waiting(client):  # noqa: ASYNC110 (the cluster tells nobody)
                await asyncio.sleep(_LOOK_S)
        final = await final_read(self._cluster, self.load.keys)
        anomalies = check(without_cancelled(self.load.history), final)
        return [*self.early, *(f"delayed: {anomaly}" for anomaly in anomalies)]

    @staticmethod
    async def _waiting(client: Client) -> int:
        while True:
            try:
                return sum(one.waiting for one in await client.admin.describe_delayed(LATER))
            except errors.OncelogError:
                await asyncio.sleep(RETRY_S)
