"""One channel on one partition, as long as one leadership lasts: the core with all that reads, waits and writes around it.

Rule 1: the code that changes the core calls `changed` in the same turn of the loop: what is to be written, buried or asked for
        begins, the timer is set to what is due next, and workers that wait are looked at.
Rule 2: it ends once (`end`) and is never revived: its tasks are cancelled, and whatever waits gets the error.
Rule 3: nothing runs while nothing happens: one timer at most, and a watch on the partition while workers wait for records.
Rule 4: while it is in doubt whether another broker leads by now (`doubt`), nothing is delivered, and requests wait. The
        coordinator is asked when something is wanted (`make_sure`). When that knows of no newer leader, it goes on as it was:
        what is in flight stays with its workers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from oncelog.errors import (
    CoordinatorNotAvailableError,
    OncelogError,
    StorageError,
    TransactionDataLossError,
)
from oncelog.ports import WallClock
from oncelog_partition_leader.core.channels.delivery import Counts, Delivery
from oncelog_partition_leader.core.channels.settlement import Dead
from oncelog_partition_leader.partition.channels.burials import Burials
from oncelog_partition_leader.partition.channels.coordinator_calls import ChannelCoordinators
from oncelog_partition_leader.partition.channels.dead_letters import LetterWriter
from oncelog_partition_leader.partition.channels.doubts import Doubts
from oncelog_partition_leader.partition.channels.opening import Beginning, Opening
from oncelog_partition_leader.partition.channels.reading.batch_cutting import Unpacked
from oncelog_partition_leader.partition.channels.reading.committed_reading import visible_end
from oncelog_partition_leader.partition.channels.reading.supply import Supply
from oncelog_partition_leader.partition.channels.state_writer import StateWriter
from oncelog_partition_leader.partition.channels.transaction_acks import TransactionAcks
from oncelog_partition_leader.partition.channels.wire_state import ChannelPlace
from oncelog_partition_leader.partition.leadership import Leadership
from oncelog_partition_leader.partition.partition import LocalPartition
from oncelog_runtime.metadata.channel_values import Channel
from oncelog_runtime.process.bugs import Bugs
from oncelog_runtime.process.tasks import TaskOwner

NOTHING = Counts(0, 0, 0, 0, 0, 0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The parts of the broker that channels use, given to them as one object. One per broker."""

    clock: WallClock
    tasks: TaskOwner
    bugs: Bugs
    coordinators: ChannelCoordinators
    unpacked: Unpacked
    letters: LetterWriter
    doubts: Doubts


