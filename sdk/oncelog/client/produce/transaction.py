"""A transaction of one producer: `async with producer.transaction() as txn:` commits on exit, aborts on error.

Rule 1: the coordinator's word is the outcome. A commit without an answer is asked for again, never aborted; only at the
        deadline it raises `CommitOutcomeUnknownError`, and `commit()` may then be called again.
Rule 2: a commit first waits for every send; if one failed, nothing is committed and that failure is raised.
Rule 3: cancellation aborts, and neither an abort nor a commit under way is cut short by it. Asked for again, an end that is
        under way is joined, and one that has come is no error.
Rule 4: one partition is enrolled by its leader with the first write; several, known up front, in one call before it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping
from functools import partial
from types import TracebackType
from typing import Any, Generic, Protocol

from oncelog import errors
from oncelog.client.consume.offsets import GroupMetadata, OffsetAndMetadata, offset_entries
from oncelog.client.home.context import Context, now_ms
from oncelog.client.home.stays_here import StaysHere
from oncelog.client.produce.delivery import BatchDelivery, Delivery
from oncelog.client.produce.handover import Handover
from oncelog.client.produce.sender import Sender
from oncelog.client.produce.txn_names import end_wait, name_of
from oncelog.client.produce.writer import Headers, Message, Writer
from oncelog.client.routing.calls import Caller
from oncelog.client.routing.metadata import Metadata, created_again
from oncelog.config import ProducerConfig
from oncelog.core.batch.identity import Identity
from oncelog.core.causes import because
from oncelog.core.produce.transaction import TransactionCore, TransactionState
from oncelog.trace import span_names
from oncelog.trace.transaction_span import Scope, inside
from oncelog.types import PartitionId, TopicPartition
from oncelog.v1 import coordinator_pb2 as co
from oncelog.v1 import types_pb2
from oncelog.value_types import NULL, Key, Value, fills_up
from oncelog.wire import methods


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
    """What a consumer returns: records that know where reading goes on, and for which group."""

    @property
    def offsets(self) -> Mapping[TopicPartition, OffsetAndMetadata]:
        """Next offsets to read."""
        ...

    @property
    def group(self) -> GroupMetadata | None:
        """The group that they were read for."""
        ...


@fills_up
class Transaction(StaysHere, Generic[Key, Value]):
    """See the module. Made by `Producer.transaction()`; used once."""

    def __init__(self, producer: Owner, context: Context, metadata: Metadata, caller: Caller, sender: Sender) -> None:
        self._producer = producer
        self._context = context
        self._metadata = metadata
        self._caller = caller
        self._sender = sender
        self._config: ProducerConfig = producer.config
        self._writer = Writer(context, metadata, self._config, sender, self._touch, self._enrol_ahead)
        self._core: TransactionCore | None = None
        self._identity = Identity()
        self._visible = False
        self._is_given_up = False  # its caller called abort()
        self._ending: asyncio.Task[None] | None = None
        self._waiting = 0  # for the end that is under way
        self._begun_ms = 0
        self._scope: Scope | None = None

    # ------------------------------------------------------------ what it is

    @property
    def txn_no(self) -> int:
        """Number of this transaction under its transactional id. Raises `IllegalStateError` before `begin`.

        Whoever looks at it may note it down, so from then on it is this transaction's, also if nothing is ever sent.
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
        if self._context.tracer is not None:
            self._scope = Scope(self._context.tracer, span_names.TXN)
        try:
            with inside(self._scope):
                self._identity = await self._producer._take_turn(self)
        except BaseException as error:
            self._trace_end(error)
            raise
        if self._scope is not None and self._sender.traces is not None:
            self._scope.named(self._identity)
            self._sender.traces.scope = self._scope.parent
        self._core = TransactionCore(self._identity.txn_no)
        self._begun_ms = now_ms()
        self._sender.reset(self._identity, errors.TxnEndedError("the transaction is over"))
        return self

    async def __aenter__(self) -> Transaction[Key, Value]:
        return await self.begin()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Commits, or aborts when the block raised. An error of that abort does not hide the block's.

        Raises why nothing is committed, also when somebody else ended it while the block ran: as a close of the producer does.
        """
        if self._begun().is_over:
            if error is None:
                self._refuse_loss()
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

    def _refuse_loss(self) -> None:
        """Raises why it is not committed, unless its caller aborted it."""
        core = self._begun()
        if core.state is not TransactionState.COMMITTED and not self._is_given_up and core.error is not None:
            raise core.error.with_traceback(None)

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
    ) -> Delivery:
        """As `Producer.send`, inside this transaction. Raises the first failure of the transaction, and `IllegalStateError`
        when it has ended, also while this waited for the topic or for room.
        """
        self._touch()
        return await self._writer.send(topic, value, key, partition, timestamp_ms, headers)

    def handover(self) -> Handover:
        """For `oncelog.sync`: takes single records from other threads while the transaction is open."""
        return Handover(self._writer, self._sender, self._metadata, self._takes_records, self._touch)

    def _takes_records(self) -> bool:
        """One was sent already, and nothing has ended or failed the transaction since."""
        core = self._core
        if core is None or self._sender.failure is not None:
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
        self, read: HasOffsets | Mapping[TopicPartition, Any], group: GroupMetadata | None = None
    ) -> None:
        """Commits offsets with this transaction: those of a consumer's batch, or a mapping and the group's metadata.

        Raises `IllegalStateError` without a group, `UnknownTopicError` when a topic was created again since its offset was
        read (then abort), and what fences a stale member (`FencedMemberEpochError`, ...).
        """
        offsets: Mapping[TopicPartition, Any] = read if isinstance(read, Mapping) else read.offsets
        found = group if isinstance(read, Mapping) else group or read.group
        if found is None or not found.group_id:
            raise errors.IllegalStateError("offsets belong to a group: give the consumer a group_id")
        core = self._touch()
        if not offsets:
            return
        sequence = core.next_offset_sequence(found.group_id)
        entries, outdated = await offset_entries(self._metadata, offsets, self._context.deadline_ms())
        core = self._touch()  # it may have ended while this waited
        if outdated:  # none of these offsets is sent, so what was written for them must not be committed
            again = created_again(*outdated[0], "abort, and go on with what the consumer returns next")
            core.fail(again)
            raise again
        request = co.SendOffsetsRequest(
            name=name_of(self._identity), member=found.to_proto(), commit_sequence=sequence, offsets=entries
        )
        try:
            with inside(self._scope):
                await self._caller.to_group_coordinator(found.group_id, methods.SEND_OFFSETS, request)
        except errors.OncelogError as error:
            told = self._explained(error)
            core.fail(told)
            raise told from told.__cause__

    async def flush(self) -> None:
        """Waits until every send of this transaction is acknowledged. Raises the first failure."""
        self._context.home.check()
        await self._sender.flush()
        self._touch()

    def _touch(self) -> TransactionCore:
        core = self._begun()
        if self._sender.failure is not None and core.state is TransactionState.OPEN:
            core.fail(self._explained(self._sender.failure))
        core.check_open()
        core.is_touched = True
        return core

    async def _enrol_ahead(self, partitions: list[PartitionId]) -> None:
        core = self._touch()
        new = core.to_enrol(partitions)
        if not new:
            return
        request = co.EnrolPartitionsRequest(
            name=name_of(self._identity),
            partitions=[
                types_pb2.TopicPartition(
                    topic=self._metadata.topic_name(p.topic_id) or "", partition=p.partition, topic_id=p.topic_id
                )
                for p in new
            ],
        )
        try:
            with inside(self._scope):
                await self._caller.to_txn_coordinator(
                    self._identity.transactional_id, methods.ENROL_PARTITIONS, request
                )
        except errors.OncelogError as error:
            told = self._explained(error)
            core.fail(told)
            raise told from told.__cause__
        core.enrolled(new)

    def _explained(self, error: errors.OncelogError) -> errors.OncelogError:
        """The error; where the transaction ended because its time was over, one that says this."""
        limit_ms = self._config.transaction_timeout_ms
        ended = isinstance(error, errors.TxnEndedError | errors.TxnAbortedError)
        if not ended or now_ms() - self._begun_ms < limit_ms:
            return error
        told = type(error)(
            f"the transaction timed out after {limit_ms} ms (transaction_timeout_ms), and was aborted: begin a new one",
            txn_no=self._begun().txn_no,
        )
        return because(told, error)

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
            if core.state is TransactionState.OPEN and self._sender.failure is not None:
                core.fail(self._explained(self._sender.failure))
            core.begin_commit()
            if await self._finish(span_names.TXN_COMMIT, partial(self._commit, awaited)):
                return
        if wait == "visible" and core.is_touched and not self._visible:
            await self._wait_visible()

    async def _commit(self, wait: co.EndWait) -> None:
        core = self._begun()
        await self._sender.flush()
        if self._sender.failure is not None:
            core.reopen_for_abort()
            core.fail(self._explained(self._sender.failure))
            core.begin_commit()  # raises it
        if not core.is_touched:
            self._finished(is_committed=True)
            return
        try:
            reply = await self._end(self._commit_request(wait))
        except errors.TxnAbortedError as error:
            told = self._explained(error)
            core.fail(told)
            self._finished(is_committed=False)
            raise told from told.__cause__
        self._visible = reply.visible
        self._finished(is_committed=reply.outcome == types_pb2.TRANSACTION_OUTCOME_COMMITTED)
        if reply.outcome != types_pb2.TRANSACTION_OUTCOME_COMMITTED:
            aborted = errors.TxnAbortedError("the coordinator had aborted the transaction", txn_no=core.txn_no)
            told = self._explained(aborted)
            core.fail(told)
            raise told

    async def _wait_visible(self) -> None:
        """It is committed, by a call that may not have waited for the markers: asked again, it changes nothing but waits.

        Raises why nobody said that they are in; the message says that it is committed.
        """
        request = co.EndTransactionRequest(
            name=name_of(self._identity), outcome=types_pb2.TRANSACTION_OUTCOME_COMMITTED, wait=co.END_WAIT_VISIBLE
        )
        transactional_id = self._identity.transactional_id
        try:
            reply = await self._caller.to_txn_coordinator(transactional_id, methods.END_TRANSACTION, request)
        except errors.OncelogError as error:
            told = type(error)(
                f"the transaction is committed, but nobody said that all markers are in: {error.message}"
            )
            told.context = dict(error.context)
            raise because(told, error) from error
        self._visible = reply.visible

    def _commit_request(self, wait: co.EndWait) -> co.EndTransactionRequest:
        counts = dict.fromkeys(self._begun().enrolled_partitions(), 0) | self._sender.acked
        return co.EndTransactionRequest(
            name=name_of(self._identity),
            outcome=types_pb2.TRANSACTION_OUTCOME_COMMITTED,
            wait=wait,
            counts=[
                co.PartitionCount(topic_id=p.topic_id, partition=p.partition, records=records)
                for p, records in counts.items()
            ],
        )

    async def abort(self) -> None:
        """Aborts; once it is aborted this does nothing. Raises `IllegalStateError` once a commit was asked for."""
        self._is_given_up = True
        if self._begun().state is TransactionState.ABORTED:
            return
        self._context.home.check()
        self._begun().begin_abort()
        await self._finish(span_names.TXN_ABORT, self._abort)

    async def _leave(self, timeout_ms: int) -> None:
        """For `Producer.close`: aborts it where it can, and waits for its end, at most this long. Raises nothing of that.

        Without time it begins no abort, and still gives up the end that is under way: whoever waits for it is told so.
        """
        core = self._begun()
        can_abort = core.state in (TransactionState.OPEN, TransactionState.FAILED, TransactionState.ABORTING)
        if can_abort and timeout_ms > 0:
            if core.state is TransactionState.OPEN:  # the block that is in it must not end as if it were committed
                core.fail(errors.IllegalStateError("the producer was closed: its transaction was aborted"))
            core.begin_abort()
            self._started(span_names.TXN_ABORT, self._abort)
        task = self._ending
        if task is None:
            return
        try:
            if timeout_ms > 0:
                await asyncio.wait((task,), timeout=timeout_ms / 1000)
        finally:
            task.cancel()  # if it runs still: the coordinator's time-out ends an abort, and keeps a commit that it heard of

    def _started(self, name: str, work: Callable[[], Coroutine[Any, Any, None]]) -> bool:
        """Begins the end. False: it is under way already, and it is the same one, else it could not be asked for."""
        if self._ending is not None and not self._ending.done():
            return False
        self._ending = asyncio.get_running_loop().create_task(self._traced(name, work))
        self._ending.add_done_callback(_seen)
        return True

    async def _finish(self, name: str, work: Callable[[], Coroutine[Any, Any, None]]) -> bool:
        """Waits for the end; so does a cancellation (at most `close_timeout_ms`) before it goes on. False: it was joined."""
        is_first = self._started(name, work)
        task = self._ending
        assert task is not None
        self._waiting += 1
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError:
            await asyncio.wait((task,), timeout=self._context.config.close_timeout_ms / 1000)
            if not task.done() and self._waiting == 1:
                task.cancel()
                self._ending = None  # who asks again begins anew
            raise
        finally:
            self._waiting -= 1
        if task.cancelled():
            raise self._cut_short()
        task.result()
        return is_first

    def _cut_short(self) -> errors.OncelogError:
        core = self._begun()
        if core.state is TransactionState.COMMITTING:
            return errors.CommitOutcomeUnknownError(
                "the producer was closed before the commit was answered: get_outcome() tells what became of it",
                txn_no=core.txn_no,
            )
        return errors.IllegalStateError(
            "the producer was closed before its transaction was aborted", txn_no=core.txn_no
        )

    async def _traced(self, name: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            await (work() if self._scope is None else self._scope.run(name, work()))
        except BaseException as error:
            if self._begun().is_over or isinstance(error, errors.CommitOutcomeUnknownError):
                self._trace_end(error)
            raise
        self._trace_end(None)

    def _trace_end(self, error: BaseException | None) -> None:
        if self._scope is not None:
            outcome = self.outcome if self._core is not None else "none"
            self._scope.end(error, outcome=outcome, partitions=len(self._sender.acked))

    async def _abort(self) -> None:
        core = self._begun()
        self._sender.drop(errors.TxnAbortedError("the transaction was aborted"))
        if core.is_touched:
            request = co.EndTransactionRequest(
                name=name_of(self._identity), outcome=types_pb2.TRANSACTION_OUTCOME_ABORTED, wait=co.END_WAIT_DECIDED
            )
            try:
                reply = await self._end(request)
            except errors.TxnAbortedError:
                pass
            else:
                self._visible = reply.visible
        self._finished(is_committed=False)

    async def _end(self, request: co.EndTransactionRequest) -> co.EndTransactionReply:
        """Asks until the answer is definite, or the deadline passes."""
        try:
            return await self._caller.end_at_txn_coordinator(
                self._identity.transactional_id, methods.END_TRANSACTION, request
            )
        except errors.TxnAbortedError:
            raise
        except errors.OncelogError as error:
            if not error.retriable and not self._is_of_closed_client(error):
                self._begun().die(error)
                self._producer._transaction_over(self, error)
            raise

    def _is_of_closed_client(self, error: errors.OncelogError) -> bool:
        """It is no word of the coordinator's."""
        return isinstance(error, errors.IllegalStateError) and self._context.home.is_closed

    def _finished(self, is_committed: bool) -> None:
        self._begun().decided(is_committed)
        self._producer._transaction_over(self, None)


def _seen(task: asyncio.Task[None]) -> None:
    """Whoever waited has the error; who was cancelled while he waited knows no more than that."""
    if not task.cancelled():
        task.exception()
