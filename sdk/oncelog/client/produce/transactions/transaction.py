"""A transaction of one producer: `async with producer.transaction() as txn:` commits on exit, aborts on error.

Rule 1: the coordinator's word is the outcome. A commit without an answer is asked for again, never aborted; only at the
        deadline it raises `CommitOutcomeUnknownError`, and `commit()` may then be called again.
Rule 2: a commit first waits for every send, and for offsets and acknowledgements that are on their way; if one failed,
        nothing is committed and that failure is raised.
Rule 3: cancellation aborts, and neither an abort nor a commit under way is cut short by it. Asked for again, an end that is
        under way is joined, and one that has come is no error.
        A call for offsets or acknowledgements that is cancelled fails the transaction: it may lack them.
Rule 4: one partition is enrolled by its leader with the first write; several, known up front, in one call before it.
"""

# Theory of operation. All transactions of a producer share its session (producer id and epoch) and its sender. A transaction is
# named by that session and a number; the coordinator decides each number once, so a late or repeated request of one transaction
# can never touch the next one. A transaction object lives through these steps:
#
#     begin    `Producer` gives it its turn, which means: the transaction before it is decided. It gets the next number, and the
#              sender starts afresh under it (`Sender.reset`). The coordinator is not asked.
#     send     records go through `Writer` to the sender. Each batch carries the number. The leader of a partition enrols the
#              partition at the coordinator when its first batch comes; `send_batch`, which knows several partitions before it
#              writes, enrols them in one call. The first record or offset makes the transaction *touched*: from then on the
#              coordinator may know of it.
#     commit   waits for every send (`Sender.flush`), then asks the coordinator, with the number of records of each partition.
#              The coordinator makes the decision durable, answers, and writes a marker to each partition; with `wait="visible"`
#              it answers after the markers.
#     abort    drops what is not acknowledged, and asks the coordinator. What is in the logs already is skipped by readers.
#
# What is legal in which state, which failure the caller gets and what an answer means, is `TransactionCore`'s;
# docs/internals/states.md draws its table. A commit or an abort runs in a task of its own (`Ending`), because the caller may be
# cancelled while it is under way, and may ask again: it then waits for the same task. Requests are made by `TransactionCalls`.
# This file puts these together, for the one event loop on which all of it runs, and asks the core before and after everything
# that it awaits.
#
# Three things may end a transaction while its block runs: a send that fails (then only an abort is left, and every call raises
# that first failure), the coordinator (a time-out, or a newer producer of the same transactional id; the next call learns of
# it), and `Producer.close`, which aborts it.

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import partial
from types import TracebackType
from typing import Any, Generic, Protocol, TypeVar

from oncelog import errors
from oncelog.client.consume.offsets import GroupMetadata, OffsetAndMetadata, offset_entries
from oncelog.client.home.context import Context, now_ms
from oncelog.client.home.stays_here import StaysHere
from oncelog.client.produce.delivery import BatchDelivery, Delivery
from oncelog.client.produce.handover import Handover
from oncelog.client.produce.observer import TransactionObserver
from oncelog.client.produce.send_trace import transaction_observer_of
from oncelog.client.produce.sender import Sender
from oncelog.client.produce.transactions.ending import Ending, Work
from oncelog.client.produce.transactions.transaction_calls import TransactionCalls
from oncelog.client.produce.transactions.txn_names import end_wait
from oncelog.client.produce.writer import Message, Writer
from oncelog.client.routing.calls import Caller
from oncelog.client.routing.delayed import DelayedRecords
from oncelog.client.routing.metadata import Metadata, created_again
from oncelog.client.work.message import ChannelMessage, held_of
from oncelog.config import ProducerConfig
from oncelog.core.batch.identity import Identity
from oncelog.core.produce.transaction import TransactionCore, TransactionState
from oncelog.trace import span_names
from oncelog.trace.transaction_span import Scope
from oncelog.types import PartitionId, TopicPartition
from oncelog.v1 import coordinator_pb2 as co
from oncelog.v1 import types_pb2
from oncelog.value_types import NULL, Headers, Key, Value, fills_up

