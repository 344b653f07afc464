"""A run moves what is due once, and nothing before it knows what earlier leaders have done."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from oncelog.core.batch.batch import decode_batch
from oncelog.core.batch.header import BatchIdentity
from oncelog.errors import (
    MessageTooLargeError,
    NotLeaderError,
    NotScheduledError,
    RequestTimedOutError,
    ResourceExhaustedError,
    TransactionDataLossError,
)
from oncelog_partition_leader.log.topic_config import TopicConfig
from oncelog_partition_leader.partition.channels.reading.committed_reading import Found
from oncelog_partition_leader.partition.delays import scheduler_run
from oncelog_partition_leader.partition.delays.mover import Part, SessionLostError
from oncelog_partition_leader.partition.delays.scheduler_run import DelaySurroundings, SchedulerRun
from oncelog_partition_leader.partition.delays.troubles import Troubles
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
        self.moved: list[bytes | None] = []
        self.fails: list[BaseException] = []
        self.sequence = 0
        self.sizes: list[int] = []
        self.refuses: list[bytes] = []
        """Values that the topic does not take."""
        self.may_move = asyncio.Event()
        self.may_move.set()

    async def begin(self) -> None:
        """Begins at once."""

    async def move(self, parts: Sequence[Part]) -> None:
        await self.may_move.wait()
        if self.fails:
            raise self.fails.pop(0)
        *records, done = parts
        assert done.is_own
        for one in records:
            data = one.encode(BatchIdentity(TAG))
            values = [record.value for record in decode_batch(data)]
            self.sizes.append(len(data))
            if set(self.refuses) & set(values):
                raise MessageTooLargeError
            self.moved += values
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
        self.config: dict[str, str] = {}
        monkeypatch.setattr(scheduler_run, "Mover", lambda *_: self.mover)
        view: Any = SimpleNamespace(topic=self._topic)
        self.troubles = Troubles()
        unused: Any = None
        around = DelaySurroundings(unused, view, clock, self.now_ms, disk, Random(2), TopicConfig(), self.troubles)
        self.run = SchedulerRun(partition.as_local(), cast("Any", self.leadership), around)

    def _topic(self, _name: str) -> Any:
        return SimpleNamespace(topic_id=self.topic_id, partitions=4, config=self.config)

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
        write(partition.log, done_batch([0], OWN))
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

    def limited(partition: Any, offset: int, max_bytes: int, **more: Any) -> Any:
        found = read(partition, offset, max_bytes, **more)
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
    monkeypatch.setattr(scheduler_run, "_KEEP_EVERY_MS", 0)

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


def test_a_caller_that_is_gone_leaves_no_record_in_limbo(play: Callable[..., None]) -> None:
    async def test(scene: Scene) -> None:
        scene.partition.put((500, b"a"), (500, b"b"))
        await scene.settle()
        scene.mover.may_move.clear()
        before, begun = asyncio.ensure_future(scene.run.cancel(0)), asyncio.ensure_future(scene.run.cancel(1))
        before.cancel()
        await scene.settle()
        begun.cancel()  # when its transaction is under way
        await scene.settle()
        scene.mover.may_move.set()
        await asyncio.sleep(2)
        assert scene.mover.moved == [b"a"], "the second one is cancelled, and what was not begun waits on"

    play(test)


def test_a_record_whose_sender_saw_it_written_is_known_to_a_cancellation_at_once(play: Callable[..., None]) -> None:
    async def test(scene: Scene) -> None:
        scene.partition.put((60_000, b"before"))
        await scene.settle()
        scene.mover.may_move.clear()
        scene.partition.put((0, b"due"))
        await scene.settle()  # a move is under way, and nothing is read meanwhile
        scene.partition.put((60_000, b"after"))
        offset = scene.partition.log.log_end_offset - 1
        cancelling = asyncio.ensure_future(scene.run.cancel(offset))
        await scene.settle()
        scene.mover.may_move.set()
        await cancelling
        assert scene.run.scheduler is not None
        assert scene.run.scheduler.summary().waiting == 1

    play(test)


@contextmanager
def an_open_transaction(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """It hides everything in the waiting log."""
    with monkeypatch.context() as hidden:
        hidden.setattr(scheduler_run, "visible_end", lambda _: 0)
        yield


def test_a_record_behind_an_open_transaction_is_cancelled_when_that_has_ended(
    play: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(scene: Scene) -> None:
        await scene.settle()
        with an_open_transaction(monkeypatch):
            scene.partition.put((500, b"of the transaction"))
            scene.partition.put((500, b"written"))
            cancelling, gone = (asyncio.ensure_future(scene.run.cancel(offset)) for offset in (1, 0))
            await asyncio.sleep(2)
            assert not cancelling.done(), "neither cancelled nor delivered: nobody can tell yet"
            gone.cancel()
        scene.partition.wake()
        await cancelling
        await asyncio.sleep(1)
        assert scene.mover.moved == [b"of the transaction"]
        with pytest.raises(NotScheduledError):
            await scene.run.cancel(scene.partition.log.log_end_offset)

    play(test)


def test_a_cancellation_that_cannot_be_decided_for_long_is_given_up_and_cancels_nothing_later(
    play: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(scene: Scene) -> None:
        await scene.settle()
        with an_open_transaction(monkeypatch):
            scene.partition.put((60_000, b"hidden"))
            with pytest.raises(RequestTimedOutError):
                await scene.run.cancel(0)
            assert not scene.run._cancels, "it takes nobody's place"
        scene.partition.wake()
        await asyncio.sleep(90)
        assert scene.mover.moved == [b"hidden"]

    play(test)


def test_a_cancellation_that_is_being_committed_is_waited_for_however_long_that_takes(
    play: Callable[..., None],
) -> None:
    """Its caller would ask again, and be told that the record does not wait."""

    async def test(scene: Scene) -> None:
        await scene.settle()
        scene.partition.put((60_000, b"cancelled"))
        move = scene.mover.move

        async def slowly(parts: Any) -> None:
            await asyncio.sleep(25)
            await move(parts)

        scene.mover.move = slowly  # type: ignore[method-assign]
        await scene.run.cancel(0)
        await asyncio.sleep(90)
        assert scene.mover.moved == []

    play(test)


def test_cancellations_that_wait_are_made_in_one_transaction_and_are_bounded(
    play: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduler_run, "CANCELS_MAX", 3)

    async def test(scene: Scene) -> None:
        scene.partition.put(*[(60_000, b"%d" % n) for n in range(5)])
        await scene.settle()
        scene.mover.may_move.clear()
        first = asyncio.ensure_future(scene.run.cancel(4))
        await scene.settle()
        cancelling = [asyncio.ensure_future(scene.run.cancel(offset)) for offset in (0, 1, 1, 2)]
        await scene.settle()
        scene.mover.may_move.set()
        answers = await asyncio.gather(first, *cancelling, return_exceptions=True)
        assert sorted(type(answer).__name__ for answer in answers) == ["NoneType"] * 4 + [
            ResourceExhaustedError.__name__
        ]
        assert scene.mover.sequence == 2

    play(test)


def test_a_cancellation_of_unknown_outcome_ends_the_run_and_is_asked_again(play: Callable[..., None]) -> None:
    async def test(scene: Scene) -> None:
        scene.partition.put((60_000, b"a"), (60_000, b"b"))
        await scene.settle()
        scene.mover.fails = [SessionLostError("unknown")]
        scene.is_lost = True
        answers = await asyncio.gather(scene.run.cancel(0), scene.run.cancel(1), return_exceptions=True)
        assert [type(answer) for answer in answers] == [NotLeaderError, NotLeaderError]
        await scene.settle()
        assert scene.run.scheduler is None, "the run is over"

    play(test)


def test_a_batch_is_as_large_as_its_topic_takes(play: Callable[..., None]) -> None:
    async def test(scene: Scene) -> None:
        scene.config = {"max_message_bytes": "20000"}
        scene.partition.put(*[(0, b"%04d" % n * 250) for n in range(60)])
        await asyncio.sleep(2)
        assert scene.mover.moved == [b"%04d" % n * 250 for n in range(60)]
        assert max(scene.mover.sizes) <= 20_000
        assert len(scene.mover.sizes) < 10

    play(test)


def test_a_record_that_its_topic_refuses_waits_on_and_holds_up_no_other(play: Callable[..., None]) -> None:
    async def test(scene: Scene) -> None:
        scene.mover.refuses = [b"bad"]
        scene.partition.put((0, b"a"), (0, b"bad"), (0, b"b"), (0, b"c"))
        await asyncio.sleep(1)
        assert sorted(value or b"" for value in scene.mover.moved) == [b"a", b"b", b"c"]
        assert scene.troubles.total == 1
        assert scene.run.scheduler is not None
        assert scene.run.scheduler.summary()[::4] == (1, 1)
        scene.mover.refuses = []
        await asyncio.sleep(20)
        assert scene.mover.moved[-1] == b"bad"

    play(test)


def test_what_fails_for_long_is_tried_seldom_and_counted(play: Callable[..., None]) -> None:
    async def test(scene: Scene) -> None:
        scene.mover.fails = [RequestTimedOutError() for _ in range(1_000)]
        scene.partition.put((0, b"a"))
        await asyncio.sleep(60)
        assert 5 < scene.troubles.total < 20
        scene.mover.fails = []
        await asyncio.sleep(11)
        assert scene.mover.moved == [b"a"]

    play(test)


def test_the_rest_of_a_lost_transaction_is_passed_over_and_nothing_else(
    play: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    read, marker = scheduler_run.read_committed, 2

    def losing(partition: Any, offset: int, max_bytes: int, *, skips_lost: bool = False) -> Found:
        """As if offset 0 belonged to a transaction that lost records, whose marker lies behind all of these."""
        found = read(partition, offset, max_bytes)
        if offset > 0:
            return found
        if not skips_lost:
            return Found([], offset, TransactionDataLossError(marker_offset=marker))
        return found._replace(batches=[item for item in found.batches if item[0].base_offset])

    monkeypatch.setattr(scheduler_run, "read_committed", losing)

    def before(partition: WaitingPartition) -> None:
        for value in (b"lost", b"of another one", b"marker"):
            partition.put((0, value))

    async def test(scene: Scene) -> None:
        await asyncio.sleep(1)
        assert scene.mover.moved == [b"of another one", b"marker"]

    play(test, before)


def test_the_wait_for_an_open_transaction_does_not_spin(
    play: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = 0
    visible_end = scheduler_run.visible_end

    def before(partition: WaitingPartition) -> None:
        def counted(_partition: Any) -> int:
            nonlocal looks
            looks += 1
            return 1  # the second record belongs to a transaction that is open when the run begins

        monkeypatch.setattr(scheduler_run, "visible_end", counted)
        monkeypatch.setattr(scheduler_run, "read_committed", _up_to(scheduler_run.read_committed, 1))
        partition.put((0, b"due"))
        partition.put((0, b"open"))

    async def test(scene: Scene) -> None:
        await asyncio.sleep(10)
        assert looks < 100
        monkeypatch.setattr(scheduler_run, "visible_end", visible_end)

    play(test, before)
