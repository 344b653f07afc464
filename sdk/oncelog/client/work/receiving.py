"""Keeps a request for records at every broker that has some for this worker, and puts what comes into its inbox.

Rule 1: what may be asked of whom says `core/work/shares.py`. The next request to a broker is on its way while the caller
        works on what the last one brought.
Rule 2: what passes is tried again and not seen. What does not is raised to a reader, once; a channel or topic that is gone
        ends the worker.
Rule 3: an unknown channel may be a new one of which the broker has not heard. So brokers are asked for it by name before
        it counts as gone.
Rule 4: a record whose deadline has passed counts no more, and neither does one whose partition another broker leads by now.
Rule 5: a request names the partitions that its broker led when it was sent. When a partition comes to a broker where a request
        stands, that request is ended by a newer one that allows nothing, and the next one names them all.
Rule 6: a process that was frozen may have been given up by its brokers, whatever its records' deadlines say: what it has not
        handed out by then is not handed out any more.
Rule 7: a defect of ours ends the worker with an error that says so: no reader waits for records that nothing asks for.
Rule 8: once the worker has ended, what waits in its inbox is given back, since no reader gets it any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Final

from oncelog import errors
from oncelog.client.home.context import Context, now_ms
from oncelog.client.routing.metadata import created_again
from oncelog.client.work.assurance import Assurance
from oncelog.client.work.channel_lookup import ChannelId, ChannelLookup
from oncelog.client.work.inbox import Inbox
from oncelog.client.work.message import ChannelMessage, Settles
from oncelog.client.work.moment import Moment
from oncelog.client.work.partitions import Partitions
from oncelog.client.work.received_records import Answer, AnswerReader, Received
from oncelog.client.work.standstill import STOOD_STILL_MS, Standstill
from oncelog.config import SKIP, WorkerConfig
from oncelog.core.causes import report_this
from oncelog.core.work.deadlines import given_at_ms, is_unheard
from oncelog.core.work.holding import Held, Holding
from oncelog.core.work.message_states import MessageIncident, MessageState
from oncelog.core.work.settlements import Place
from oncelog.core.work.shares import Grant, Shares
from oncelog.trace import tracing
from oncelog.types import Buffer
from oncelog.v1 import channel_pb2 as ch
from oncelog.wire import methods
from oncelog.wire.wire_errors import from_detail

_GRACE_MS: Final = 2_000
"""A broker may hear of a new channel, or topic, a little later than its creator."""
_PULSE_S: Final = 0.25
_LONGEST_ACK_WAIT_MS: Final = 43_200_000
_LEAST_WAIT_MS: Final = 20
"""A broker that answers with nothing at once is not asked again at once."""


class Receiver:
    """See the module. One per worker; its fields are what the worker shares.

    `expire` settles records whose time to live has passed; `release` gives records back;
    its result is there when a broker has answered.
    """

    def __init__(
        self,
        context: Context,
        config: WorkerConfig,
        partitions: Partitions,
        lookup: ChannelLookup,
        topic: str,
        worker_id: str,
    ) -> None:
        self._context = context
        self._config = config
        self._partitions = partitions
        self._lookup = lookup
        self._topic = topic
        self._worker_id = worker_id
        self.shares = Shares(config.max_in_flight)
        self.holding = Holding()
        self.assurance = Assurance()
        self.inbox = Inbox(self._moment, self._is_ours, self._is_sure)
        partitions.tell = self.inbox.tell
        self.expire: Callable[[list[ChannelMessage]], None] = lambda messages: None
        self.release: Callable[[list[ChannelMessage]], asyncio.Future[None]] | None = None
        self.on_taken: Callable[[], None] = lambda: None
        """Called when records have come."""
        self.worker: Settles | None = None
        self.asked: dict[str, None] = {}
        """Every broker that knows this worker."""
        self._background = tracing.background(context.tracer)
        self._tasks: dict[asyncio.Task[None], str] = {}
        self._empty: dict[str, asyncio.Task[None]] = {}  # requests that allow nothing, by broker
        self._named: dict[str, list[int]] = {}  # the partitions of the request that stands, by broker
        self._timer: asyncio.TimerHandle | None = None
        self._pulses: asyncio.TimerHandle | None = None
        self.seen_ms = 0
        """When this worker looked at its clock last: as it handed out a record, or between."""
        self._shortest_ack_wait_ms = _LONGEST_ACK_WAIT_MS
        """No record that ever came had a shorter one."""
        self._is_kicked = False
        self._is_closed = False
        self._is_checking = False
        self._outdated: list[Held] = []
        self._known_until_ms = 0

    def begin(self, channel: ChannelId, worker: Settles) -> None:
        """Asks for records of this channel from now on."""
        self.channel = channel
        self.worker = worker
        self._reader = AnswerReader(self._topic, channel.topic_id, self._config)
        self._standstill = Standstill(self._topic, channel.channel)
        self._known_until_ms = now_ms() + _GRACE_MS
        self.seen_ms = now_ms()
        self._pulse()
        self.kick()

    def kick(self) -> None:
        """Something changed: looks whom to ask for what."""
        if not self._is_kicked and not self._is_closed:
            self._is_kicked = True
            asyncio.get_running_loop().call_soon(self._look)

    async def stop(self) -> None:
        """Asks for nothing more. What is on its way is given back by the worker's farewell."""
        self._is_closed = True
        for timer in (self._timer, self._pulses):
            if timer is not None:
                timer.cancel()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    # ------------------------------------------------------------ asking

    def _look(self) -> None:
        self._is_kicked = False
        if self._is_closed:
            return
        try:
            self._ask_whom_it_may()
        except Exception as defect:
            self._crashed(defect)

    def _ask_whom_it_may(self) -> None:
        if self._partitions.is_created_again:
            self._end(created_again(self._topic, advice="its channels are gone with the old one"))
            return
        self._sweep()
        leaders = self._partitions.by_leader()
        self.shares.set_brokers(leaders)
        for grant in self.shares.next_grants():
            self._start(grant, leaders[grant.broker])
        for broker, partitions in leaders.items():
            named = self._named.get(broker, partitions)
            if named != partitions and not {*partitions} <= {*named}:
                self._renew(broker)
        self._set_timer()

    def _set_timer(self) -> None:
        due = [self._partitions.look_again_at_ms(), self.holding.next_deadline_ms()]
        if self._timer is not None:
            self._timer.cancel()
        wait_ms = max(1, min(at for at in due if at is not None) - now_ms() + 1)
        self._timer = asyncio.get_running_loop().call_later(wait_ms / 1000, self.kick)

    def _start(self, grant: Grant, partitions: list[int]) -> None:
        standing = self._empty.pop(grant.broker, None)
        if standing is not None:
            standing.cancel()
        self.shares.asked(grant)
        self.asked[grant.broker] = None
        self._named[grant.broker] = partitions
        task = self._spawn(self._ask(grant, partitions), grant.broker)
        if grant.max_in_flight == 0:
            self._empty[grant.broker] = task

    def _spawn(self, work: Coroutine[object, None, None], broker: str = "") -> asyncio.Task[None]:
        background = None if self._background is None else self._background.copy()
        task = asyncio.get_running_loop().create_task(work, name="oncelog-receive", context=background)
        self._tasks[task] = broker
        task.add_done_callback(self._done)
        return task

    def _renew(self, broker: str) -> None:
        """Rule 5."""
        partitions = self._named.pop(broker)

        async def end() -> None:
            try:
                await self._call(Grant(broker, 0, 0), partitions)
            except errors.OncelogError:
                pass  # the request that stands there meets it too

        self._spawn(end())

    def _done(self, task: asyncio.Task[None]) -> None:
        broker = self._tasks.pop(task)
        if self._empty.get(broker) is task:
            del self._empty[broker]
        if broker not in self._tasks.values():
            self._named.pop(broker, None)
        if not task.cancelled() and (defect := task.exception()) is not None:
            self._crashed(defect)
        self.kick()

    async def _call(self, grant: Grant, partitions: list[int]) -> tuple[ch.ReceiveReply, Buffer]:
        request = ch.ReceiveRequest(
            topic_id=self.channel.topic_id,
            channel=self.channel.channel,
            channel_id=self.channel.channel_id,
            worker_id=self._worker_id,
            partitions=partitions,
            max_in_flight=grant.max_in_flight,
            max_bytes=self._config.max_bytes,
            max_wait_ms=grant.wait_ms,
        )
        timeout_ms = grant.wait_ms + self._context.config.request_timeout_ms
        return await methods.RECEIVE.call(self._context.transport, grant.broker, request, timeout_ms)

    async def _ask(self, grant: Grant, partitions: list[int]) -> None:
        asked_ms = now_ms()
        try:
            reply, payload = await self._call(grant, partitions)
            answer = self._reader.read(reply, payload, self._context.clock.now_ms())
        except errors.OncelogError as error:
            self.shares.answered(grant.broker, 0)
            self._failed(partitions, error)
            return
        if not reply.records and not reply.errors and now_ms() - asked_ms < _LEAST_WAIT_MS:
            await asyncio.sleep(_LEAST_WAIT_MS / 1000)
        self._take(grant.broker, answer, given_at_ms(now_ms(), asked_ms, reply.waited_ms))
        self._note(partitions, reply)

    def _note(self, partitions: list[int], reply: ch.ReceiveReply) -> None:
        """Which of the partitions were answered for."""
        refused = {item.partition.partition: from_detail(item.error) for item in reply.errors}
        self._partitions.worked(number for number in partitions if number not in refused)
        for number, error in refused.items():
            self._failed([number], error)

    # ------------------------------------------------------------ what has come

    def _take(self, broker: str, answer: Answer, given_ms: int) -> None:
        messages = self.took(broker, answer.records, given_ms)
        self.shares.answered(broker, len(messages))
        self.strike_off_outdated()
        if self._config.expired == SKIP:
            late = [m for m, item in zip(messages, answer.records, strict=True) if item.is_expired]
            messages = [m for m, item in zip(messages, answer.records, strict=True) if not item.is_expired]
            if late:
                self.expire(late)
        if messages:
            self.inbox.put(messages)
        if answer.error is not None:
            self.inbox.tell(answer.error)
        if self._is_closed:  # it ended while this request was under way
            self._return_rest()

    def took(self, broker: str, records: list[Received], given_ms: int) -> list[ChannelMessage]:
        """These are the worker's since `given_ms`. The caller adds them to the broker's account."""
        assert self.worker is not None
        found = []
        for item in records:
            record = item.record
            self._shortest_ack_wait_ms = min(self._shortest_ack_wait_ms, item.ack_wait_ms)
            place = Place(record.partition, record.offset, item.delivery, item.leader_epoch)
            held = Held(place, broker, given_ms, item.ack_wait_ms, item.leader_epoch)
            earlier = self.holding.add(held)
            if earlier is not None:
                self._outdated.append(earlier)
            found.append(ChannelMessage(record, held, self.worker, self._config))
        if found:
            self.on_taken()
        return found

    def claimed(self, broker: str, reply: ch.ReceiveReply, payload: Buffer, asked_ms: int) -> list[ChannelMessage]:
        """Returns what was taken from other workers by a caller who asked at `asked_ms`. Raises why there is nothing."""
        answer = self._reader.read(reply, payload, self._context.clock.now_ms())
        messages = self.took(broker, answer.records, given_at_ms(now_ms(), asked_ms, reply.waited_ms))
        self.shares.took(broker, len(messages))
        self.strike_off_outdated()
        for message in messages:
            message._held.moves(MessageIncident.HANDED_OUT)
        if answer.error is not None and not messages:
            raise answer.error
        if reply.errors and not messages:
            raise from_detail(reply.errors[0].error)
        return messages

    def strike_off_outdated(self) -> None:
        """Earlier deliveries of records that have come again count no more."""
        outdated, self._outdated = self._outdated, []
        for held in outdated:
            self.shares.let_go(held.broker)

    def over(self, held: Held) -> None:
        """The worker holds it no more."""
        if self.holding.remove(held):
            self.shares.let_go(held.broker)
            self.kick()

    def _sweep(self) -> None:
        """Rule 4."""
        for held in self.holding.passed(now_ms()):
            self.shares.let_go(held.broker)

    def _moment(self) -> Moment:
        """Returns the time and the leaders for a step over many messages, after a look for a freeze (rule 6)."""
        self._look_at_clock()
        return self._partitions.moment()

    def _is_ours(self, message: ChannelMessage, moment: Moment) -> bool:
        """Rule 4."""
        held = message._held
        if held.until_ms > moment.now_ms and moment.leader(message.partition) in ("", held.broker):
            return True
        held.moves(MessageIncident.TAKEN_AWAY)
        self.over(held)
        return False

    def _is_sure(self, message: ChannelMessage, moment: Moment) -> bool:
        return self.assurance.is_sure(message._held, moment) and moment.leader(message.partition) != ""

    def _look_at_clock(self) -> None:
        """Rule 6."""
        now, seen = now_ms(), self.seen_ms
        self.seen_ms = now
        if now - seen > STOOD_STILL_MS:
            self._standstill.noted(now, now - seen, len(self.holding))
        if not is_unheard(now, seen, self._shortest_ack_wait_ms):
            return  # of no record: a reader asks this at each step, so it must not look at all of them
        for held in [one for one in self.holding if is_unheard(now, seen, one.ack_wait_ms)]:
            if held.state is MessageState.WAITING:
                held.moves(MessageIncident.TAKEN_AWAY)
                self.over(held)

    def _pulse(self) -> None:
        self._look_at_clock()
        self._pulses = asyncio.get_running_loop().call_later(_PULSE_S, self._pulse)

    # ------------------------------------------------------------ failures

    def _failed(self, partitions: list[int], error: errors.OncelogError) -> None:
        """Rule 2."""
        self._partitions.failed(partitions, error)
        if isinstance(error, errors.UnknownChannelError | errors.UnknownTopicError):
            if now_ms() >= self._known_until_ms and not self._is_checking:
                self._check_channel(error)
        elif not error.retriable:
            self._partitions.complain(partitions[0], error)

    def _check_channel(self, error: errors.OncelogError) -> None:
        """Rule 3."""
        self._is_checking = True

        async def look() -> None:
            try:
                if not await self._lookup.is_there(self.channel):
                    self._end(error)
            except errors.OncelogError:
                pass  # no broker answers: it is looked for again with the next failure
            finally:
                self._is_checking = False

        self._spawn(look())

    def _crashed(self, defect: BaseException) -> None:
        """Rule 7."""
        self._end(report_this("the worker failed, and asks for nothing more: close it, make a new one", defect))

    def _end(self, error: errors.OncelogError) -> None:
        """Nothing comes any more."""
        self._is_closed = True
        self.inbox.tell(error, is_fatal=True)
        self._return_rest()

    def _return_rest(self) -> None:
        """Rule 8. What a broker refuses to take back comes again by itself."""
        rest = [message for message in self.inbox.take_all() if message._held.is_open]
        if rest and self.release is not None:
            self.release(rest).add_done_callback(lambda _: self._forget(rest))

    def _forget(self, messages: list[ChannelMessage]) -> None:
        for message in messages:
            message._held.moves(MessageIncident.TAKEN_AWAY)
            self.over(message._held)
