"""A sender gathers, sends, tries again and gives up: lingering, order, deadlines, memory, identities."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from oncelog import errors
from oncelog.core.batch import batch as codec
from tests.unit.sdk.client.fake_cluster import BROKERS, TOPIC, FakeCluster, Lost, fast
from tests.unit.sdk.client.sending import send_all


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


def test_linger_waits_for_more(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.producer(linger_ms=50) as producer:
            a = await producer.send(TOPIC, b"a", partition=0)
            await asyncio.sleep(0.02)
            b = await producer.send(TOPIC, b"b", partition=0)
            assert cluster.count("Produce") == 0
            await asyncio.sleep(0.04)
            assert (a.done(), b.done()) == (True, True)
            c = await producer.send(TOPIC, b"c", partition=0)
            before = cluster.loop.time()
            await producer.flush()
            assert c.offset == 2
            assert cluster.loop.time() - before < 0.02, "a flush does not linger"

    cluster.run(work)
    assert cluster.count("Produce") == 2


@pytest.mark.parametrize(
    "fault",
    [errors.NetworkError(), errors.NetworkError(refused="true"), Lost(), errors.ShuttingDownError()],
    ids=["broken", "refused", "answer lost", "shutting down"],
)
def test_a_failed_call_is_repeated_and_the_record_is_there_once(cluster: FakeCluster, fault: BaseException) -> None:
    cluster.fail("Produce", fault, fault)

    async def work(_: FakeCluster) -> int:
        async with cluster.client() as client, client.producer(**fast()) as producer:
            return (await producer.send_and_wait(TOPIC, b"v", partition=0)).offset

    assert cluster.run(work) == 0
    assert cluster.values(0) == [b"v"]


def test_a_definite_refusal_reaches_the_caller_and_the_next_record_goes_on(cluster: FakeCluster) -> None:
    cluster.fail("append", errors.MessageTooLargeError())

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.producer(**fast()) as producer:
            with pytest.raises(errors.MessageTooLargeError):
                await producer.send_and_wait(TOPIC, b"0", partition=0)
            assert (await producer.send_and_wait(TOPIC, b"1", partition=0)).offset == 0

    cluster.run(work)
    assert cluster.count("InitProducerId") == 2, "the sequence has a hole: a new identity"


def test_what_stands_behind_a_refused_batch_fails_with_it(cluster: FakeCluster) -> None:
    cluster.fail("append", errors.InvalidRecordError())

    async def work(_: FakeCluster) -> list[BaseException | None]:
        async with cluster.client() as client, client.producer(**fast(batch_size=550)) as producer:
            deliveries = await send_all(producer, range(4))
            return await asyncio.gather(*deliveries, return_exceptions=True)  # type: ignore[arg-type]

    results = cluster.run(work)
    assert isinstance(results[0], errors.InvalidRecordError)
    written = [item for item in results if not isinstance(item, BaseException)]
    assert len(written) == len(cluster.values(0))


def test_what_was_never_sent_times_out_definitely(cluster: FakeCluster) -> None:
    cluster.leaders[0] = None

    async def work(_: FakeCluster) -> None:
        config = fast(delivery_timeout_ms=500)
        async with cluster.client() as client, client.producer(**config) as producer:
            with pytest.raises(errors.DeliveryTimedOutError) as caught:
                await producer.send_and_wait(TOPIC, b"0", partition=0)
            assert caught.value.context["written"] == "false"

    cluster.run(work)
    assert 0.4 < cluster.loop.time() < 2.0


def test_send_waits_for_room_in_order(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        config = fast(buffer_memory=4_000, batch_size=1_000)
        async with cluster.client() as client, client.producer(**config) as producer:
            deliveries = [await producer.send(TOPIC, bytes(900), partition=0) for _ in range(50)]
            assert producer._sender.deliveries.queues.used_bytes <= 4_000 + 1_500
            assert [(await d).offset for d in deliveries] == list(range(50))
            assert producer._sender.deliveries.queues.used_bytes == 0

    cluster.run(work)


def test_no_room_within_max_block_ms_is_an_error(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        config = fast(buffer_memory=2_000, batch_size=1_000, max_block_ms=100)
        async with cluster.client() as client, client.producer(**config) as producer:
            await producer.send_and_wait(TOPIC, b"", partition=0)
            cluster.leaders[0] = None
            await producer.send(TOPIC, bytes(1_200), partition=0)
            with pytest.raises(errors.BufferExhaustedError):
                await producer.send(TOPIC, bytes(1_200), partition=0)
            cluster.leaders[0] = BROKERS[0]
            await producer.flush()
            assert producer._sender.deliveries.queues.used_bytes == 0

    cluster.run(work)


def test_calls_are_watched_also_when_the_last_look_found_none(cluster: FakeCluster) -> None:
    """The timer's turn may come between an answer and the next batch: then it finds nothing open, and is not set again."""

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.producer() as producer:
            await producer.send_and_wait(TOPIC, b"v", partition=0)
            sender = producer._sender
            sending = asyncio.ensure_future(producer.send_and_wait(TOPIC, b"w", partition=0))
            while not sender._is_draining:  # noqa: ASYNC110
                await asyncio.sleep(0)
            if sender._sweep_timer is not None:
                sender._sweep_timer.cancel()
                sender._sweep_timer = None
            while sender._is_draining:  # noqa: ASYNC110
                await asyncio.sleep(0)
            assert sender._sweep_timer is not None
            await sending

    cluster.run(work)


