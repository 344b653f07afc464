"""Acknowledgements that take part in transactions, on one channel and partition.

Rule 1: records go IN_TXN before the coordinator is asked, so no other worker gets them meanwhile.
Rule 2: a call with an unknown outcome is made again with the same content. A refusal of the first call gives the records back
        to their owner. One of a later call does not, since an earlier copy may have counted; nor is a record given back that
        another call of the same transaction names, unless that was refused too: the coordinator is asked instead.
Rule 3: once the coordinator has answered, it is asked until the transaction is pending no more: what is settled then is
        settled, and the rest comes again. One question asks for all transactions. An answer to a question of before a
        seek is ignored: the records may be in the same transaction once more.
Rule 4: a seek is written before the acknowledgements that come after it are sent: the coordinator would refuse them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Final

from oncelog.errors import CoordinatorNotAvailableError, ErrorCode, OncelogError, RequestTimedOutError
from oncelog.ports import WallClock
from oncelog.v1 import coordinator_pb2 as co
from oncelog_partition_leader.core.channels.delivery import Delivery
from oncelog_partition_leader.core.channels.offset_ranges import OffsetRange, OffsetRanges
from oncelog_partition_leader.core.channels.settlement import Settlement
from oncelog_partition_leader.core.producers.transactions import TxnName
from oncelog_partition_leader.partition.channels.coordinator_calls import ChannelCoordinators, is_refusal, pause_ms
from oncelog_partition_leader.partition.channels.wire_state import ChannelPlace, acks_request, blocks_of, settled_in

Spawn = Callable[[Coroutine[object, None, None], str], None]
_ASK_MIN_MS: Final = 20
_ASK_MAX_MS: Final = 1_000


class Entered:
    """Acknowledgements of one call that are IN_TXN."""

    __slots__ = ("answer", "name", "new", "ranges")

    def __init__(self, name: co.TransactionName, ranges: list[OffsetRange], new: OffsetRanges) -> None:
        self.name = name
        self.ranges = ranges
        self.new = new
        """Those that are in the transaction by this call alone."""
        self.answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def txn(self) -> TxnName:
        """The transaction's name in a log."""
        return txn_of(self.name)

    def disown(self, ranges: Iterable[OffsetRange]) -> None:
        """Notes that these are in the transaction by another call too."""
        for first, last in ranges:
            self.new.remove(first, last)


def txn_of(name: co.TransactionName) -> TxnName:
    """Returns the name of a transaction as a log has it."""
    return TxnName(name.txn_producer_id, name.txn_no)


