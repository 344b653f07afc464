"""One channel on this broker, over all partitions that it leads: its workers, and the requests with which they wait.

Rule 1: workers that wait are served in turn, each with its fair share of what is there, and never beyond its room.
Rule 2: one request of a worker for a partition waits at a time: a newer one answers the older one, with nothing.
Rule 3: who waits is looked at when something has happened, once for all that happened in a turn of the loop. While no
        request with room waits, no partition is watched.
Rule 4: a worker that is not heard of has left: what it holds is given back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from oncelog_partition_leader.core.channels.workers import Workers, worker_timeout_ms
from oncelog_partition_leader.partition.channels.answering import Given
from oncelog_partition_leader.partition.channels.led_channel import LedChannel, Surroundings
from oncelog_partition_leader.partition.channels.totals import Totals
from oncelog_runtime.metadata.channel_values import Channel


class Standing:
    """A request of a worker that waits for records. `answer` gets them; nothing = look again, or another one replaces it."""

    __slots__ = ("answer", "given_ms", "led", "max_bytes", "max_in_flight", "worker_id")

    def __init__(self, worker_id: str, led: Iterable[LedChannel], max_in_flight: int, max_bytes: int) -> None:
        self.worker_id = worker_id
        self.led = dict.fromkeys(led)
        self.max_in_flight = max_in_flight
        self.max_bytes = max_bytes
        self.given_ms = 0
        """When it got its records: their deadlines count from then."""
        self.answer: asyncio.Future[list[Given]] = asyncio.get_running_loop().create_future()

    async def wait(self, timeout_ms: float) -> list[Given] | None:
        """Returns what it was given, or None after that time. A wait that ends without an answer can get none any more."""
        try:
            async with asyncio.timeout(max(timeout_ms, 0) / 1000):
                return await self.answer
        except TimeoutError:
            return self.given

    @property
    def given(self) -> list[Given] | None:
        """The records that it was given, also in the moment in which its wait ended; None: there are none."""
        return self.answer.result() if self.answer.done() and not self.answer.cancelled() else None

    def give(self, given: list[Given]) -> None:
        """Answers it, unless its caller has gone."""
        if not self.answer.done():
            self.answer.set_result(given)


class SharedChannel:
    """See the module. One per channel and broker, while a partition of its topic is led here."""

    def __init__(
        self, channel: Channel, topic: str, around: Surroundings, deserted: Callable[[SharedChannel], None]
    ) -> None:
        self.channel = channel
        self.topic = topic
        self.led: dict[int, LedChannel] = {}
        """By partition."""
        self.workers = Workers()
        self.totals = Totals()
        self.began_ms = self.quiet_since_ms = around.clock.monotonic_ms()
        """When its last worker here left; the beginning of it all when there was none. `began_ms`: when it began here, on
        partition 0 if that is led here.
        """
        self._around = around
        self._deserted = deserted
        self._line: dict[Standing, None] = {}
        self._scheduled = False
        self._silence: asyncio.TimerHandle | None = None
        self._turn = 0

    # ------------------------------------------------------------ partitions

    def add(self, led: LedChannel) -> None:
        """Takes in a partition that is led from now on."""
        self.led[led.place.partition] = led
        if led.place.partition == 0:
            self.began_ms = self._now_ms()
        self._deserted(self)

    def remove(self, led: LedChannel) -> None:
        """Drops a partition whose leadership has ended; requests that wait for it are answered."""
        if self.led.get(led.place.partition) is led:
            del self.led[led.place.partition]
        self.totals.retire(led.counts())
        for standing in [standing for standing in self._line if led in standing.led]:
            self._line.pop(standing, None)
            standing.give([])

    def close(self) -> None:
        """Ends it: no partition of the topic is led here any more, or the channel is gone."""
        if self._silence is not None:
            self._silence.cancel()
            self._silence = None

    # ------------------------------------------------------------ workers

    def heard(self, worker_id: str, client: str) -> None:
        """Notes a request of a worker. Raises `ResourceExhaustedError` when there are too many."""
        self.workers.heard(worker_id, client, self._now_ms())
        self._watch_silence()

    def left(self, worker_id: str, *, released: bool) -> None:
        """Gives back what a worker holds. `released`: it said so itself, and these deliveries do not count."""
        if self.workers.left(worker_id) and not len(self.workers):
            self.quiet_since_ms = self._now_ms()
            self._deserted(self)
        self.dismiss(worker_id)
        for led in list(self.led.values()):
            if led.has_begun:
                led.delivery.worker_left(worker_id, self._now_ms(), released=released)
                led.changed()

    def dismiss(self, worker_id: str) -> None:
        """Answers the requests of a worker that wait, with nothing: it takes no record any more."""
        for standing in [standing for standing in self._line if standing.worker_id == worker_id]:
            self._line.pop(standing, None)
            standing.give([])

    def in_flight_of(self, worker_id: str) -> int:
        """Returns how many records the worker holds at this broker."""
        return sum(led.delivery.in_flight_of(worker_id) for led in self.led.values() if led.has_begun)

    def _watch_silence(self) -> None:
        due_ms = self.workers.next_silence_ms(worker_timeout_ms(self.channel.options))
        if due_ms is None or self._silence is not None:
            return  # a timer that is early looks again
        delay_s = max(due_ms - self._now_ms(), 1) / 1000
        self._silence = asyncio.get_running_loop().call_later(delay_s, self._look_for_silence)

    def _look_for_silence(self) -> None:
        self._silence = None
        self._around.doubts.look()
        for worker_id in self.workers.silent(self._now_ms(), worker_timeout_ms(self.channel.options)):
            self.left(worker_id, released=False)
        self._watch_silence()

    # ------------------------------------------------------------ requests that wait

    def stand(self, standing: Standing) -> None:
        """Has a request wait; it is looked at now. The worker is known (`heard`). `leave` ends it."""
        for older in [one for one in self._line if one.worker_id == standing.worker_id]:
            if any(led in older.led for led in standing.led):
                self._line.pop(older, None)
                older.give([])
        self.workers.begin(standing.worker_id, standing.max_in_flight, self._now_ms())
        self._line[standing] = None
        self.serve()

    def leave(self, standing: Standing) -> None:
        """Ends the wait of a request: it was answered, or its caller has gone."""
        self._line.pop(standing, None)
        self.workers.end(standing.worker_id, self._now_ms())
        self._watch_silence()

    def wake(self) -> None:
        """Has the requests that wait looked at in the next turn of the loop."""
        if self._line and not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._serve_soon)

    def _serve_soon(self) -> None:
        self._scheduled = False
        try:
            self.serve()
        except Exception as error:  # the next event looks again
            self._around.bugs.met("task", error, "a channel's workers")

    def serve(self) -> None:
        """Gives records to requests that wait, in turn."""
        self._around.doubts.look()
        if not self._line:
            return
        led_here = [led for led in self.led.values() if led.is_open]
        if len(led_here) < len(self.led):
            self._make_sure()
        more = [led for led in led_here if self._fill(led)]
        led_here = [led for led in led_here if led.is_open]
        now_ms = self._now_ms()
        there = {led: count for led in led_here if (count := led.delivery.available(now_ms)) > 0}
        if there:
            self._share_out(there)
        self._tell_losses(led_here)
        if any(self._room(standing) > 0 for standing in self._line):
            for led in [led for led in self.led.values() if led.has_begun]:
                led.watch()
            if more:
                self.wake()

    def _make_sure(self) -> None:
        """Has the coordinator asked about the partitions in doubt that may have something to deliver."""
        for led in self.led.values():
            if led.in_doubt and led.has_unsettled:
                led.make_sure()

    def _fill(self, led: LedChannel) -> bool:
        """Reads on in one partition; a fault there ends the channel there, and the others go on."""
        try:
            return led.fill()
        except Exception as error:
            self._around.bugs.met("task", error, "a channel on a partition")
            led.give_up()
            return False

    def _tell_losses(self, led_here: Iterable[LedChannel]) -> None:
        """Answers requests for a partition on which nothing more can be delivered, so that their workers hear why."""
        lost = [led for led in led_here if led.loss is not None]
        for standing in [standing for standing in self._line if any(led in standing.led for led in lost)]:
            self._line.pop(standing, None)
            standing.give([])

    def _share_out(self, there: dict[LedChannel, int]) -> None:
        """Gives what is `there` to those that have room, in turn."""
        waiting = [standing for standing in self._line if not standing.answer.done()]
        ready = [(standing, room) for standing in waiting if (room := self._room(standing)) > 0]
        for number, (standing, room) in enumerate(ready):
            given = self._give(standing, room, len(ready) - number, there)
            if given:
                self._line.pop(standing, None)
                standing.given_ms = self._now_ms()
                standing.give(given)
            if not there:
                return

    def _room(self, standing: Standing) -> int:
        if not standing.max_in_flight:
            return 0
        return standing.max_in_flight - self.in_flight_of(standing.worker_id)

    def _give(self, standing: Standing, room: int, waiting: int, there: dict[LedChannel, int]) -> list[Given]:
        """Takes records for one request; `waiting`: how many wait, this one included. Lowers the counts of what is `there`."""
        mine = [led for led in standing.led if led in there]
        if not mine:
            return []
        self._turn += 1
        begin = self._turn % len(mine)
        left = min(room, Workers.share(sum(there[led] for led in mine), waiting))
        bytes_left = standing.max_bytes
        given: list[Given] = []
        for led in (*mine[begin:], *mine[:begin]):
            most = min(left, there[led], max(bytes_left // led.record_bytes, 0 if given else 1))
            if most <= 0:
                continue
            taken = led.delivery.take(standing.worker_id, most, self._now_ms())
            count = sum(piece.last - piece.first + 1 for piece in taken)
            there[led] -= count
            if there[led] <= 0 or not count:
                del there[led]
            led.look()  # also when nothing came of it: records that may not be delivered any more have died instead
            if taken:
                given.append(Given(led, taken))
                left -= count
                bytes_left -= count * led.record_bytes
        return given

    def _now_ms(self) -> int:
        return self._around.clock.monotonic_ms()