T = TypeVar("T")


class Owner(Protocol):
    """The producer of a transaction, as far as the transaction needs it."""

    @property
    def config(self) -> ProducerConfig:
        """Its options."""
        ...

    async def _take_turn(self, transaction: Transaction) -> Identity:
        """The identity of the next transaction."""
        ...

    def _transaction_over(self, transaction: Transaction, fatal: errors.OncelogError | None) -> None:
        """The transaction is decided, or (`fatal`) its session is fenced."""
        ...


class HasOffsets(Protocol):
    """The result of a consumer's poll: records that know where reading goes on, and for which group."""

    @property
    def offsets(self) -> Mapping[TopicPartition, OffsetAndMetadata]:
        """Next offsets to read."""
        ...

    @property
    def group(self) -> GroupMetadata | None:
        """The group that they were read for."""
        ...


# It has some 30 methods because half of them are its API, of one or two lines each.
@fills_up
class Transaction(StaysHere, Generic[Key, Value]):
    """See the module. Made by `Producer.transaction()`; used once."""

    def __init__(self, producer: Owner, context: Context, metadata: Metadata, caller: Caller, sender: Sender) -> None:
        self._producer = producer
        self._context = context
        self._metadata = metadata
        self._caller = caller
        self._sender = sender
        self._writer = Writer(context, metadata, producer.config, sender, self._touch, self._enrol_ahead)
        self._core: TransactionCore | None = None
        self._calls = TransactionCalls(caller, metadata, Identity())
        self._ending = Ending(context.config.close_timeout_ms, lambda: self._begun().cut_short())
        self._observer: TransactionObserver | Scope = TransactionObserver()
        self._visible = False
        self._parts = _Parts()

    # ------------------------------------------------------------ what it is

    @property
    def txn_no(self) -> int:
        """Number of this transaction under its transactional id. Raises `IllegalStateError` before `begin`.

        A caller that looks at it may note it down, so from then on it is this transaction's, also if nothing is ever sent.
        """
        core = self._begun()
        core.is_touched = True
        return core.txn_no

    @property
    def state(self) -> TransactionState:
        """Where it stands."""
        return self._begun().state

    @property
    def error(self) -> errors.OncelogError | None:
        """The first reason why it failed; None while it has not."""
        return self._begun().error

    @property
    def what_to_do(self) -> str:
        """How it stands, and what to do next."""
        return self._begun().what_to_do

    @property
    def outcome(self) -> str:
        """ "committed", "aborted", or the state's name while neither is known."""
        return self._begun().state.value

    @property
    def visible(self) -> bool:
        """True: every partition has its marker; set by `commit(wait="visible")`, maybe by others."""
        return self._visible

    def _begun(self) -> TransactionCore:
        if self._core is None:
            raise errors.IllegalStateError("the transaction has not begun: begin() it first")
        return self._core

    # ------------------------------------------------------------ begin

    async def begin(self) -> Transaction[Key, Value]:
        """Begins: ends what the producer's last transaction left behind, and takes the next number.

        Raises `IllegalStateError` while another transaction of the producer is open, `ProducerFencedError`.
        """
        self._context.home.check()
        if self._core is not None:
            raise errors.IllegalStateError(
                "this transaction has begun already; call producer.transaction() for a new one"
            )
        self._observer = transaction_observer_of(self._context, span_names.TXN)
        try:
            with self._observer.inside():
                identity = await self._producer._take_turn(self)
        except BaseException as error:
            self._observed_end(error)
            raise
        self._observer.named(identity)
        self._sender.observer.belong_to(self._observer.parent)
        self._core = TransactionCore(identity.txn_no, now_ms(), self._producer.config.transaction_timeout_ms)
        self._calls = TransactionCalls(self._caller, self._metadata, identity)
        self._sender.reset(identity, errors.TxnEndedError("the transaction is over"))
        return self

    async def __aenter__(self) -> Transaction[Key, Value]:
        return await self.begin()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Commits, or aborts when the block raised. An error of that abort does not hide the block's.

        Raises why nothing is committed, also when it was ended from elsewhere while the block ran, as by a close of the
        producer.
        """
        if self._begun().is_over:
            if error is None:
                self._begun().check_no_loss()
            return
        if error is None:
            try:
                await self.commit()
            except errors.CommitOutcomeUnknownError:
                raise
            except BaseException:
                await self._abort_quietly()
                raise
        elif self._begun().state is not TransactionState.COMMITTING:
            await self._abort_quietly()

    async def _abort_quietly(self) -> None:
        try:
            if not self._begun().is_over:
                await self.abort()
        except errors.OncelogError:
            pass  # the coordinator's time-out ends it; the error that is under way says more

    # ------------------------------------------------------------ writing

    async def send(
        self,
        topic: str,
        value: Value = NULL,
        key: Key = NULL,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Headers = (),
        ttl_ms: int | None = None,
        *,
        deliver_at: datetime | timedelta | int | None = None,
    ) -> Delivery:
        """As `Producer.send`, inside this transaction: a delayed record begins to wait when it commits.

        Raises the first failure of the transaction, and `IllegalStateError` when it has ended, also while this waited for the
        topic or for room.
        """
        self._touch()
        if deliver_at is not None:
            delayed = DelayedRecords(self._context, self._metadata, self._caller)
            topic, timestamp_ms, ttl_ms = await delayed.place(topic, deliver_at, ttl_ms)
            self._touch()  # it may have ended while this waited
        return await self._writer.send(topic, value, key, partition, timestamp_ms, headers, ttl_ms)

    def handover(self) -> Handover:
        """For `oncelog.sync`: takes single records from other threads while the transaction is open."""
        return Handover(self._writer, self._sender, self._metadata, self._takes_records, self._touch)

    def _takes_records(self) -> bool:
        """One was sent already, and nothing has ended or failed the transaction since."""
        core = self._core
        if core is None or self._sender.deliveries.failure is not None:
            return False
        return core.state is TransactionState.OPEN and core.is_touched

    async def send_many(
        self, topic: str, rows: Iterable[Value | tuple[Key, Value] | Message[Key, Value]]
    ) -> BatchDelivery:
        """As `Producer.send_many`, inside this transaction."""
        self._touch()
        return await self._writer.send_many(topic, rows)

    async def send_batch(self, topic: str, data: Any, partition: int | None = None) -> BatchDelivery:
        """As `Producer.send_batch`, inside this transaction; several partitions are enrolled in one call."""
        self._touch()
        return await self._writer.send_batch(topic, data, partition)

    async def send_offsets(
        self, read: HasOffsets | Mapping[TopicPartition, OffsetAndMetadata | int], group: GroupMetadata | None = None
    ) -> None:
        """Commits offsets with this transaction: those of a consumer's batch, or a mapping and the group's metadata.

        Raises `IllegalStateError` without a group, `UnknownTopicError` when a topic was created again since its offset was
        read (then abort), and what fences a stale member (`FencedMemberEpochError`, ...).
        """
        offsets = read if isinstance(read, Mapping) else read.offsets
        found = group if isinstance(read, Mapping) else group or read.group
        if found is None or not found.group_id:
            raise errors.IllegalStateError("offsets belong to a group: give the consumer a group_id")
        core = self._touch()
        if not offsets:
            return
        sequence = core.next_offset_sequence(found.group_id)
        with self._parts.part_of(core):
            entries, outdated = await offset_entries(self._metadata, offsets, self._context.deadline_ms())
            if core.state is not TransactionState.COMMITTING:  # a commit waits for this very call
                self._touch()  # it may have ended while this waited
            if outdated:  # none of these offsets is sent, so what was written for them must not be committed
                again = created_again(*outdated[0], "abort, and go on with what the consumer returns next")
                core.fail(again)
                raise again
            await self._call(core, self._calls.send_offsets(found, sequence, entries))

    async def ack(self, messages: ChannelMessage | Iterable[ChannelMessage]) -> None:
        """Acknowledges messages of a channel's worker with this transaction: when it commits they are done, and when it
        aborts they come again. Returns when all of them are part of it.

        Raises `NotOwnerError` when one of them is another worker's by now, `IllegalStateError` when one was settled
        already; a failure fails the transaction, which can then only be aborted. Raises `TypeError` for what is no message.
        """
        chosen = [messages] if isinstance(messages, ChannelMessage) else [*messages]
        held_of(chosen)  # what is no message is refused before anything is sent
        core = self._touch()
        by_worker: dict[int, list[ChannelMessage]] = {}
        for message in chosen:
            by_worker.setdefault(id(message._worker), []).append(message)
        with self._parts.part_of(core):
            for some in by_worker.values():
                await self._call(core, self._calls.ack(some[0]._worker, some))

    async def flush(self) -> None:
        """Waits until every send of this transaction is acknowledged. Raises the first failure."""
        self._context.home.check()
        await self._sender.flush()
        self._touch()

    def _touch(self) -> TransactionCore:
        core = self._begun()
        core.touch(self._sender.deliveries.failure, now_ms())
        return core

    async def _enrol_ahead(self, partitions: list[PartitionId]) -> None:
        core = self._touch()
        new = core.to_enrol(partitions)
        if new:
            await self._call(core, self._calls.enrol(new))
            core.enrolled(new)

    async def _call(self, core: TransactionCore, call: Coroutine[object, None, T]) -> T:
        """Makes a call as a part of the transaction, which its error fails."""
        try:
            with self._observer.inside():
                return await call
        except errors.OncelogError as error:
            explained = core.fail_with(error, now_ms())
            raise explained from explained.__cause__

    # ------------------------------------------------------------ end

    async def commit(self, wait: str = "decided") -> None:
        """Commits. `wait` "decided": the decision is durable; "visible": every partition has its marker as well.

        A partition without a leader gets no marker. So after half of the time the decision is waited for alone, and `visible`
        says whether all markers are in.

        Raises the first failed send (then abort), `TxnAbortedError` when the coordinator had aborted it,
        `CommitOutcomeUnknownError` when no answer came in time (then call `commit` again), `ProducerFencedError`. A commit that
        was interrupted goes on: calling it again waits for it, and returns once it is committed.
        """
        awaited = end_wait(wait)
        self._context.home.check()
        core = self._begun()
        if core.state is not TransactionState.COMMITTED:
            core.note_failure(self._sender.deliveries.failure, now_ms())
            core.begin_commit()
            if await self._ending.run(self._observed(span_names.TXN_COMMIT, partial(self._commit, core, awaited))):
                return
        if wait == "visible" and core.is_touched and not self._visible:
            self._visible = await self._calls.wait_visible()

    async def _commit(self, core: TransactionCore, wait: co.EndWait) -> None:
        await self._sender.flush()
        await self._parts.ended()
        core.flushed(self._sender.deliveries.failure or self._parts.failure, now_ms())
        if not core.is_touched:
            self._decided(core, is_committed=True)
            return
        counts = dict.fromkeys(core.enrolled_partitions(), 0) | self._sender.deliveries.acked
        try:
            reply = await self._end(core, self._calls.commit(counts, wait))
        except errors.TxnAbortedError as error:
            explained = core.commit_refused(error, now_ms())
            self._producer._transaction_over(self, None)
            raise explained from explained.__cause__
        self._visible = reply.visible
        aborted = core.commit_answered(reply.outcome == types_pb2.TRANSACTION_OUTCOME_COMMITTED, now_ms())
        self._producer._transaction_over(self, None)
        if aborted is not None:
            raise aborted

    async def abort(self) -> None:
        """Aborts; once it is aborted this does nothing. Raises `IllegalStateError` once a commit was asked for."""
        core = self._begun()
        core.is_given_up = True
        if core.state is TransactionState.ABORTED:
            return
        self._context.home.check()
        core.begin_abort()
        await self._ending.run(self._observed(span_names.TXN_ABORT, partial(self._abort, core)))

    async def _abort(self, core: TransactionCore) -> None:
        self._sender.drop(errors.TxnAbortedError("the transaction was aborted"))
        if core.is_touched:
            try:
                self._visible = (await self._end(core, self._calls.abort())).visible
            except errors.TxnAbortedError:
                pass
        self._decided(core, is_committed=False)

    async def _leave(self, timeout_ms: int) -> None:
        """For `Producer.close`: aborts it where it can, and waits for its end, at most this long. Raises nothing of that.

        Without time it begins no abort, and still gives up the end that is under way: those who wait for it get an error.
        """
        core = self._begun()
        if timeout_ms > 0 and core.begin_leave():
            self._ending.start(self._observed(span_names.TXN_ABORT, partial(self._abort, core)))
        await self._ending.leave(timeout_ms)

    async def _end(
        self, core: TransactionCore, call: Coroutine[object, None, co.EndTransactionReply]
    ) -> co.EndTransactionReply:
        """Makes the call that ends it. An error that is definite, and no outcome, ends the producer's session."""
        try:
            return await call
        except errors.TxnAbortedError:
            raise
        except errors.OncelogError as error:
            is_of_closed_client = isinstance(error, errors.IllegalStateError) and self._context.home.is_closed
            if not error.retriable and not is_of_closed_client:
                core.die(error)
                self._producer._transaction_over(self, error)
            raise

    def _decided(self, core: TransactionCore, is_committed: bool) -> None:
        core.decided(is_committed)
        self._producer._transaction_over(self, None)

    def _observed(self, name: str, work: Work) -> Work:
        """The work of an end, as its observer sees it."""

        async def whole() -> None:
            try:
                await self._observer.run(name, work())
            except BaseException as error:
                if self._begun().is_over or isinstance(error, errors.CommitOutcomeUnknownError):
                    self._observed_end(error)
                raise
            self._observed_end(None)

        return whole

    def _observed_end(self, error: BaseException | None) -> None:
        outcome = self.outcome if self._core is not None else "none"
        self._observer.end(error, outcome=outcome, partitions=len(self._sender.deliveries.acked))


