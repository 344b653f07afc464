"""Sends settlements to brokers, and wakes the callers when they are confirmed.

Rule 1: what waits for a broker goes in one call, at once: no timer. Meanwhile the next words gather. Rejections have calls of
        their own: they are answered when their dead letters are written, and nothing else waits for that. So have touches,
        which have to be in time while acknowledgements wait for a coordinator.
Rule 2: a call whose outcome is not known is repeated until `default_api_timeout_ms`: the broker knows a copy by its
        records, which are settled then. Where the leader has changed, only acknowledgements go to the new one
        (`judge_at_new_leader`).
Rule 3: a word ends once: done, refused with its reason, or unknown. Records that are not this worker's any more are a
        `NotOwnerError`, and their worker's account is closed.
Rule 4: a defect of ours that a call, or its answer, meets ends the words of that call as unknown, with an error that says so;
        one that a word meets before it goes ends that one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Final, NamedTuple

from oncelog import errors
from oncelog.client.home.context import Context, now_ms
from oncelog.client.work.channel_lookup import ChannelId
from oncelog.client.work.moment import Moment
from oncelog.client.work.partitions import Partitions
from oncelog.core.causes import for_caller
from oncelog.core.work.holding import Held, Holding
from oncelog.core.work.message_states import MessageIncident, MessageState
from oncelog.core.work.settlements import (
    ACK,
    MOST_RECORDS,
    Fate,
    Item,
    Place,
    Refusal,
    Said,
    Verdict,
    items_of,
    judge,
    judge_at_new_leader,
    refusals_of,
)
from oncelog.trace.trace_context import TRACEPARENT
from oncelog.trace.tracing import work_for
from oncelog.v1 import channel_pb2 as ch
from oncelog.v1 import coordinator_pb2 as co
from oncelog.wire import methods
from oncelog.wire.wire_errors import from_detail

_MOST_CALLS: Final = 4
"""The most calls that are under way to one broker, and as many more with touches, and with rejections."""
_ALONE: Final = (Verdict.TOUCH, Verdict.REJECT)
"""Rule 1."""
_BEGUN: Final = Said(Verdict.NACK, delay_ms=0)
_NOT_BEGUN: Final = Said(Verdict.RELEASE)
"""The words with which a worker that ends gives back what it holds."""
_FINAL: Final = (Verdict.ACK, Verdict.REJECT)
"""The words after which a record never comes again."""
_NOT_KNOWN: Final = "no broker confirmed it in time: whether it is settled is not known; say it again"
_DEFECT: Final = "a defect of ours: it may be settled, say it again, and `NotOwnerError` may mean that it is"


class _Lane(NamedTuple):
    """Calls that wait for each other: so many of them are under way at once."""

    address: str
    alone: Verdict | None
    """The only verdict of its calls; None: all that have no lane of their own."""


class _Waiting:
    """A caller who waits for the fate of some words."""

    __slots__ = ("error", "future", "left")

    def __init__(self, left: int) -> None:
        self.left = left
        self.error: errors.OncelogError | None = None
        self.future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.future.add_done_callback(_looked_at)

    def ended(self, error: errors.OncelogError | None) -> None:
        """One of them."""
        self.left -= 1
        self.error = self.error or error
        if self.left or self.future.done():
            return
        if self.error is None:
            self.future.set_result(None)
        else:
            self.future.set_exception(self.error)


def _looked_at(done: asyncio.Future[None]) -> None:
    """Keeps asyncio from reporting a failure for which no caller waits."""
    if not done.cancelled():
        done.exception()


class _Word:
    """One record's, on its way."""

    __slots__ = ("deadline_ms", "held", "is_over", "may_be_copy", "said", "trace", "waiting")

    def __init__(self, held: Held, said: Said, waiting: _Waiting, deadline_ms: int, trace: str) -> None:
        self.held = held
        self.said = said
        self.waiting = waiting
        self.deadline_ms = deadline_ms
        self.trace = trace
        """The context of the span to which its calls belong; empty: none is traced."""
        self.may_be_copy = held.is_doubtful and said.verdict in _FINAL
        self.is_over = False

    def ended(self, error: errors.OncelogError | None) -> None:
        """Tells its caller."""
        self.is_over = True
        self.waiting.ended(error)


