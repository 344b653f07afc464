"""Whoever is in a transaction, or waits for its end, while producer or client is closed hears what became of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from oncelog import errors
from oncelog.client.client import Client
from oncelog.client.produce.producer import Producer
from oncelog.client.produce.transactions.participant import ParticipantResult
from oncelog.client.produce.transactions.shared_batch import SharedBatch
from oncelog.core.produce.transaction import TransactionState
from oncelog.types import Buffer, TopicPartition
from oncelog.v1 import types_pb2
from tests.unit.sdk.client.fake_cluster import TOPIC, FakeCluster, Lost
from tests.unit.sdk.client.sending import started

COMMITTED, ABORTED = types_pb2.TRANSACTION_OUTCOME_COMMITTED, types_pb2.TRANSACTION_OUTCOME_ABORTED
Close = Callable[[Client, Producer], Awaitable[None]]


class Closable(FakeCluster):
    """Its transport can be closed, as the real one: open calls fail, and later ones are refused."""

    def __init__(self) -> None:
        super().__init__()
        self.open: dict[asyncio.Task[Any], None] = {}
        self.is_closed = False

    async def call(
        self, address: str, method: str, header: bytes, payload: Buffer, timeout_ms: int
    ) -> tuple[bytes, Buffer]:
        if self.is_closed:
            raise errors.IllegalStateError("this transport is closed")
        work = asyncio.ensure_future(super().call(address, method, header, payload, timeout_ms))
        self.open[work] = None
        try:
            await asyncio.wait((work,))
        finally:
            del self.open[work]
            work.cancel()
        if self.is_closed:
            raise errors.NetworkError("this client was closed")
        return work.result()

    async def close(self) -> None:
        self.is_closed = True
        for work in self.open:
            work.cancel()
        await asyncio.sleep(0)


@pytest.fixture
def cluster() -> Closable:
    return Closable()


def outcomes(cluster: FakeCluster) -> list[int]:
    return [request.outcome for request in cluster.end_requests]


# ---------------------------------------------------------------- in a block


CLOSES: dict[str, Close] = {
    "producer": lambda client, producer: producer.close(),
    "client": lambda client, _: client.close(),
}


@pytest.mark.parametrize("which", CLOSES)
@pytest.mark.parametrize("is_flushed", [False, True])
def test_a_block_under_which_the_producer_is_closed_does_not_end_as_if_it_were_committed(
    cluster: Closable, which: str, is_flushed: bool
) -> None:
    """It ended without an error, and everything in it was aborted."""

    async def work(_: FakeCluster) -> None:
        client = await cluster.client().start()
        producer = client.producer(transactional_id="t")
        inside, closed = asyncio.Event(), asyncio.Event()

        async def block() -> None:
            async with producer.transaction() as txn:
                await txn.send(TOPIC, b"a", partition=0)
                if is_flushed:
                    await txn.flush()
                inside.set()
                await closed.wait()

        task = started(block())
        await inside.wait()
        await CLOSES[which](client, producer)
        closed.set()
        with pytest.raises(errors.IllegalStateError, match="the producer was closed: its transaction was aborted"):
            await task
        await client.close()

    cluster.run(work)
    assert outcomes(cluster) == [ABORTED]


def test_a_block_whose_caller_aborted_it_ends_without_an_error(cluster: Closable) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.producer(transactional_id="t") as producer:
            async with producer.transaction() as txn:
                await txn.send(TOPIC, b"a", partition=0)
                await txn.abort()
            cluster.fail("append", errors.InvalidRecordError())
            async with producer.transaction() as failed:
                with pytest.raises(errors.InvalidRecordError):
                    await (await failed.send(TOPIC, b"a", partition=0))
                await failed.abort()
            async with producer.transaction() as done:
                await done.send(TOPIC, b"a", partition=0)
                await done.commit()

    cluster.run(work)
    assert outcomes(cluster) == [ABORTED, ABORTED, COMMITTED]


@pytest.mark.parametrize("error", [errors.TxnAbortedError, errors.ProducerFencedError])
def test_a_block_that_passes_over_a_failed_commit_does_not_end_as_if_it_were_committed(
    cluster: Closable, error: type[errors.OncelogError]
) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.producer(transactional_id="t") as producer:
            cluster.fail("EndTransaction", error())
            with pytest.raises(error):
                await passes_over(producer, error)

    cluster.run(work)


async def passes_over(producer: Producer, error: type[errors.OncelogError]) -> None:
    async with producer.transaction() as txn:
        await txn.send(TOPIC, b"a", partition=0)
        with pytest.raises(error):
            await txn.commit()


def test_offsets_that_waited_while_the_transaction_ended_are_not_sent(cluster: Closable) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.producer(transactional_id="t") as producer:
            txn = await producer.begin_transaction()
            await txn.send(TOPIC, b"a", partition=0)
            await txn.flush()
            waiting = started(_offsets_of_a_topic_nobody_knows_yet(client, txn))
            await asyncio.sleep(0.0005)
            await txn.abort()
            with pytest.raises(errors.IllegalStateError, match="takes nothing more"):
                await waiting

    cluster.run(work)
    assert cluster.count("SendOffsets") == 0


async def _offsets_of_a_topic_nobody_knows_yet(client: Client, txn: Any) -> None:
    from oncelog.client.consume.offsets import GroupMetadata

    client._metadata._topics.clear()
    await txn.send_offsets({TopicPartition(TOPIC, 0): 5}, GroupMetadata("g"))


# ---------------------------------------------------------------- under a commit


async def close_at_once(client: Client, producer: Producer) -> None:
    await producer.close(timeout_ms=0)
    with pytest.raises(errors.DeliveryTimedOutError):  # of the other producer
        await client.close()


async def close_that_times_out(client: Client, producer: Producer) -> None:
    """On another producer, which is closed first."""
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(client.close(), 0.2)


@pytest.mark.parametrize("close", [close_at_once, close_that_times_out])
def test_a_commit_under_way_when_its_client_is_closed_without_patience_is_of_unknown_outcome(
    cluster: Closable, close: Close
) -> None:
    """It was told as a mistake of the caller's, in a state that says that the producer is fenced."""

    async def work(_: FakeCluster) -> None:
        client = await cluster.client().start()
        stuck = await client.producer().start()
        producer = client.producer(transactional_id="t")
        txn = await producer.begin_transaction()
        await txn.send(TOPIC, b"a", partition=1)
        await txn.flush()
        cluster.leaders[0] = None
        cluster.epochs[0] += 1
        cluster.fail("append", *(errors.NotLeaderError() for _ in range(2)))
        lost = await stuck.send(TOPIC, b"never", partition=0)
        cluster.fail("EndTransaction", Lost())
        commit = started(txn.commit())
        await asyncio.sleep(0.05)
        await close(client, producer)
        with pytest.raises(errors.CommitOutcomeUnknownError, match=r"closed before .* get_outcome\(\)"):
            await commit
        assert txn.state is TransactionState.COMMITTING
        with pytest.raises(errors.DeliveryTimedOutError):
            await lost

    cluster.run(work)
    assert outcomes(cluster) == [COMMITTED]