class TransactionAcks:
    """The transactions of one delivery. `begin` once; `enter` and `send` for each call; `end` once."""

    def __init__(
        self,
        place: ChannelPlace,
        delivery: Delivery,
        coordinators: ChannelCoordinators,
        clock: WallClock,
        spawn: Spawn,
        fenced: Callable[[OncelogError], None],
        changed: Callable[[], None],
    ) -> None:
        self._place = place
        self._delivery = delivery
        self._coordinators = coordinators
        self._clock = clock
        self._spawn = spawn
        self._fenced = fenced
        self._changed = changed
        self._sending: dict[TxnName, int] = {}
        """Calls whose outcome is not known, by transaction: nothing is concluded about it meanwhile."""
        self._waiting: dict[Entered, None] = {}
        self._news = asyncio.Event()
        self._asking = False
        self._ended: OncelogError | None = None

    def look(self) -> None:
        """Begins to ask the coordinator while a transaction is open."""
        if not self._asking and self._ended is None and self._delivery.open_transactions():
            self._asking = True
            self._spawn(self._ask(), "transactions")

    def enter(self, worker_id: str, name: co.TransactionName, items: Sequence[Settlement]) -> Entered:
        """Makes records IN_TXN, all or none. Raises `NotOwnerError`."""
        before = OffsetRanges(self._delivery.open_transaction(txn_of(name)))
        ranges = self._delivery.enter_transaction(worker_id, txn_of(name), items, self._clock.monotonic_ms())
        new = OffsetRanges(piece for first, last in ranges for piece in before.gaps(first, last))
        return Entered(name, ranges, new)

    def undo(self, entered: Entered) -> None:
        """Gives records back that were entered and not sent."""
        self._delivery.left_transaction(entered.txn, entered.new, self._clock.monotonic_ms())

    def send(self, entered: Entered) -> None:
        """Has the coordinator take them into the transaction, in a task of its own; see `wait`."""
        if self._ended is not None:
            raise self._ended
        self._waiting[entered] = None
        self._sending[entered.txn] = self._sending.get(entered.txn, 0) + 1
        request = acks_request(self._place, entered.name, self._delivery.seeks, entered.ranges)  # before any later seek
        self._spawn(self._send(entered, request), "acks")

    async def wait(self, entered: Entered, timeout_ms: float) -> None:
        """Returns when the acknowledgements are durable as a part of the transaction.

        Raises the coordinator's refusal, why this leadership ended, or `RequestTimedOutError`: then it is not known.
        """
        try:
            async with asyncio.timeout(max(timeout_ms, 0) / 1000):
                await asyncio.shield(entered.answer)
        except TimeoutError:
            raise RequestTimedOutError("the coordinator has not confirmed it yet; it goes on") from None

    def end(self, error: OncelogError) -> None:
        """Stops; the outcome of what waits is not known."""
        self._ended = error
        self._news.set()
        for entered in self._waiting:
            _fail(entered, error)
        self._waiting.clear()

    # ------------------------------------------------------------ sending

    async def _send(self, entered: Entered, request: co.SendChannelAcksRequest) -> None:
        tries = waits = 0
        try:
            while self._ended is None:
                if self._delivery.is_seeking:  # rule 4
                    waits += 1
                    await asyncio.sleep(pause_ms(waits) / 1000)
                    continue
                try:
                    await self._coordinators.send_acks(request)
                except OncelogError as error:
                    if error.code == ErrorCode.FENCED_LEADER_EPOCH:
                        self._fenced(error)
                        return
                    if is_refusal(error):
                        self._refused(entered, error, is_certain=tries == 0)
                        return
                    tries += 1
                else:
                    self._taken(entered)
                    return
                await asyncio.sleep(pause_ms(tries) / 1000)
        finally:
            self._sent(entered)

    def _taken(self, entered: Entered) -> None:
        """Notes that the coordinator has taken them: a refusal of another copy gives none of them back."""
        for other in self._others(entered):
            other.disown(entered.ranges)
        if not entered.answer.done():
            entered.answer.set_result(None)

    def _others(self, entered: Entered) -> list[Entered]:
        """Returns the other calls of the transaction that are under way."""
        return [other for other in self._waiting if other is not entered and other.txn == entered.txn]

    def _refused(self, entered: Entered, error: OncelogError, *, is_certain: bool) -> None:
        if self._ended is not None:
            return
        if is_certain:
            for other in self._others(entered):
                entered.disown(other.ranges)
            self.undo(entered)
            self._changed()
        _fail(entered, error)

    def _sent(self, entered: Entered) -> None:
        self._waiting.pop(entered, None)
        left = self._sending[entered.txn] - 1
        if left:
            self._sending[entered.txn] = left
        else:
            del self._sending[entered.txn]
        self._news.set()
        self.look()

    # ------------------------------------------------------------ asking

    async def _ask(self) -> None:
        """Asks until no transaction is open."""
        tries = 0
        try:
            while self._ended is None and (opened := self._delivery.open_transactions()):
                await self._pause(tries)
                tries += 1
                known = {item.name: item.ranges for item in opened if item.name not in self._sending}
                if not known or self._ended is not None:
                    continue
                seeks = self._delivery.seeks
                try:
                    reply = await self._coordinators.open(self._place.opening(blocks_of(_all(known.values()))))
                except OncelogError as error:
                    if error.code == ErrorCode.FENCED_LEADER_EPOCH:
                        self._fenced(error)
                        return
                    continue
                if not reply.known:  # it has lost what was written here: it would refuse every acknowledgement
                    self._fenced(CoordinatorNotAvailableError("the channel is opened again here"))
                    return
                if seeks == self._delivery.seeks and self._conclude(known, reply):
                    tries = 0
        finally:
            self._asking = False

    async def _pause(self, tries: int) -> None:
        """Waits between two questions; a call that was answered meanwhile makes the wait short again."""
        self._news.clear()
        wait_ms = min(_ASK_MIN_MS << min(tries, 10), _ASK_MAX_MS)
        try:
            async with asyncio.timeout(wait_ms / 1000):
                await self._news.wait()
        except TimeoutError:
            return
        await asyncio.sleep(_ASK_MIN_MS / 1000)

    def _conclude(self, known: dict[TxnName, tuple[OffsetRange, ...]], reply: co.OpenChannelPartitionReply) -> bool:
        """Takes over what has ended; returns True when anything has."""
        if self._ended is not None:
            return False
        pending = {TxnName(item.txn_producer_id, item.txn_no) for item in reply.pending}
        below = [(0, reply.settled_before - 1)] if reply.settled_before > 0 else []
        settled = [*below, *settled_in(reply.blocks)]
        found = False
        for name, ranges in known.items():
            if name in pending or name in self._sending or self._delivery.open_transaction(name) != ranges:
                continue  # or more was acknowledged while the question was on its way
            self._delivery.ended_transaction(name, settled, self._clock.monotonic_ms())
            found = True
        if found:
            self._changed()
        return found


def _all(ranges: Iterable[Iterable[OffsetRange]]) -> list[OffsetRange]:
    return [piece for pieces in ranges for piece in pieces]


def _fail(entered: Entered, error: OncelogError) -> None:
    if not entered.answer.done():
        entered.answer.set_exception(error)
        entered.answer.exception()  # a caller that has gone does not look
