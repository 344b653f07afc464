"""A run moves what is due once, and nothing before it knows what earlier leaders have done."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from oncelog.core.batch.batch import decode_batch
from oncelog.core.batch.header import BatchIdentity
from oncelog.errors import NotLeaderError, NotScheduledError, RequestTimedOutError
from oncelog_partition_leader.partition.delays import scheduler_run
from oncelog_partition_leader.partition.delays.mover import Part, SessionLostError
from oncelog_partition_leader.partition.delays.scheduler_run import DelaySurroundings, SchedulerRun
from oncelog_partition_leader.partition.delays.waiting_log import done_batch
from oncelog_runtime.metadata.waiting_topics import waiting_topic_id
from oncelog_runtime.sim.clock import SimClock
from oncelog_runtime.sim.disk import SimDisk
from oncelog_runtime.sim.loop import SimLoop
from tests.unit.partition_leader.log_helpers import NOW_MS, TAG, open_log, write
from tests.unit.partition_leader.partition.delays.waiting_partition import OWN_PRODUCER, WaitingPartition

OWN = BatchIdentity(TAG, OWN_PRODUCER, 0, 0)


class FakeMover:
    """Moves at once; its done batches go into the waiting log as those of a real one do."""

    def __init__(self, partition: WaitingPartition) -> None:
        self.partition = partition
        self.producer_id = OWN_PRODUCER
        self.moved: list[bytes | None] = []
        self.fails: list[BaseException] = []
        self.sequence = 0

    async def begin(self) -> None:
        """Begins at once."""

    async def move(self, parts: Sequence[Part]) -> None:
        if self.fails:
            raise self.fails.pop(0)
        *records, done = parts
        for one in records:
            self.moved += [record.value for record in decode_batch(one.encode(BatchIdentity(TAG)))]
        write(self.partition.log, done.encode(OWN._replace(base_sequence=self.sequence)))
        self.sequence += 1
        self.partition.wake()


class Scene:
    """A run over a real log, with a clock of its own."""

    def __init__(
        self, clock: SimClock, disk: SimDisk, partition: WaitingPartition, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.clock = clock
        self.partition = partition
        self.mover = FakeMover(partition)
        self.leadership = SimpleNamespace(ended=None, high_watermark=1 << 40)
        self.topic_id = "f" * 32
        partition.id = partition.id._replace(topic_id=waiting_topic_id(self.topic_id))
        self.start_ms = clock.now_ms()
        self.is_lost = False
        monkeypatch.setattr(scheduler_run, "Mover", lambda *_: self.mover)
        view = SimpleNamespace(topic=lambda _name: SimpleNamespace(topic_id=self.topic_id, partitions=4))
        around = DelaySurroundings(cast("Any", None), cast("Any", view), clock, self.now_ms, disk, Random(2))
        self.run = SchedulerRun(partition.as_local(), cast("Any", self.leadership), around)

    def now_ms(self) -> int:
        return NOW_MS + self.clock.now_ms() - self.start_ms

    async def settle(self) -> None:
        await asyncio.sleep(0.05)


Test = Callable[[Scene], Awaitable[None]]


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def run(test: Test, before: Callable[[WaitingPartition], None] = lambda _: None) -> None:
        with SimLoop(1) as loop:
            disk = SimDisk(loop, Random(1))

            async def whole() -> None:
                partition = WaitingPartition(await open_log(disk))
                before(partition)
                scene = Scene(SimClock(loop), disk, partition, monkeypatch)
                task = asyncio.ensure_future(scene.run.run())
                await scene.settle()
                await test(scene)
                scene.leadership.ended = NotLeaderError()
                partition.wake()
                await asyncio.wait([task], timeout=5)
                assert task.done()
                assert type(task.exception()) is (SessionLostError if scene.is_lost else type(None))

            loop.run(whole())

    return run


def test_records_are_moved_at_their_times_and_once(play: Callable[..., None]) -> None:
    async def test(scene: Scene) -> None:
        scene.partition.put((2_000, b"late"), (500, b"soon"))
        await asyncio.sleep(0.4)
        assert scene.mover.moved == []
        await asyncio.sleep(0.2)
        assert scene.mover.moved == [b"soon"]
        scene.partition.put((0, b"now"))
        await scene.settle()
        assert scene.mover.moved == [b"soon", b"now"]
        await asyncio.sleep(3)
        assert scene.mover.moved == [b"soon", b"now", b"late"]

    play(test)


def test_nothing_is_moved_before_the_log_was_read_to_where_it_ended_at_the_beginning(
    play: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    def before(partition: WaitingPartition) -> None:
        partition.put((0, b"moved before"))
        write(partition.log, done_batch([0], OWN, NOW_MS))
        monkeypatch.setattr(
            scheduler_run, "visible_end", lambda _: 1
        )  # the marker of the done batch is still under way
        monkeypatch.setattr(scheduler_run, "read_committed", _up_to(scheduler_run.read_committed, 1))

    async def test(scene: Scene) -> None:
        await asyncio.sleep(2)
        assert scene.mover.moved == []
        with pytest.raises(NotLeaderError):
            await scene.run.cancel(0)
        monkeypatch.undo()
        monkeypatch.setattr(scheduler_run, "visible_end", lambda partition: partition.log.log_end_offset)
        scene.partition.wake()
        await asyncio.sleep(2)
        assert scene.mover.moved == []
        assert scene.run.scheduler is not None

    play(test, before)


def _up_to(read: Any, end: int) -> Any:
    """`read_committed` of a log whose last stable offset is `end`."""

    def limited(partition: Any, offset: int, max_bytes: int) -> Any:
        found = read(partition, offset, max_bytes)
        batches = [item for item in found.batches if item[0].next_offset <= end]
        return found._replace(batches=batches, next_offset=min(found.next_offset, end))

    return limited


def test_a_move_that_failed_is_made_again_and_one_of_unknown_outcome_ends_the_run(play: Callable[..., None]) -> None:
    async def test(scene: Scene) -> None:
        scene.mover.fails = [RequestTimedOutError()]
        scene.partition.put((0, b"again"))
        await asyncio.sleep(1)
        assert scene.mover.moved == [b"again"]
        scene.mover.fails = [SessionLostError("unknown")]
        scene.is_lost = True
        scene.partition.put((0, b"never here"))
        await scene.settle()
        assert scene.run.scheduler is None, "the run is over"
        assert scene.mover.moved == [b"again"]

    play(test)


def test_a_cancelled_record_never_comes_and_a_refusal_changes_nothing(play: Callable[..., None]) -> None:
    async def test(scene: Scene) -> None:
        scene.partition.put((500, b"a"), (500, b"b"))
        await scene.settle()
        await scene.run.cancel(0)
        with pytest.raises(NotScheduledError):
            await scene.run.cancel(0)
        for nobody in (2, 99):  # a done batch, and what the log does not have
            with pytest.raises(NotScheduledError):
                await scene.run.cancel(nobody)
        scene.mover.fails = [RequestTimedOutError()]
        with pytest.raises(RequestTimedOutError):
            await scene.run.cancel(1)
        await asyncio.sleep(1)
        assert scene.mover.moved == [b"b"]

    play(test)


def test_records_of_a_topic_that_is_gone_wait_on(play: Callable[..., None]) -> None:
    async def test(scene: Scene) -> None:
        scene.topic_id = "e" * 32  # made again
        scene.partition.put((0, b"of the one before"))
        await asyncio.sleep(3)
        assert scene.mover.moved == []
        assert scene.run.scheduler is not None
        assert scene.run.scheduler.summary().waiting == 1

    play(test)


def test_the_start_of_the_log_follows_what_waits(play: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduler_run, "_KEEP_EVERY", 1)

    async def test(scene: Scene) -> None:
        scene.partition.put((0, b"a"))
        scene.partition.put((60_000, b"far"))
        await asyncio.sleep(0.5)
        await scene.partition.log.sync()
        scene.partition.put((0, b"b"))
        await asyncio.sleep(0.5)
        assert scene.mover.moved == [b"a", b"b"]
        assert scene.partition.log.log_start_offset == 1

    play(test)