class LedChannel:
    """See the module. It has many methods, since each request about a channel is one.

    `delivery` is there from when the coordinator has answered (`has_begun`).
    """

    def __init__(
        self,
        around: Surroundings,
        partition: LocalPartition,
        leadership: Leadership,
        channel: Channel,
        *,
        beginning: Beginning,
        news: Callable[[], None],
        ended: Callable[[LedChannel], None],
    ) -> None:
        self.partition = partition
        self.leadership = leadership
        self.channel = channel
        self.place = ChannelPlace(channel.channel_id, *partition.id, leadership.epoch)
        self.ended: OncelogError | None = None
        self.supply: Supply | None = None
        self.writer: StateWriter | None = None
        self.transactions: TransactionAcks | None = None
        self._around = around
        self._news = news
        self._told_end = ended
        self._burials: Burials | None = None
        self._delivery: Delivery | None = None
        self._opened = asyncio.Event()
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0
        self._watches = False
        self._doubted = 0
        """How many reasons there were for doubt since it was certain that this broker leads."""
        self._is_asking = False
        self._opening = Opening(partition, self.place, around.coordinators, around.clock, beginning)
        self._spawn(self._open(), "open")

    # ------------------------------------------------------------ asked

    @property
    def has_begun(self) -> bool:
        """True once the coordinator has answered, until the end."""
        return self._delivery is not None and self.ended is None

    @property
    def is_open(self) -> bool:
        """It has begun, and is not in doubt: it may deliver, and take what workers say."""
        return self._delivery is not None and self.ended is None and not self._doubted

    @property
    def in_doubt(self) -> bool:
        """See rule 4."""
        return self.has_begun and self._doubted > 0

    @property
    def has_unsettled(self) -> bool:
        """There is a record that is not settled, or was not looked at yet. The core's clock is not moved on for this."""
        return self.end_offset > self.delivery.next_offset or self.delivery.counts().depth > 0

    @property
    def delivery(self) -> Delivery:
        """The core; only while it `has_begun`."""
        assert self._delivery is not None, "the coordinator has not answered yet"
        return self._delivery

    @property
    def end_offset(self) -> int:
        """Records before this offset may be delivered."""
        return visible_end(self.partition)

    @property
    def loss(self) -> TransactionDataLossError | None:
        """Why nothing more is delivered, if a transaction lost records."""
        return self.supply.loss if self.supply is not None else None

    @property
    def record_bytes(self) -> int:
        """The size of a record, as read last."""
        return self.supply.record_bytes if self.supply is not None else 1

    def now_ms(self) -> int:
        """Returns the time that the core counts in."""
        return self._around.clock.monotonic_ms()

    def counts(self) -> Counts:
        """Returns the core's counts; `depth` counts the offsets that were not looked at too."""
        if self._delivery is None:
            return NOTHING
        self.skip_deleted()
        counts = self._delivery.describe(self.now_ms()) if self.is_open else self._delivery.counts()
        beyond = self._delivery.unsettled_between(self._delivery.next_offset, self.end_offset - 1)
        return counts._replace(depth=counts.depth + beyond)

    async def opened(self, timeout_ms: float) -> None:
        """Returns when the channel is open here (`is_open`), and has the coordinator asked if it is in doubt.

        Raises why it ended, or `CoordinatorNotAvailableError`.
        """
        try:
            async with asyncio.timeout(max(timeout_ms, 0) / 1000):
                while self.ended is None and not self.is_open:
                    self.make_sure()
                    await self._opened.wait()
        except TimeoutError:
            raise CoordinatorNotAvailableError(
                "the state of the channel is not read yet", cause=self._opening.trouble
            ) from None
        if self.ended is not None:
            raise self.ended

    # ------------------------------------------------------------ changes

    def changed(self) -> None:
        """See rule 1."""
        self.look()
        self._news()

    def look(self) -> None:
        """Does what `changed` does, for a change that gives waiting workers nothing."""
        if not self.is_open:
            return
        assert self.writer is not None
        assert self._burials is not None
        self.writer.look()
        self._burials.look()
        self._set_timer()

    async def buried(self, offsets: Iterable[int], timeout_ms: float) -> None:
        """Returns when none of these records waits for its dead letter any more. Raises as `Burials.written`."""
        if self.ended is not None:
            raise self.ended
        assert self._burials is not None
        await self._burials.written(offsets, timeout_ms)

    def configure(self, channel: Channel) -> None:
        """Puts options and the pause in force."""
        before, self.channel = self.channel, channel
        if before == channel:
            return
        if not self.is_open:
            self._news()  # in doubt: workers that wait may get something by it, and have the coordinator asked
            return
        self.delivery.configure(channel.options)
        if before.paused != channel.paused:
            self.delivery.pause(channel.paused)
        self.changed()

    def fill(self) -> bool:
        """Reads on for workers that wait. Returns True when it is worth while to call again soon."""
        if not self.is_open or self.supply is None:
            return False
        before = self.delivery.next_offset
        try:
            more = self.supply.fill(self.now_ms())
        except StorageError:
            return False  # the leadership ends with its log, or the next reader meets the error again
        if self.delivery.next_offset != before:
            self.look()
        return more

    def skip_deleted(self) -> None:
        """Settles what retention has deleted."""
        if self.is_open and self.supply is not None:
            self.supply.skip_deleted()

    def watch(self) -> None:
        """Wakes the workers that wait, once, when the partition has more for readers."""
        if self.ended is None and not self._watches:
            self._watches = True
            self.partition.watch(self)

    def wake(self) -> None:
        """Is called by the partition when its readable offsets have changed (`watch`)."""
        self._watches = False
        self._news()

    def end(self, error: OncelogError) -> None:
        """See rule 2."""
        if self.ended is not None:
            return
        self.ended = error
        self.partition.unwatch(self)
        if self._timer is not None:
            self._timer.cancel()
        if self.writer is not None:
            self.writer.end(error)
        if self.transactions is not None:
            self.transactions.end(error)
        if self._burials is not None:
            self._burials.end(error)
        for task in list(self._tasks):
            task.cancel()
        self._opened.set()
        self._told_end(self)
        self._news()

    def give_up(self) -> None:
        """Ends it after a fault; the host opens it again, and reads what is durable."""
        self.end(CoordinatorNotAvailableError("the channel is opened again here after a fault"))

    def doubt(self, *, stood_still: bool) -> None:
        """Another broker may lead by now: see rule 4. After a standstill the answers of before prove nothing: who has not begun
        begins once more, and a question that is under way is asked once more.
        """
        if self._delivery is None:
            if stood_still:
                self.give_up()
        elif stood_still or not self._doubted:
            self._doubted += 1
            self._opened.clear()

    def make_sure(self) -> None:
        """In doubt, has the coordinator asked; otherwise does nothing. May be called repeatedly."""
        if self.in_doubt and not self._is_asking:
            self._is_asking = True
            self._spawn(self._ask(), "ask")

    # ------------------------------------------------------------ inside

    async def _ask(self) -> None:
        """Until an answer counts: this process did not stand still after the question, and the answer was quick enough."""
        asked, asked_ms = 0, 0
        try:
            while asked < self._doubted or not self._around.doubts.still_counts(asked_ms):
                asked, asked_ms = self._doubted, self.now_ms()
                if not await self._opening.confirm(self.delivery):
                    self.give_up()
                    return
        except OncelogError as error:
            self.end(error)
            return
        self._doubted, self._is_asking = 0, False
        self._go_on()

    async def _open(self) -> None:
        try:
            delivery = await self._opening.delivery(self.channel)
        except OncelogError as error:
            self.end(error)
            return
        around = self._around
        clock, coordinators = around.clock, around.coordinators
        self.writer = StateWriter(self.place, delivery, coordinators, clock, self._spawn, self._fenced, self.changed)
        self.transactions = TransactionAcks(
            self.place, delivery, coordinators, clock, self._spawn, self._fenced, self.changed
        )
        bury = partial(self._bury, around.letters)
        self._burials = Burials(delivery, bury, clock, self._spawn, self.changed)
        by_key = self.channel.options.order_by_key
        self.supply = Supply(self.partition, delivery, around.unpacked, self._spawn, self.changed, by_key=by_key)
        self._delivery = delivery
        self.transactions.look()
        self._go_on()

    def _go_on(self) -> None:
        """It is open from now on, with the options of now."""
        self.delivery.configure(self.channel.options)
        self.delivery.pause(self.channel.paused)
        self._opened.set()
        self.changed()

    async def _bury(self, letters: LetterWriter, dead: Sequence[Dead]) -> None:
        topic = self.channel.options.dead_letter_topic
        if topic:  # an operator may have taken it away meanwhile: then they are dropped
            await letters.bury(self.partition, self.channel.name, topic, dead)

    def _fenced(self, error: OncelogError) -> None:
        self.end(error)

    def _set_timer(self) -> None:
        due_ms = self.delivery.next_deadline_ms()
        if due_ms is None:
            return
        if self._timer is not None:
            if self._timer_ms <= due_ms:
                return
            self._timer.cancel()
        self._timer_ms = due_ms
        delay_s = max(due_ms - self.now_ms(), 0) / 1000
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._tick)

    def _tick(self) -> None:
        self._timer = None
        self._around.doubts.look()
        self.make_sure()
        if not self.is_open:
            return
        try:
            self.delivery.tick(self.now_ms())
            self.changed()
        except Exception as error:  # no later time would be looked at
            self._around.bugs.met("task", error, "the times of a channel")
            self.give_up()

    def _spawn(self, work: Coroutine[object, None, None], what: str) -> None:
        name = f"channel {self.channel.name} on {self.partition.topic}-{self.place.partition}: {what}"
        task = self._around.tasks.spawn(work, name)
        self._tasks[task] = None
        task.add_done_callback(self._ended_task)

    def _ended_task(self, task: asyncio.Task[None]) -> None:
        """Notes the end of a task. After a bug this channel ends, and the host opens another one."""
        self._tasks.pop(task, None)
        if not task.cancelled() and task.exception() is not None:
            self.give_up()
