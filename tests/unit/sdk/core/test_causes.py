"""A time-out names what stood in the way, and a state its first reason."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from oncelog import errors
from oncelog.client.produce.producer import Producer
from oncelog.core.throttles import Throttles
from oncelog.wire import methods
from tests.unit.sdk.client.fake_cluster import BROKERS, TOPIC, FakeCluster, Lost

TOO_FEW = "NOT_ENOUGH_REPLICAS on orders-0: ISR 1 of 2 needed"


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


def too_few(cluster: FakeCluster) -> None:
    """From now on the ISR is below its minimum."""
    cluster.fail("append", *(errors.NotEnoughReplicasError(isr=1, min_insync_replicas=2) for _ in range(1_000)))


async def failure(producer: Producer) -> errors.OncelogError:
    """Why a record was not delivered."""
    with pytest.raises(errors.DeliveryTimedOutError) as caught:
        await producer.send_and_wait(TOPIC, b"a", partition=0)
    return caught.value


def test_a_delivery_time_out_names_the_isr_that_is_too_small(cluster: FakeCluster) -> None:
    too_few(cluster)

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.producer(delivery_timeout_ms=500) as producer:
            error = await failure(producer)
            assert str(error).startswith(f"{TOO_FEW}; delivery_timeout_ms passed: the records were not written")
            assert isinstance(error.__cause__, errors.NotEnoughReplicasError)
            assert error.context["written"] == "false"

    cluster.run(work)


def test_what_waits_behind_a_refused_batch_names_its_obstacle_too(cluster: FakeCluster) -> None:
    """Regression: the reason was "never sent"."""
    too_few(cluster)

    async def work(_: FakeCluster) -> None:
        config = {"delivery_timeout_ms": 500, "batch_size": 600, "max_in_flight_requests_per_connection": 1}
        async with cluster.client() as client, client.producer(**config) as producer:
            sent = [await producer.send(TOPIC, b"x" * 500, partition=0) for _ in range(3)]
            for delivery in sent:
                with pytest.raises(errors.DeliveryTimedOutError, match=TOO_FEW) as caught:
                    await delivery
                assert isinstance(caught.value.__cause__, errors.NotEnoughReplicasError)

    cluster.run(work)


def test_a_full_buffer_names_what_keeps_it_full(cluster: FakeCluster) -> None:
    too_few(cluster)

    async def work(_: FakeCluster) -> None:
        config = {"buffer_memory": 1_200, "batch_size": 600, "max_block_ms": 100, "delivery_timeout_ms": 1_000}
        async with cluster.client() as client:
            producer = client.producer(**config)
            for _ in range(2):
                await producer.send(TOPIC, b"x" * 20, partition=0)
                await cluster.pause()
            with pytest.raises(errors.BufferExhaustedError, match=TOO_FEW) as caught:
                await producer.send(TOPIC, b"x" * 500, partition=0)
            assert isinstance(caught.value.__cause__, errors.NotEnoughReplicasError)
            with pytest.raises(
                errors.DeliveryTimedOutError, match=f"closed before the acknowledgement came: {TOO_FEW}"
            ):
                await producer.close(timeout_ms=100)

    cluster.run(work)


def test_a_partition_without_a_leader_is_named(cluster: FakeCluster) -> None:
    cluster.leaders[0] = None

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.producer(delivery_timeout_ms=500) as producer:
            assert str(await failure(producer)).startswith("LEADER_NOT_AVAILABLE on orders-0: ")

    cluster.run(work)


def test_a_quota_is_named(cluster: FakeCluster) -> None:
    """A producer that is throttled until its records are too old reports the quota."""
    throttles = cluster.throttles = Throttles()  # type: ignore[attr-defined]

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.producer(delivery_timeout_ms=500) as producer:
            now = int(asyncio.get_running_loop().time() * 1000)
            throttles.told(BROKERS[0], methods.PRODUCE.name, 60_000, now)
            error = await failure(producer)
            assert str(error).startswith("THROTTLING_QUOTA_EXCEEDED on orders-0: b0:1 makes this client wait")
            assert "produce_bytes_per_s" in str(error)
            assert isinstance(error.__cause__, errors.ThrottlingQuotaExceededError)

    cluster.run(work)


def patient(**more: Any) -> dict[str, Any]:
    return {"default_api_timeout_ms": 1_000, "request_timeout_ms": 400, "retry_backoff_ms": 50, **more}


def test_silence_at_the_end_does_not_hide_what_was_said_before(cluster: FakeCluster) -> None:
    """In a transaction the coordinator's own word arrives, with the cause that it has."""
    said = "the shard cannot serve without its log: NOT_ENOUGH_REPLICAS on __transaction_state-0: ISR 1 of 2 needed"
    cluster.fail("InitProducerId", errors.CoordinatorLoadInProgressError(said), *(Lost() for _ in range(100)))

    async def work(_: FakeCluster) -> None:
        async with cluster.client(**patient()) as client:
            with pytest.raises(
                errors.RequestTimedOutError, match="before that: COORDINATOR_LOAD_IN_PROGRESS"
            ) as caught:
                await client.producer(transactional_id="t").start()
            assert said in str(caught.value)
            assert isinstance(caught.value.__cause__, errors.CoordinatorLoadInProgressError)

    cluster.run(work)