def test_a_batch_whose_commit_is_under_way_when_the_client_is_closed_is_of_unknown_outcome(cluster: Closable) -> None:
    async def work(_: FakeCluster) -> None:
        client = await cluster.client().start()
        cluster.fail("CommitTransaction", Lost())
        winners = [ParticipantResult(9, 5, 1, ())]
        commit = started(client.commit_transaction(SharedBatch("t", "run", "app", 1), 9, winners))
        await asyncio.sleep(0.05)
        await client.close()
        with pytest.raises(errors.CommitOutcomeUnknownError, match=r"closed before .* get_outcome\(\)") as told:
            await commit
        assert told.value.context["txn_no"] == "9"
        with pytest.raises(errors.IllegalStateError, match="this client is closed"):
            await client.commit_transaction(SharedBatch("t", "run", "app", 1), 9, winners)

    cluster.run(work)
    assert cluster.committed == {("app", 1): 1}


def test_markers_that_nobody_speaks_of_are_told_of_a_commit_that_is_decided(cluster: Closable) -> None:
    """`commit(wait="visible")` after the decision returned as if it had been answered."""
    cluster.has_leaderless = True

    async def work(_: FakeCluster) -> None:
        limits: dict[str, Any] = {"request_timeout_ms": 100, "default_api_timeout_ms": 1_000}
        async with cluster.client(**limits) as client, client.producer(transactional_id="t") as producer:
            txn = await producer.begin_transaction()
            await txn.send(TOPIC, b"a", partition=0)
            await txn.commit()
            with pytest.raises(
                errors.RequestTimedOutError, match="is committed, but nobody said that all markers are in"
            ):
                await txn.commit(wait="visible")
            assert (txn.outcome, txn.visible) == ("committed", False)
            cluster.has_leaderless = False
            await txn.commit(wait="visible")
            assert txn.visible

    cluster.run(work)


# ---------------------------------------------------------------- under something else


def test_who_waits_for_metadata_when_the_client_is_closed_is_told_so_and_not_cancelled(cluster: Closable) -> None:
    async def work(_: FakeCluster) -> None:
        client = await cluster.client().start()
        cluster.fail("GetMetadata", *(Lost() for _ in range(5)))
        waits = started(client._metadata.refresh(client._context.deadline_ms()))
        await asyncio.sleep(0.05)
        await client.close()
        with pytest.raises(errors.IllegalStateError, match="this client is closed"):
            await waits

    cluster.run(work)


def test_a_close_after_one_that_was_cancelled_raises_what_was_dropped(cluster: Closable) -> None:
    async def work(_: FakeCluster) -> None:
        client = await cluster.client().start()
        producer = await client.producer().start()
        cluster.fail("Produce", Lost())
        await producer.send(TOPIC, b"a", partition=0)
        closing = started(producer.close())
        await asyncio.sleep(0.05)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        with pytest.raises(errors.DeliveryTimedOutError, match="closed before the acknowledgement"):
            await producer.close()
        await producer.close()
        await client.close()

    cluster.run(work)


def test_a_participant_that_is_closed_while_it_joins_renews_nothing(cluster: Closable) -> None:
    async def work(_: FakeCluster) -> None:
        client = await cluster.client().start()
        joining = started(client.join_transaction(SharedBatch("t", "run", "app", 1), lease_ms=300))
        await asyncio.sleep(0.0005)
        (participant,) = client._made.values()
        await participant.close()
        with pytest.raises(errors.IllegalStateError, match="the participant is closed"):
            await joining
        await asyncio.sleep(2)
        assert cluster.count("RenewTransaction") == 0
        await client.close()

    cluster.run(work)