class _Parts:
    """The calls for offsets and acknowledgements of a transaction that are on their way. A commit waits for them."""

    def __init__(self) -> None:
        self._calls: dict[asyncio.Future[None], None] = {}
        self.failure: errors.OncelogError | None = None
        """The first of them that failed."""

    @contextmanager
    def part_of(self, core: TransactionCore) -> Iterator[None]:
        """Encloses one such call. What fails there, or is cancelled, fails the transaction: what it read would be settled in
        part, or not at all, and its output would be committed all the same.
        """
        call: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._calls[call] = None
        try:
            yield
        except BaseException as error:
            failure = error if isinstance(error, errors.OncelogError) else _part_is_missing(error)
            self.failure = self.failure or failure
            core.fail(failure)
            raise
        finally:
            del self._calls[call]
            call.set_result(None)

    async def ended(self) -> None:
        """Returns when none is on its way. Each has a deadline of its own."""
        while self._calls:
            await asyncio.wait([*self._calls])


def _part_is_missing(error: BaseException) -> errors.TransactionAbortableError:
    what = "were cancelled on their way" if isinstance(error, asyncio.CancelledError) else "could not be sent"
    return errors.TransactionAbortableError(
        f"offsets or acknowledgements of this transaction {what}: abort it, and begin a new one"
    )