def _lane_of(word: _Word, moment: Moment) -> _Lane:
    verdict = word.said.verdict
    return _Lane(moment.leader(word.held.place.partition), verdict if verdict in _ALONE else None)


class Settler:
    """See the module. One per worker; it has many methods, since each verdict has one.

    `over` closes the account of a record that the worker holds no more.
    """

    def __init__(
        self, context: Context, partitions: Partitions, holding: Holding, worker_id: str, over: Callable[[Held], None]
    ) -> None:
        self._context = context
        self._partitions = partitions
        self._holding = holding
        self._worker_id = worker_id
        self._over = over
        self.on_refused: Callable[[], None] = lambda: None
        """Called when a settlement failed, and its record is still the caller's."""
        self._is_traced = context.tracer is not None
        self._queue: list[_Word] = []
        self._under_way = 0
        self._attempts = 0
        self._calls: dict[_Lane, int] = {}
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._is_kicked = False
        self._retry: asyncio.TimerHandle | None = None
        self._idle = asyncio.Event()
        self._idle.set()

    def begin(self, channel: ChannelId) -> None:
        """Settles records of this channel."""
        self._channel = channel

    # ------------------------------------------------------------ what is said

    def say(self, records: list[Held], said: Said) -> asyncio.Future[None]:
        """Says this about all of them. The result is there when every broker has confirmed it; it raises the first failure.

        One that was lost is such a failure. Raises `IllegalStateError`, and says nothing, when one of them is settled already.
        """
        if len(records) > 1:
            records = list(dict.fromkeys(records))
        for held in records:
            if held.state is not MessageState.LOST:
                _check_open(held)
        deadline_ms = self._context.deadline_ms()
        waiting = _Waiting(len(records))
        trace = TRACEPARENT.get() if self._is_traced else ""
        for held in records:
            if held.state is MessageState.LOST:
                waiting.ended(_not_owner(held.place))
                continue
            _note(held, said)
            self._queue.append(_Word(held, said, waiting, deadline_ms, trace))
        if not records:
            waiting.future.set_result(None)
        self._kick()
        return waiting.future

    def _kick(self) -> None:
        if self._queue and not self._is_kicked:
            self._is_kicked = True
            self._idle.clear()
            asyncio.get_running_loop().call_soon(self._flush)

    async def drained(self, timeout_ms: int) -> None:
        """Returns when nothing waits and nothing is on its way, or after this long."""
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await self._idle.wait()
        except TimeoutError:
            pass

    async def stop(self) -> None:
        """Sends nothing more. Words whose outcome is not known end so."""
        if self._retry is not None:
            self._retry.cancel()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        words, self._queue = self._queue, []
        self._end_all(words, errors.IllegalStateError(f"the worker was closed: {_NOT_KNOWN}"))

    # ------------------------------------------------------------ calls

    def _flush(self) -> None:
        """Sends what may go. Rules 1 and 4."""
        self._is_kicked = False
        waiting, self._queue = self._queue, []
        for lane, words in self._chosen(waiting).items():
            self._start(lane, words)
        self._look_idle()

    def _chosen(self, waiting: list[_Word]) -> dict[_Lane, list[_Word]]:
        """Returns what may go where now; the rest waits."""
        rest: list[_Word] = []
        chosen: dict[_Lane, list[_Word]] = {}
        moment = self._partitions.moment()
        is_leaderless = False
        for word in waiting:
            try:
                if self._is_over_by_new_leader(word, moment) or self._is_given_up(word, moment):
                    continue
            except Exception as defect:
                if not word.is_over:
                    self._end(word, for_caller(_DEFECT, defect))
                continue
            lane = _lane_of(word, moment)
            is_leaderless = is_leaderless or not lane.address
            has_room = self._calls.get(lane, 0) < _MOST_CALLS and len(chosen.get(lane, ())) < MOST_RECORDS
            if lane.address and has_room:
                chosen.setdefault(lane, []).append(word)
            else:
                rest.append(word)
        if is_leaderless and self._retry is None:
            self._try_later([], errors.LeaderNotAvailableError())
        self._queue = [*rest, *self._queue]
        return chosen

    def _is_over_by_new_leader(self, word: _Word, moment: Moment) -> bool:
        """Rule 2."""
        held, partition = word.held, word.held.place.partition
        if not moment.leader(partition) or moment.leader_epoch(partition) <= held.leader_epoch:
            return False  # metadata may be older than the record: an epoch may be raised for a leader that stays
        fate = judge_at_new_leader(word.said)
        if fate is Fate.DONE:
            self._done_with(word, moment.now_ms)
        elif fate is Fate.NOT_OURS:
            self._not_ours(word)
        return fate is not None

    def _is_given_up(self, word: _Word, moment: Moment) -> bool:
        """Rule 2, of a word whose partition has had no leader for all of its time."""
        partition = word.held.place.partition
        if word.deadline_ms > moment.now_ms or moment.leader(partition):
            return False
        self._end(word, errors.LeaderNotAvailableError(_NOT_KNOWN, partition=partition))
        return True

    def _start(self, lane: _Lane, words: list[_Word]) -> None:
        self._calls[lane] = self._calls.get(lane, 0) + 1
        self._under_way += 1
        task = asyncio.get_running_loop().create_task(self._send(lane.address, words), name="oncelog-settle")
        self._tasks[task] = None
        task.add_done_callback(lambda done: self._done(lane, done))

    def _done(self, lane: _Lane, task: asyncio.Task[None]) -> None:
        self._tasks.pop(task, None)
        self._calls[lane] -= 1
        self._under_way -= 1
        if self._retry is None:
            self._kick()
        self._look_idle()
        if not task.cancelled():
            task.result()  # a defect of ours goes to the loop's exception handler

    def _look_idle(self) -> None:
        if not self._queue and not self._under_way:
            self._idle.set()

    async def _send(self, address: str, words: list[_Word]) -> None:
        deadline_ms = max(word.deadline_ms for word in words)
        sent_ms = now_ms()
        if self._is_traced:
            work_for([word.trace for word in words])
        try:
            items = items_of((word.held.place, word.said) for word in words)
            reply = await self._call(address, [_item(item) for item in items], deadline_ms)
        except asyncio.CancelledError:
            self._end_all(words, errors.IllegalStateError(f"the worker was closed: {_NOT_KNOWN}"))
            raise
        except Exception as error:
            if isinstance(error, errors.OncelogError) and error.retriable:
                self._try_later(words, error)
            else:
                self._end_all(words, for_caller(_DEFECT, error))
            return
        self._attempts = 0
        try:
            self._read(words, reply, sent_ms)
        except Exception as defect:
            kept = set(self._queue)  # are tried again
            self._end_all((word for word in words if not (word.is_over or word in kept)), for_caller(_DEFECT, defect))

    async def _call(self, address: str, items: list[ch.Settlement], deadline_ms: int, **more: Any) -> ch.SettleReply:
        request = ch.SettleRequest(
            topic_id=self._channel.topic_id,
            channel=self._channel.channel,
            channel_id=self._channel.channel_id,
            worker_id=self._worker_id,
            items=items,
            **more,
        )
        timeout_ms = self._context.call_timeout_ms(deadline_ms)
        reply, _ = await methods.SETTLE.call(self._context.transport, address, request, timeout_ms)
        return reply

    def _read(self, words: list[_Word], reply: ch.SettleReply, sent_ms: int) -> None:
        why = {_refusal(item): item.error for item in reversed(reply.errors)}
        refused = refusals_of((word.held.place for word in words), [*reversed(why)]) if why else {}
        later: list[_Word] = []
        last: errors.OncelogError | None = None
        for word in words:
            refusal = refused.get(word.held.place)
            fate = judge(word.said, refusal, word.may_be_copy)
            if fate is Fate.DONE:
                self._done_with(word, sent_ms)
            elif fate is Fate.NOT_OURS:
                self._not_ours(word)
            elif refusal is not None:
                error = from_detail(why[refusal])
                if error.retriable:
                    later.append(word)
                    last = error
                else:
                    self._end(word, error)
        if last is not None:
            self._try_later(later, last)

    # ------------------------------------------------------------ fates

    def _done_with(self, word: _Word, sent_ms: int) -> None:
        if word.said.verdict is Verdict.TOUCH:
            word.held.is_touched = False
            self._holding.touched(word.held, sent_ms)
        else:
            word.held.moves(MessageIncident.CONFIRMED)
            self._over(word.held)
            if word.said.verdict in _FINAL:
                _drop_copy(word.held, self._holding, self._over)
        word.ended(None)

    def _not_ours(self, word: _Word) -> None:
        word.held.is_touched = False
        if word.said.verdict is not Verdict.TOUCH or not word.held.may_be_settled:
            word.held.moves(MessageIncident.TAKEN_AWAY)  # else its caller may say it again, and learns if it is done
        self._over(word.held)
        word.ended(_not_owner(word.held.place))

    def _end(self, word: _Word, error: errors.OncelogError) -> None:
        """It was not done, or that is not known: the caller may say it again."""
        word.held.is_touched = False
        if word.said.verdict is not Verdict.TOUCH:
            word.held.is_doubtful |= word.said.verdict in _FINAL
            word.held.moves(MessageIncident.REFUSED)
            self.on_refused()
        word.ended(error)

    def _end_all(self, words: Iterable[_Word], error: errors.OncelogError) -> None:
        for word in words:
            self._end(word, error)

    def _try_later(self, words: list[_Word], error: errors.OncelogError) -> None:
        """Rule 2."""
        now = now_ms()
        self._partitions.note(error)
        self._attempts += 1
        for word in words:
            word.may_be_copy = True
        delay_ms = self._context.delay_ms(self._attempts, error.retry_after_ms)
        self._end_all((word for word in words if word.deadline_ms <= now + delay_ms), error)
        self._queue = [*(word for word in words if not word.is_over), *self._queue]
        if self._retry is None:
            self._retry = asyncio.get_running_loop().call_later(delay_ms / 1000, self._again)

    def _again(self) -> None:
        self._retry = None
        self._kick()

    # ------------------------------------------------------------ in a transaction, and at the end

    async def acknowledge_in(self, records: list[Held], name: co.TransactionName) -> None:
        """Acknowledges them all in a transaction. Raises the first failure: then the transaction must not commit, and what is
        still the worker's is touched no more: it comes again.
        """
        records = list(dict.fromkeys(records))
        for held in records:
            held.is_left = True
        for held in records:
            _check_open(held)
        for held in records:
            held.moves(MessageIncident.VERDICT)
        try:
            await self._enter_all(records, name)
        except BaseException:
            for held in records:  # without an outcome it comes again when the transaction has been aborted
                if held.state is MessageState.SETTLING:
                    held.moves(MessageIncident.TAKEN_AWAY)
                    self._over(held)
            raise

    async def _enter_all(self, records: list[Held], name: co.TransactionName) -> None:
        """Tries until each of them has an outcome. Raises the first failure that does not pass in time."""
        deadline_ms = self._context.deadline_ms()
        left, attempt = records, 0
        while left:
            by_leader: dict[str, list[Held]] = {}
            moment = self._partitions.moment()
            for held in left:
                by_leader.setdefault(moment.leader(held.place.partition), []).append(held)
            calls: Iterable[Coroutine[object, None, errors.OncelogError | None]] = (
                self._enter(address, some[i : i + MOST_RECORDS], name, deadline_ms)
                for address, some in by_leader.items()
                for i in range(0, len(some), MOST_RECORDS)
            )
            failed = [error for error in await asyncio.gather(*calls) if error is not None]
            left = [held for held in records if held.state is MessageState.SETTLING]
            attempt += 1
            if not failed:
                continue
            first = next((error for error in failed if not error.retriable), failed[0])
            if not first.retriable:
                raise first
            for place in (held.place for held in records if held.state is MessageState.LOST):
                raise _not_owner(place)  # it came again while the call waited: it is not a part of the transaction
            self._partitions.note(first)
            if not await self._context.pause(attempt, deadline_ms, first.retry_after_ms):
                raise first

    async def _enter(
        self, address: str, records: list[Held], name: co.TransactionName, deadline_ms: int
    ) -> errors.OncelogError | None:
        """Why it failed; None: they are part of the transaction."""
        if not address:
            return errors.LeaderNotAvailableError()
        items = items_of((held.place, ACK) for held in records)
        try:
            reply = await self._call(address, [_item(item) for item in items], deadline_ms, transaction=name)
        except errors.OncelogError as error:
            if not error.retriable:
                for held in records:
                    held.moves(MessageIncident.REFUSED)
            return error
        return _entered(records, reply, self._holding, self._over)

    async def farewell(self, brokers: Iterable[str], records: Iterable[Held], timeout_ms: int) -> None:
        """Tells these brokers that the worker ends, and gives back all that it holds: what the caller has counts. One try."""
        deadline_ms, by_broker = now_ms() + timeout_ms, _given_back(records)
        await asyncio.gather(*(self._leave(broker, by_broker.get(broker, []), deadline_ms) for broker in brokers))

    async def _leave(self, broker: str, given_back: list[tuple[Held, Said]], deadline_ms: int) -> None:
        items = [_item(item) for item in items_of((held.place, said) for held, said in given_back)]
        try:
            for begin in range(0, max(len(items), 1), MOST_RECORDS):
                end = begin + MOST_RECORDS
                await self._call(broker, items[begin:end], deadline_ms, leaves=end >= len(items))
        except errors.OncelogError:
            pass  # the broker finds out by itself that the worker is silent
        for held, _ in given_back:
            held.moves(MessageIncident.CONFIRMED)


