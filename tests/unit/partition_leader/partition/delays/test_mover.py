"""A move is committed, or nothing of it is visible, or the session ends: never anything in between."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from oncelog import errors
from oncelog.core.batch.header import BatchIdentity
from oncelog.types import BrokerRef, Buffer, PartitionId
from oncelog.v1 import coordinator_pb2 as co
from oncelog.v1 import partition_pb2 as pb
from oncelog.v1 import types_pb2
from oncelog.wire import methods
from oncelog.wire.wire_errors import from_detail, to_detail
from oncelog_partition_leader.partition.delays.mover import Mover, Part, Place, SessionLostError
from oncelog_runtime.sim.clock import SimClock
from oncelog_runtime.sim.loop import SimLoop

ONE, OTHER = PartitionId("a" * 32, 0), PartitionId("b" * 32, 0)
Answer = Callable[[Any], Any]


class View:
    """A cluster in which one process is everything."""

    class cluster:  # noqa: N801 - it stands for a value
        transaction_shards = 4

    def require_leader(self, _partition: PartitionId) -> BrokerRef:
        return BrokerRef(1, 1)

    def address_of(self, _broker_id: int) -> str:
        return "broker"

    def owner_of(self, _kind: str, _shard: int) -> Any:
        class Owner:
            address = "coordinator"

        return Owner


class Wire:
    """Answers calls by a script: what a method is not scripted for succeeds. `said` has what was asked, in order."""

    def __init__(self) -> None:
        self.said: list[Any] = []
        self.next: dict[str, list[BaseException]] = {}
        self.outcome = types_pb2.TRANSACTION_OUTCOME_UNSPECIFIED
        self.refuses: list[errors.OncelogError] = []

    async def call(
        self, _address: str, method: str, header: bytes, _payload: Buffer, _timeout_ms: int
    ) -> tuple[bytes, Buffer]:
        spec = methods.ALL[method]
        request = spec.request.FromString(header)
        self.said.append(request)
        waiting = self.next.get(method, [])
        if waiting:
            raise waiting.pop(0)
        return self._answer(method, request).SerializeToString(), b""

    def _answer(self, method: str, request: Any) -> Any:
        if method == methods.INIT_PRODUCER_ID.name:
            return co.InitProducerIdReply(
                producer_id=7, producer_epoch=2, next_txn_no=5, txn_shard=1, session_token=b"t"
            )
        if method == methods.END_TRANSACTION.name:
            return co.EndTransactionReply(outcome=self.outcome or request.outcome)
        if method == methods.PRODUCE.name:
            answer = pb.ProducePartitionReply(base_offset=1)
            if self.refuses:
                answer.error.CopyFrom(to_detail(self.refuses.pop(0)))
            return pb.ProduceReply(partitions=[answer])
        return methods.ALL[method].reply()

    def of(self, kind: type) -> list[Any]:
        return [request for request in self.said if isinstance(request, kind)]


class OwnLog:
    """The log of the waiting partition. `fails`: what appends answer, one after the other."""

    def __init__(self) -> None:
        self.appended: list[bytes] = []
        self.is_over = False
        self.fails: list[BaseException] = []
        self.ends = False

    async def append(self, data: bytes, transactional_id: str, timeout_ms: int) -> None:
        self.is_over = self.is_over or self.ends
        if self.fails:
            raise self.fails.pop(0)
        assert transactional_id == "__delayed.x.0"
        self.appended.append(data)


def part(where: PartitionId, seen: list[BatchIdentity] | None = None) -> Part:
    def encode(identity: BatchIdentity) -> bytes:
        if seen is not None:
            seen.append(identity)
        return b"batch"

    return Part(Place(where, "orders"), 3, encode)


def run(
    test: Callable[[Wire, Mover], Any], own: OwnLog | None = None, before: Callable[[Wire], None] = lambda _: None
) -> None:
    with SimLoop(1) as loop:

        async def whole() -> None:
            wire = Wire()
            before(wire)
            mover = Mover(
                cast("Any", wire), cast("Any", View()), SimClock(loop), own or OwnLog(), "__delayed.x.0", "nonce"
            )
            await mover.begin()
            await test(wire, mover)

        loop.run(whole())


def test_a_move_enrols_then_writes_both_then_commits_with_counts() -> None:
    async def test(wire: Wire, mover: Mover) -> None:
        seen: list[BatchIdentity] = []
        await mover.move([part(ONE, seen), part(OTHER, seen)])
        kinds = [type(request) for request in wire.said]
        assert kinds[:2] == [co.InitProducerIdRequest, co.EnrolPartitionsRequest]
        assert kinds[2:] == [pb.ProduceRequest, pb.ProduceRequest, co.EndTransactionRequest]
        (end,) = wire.of(co.EndTransactionRequest)
        assert end.outcome == types_pb2.TRANSACTION_OUTCOME_COMMITTED
        assert [(item.topic_id, item.records) for item in end.counts] == [(ONE.topic_id, 3), (OTHER.topic_id, 3)]
        assert {(one.producer_id, one.txn_no, one.base_sequence) for one in seen} == {(7, 5, 0)}
        await mover.move([part(ONE)])
        assert wire.of(co.EndTransactionRequest)[-1].name.txn_no == 6, "each move has a number of its own"

    run(test)


def test_a_session_has_the_longest_time_out_that_the_coordinators_allow() -> None:
    def before(wire: Wire) -> None:
        refusal = errors.InvalidTransactionTimeoutError(timeout_ms=60_000, maximum_ms=20_000)
        wire.next[methods.INIT_PRODUCER_ID.name] = [from_detail(to_detail(refusal))]

    async def test(wire: Wire, mover: Mover) -> None:
        await mover.move([part(ONE)])
        asked = wire.of(co.InitProducerIdRequest)
        assert [one.transaction_timeout_ms for one in asked] == [60_000, 20_000]

    run(test, before=before)


def test_a_refused_write_aborts_and_says_why() -> None:
    async def test(wire: Wire, mover: Mover) -> None:
        wire.refuses = [errors.MessageTooLargeError()]
        with pytest.raises(errors.MessageTooLargeError):
            await mover.move([part(ONE), part(OTHER)])
        assert [end.outcome for end in wire.of(co.EndTransactionRequest)] == [types_pb2.TRANSACTION_OUTCOME_ABORTED]

    run(test)


def test_what_may_pass_is_tried_again_with_the_same_bytes() -> None:
    async def test(wire: Wire, mover: Mover) -> None:
        wire.next[methods.PRODUCE.name] = [errors.NetworkError(), errors.NotLeaderError()]
        wire.next[methods.ENROL_PARTITIONS.name] = [errors.ConcurrentTransactionsError()]
        wire.next[methods.END_TRANSACTION.name] = [errors.NetworkError(), errors.NotCoordinatorError()]
        await mover.move([part(ONE)])
        assert len(wire.of(pb.ProduceRequest)) == 3
        assert {end.outcome for end in wire.of(co.EndTransactionRequest)} == {types_pb2.TRANSACTION_OUTCOME_COMMITTED}

    run(test)


@pytest.mark.parametrize("error", [errors.ProducerFencedError(), errors.InvalidTxnStateError()])
def test_an_end_that_nobody_confirms_ends_the_session(error: errors.OncelogError) -> None:
    async def test(wire: Wire, mover: Mover) -> None:
        wire.next[methods.END_TRANSACTION.name] = [error]
        with pytest.raises(SessionLostError):
            await mover.move([part(ONE)])

    run(test)


def test_an_end_without_an_answer_for_long_ends_the_session() -> None:
    async def test(wire: Wire, mover: Mover) -> None:
        wire.next[methods.END_TRANSACTION.name] = [errors.NetworkError() for _ in range(1_000)]
        with pytest.raises(SessionLostError):
            await mover.move([part(ONE)])
        assert wire.next[methods.END_TRANSACTION.name], "it gave up in time"

    run(test)


def test_a_commit_that_was_aborted_by_its_time_out_is_a_failure() -> None:
    async def test(wire: Wire, mover: Mover) -> None:
        wire.outcome = types_pb2.TRANSACTION_OUTCOME_ABORTED
        with pytest.raises(errors.TxnAbortedError):
            await mover.move([part(ONE)])

    run(test)


def test_a_session_begins_however_long_that_takes() -> None:
    with SimLoop(1) as loop:

        async def whole() -> None:
            wire = Wire()
            wire.next[methods.INIT_PRODUCER_ID.name] = [errors.CoordinatorNotAvailableError() for _ in range(50)]
            mover = Mover(cast("Any", wire), cast("Any", View()), SimClock(loop), OwnLog(), "__delayed.x.0", "nonce")
            async with asyncio.timeout(600):
                await mover.begin()
            assert {request.nonce for request in wire.of(co.InitProducerIdRequest)} == {"nonce"}

        loop.run(whole())


def test_the_part_of_the_waiting_partition_goes_to_its_own_log_and_to_no_leader() -> None:
    own = OwnLog()
    own.fails = [errors.ResourceExhaustedError()]

    async def test(wire: Wire, mover: Mover) -> None:
        await mover.move([part(ONE), part(OTHER)._replace(is_own=True)])
        assert own.appended == [b"batch"]
        assert [item.topic_id for request in wire.of(pb.ProduceRequest) for item in request.partitions] == [
            ONE.topic_id
        ]
        (end,) = wire.of(co.EndTransactionRequest)
        assert [item.topic_id for item in end.counts] == [ONE.topic_id, OTHER.topic_id]

    run(test, own)


def test_a_mover_whose_leadership_ends_commits_nothing_and_asks_nobody_else() -> None:
    own = OwnLog()
    own.fails, own.ends = [errors.NotLeaderError() for _ in range(1_000)], True

    async def test(wire: Wire, mover: Mover) -> None:
        with pytest.raises(errors.NotLeaderError):
            await mover.move([part(ONE), part(OTHER)._replace(is_own=True)])
        assert len(own.fails) == 999, "once is enough"
        assert {end.outcome for end in wire.of(co.EndTransactionRequest)} == {types_pb2.TRANSACTION_OUTCOME_ABORTED}

    run(test, own)


def test_no_session_begins_after_the_leadership() -> None:
    with SimLoop(1) as loop:

        async def whole() -> None:
            wire, own = Wire(), OwnLog()
            wire.next[methods.INIT_PRODUCER_ID.name] = [errors.CoordinatorNotAvailableError() for _ in range(50)]
            mover = Mover(cast("Any", wire), cast("Any", View()), SimClock(loop), own, "__delayed.x.0", "nonce")
            beginning = asyncio.ensure_future(mover.begin())
            await asyncio.sleep(1)
            own.is_over = True
            with pytest.raises(errors.CoordinatorNotAvailableError):
                await beginning
            assert wire.next[methods.INIT_PRODUCER_ID.name], "it gave up"

        loop.run(whole())
