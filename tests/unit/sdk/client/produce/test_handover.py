"""What is given to a producer from other threads, at the moments that a thread cannot be made to hit."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from oncelog import errors
from oncelog.client.client import Client
from oncelog.client.produce.handover import Given, Handover
from oncelog.client.produce.producer import Producer
from oncelog.client.produce.transactions.transaction import Transaction
from oncelog.client.routing.metadata import Topic
from oncelog.core.produce.accumulator import Batch, Row
from tests.unit.sdk.client.fake_cluster import BROKERS, TOPIC, TOPIC_ID, FakeCluster

Calls = list[Callable[[], object]]


def given(handover: Handover, value: bytes, partition: int | None = 0) -> Given:
    made = handover.given(TOPIC, value, None, partition, None, ())
    assert made is not None
    return made


async def warm(handover: Handover) -> None:
    """The topic is known from now on."""
    await handover.put(given(handover, b"first"))


def test_the_loop_is_told_once_for_many_records(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.producer() as producer:
            handover, calls = producer.handover(), Calls()
            assert not handover.offer(given(handover, b"unknown topic"), calls.append)
            await warm(handover)
            records = [given(handover, b"%d" % i) for i in range(5)]
            assert all(handover.offer(item, calls.append) for item in records)
            assert len(calls) == 1
            assert not records[0].done()
            with pytest.raises(errors.IllegalStateError, match="still on its way"):
                records[0].result()
            calls[0]()
            assert handover.offer(given(handover, b"5"), calls.append)
            assert len(calls) == 2
            calls[1]()
            await producer.flush()
            assert [item.result().offset for item in records] == [1, 2, 3, 4, 5]
        assert cluster.values(0) == [b"first", *(b"%d" % i for i in range(6))]

    cluster.run(work)


def test_what_was_given_before_the_end_and_taken_after_it_is_refused_aloud(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.producer(transactional_id="t") as producer:
            calls = Calls()
            async with producer.transaction() as txn:
                handover = txn.handover()
                await warm(handover)
                late = given(handover, b"late")
                assert handover.offer(late, calls.append)
            async with producer.transaction() as following:
                await following.send(TOPIC, b"of the next", partition=0)
                calls[0]()
            with pytest.raises(errors.IllegalStateError):
                late.result()
        assert cluster.values(0) == [b"first", b"of the next"]

    cluster.run(work)


async def _fail(producer: Producer) -> None:
    producer._sender.deliveries.failure = errors.ProducerFencedError("a newer one")


async def _close(producer: Producer) -> None:
    await producer.close()


@pytest.mark.parametrize("end", [_fail, _close])
def test_a_producer_that_ended_meanwhile_is_the_outcome(cluster: FakeCluster, end: object) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client:
            producer = await client.producer().start()
            handover, calls = producer.handover(), Calls()
            await warm(handover)
            await producer.flush()
            late = given(handover, b"late")
            assert handover.offer(late, calls.append)
            await end(producer)  # type: ignore[operator]
            calls[0]()
            with pytest.raises(errors.OncelogError) as raised:
                await producer.flush()
            with pytest.raises(type(raised.value)):
                late.result()
            with pytest.raises(type(raised.value)):
                handover.offer(given(handover, b"later"), calls.append)
        assert cluster.values(0) == [b"first"]

    cluster.run(work)


def keyed(handover: Handover, key: bytes) -> Given:
    made = handover.given(TOPIC, b"v" + key, key, None, None, ())
    assert made is not None
    return made


@pytest.mark.parametrize("mistake", [errors.UnknownTopicError("gone"), ValueError("a defect")])
def test_a_record_that_could_not_be_taken_is_raised_by_a_flush_and_harms_no_other(
    cluster: FakeCluster, mistake: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client:
            producer = await client.producer().start()
            handover, calls = producer.handover(), Calls()
            await warm(handover)
            astray, well = given(handover, b"astray", 1), given(handover, b"well")
            assert handover.offer(astray, calls.append)
            assert handover.offer(well, calls.append)
            queue = producer._writer.put_rows

            def put_rows(topic: Topic, rows: Sequence[Row]) -> tuple[Batch, int, int]:
                if rows[0].value == b"astray":
                    raise mistake
                return queue(topic, rows)

            monkeypatch.setattr(producer._writer, "put_rows", put_rows)
            calls[0]()
            with pytest.raises(errors.OncelogError, match=str(mistake.args[0])) as raised:
                await producer.flush()
            assert mistake in (raised.value, raised.value.__cause__)
            assert isinstance(raised.value, errors.UnknownTopicError | errors.InvalidRecordError)
            assert astray.done()
            assert well.result().offset == 1
            await producer.close()
        assert cluster.values(0) == [b"first", b"well"]

    cluster.run(work)


def test_a_function_that_chooses_partitions_fails_its_caller(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.producer(partitioner=lambda key, _: int(key)) as producer:
            handover, calls = producer.handover(), Calls()
            await warm(handover)
            for key in (b"0", b"no number", b"1"):
                assert not handover.offer(keyed(handover, key), calls.append)
            assert handover.offer(given(handover, b"it names one"), calls.append)
            calls[0]()
            await handover.put(keyed(handover, b"0"))
            with pytest.raises(ValueError, match="no number"):
                await handover.put(keyed(handover, b"no number"))
        assert cluster.values(0) == [b"first", b"it names one", b"v0"]

    cluster.run(work)


def test_room_is_counted_for_what_the_loop_has_not_taken_yet(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.producer(buffer_memory=4_000, batch_size=1_000) as producer:
            handover, calls = producer.handover(), Calls()
            await warm(handover)
            await producer.flush()
            taken = 0
            while handover.offer(given(handover, b"x" * 100), calls.append):
                taken += 1
            assert 4_000 // 130 <= taken <= 4_000 // 116
            calls[0]()
            await producer.flush()
            assert handover.offer(given(handover, b"x"), calls.append)
            calls[1]()

    cluster.run(work)


def test_room_is_counted_for_what_the_loop_is_taking(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.producer(buffer_memory=4_000, batch_size=1_000) as producer:
            handover, calls = producer.handover(), Calls()
            await warm(handover)
            await producer.flush()
            while handover.offer(given(handover, b"x" * 100), calls.append):
                pass
            queue, meanwhile = producer._writer.put_rows, []

            def put_rows(topic: Topic, rows: Sequence[Row]) -> tuple[Batch, int, int]:
                meanwhile.append(handover.offer(given(handover, b"z" * 100), calls.append))
                return queue(topic, rows)

            monkeypatch.setattr(producer._writer, "put_rows", put_rows)
            calls[0]()
            assert len(meanwhile) > 5
            assert not any(meanwhile)
            await producer.flush()
            assert handover.offer(given(handover, b"y" * 3_000), calls.append)
            monkeypatch.undo()
            calls[-1]()

    cluster.run(work)


def test_no_thread_relies_on_a_call_that_another_one_has_not_made_yet(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.producer() as producer:
            handover, slow_calls, calls = producer.handover(), Calls(), Calls()
            await warm(handover)
            one, other = given(handover, b"one"), given(handover, b"other")

            def soon(take: Callable[[], object]) -> None:
                """Another thread sends and flushes while this one is about to call."""
                assert handover.offer(other, calls.append)
                for call in calls:
                    call()
                slow_calls.append(take)

            assert handover.offer(one, soon)
            await producer.flush()
            assert other.done()
            assert one.done()
            slow_calls[0]()
            last = given(handover, b"last")
            assert handover.offer(last, calls.append)
            calls[-1]()
            assert (await last).offset == 3
        assert cluster.values(0) == [b"first", b"one", b"other", b"last"]

    cluster.run(work)


def test_a_thread_that_is_interrupted_before_it_calls_stops_nothing_that_comes_later(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.producer() as producer:
            handover, calls = producer.handover(), Calls()
            await warm(handover)

            def interrupted(_: Callable[[], object]) -> None:
                raise KeyboardInterrupt

            with pytest.raises(KeyboardInterrupt):
                handover.offer(given(handover, b"taken back: a flush would not wait for it"), interrupted)
            later = given(handover, b"later")
            assert handover.offer(later, calls.append)
            calls[0]()
            assert (await later).offset == 1
        assert cluster.values(0) == [b"first", b"later"]

    cluster.run(work)


def test_a_thread_that_is_interrupted_after_it_called_has_sent_its_record(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.producer() as producer:
            handover = producer.handover()
            await warm(handover)

            def interrupted(take: Callable[[], object]) -> None:
                take()
                raise KeyboardInterrupt

            sent = given(handover, b"sent")
            with pytest.raises(KeyboardInterrupt):
                handover.offer(sent, interrupted)
            assert (await sent).offset == 1

    cluster.run(work)


def test_a_signal_handler_may_send_in_the_midst_of_a_send(cluster: FakeCluster) -> None:
    """It waited for its own thread, for ever."""

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.producer() as producer:
            handover, calls, told = producer.handover(), Calls(), []
            await warm(handover)
            outer, inner = given(handover, b"outer"), given(handover, b"inner")

            class Interrupted(list[Given]):
                def append(self, item: Given) -> None:
                    super().append(item)
                    if item is outer:
                        told.append(handover.offer(inner, calls.append))

            handover._given = Interrupted()
            thread = threading.Thread(target=lambda: told.append(handover.offer(outer, calls.append)), daemon=True)
            thread.start()
            thread.join(5)
            assert told == [True, True]
            for call in calls:
                call()
            assert [(await outer).offset, (await inner).offset] == [1, 2]

    cluster.run(work)


def test_what_the_loop_takes_after_the_client_was_closed_has_that_as_its_outcome(cluster: FakeCluster) -> None:
    """Its `result()` waited for ever."""

    async def work(_: FakeCluster) -> None:
        client = await cluster.client().start()
        handover, calls = (await client.producer().start()).handover(), Calls()
        await warm(handover)
        late = given(handover, b"late")
        assert handover.offer(late, calls.append)
        await client.close()
        calls[0]()
        with pytest.raises(errors.IllegalStateError, match="closed"):
            late.result()
        assert handover._taking_bytes == 0

    cluster.run(work)


def test_topics_that_are_not_being_sent_to_are_not_asked_about(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that were ever sent to were, each time the loop took records."""

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.producer() as producer:
            handover, calls, asked = producer.handover(), Calls(), []
            await warm(handover)
            handover._topics["other"] = Topic("other", "0f" * 16, 1)
            known_topic = producer._metadata.known_topic

            def known(name: str) -> Topic | None:
                asked.append(name)
                return known_topic(name)

            monkeypatch.setattr(producer._metadata, "known_topic", known)
            for number in range(5):
                assert handover.offer(given(handover, b"v", number % 2), calls.append)
            calls[0]()
            assert asked == [TOPIC]
            cluster.late.update(BROKERS)
            producer._metadata.forget(TOPIC)
            assert handover.offer(given(handover, b"w"), calls.append)
            calls[1]()
            assert not handover.offer(given(handover, b"x"), calls.append), "nobody knows the topic any more"

    cluster.run(work)