def _given_back(records: Iterable[Held]) -> dict[str, list[tuple[Held, Said]]]:
    """Returns by broker what is given back now, and in which words."""
    by_broker: dict[str, list[tuple[Held, Said]]] = {}
    for held in records:
        said = _BEGUN if held.state is MessageState.HELD else _NOT_BEGUN
        if held.moves(MessageIncident.VERDICT):
            by_broker.setdefault(held.broker, []).append((held, said))
    return by_broker


def _drop_copy(settled: Held, holding: Holding, over: Callable[[Held], None]) -> None:
    """Strikes off the same record where it has come again, and waits to be handed out: its leader had opened the channel
    again before it took the word.
    """
    again = holding.at(settled.place)
    if again is not None and again.state is MessageState.WAITING:
        again.moves(MessageIncident.TAKEN_AWAY)
        over(again)


def _entered(
    records: list[Held], reply: ch.SettleReply, holding: Holding, over: Callable[[Held], None]
) -> errors.OncelogError | None:
    """Returns why they are not part of the transaction, if so. All or nothing: what was not refused is the caller's again."""
    if not reply.errors:
        for held in records:
            held.moves(MessageIncident.CONFIRMED)
            over(held)
            _drop_copy(held, holding, over)
        return None
    refused = refusals_of((held.place for held in records), [_refusal(item) for item in reply.errors])
    error = from_detail(reply.errors[0].error)
    if error.retriable:
        return error
    for held in records:
        refusal = refused.get(held.place)
        if refusal is not None and (refusal.is_not_owner or refusal.is_settled):
            held.moves(MessageIncident.TAKEN_AWAY)
            over(held)
        else:
            held.moves(MessageIncident.REFUSED)
    first = reply.errors[0]
    error.context.setdefault("partition", str(first.partition))
    error.context.setdefault("offset", str(first.first_offset))
    return error


