"""The logs of topics that ask for it are compacted one after the other, and trouble with one is its own."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from oncelog.errors import StorageError
from oncelog.types import PartitionId
from oncelog_partition_leader.config import BrokerConfig
from oncelog_partition_leader.core.compaction.rewriting import Tally
from oncelog_partition_leader.log.compaction.pass_helper import HelperWorker
from oncelog_partition_leader.log.compaction.pass_job import encode
from oncelog_partition_leader.log.log_config import LogConfig
from oncelog_partition_leader.log.topic_config import TopicConfig
from oncelog_partition_leader.partition.compactor import Compactor
from oncelog_runtime.metadata.cluster_keys import INTERNAL_TOPICS
from oncelog_runtime.ports import HelperGoneError, HelperWork
from oncelog_runtime.sim.loop import SimLoop
from tests.unit.partition_leader.compaction_helpers import JOB


class Partition:
    """What a compactor needs of a replica."""

    def __init__(self, number: int, topic: str = "t", policy: str = "compact", result: Any = None) -> None:
        self.id = PartitionId("a" * 32, number)
        self.topic = topic
        self.topic_config = TopicConfig(log=LogConfig(cleanup_policy=policy))
        self.failed: StorageError | None = None
        self.asked: list[int] = []
        self.works = False
        self._result = result

    async def compact(self, now_ms: int, _limits: object, worker: HelperWorker) -> Tally | None:
        self.asked.append(now_ms)
        if self.works:
            await worker.look(JOB, _beat)
        if isinstance(self._result, Exception):
            raise self._result
        return self._result  # type: ignore[no-any-return]


class SeenBugs:
    def __init__(self) -> None:
        self.seen: list[BaseException] = []

    def met(self, _where: str, error: BaseException, _what: str) -> None:
        self.seen.append(error)


class Worker:
    """A helper that is done at once."""

    def __init__(self) -> None:
        self.killed = 0

    async def send(self, _message: bytes) -> None:
        return

    async def receive(self) -> bytes:
        return encode({"is": "looked", "bound": 1})

    def kill(self) -> None:
        self.killed += 1


class Workers:
    """Helpers that are done at once."""

    def __init__(self) -> None:
        self.started: list[Worker] = []

    async def start(self, _work: HelperWork) -> Worker:
        self.started.append(Worker())
        return self.started[-1]


async def _beat(_at: int) -> None:
    return


def place(*partitions: Partition, helpers: Workers | None = None, **config: int) -> tuple[Compactor, SeenBugs]:
    bugs = SeenBugs()
    settings = BrokerConfig(node_id=1, **{"compaction_interval_ms": 1_000, **config})  # type: ignore[arg-type]
    table: Any = {partition.id: partition for partition in partitions}
    return Compactor(settings, lambda: 77, table, bugs, helpers or Workers()), bugs  # type: ignore[arg-type]


def run_for(compactor: Compactor, seconds: float) -> bool:
    async def test() -> bool:
        task = asyncio.ensure_future(compactor.run())
        await asyncio.sleep(seconds)
        over = task.done()
        task.cancel()
        return over

    with SimLoop(1) as loop:
        return loop.run(test())


def test_it_looks_at_each_compacted_log_once_in_an_interval_and_counts() -> None:
    one = Partition(1, result=Tally(bytes_seen=100, bytes_kept=30))
    two = Partition(2, policy="compact,delete", result=Tally(bytes_seen=10, bytes_kept=12))
    deleted, idle = Partition(3, policy="delete"), Partition(4)
    compactor, _ = place(one, two, deleted, idle)
    run_for(compactor, 1.5)
    assert [part.asked for part in (one, two, deleted, idle)] == [[77], [77], [], [77]]
    assert (compactor.passes, compactor.bytes_read, compactor.bytes_removed) == (2, 110, 70)


def test_trouble_with_one_log_is_its_own() -> None:
    full, bug, sound = Partition(1, result=StorageError("full")), Partition(2, result=ValueError()), Partition(3)
    failed = Partition(4)
    failed.failed = StorageError("gone")
    compactor, bugs = place(full, bug, sound, failed)
    run_for(compactor, 2.5)
    assert len(sound.asked) == 2
    assert failed.asked == []
    assert (compactor.failures, len(bugs.seen)) == (4, 2)


def test_a_helper_is_kept_while_there_is_work_and_a_minute_longer() -> None:
    part, helpers = Partition(1, result=Tally()), Workers()
    part.works = True
    compactor, _ = place(part, helpers=helpers)

    async def test() -> None:
        task = asyncio.ensure_future(compactor.run())
        await asyncio.sleep(100.5)
        assert [helper.killed for helper in helpers.started] == [0], "one for all passes"
        part.topic_config = TopicConfig(log=LogConfig(cleanup_policy="delete"))
        await asyncio.sleep(58)
        assert helpers.started[0].killed == 0
        await asyncio.sleep(4)
        assert helpers.started[0].killed == 1
        part.topic_config = TopicConfig(log=LogConfig(cleanup_policy="compact"))
        await asyncio.sleep(2)
        assert [helper.killed for helper in helpers.started] == [1, 0]
        task.cancel()
        await asyncio.wait([task])
        assert [helper.killed for helper in helpers.started] == [1, 1], "it ends with the compactor"

    with SimLoop(1) as loop:
        loop.run(test())


def test_without_work_there_is_no_helper() -> None:
    helpers = Workers()
    compactor, _ = place(Partition(1), helpers=helpers)
    run_for(compactor, 30)
    assert helpers.started == []


def test_a_log_whose_helper_dies_is_tried_again_later_and_later(caplog: pytest.LogCaptureFixture) -> None:
    dying, sound = Partition(1, result=HelperGoneError("it said nothing for 600 s")), Partition(2)
    compactor, bugs = place(dying, sound)
    run_for(compactor, 32.5)
    assert len(dying.asked) == compactor.failures == 6, "after 1, 2, 4, 8, 16 and 32 s"
    assert len(sound.asked) == 32
    assert not bugs.seen, "the death of a helper is no bug of ours"
    assert "the helper process ended; it said nothing for 600 s; it is tried again in 2 s" in caplog.text


@pytest.mark.parametrize("topic", sorted(INTERNAL_TOPICS))
def test_the_coordinators_logs_are_left_as_they_are(topic: str) -> None:
    part = Partition(1, topic)
    compactor, _ = place(part)
    run_for(compactor, 1.5)
    assert part.asked == []


def test_it_can_be_switched_off() -> None:
    part = Partition(1)
    compactor, _ = place(part, compaction_bytes_per_s=0)
    assert run_for(compactor, 5)
    assert part.asked == []