def test_whoever_waits_on_the_loop_for_a_record_that_is_not_there_is_told(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.producer() as producer:
            record = given(producer.handover(), b"v")
            with pytest.raises(errors.IllegalStateError, match="never reached"):
                await record
            with pytest.raises(errors.IllegalStateError, match="never reached"):
                record.add_done_callback(print)
            with pytest.raises(errors.IllegalStateError, match="still on its way"):
                record.result()

    cluster.run(work)


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


async def lingering(client: Client, batch_size: int, in_transaction: bool) -> Producer | Transaction:
    """Sends nothing by itself; its first record without a key goes to partition 0."""
    options: dict[str, Any] = {"batch_size": batch_size, "linger_ms": 60_000}
    if in_transaction:
        writer = await client.producer(transactional_id="t", **options).begin_transaction()
    else:
        writer = await client.producer(**options).start()
    await writer.send(TOPIC, b"first", partition=0)
    await writer.flush()
    writer._writer._sticky = {TOPIC_ID: 0}
    return writer


@pytest.mark.parametrize("in_transaction", [False, True])
@pytest.mark.parametrize("batch_size", [1, 700, 1_400, 100_000])
def test_many_records_go_where_they_would_have_gone_one_after_the_other(
    cluster: FakeCluster, batch_size: int, in_transaction: bool
) -> None:
    rows = [(b"%d" % i * (i % 7), b"key" if i % 5 == 0 else None, 1 if i % 11 == 0 else None) for i in range(100)]

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client:
            together, single = [await lingering(client, batch_size, in_transaction) for _ in range(2)]
            handover, calls = together.handover(), Calls()
            await handover.put(given(handover, b"the topic is known"))
            await single.send(TOPIC, b"the topic is known", partition=0)
            told = []
            for value, key, partition in rows:
                made = handover.given(TOPIC, value, key, partition, None, (("h", b"x"),) if key else ())
                assert made is not None
                assert handover.offer(made, calls.append)
                told.append(await single.send(TOPIC, value, key, partition, None, (("h", b"x"),) if key else ()))
                made_of.append(made)
            calls[0]()
            assert [made.partition for made in made_of] == [item.partition for item in told]
            assert [made._index for made in made_of] == [item._index for item in told]
            for a, b in zip(made_of, told, strict=True):
                assert (a._batch.values, a._batch.keys, a._batch.headers) == (
                    b._batch.values,
                    b._batch.keys,
                    b._batch.headers,
                )

    made_of: list[Given] = []
    cluster.run(work)