def test_a_cluster_that_vanishes_does_not_hide_what_was_said_before(cluster: FakeCluster) -> None:

    def last_word(address: str, request: Any) -> BaseException:
        cluster.down = {*BROKERS}
        return errors.NotCoordinatorError()

    cluster.fail("InitProducerId", last_word)

    async def work(_: FakeCluster) -> None:
        async with cluster.client(**patient()) as client:
            with pytest.raises(errors.ClusterUnreachableError, match="b0:1: connection refused") as caught:
                await client.producer(transactional_id="t").start()
            assert isinstance(caught.value.__cause__, errors.NotCoordinatorError)

    cluster.run(work)


# ---------------------------------------------------------------- states


def fenced() -> errors.ProducerFencedError:
    return errors.ProducerFencedError("another session of this transactional id exists", current_epoch=1)


@pytest.mark.parametrize("method", ["append", "EndTransaction"], ids=["by a leader", "by the coordinator"])
def test_after_a_fencing_everything_says_fenced(cluster: FakeCluster, method: str) -> None:
    """Regression: `begin_transaction` said that another transaction is open."""

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.producer(transactional_id="t") as producer:
            transaction = await producer.begin_transaction()
            cluster.fail(method, fenced())
            await transaction.send(TOPIC, b"a", partition=0)
            with pytest.raises(errors.ProducerFencedError) as first:
                await transaction.commit()
            for _ in range(2):
                with pytest.raises(errors.ProducerFencedError, match="another session") as later:
                    await producer.begin_transaction()
                assert later.value.__cause__ is first.value
                assert later.value.context == first.value.context
            with pytest.raises(errors.ProducerFencedError):
                await transaction.send(TOPIC, b"b")

    cluster.run(work)


def test_a_failed_transaction_in_the_way_says_why_it_failed(cluster: FakeCluster) -> None:

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.producer(transactional_id="t") as producer:
            transaction = await producer.begin_transaction()
            cluster.fail("append", errors.InvalidRecordError("no consumer could read it"))
            await transaction.send(TOPIC, b"a", partition=0)
            with pytest.raises(errors.InvalidRecordError):
                await transaction.commit()
            with pytest.raises(
                errors.IllegalStateError, match=r"it failed: abort it; the first reason: no consumer"
            ) as caught:
                await producer.begin_transaction()
            assert isinstance(caught.value.__cause__, errors.InvalidRecordError)
            await transaction.abort()
            await (await producer.begin_transaction()).commit()

    cluster.run(work)


def test_a_transaction_in_the_way_says_what_ends_it(cluster: FakeCluster) -> None:

    async def work(_: FakeCluster) -> None:
        async with cluster.client(**patient()) as client, client.producer(transactional_id="t") as producer:
            transaction = await producer.begin_transaction()
            with pytest.raises(errors.IllegalStateError, match="it is open: commit or abort it first"):
                await producer.begin_transaction()
            cluster.fail("EndTransaction", *(Lost() for _ in range(3)))
            await transaction.send(TOPIC, b"a", partition=0)
            with pytest.raises(errors.CommitOutcomeUnknownError):
                await transaction.commit()
            with pytest.raises(errors.IllegalStateError, match=r"its commit was asked for: call commit\(\) again"):
                await producer.begin_transaction()
            await transaction.commit()

    cluster.run(work)


@pytest.mark.parametrize("is_told_by", ["append", "EndTransaction"], ids=["a leader", "the coordinator"])
def test_a_commit_after_the_coordinators_time_out_says_so(cluster: FakeCluster, is_told_by: str) -> None:
    """Regression: it said only that nothing can join or change it."""
    refusal = errors.TxnEndedError() if is_told_by == "append" else errors.TxnAbortedError()

    async def work(_: FakeCluster) -> None:
        config = {"transactional_id": "t", "transaction_timeout_ms": 1_500}
        async with cluster.client() as client, client.producer(**config) as producer:
            transaction = await producer.begin_transaction()
            await (await transaction.send(TOPIC, b"a", partition=0))
            await asyncio.sleep(2)
            cluster.fail(is_told_by, refusal)
            await transaction.send(TOPIC, b"b", partition=0)
            with pytest.raises(type(refusal), match=r"timed out after 1500 ms \(transaction_timeout_ms\)") as caught:
                await transaction.commit()
            assert isinstance(caught.value.__cause__, type(refusal))

    cluster.run(work)


def test_an_end_before_its_time_is_no_time_out(cluster: FakeCluster) -> None:
    """An operator may abort a transaction too."""

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.producer(transactional_id="t") as producer:
            transaction = await producer.begin_transaction()
            await transaction.send(TOPIC, b"a", partition=0)
            cluster.fail("EndTransaction", errors.TxnAbortedError("an operator aborted it"))
            with pytest.raises(errors.TxnAbortedError, match="an operator"):
                await transaction.commit()

    cluster.run(work)
