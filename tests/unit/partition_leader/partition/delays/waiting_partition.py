"""A waiting partition for tests: a real log, all of which is committed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from oncelog.core.batch.batch import encode_rows
from oncelog.core.batch.header import BatchIdentity
from oncelog.types import PartitionId
from oncelog_partition_leader.log.partition_log import PartitionLog
from oncelog_partition_leader.partition.long_poll import Watcher
from oncelog_partition_leader.partition.partition import LocalPartition
from tests.unit.partition_leader.log_helpers import NOW_MS, TAG, TOPIC_ID, write

OWN_PRODUCER = 77
TOPIC = "__delayed.orders"


class WaitingPartition:
    """The part of `LocalPartition` that delays use."""

    def __init__(self, log: PartitionLog) -> None:
        self.log = log
        self.id = PartitionId(TOPIC_ID, 3)
        self.topic = TOPIC
        self.watchers: list[Watcher] = []
        self.failed: Any = None

    @property
    def high_watermark(self) -> int:
        return self.log.log_end_offset

    def fail(self, error: Any) -> None:
        self.failed = error

    def watch(self, watcher: Watcher) -> None:
        self.watchers = [watcher]

    def unwatch(self, watcher: Watcher) -> None:
        if watcher in self.watchers:
            self.watchers.remove(watcher)

    async def delete_before(self, offset: int) -> int:
        await self.log.advance_log_start(offset)
        return self.log.log_start_offset

    def as_local(self) -> LocalPartition:
        """Itself, for the type checker."""
        return cast("LocalPartition", self)

    def put(self, *rows: tuple[int, bytes], headers: bool = False) -> None:
        """Writes records (delay in ms, value) as one batch, with `k<value>` as key."""
        data = encode_rows(
            [b"k" + value for _, value in rows],
            [value for _, value in rows],
            BatchIdentity(TAG),
            timestamps_ms=[NOW_MS + delay for delay, _ in rows],
            headers=[[("h", value)] for _, value in rows] if headers else None,
        )
        write(self.log, data)
        self.wake()

    def wake(self) -> None:
        watchers, self.watchers = self.watchers, []
        for watcher in watchers:
            watcher.wake()


def values(rows: Any) -> Sequence[bytes]:
    """The values of Arrow rows."""
    found: list[bytes] = rows.column("value").to_pylist()
    return found
