"""Keeps a scheduler running for each waiting partition that this broker leads.

Rule: a run that ends without the leadership's end is followed by another one, after a pause that grows (`troubles`): it begins
with a new session, and reads the whole waiting log.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from functools import partial

from oncelog.errors import NotLeaderError, OncelogError
from oncelog.types import PartitionId
from oncelog_partition_leader.core.delays.scheduler import Summary
from oncelog_partition_leader.partition.delays.scheduler_run import RESTARTS, DelaySurroundings, SchedulerRun
from oncelog_partition_leader.partition.leadership import Leadership
from oncelog_partition_leader.partition.partition import LocalPartition
from oncelog_runtime.metadata.waiting_topics import is_waiting
from oncelog_runtime.process.bugs import Bugs, keep_running
from oncelog_runtime.process.tasks import TaskOwner


class DelayHost:
    """The schedulers of one broker."""

    def __init__(
        self, partitions: Mapping[PartitionId, LocalPartition], around: DelaySurroundings, tasks: TaskOwner, bugs: Bugs
    ) -> None:
        self._partitions = partitions
        self._around = around
        self._kept: dict[Leadership, None] = {}
        self._tasks = tasks
        self._bugs = bugs
        self._runs: dict[PartitionId, SchedulerRun] = {}

    def role_changed(self, partition_id: PartitionId) -> None:
        """Looks at a partition whose leadership has begun or ended here."""
        partition = self._partitions.get(partition_id)
        leadership = partition.leadership if partition is not None else None
        if partition is None or leadership is None or leadership in self._kept:
            return
        if is_waiting(partition.topic):
            self._kept[leadership] = None
            run = partial(self._keep, partition, leadership)
            self._tasks.spawn(keep_running(self._bugs, run, "delayed records"), f"delays {partition.id}")

    async def _keep(self, partition: LocalPartition, leadership: Leadership) -> None:
        """Runs until the leadership ends; a bug in between restarts it (`keep_running`)."""
        while leadership.ended is None:
            run = self._runs[partition.id] = SchedulerRun(partition, leadership, self._around)
            try:
                await run.run()
            except (*RESTARTS, OncelogError) as error:
                if leadership.ended is None:
                    now_ms = self._around.clock.monotonic_ms()
                    trouble = self._around.troubles.of(partition.topic, partition.id.partition)
                    trouble.failed(error, now_ms)
                    await asyncio.sleep(trouble.pauses_for_ms(now_ms) / 1000)
            finally:
                if self._runs.get(partition.id) is run:
                    del self._runs[partition.id]
        self._kept.pop(leadership, None)
        if not any(other.partition == leadership.partition for other in self._kept):
            self._around.troubles.forget(partition.topic, partition.id.partition)

    async def cancel(self, partition: PartitionId, offset: int) -> None:
        """Cancels a delayed record. Raises `NotScheduledError`, `NotLeaderError`, or another `OncelogError`: it waits on."""
        await self._run(partition).cancel(offset)

    def summary(self, partition: PartitionId) -> Summary:
        """Returns what waits in a partition. Raises `NotLeaderError`."""
        scheduler = self._run(partition).scheduler
        if scheduler is None:
            raise NotLeaderError("the leader of the waiting partition is still reading its log")
        return scheduler.summary()

    def summaries(self) -> Iterator[tuple[str, Summary]]:
        """Yields (waiting topic, what waits) of each partition whose scheduler has read its log."""
        for partition_id, run in list(self._runs.items()):
            partition = self._partitions.get(partition_id)
            if partition is not None and run.scheduler is not None:
                yield partition.topic, run.scheduler.summary()

    def _run(self, partition: PartitionId) -> SchedulerRun:
        run = self._runs.get(partition)
        if run is None:
            raise NotLeaderError("no scheduler runs for this partition here", partition=partition.partition)
        return run

    def check(self) -> None:
        """Asserts every invariant of the cores."""
        for run in self._runs.values():
            if run.scheduler is not None:
                run.scheduler.check()