def test_a_renewal_that_was_dropped_before_it_began_can_be_asked_for_again() -> None:
    """Its `finally` never ran, so nobody asked for an identity any more."""
    cluster = FakeCluster()

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.producer() as producer:
            await producer.send_and_wait(TOPIC, b"v", partition=0)
            sender = producer._sender
            (partition, window), before = next(iter(sender.deliveries.windows.items())), cluster.count("InitProducerId")
            window.burnt = sender.deliveries.identities.current
            assert not sender._core._has_identity(partition, window)
            sender._act(sender.deliveries.taken())
            sender.drop(errors.TxnEndedError("over"))
            await cluster.pause()
            assert cluster.count("InitProducerId") == before
            assert not sender._core._has_identity(partition, window)
            sender._act(sender.deliveries.taken())
            await cluster.pause()
            assert cluster.count("InitProducerId") == before + 1

    cluster.run(work)


@pytest.mark.parametrize("txn", [False, True], ids=["plain", "in a transaction"])
def test_a_batch_that_cannot_be_encoded_fails_alone(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, txn: bool
) -> None:
    """It ended the whole producer, with the name of a transaction's state also where there was none."""
    encode = codec.encode_rows

    def broken(keys: Any, values: Any, *identity: Any, **options: Any) -> bytes:
        if values == [b"bad"]:
            raise ZeroDivisionError("nobody foresaw this")
        return encode(keys, values, *identity, **options)

    monkeypatch.setattr(codec, "encode_rows", broken)

    async def plain(producer: Any) -> None:
        good, bad = await producer.send(TOPIC, b"good", partition=1), await producer.send(TOPIC, b"bad", partition=0)
        told = await asyncio.gather(good, bad, return_exceptions=True)
        assert told[0].offset == 0  # type: ignore[union-attr]
        assert isinstance(told[1], errors.InvalidRecordError)
        assert isinstance(told[1].__cause__, ZeroDivisionError)
        assert (await producer.send_and_wait(TOPIC, b"later", partition=0)).offset == 0

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client:
            if not txn:
                async with client.producer() as producer:
                    await plain(producer)
                return
            async with client.producer(transactional_id="t") as producer:
                with pytest.raises(errors.InvalidRecordError, match="could not be encoded"):
                    async with producer.transaction() as one:
                        await one.send(TOPIC, b"bad", partition=0)
                async with producer.transaction() as other:
                    await other.send(TOPIC, b"good", partition=1)

    cluster.run(work)
    assert cluster.values(1) == [b"good"]


@pytest.mark.parametrize("txn", [None, "t"])
def test_a_defect_of_a_producer_is_told_in_its_own_words(cluster: FakeCluster, txn: str | None) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client:
            producer = await client.producer(transactional_id=txn).start()
            if txn is not None:
                await producer.begin_transaction()
            producer._sender._crashed(ZeroDivisionError("a defect"))
            with pytest.raises(errors.OncelogError, match=r"writes nothing more: .* report this: .*a defect") as raised:
                producer._sender.room.refuse_when_over()
            assert isinstance(raised.value, errors.IllegalStateError if txn is None else errors.InvalidTxnStateError)
            await producer.close()

    cluster.run(work)


@pytest.mark.parametrize("txn", [None, "t"])
def test_what_a_defect_drops_after_it_was_sent_is_not_told_as_certainly_failed(
    cluster: FakeCluster, txn: str | None
) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client:
            producer = await client.producer(transactional_id=txn, linger_ms=50).start()
            writes: Any = producer if txn is None else await producer.begin_transaction()
            cluster.fail("Produce", Lost())
            sent = await writes.send(TOPIC, b"written", partition=0)
            await asyncio.sleep(0.1)
            queued = await writes.send(TOPIC, b"never sent", partition=1)
            producer._sender._crashed(ZeroDivisionError("a defect"))
            with pytest.raises(errors.DeliveryTimedOutError, match=r"not known whether .* were written: .*a defect"):
                sent.result()
            with pytest.raises(errors.OncelogError, match="a defect") as told:
                queued.result()
            assert not isinstance(told.value, errors.DeliveryTimedOutError)
            await producer.close()

    cluster.run(work)
    assert (cluster.values(0), cluster.values(1)) == ([b"written"], [])


def test_the_calls_of_batches_that_wait_begin_in_one_turn_so_that_a_link_sends_them_together(
    cluster: FakeCluster,
) -> None:
    """A link sends in the turn after a call what was called until then: one envelope, so one append and one replication."""
    open_envelopes: list[int] = []
    sent: list[int] = []

    def called(_address: str, _request: Any) -> None:
        if not open_envelopes:
            open_envelopes.append(0)
            asyncio.get_running_loop().call_soon(lambda: sent.append(open_envelopes.pop()))
        open_envelopes[0] += 1

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.producer(batch_size=1_000, linger_ms=0) as producer:
            await producer.send_and_wait(TOPIC, b"first", partition=0)
            cluster.fail("Produce", called, called)
            for delivery in [await producer.send(TOPIC, bytes(900), partition=0) for _ in range(2)]:
                await delivery

    asyncio.run(work(cluster))  # and not on the simulated loop, which gives turns in a random order
    assert sent == [2]