def _not_owner(place: Place) -> errors.NotOwnerError:
    return errors.NotOwnerError(partition=place.partition, offset=place.offset, delivery=place.delivery)


def _note(held: Held, said: Said) -> None:
    """Notes that this is being said about a record."""
    if said.verdict is Verdict.TOUCH:
        held.is_touched = True
    else:
        held.is_left = False
        held.moves(MessageIncident.VERDICT)


def _check_open(held: Held) -> None:
    """Raises `IllegalStateError`, or `NotOwnerError` for what the worker knows to be another's."""
    place = held.place
    if held.state is MessageState.LOST:
        raise _not_owner(place)
    if not held.is_open:
        is_over = held.state is MessageState.SETTLED
        raise errors.IllegalStateError(
            "the message was settled already" if is_over else "the message is being settled: await that first",
            partition=place.partition,
            offset=place.offset,
        )


def _item(item: Item) -> ch.Settlement:
    return ch.Settlement(
        partition=item.partition,
        first_offset=item.first,
        last_offset=item.last,
        delivery=item.delivery,
        verdict=int(item.said.verdict),  # type: ignore[arg-type]
        delay_ms=item.said.delay_ms,
        reason=item.said.reason,
        leader_epoch=item.leader_epoch,
    )


def _refusal(item: ch.SettlementError) -> Refusal:
    is_not_owner = isinstance(from_detail(item.error), errors.NotOwnerError)
    return Refusal(item.partition, item.first_offset, item.last_offset, item.settled, is_not_owner)
