"""What is not generated of the façade without `await`: how its objects are made, and that nothing is written over it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from oncelog import errors, sync
from oncelog.client.consume.fetched_records import ConsumerRecord, Records
from oncelog.client.defaults import SystemClock
from oncelog.client.produce.transactions.shared_batch import SharedBatch
from oncelog.sync import by_hand
from oncelog.types import TopicPartition
from oncelog.v1 import channel_pb2 as ch
from tests.unit.sdk.client.consume.scripted_group import ScriptedGroup
from tests.unit.sdk.client.fake_cluster import BROKERS, TOPIC, FakeCluster
from tests.unit.sdk.client.reading import append
from tests.unit.sdk.client.work.fake_channels import FakeChannels


@pytest.fixture
def client() -> Iterator[sync.Client]:
    with sync.Client(BROKERS, transport=FakeCluster(), clock=SystemClock(), random=Random(1)) as made:
        yield made


@pytest.mark.parametrize(
    ("kind", "base"),
    [
        (sync.Transaction, by_hand.TransactionBase),
        (sync.Worker, by_hand.WorkerBase),
        (sync.Producer, by_hand.ProducerBase),
        (sync.Participant, by_hand.ParticipantBase),
        (sync.Consumer, by_hand.ConsumerBase),
    ],
)
def test_nothing_generated_hides_what_is_written_by_hand(kind: type[Any], base: type[Any]) -> None:
    assert issubclass(kind, base)
    ours = {name for above in base.__mro__ for name in vars(above) if above.__module__ == by_hand.__name__}
    automatic = {"__doc__", "__module__", "__parameters__", "__orig_bases__", "__dict__", "__weakref__"}
    assert {*vars(kind)} & ours - automatic == set()


@pytest.mark.parametrize(
    ("kind", "method"), [(sync.Producer, "producer"), (sync.Consumer, "consumer"), (sync.Worker, "worker")]
)
def test_what_a_client_makes_cannot_be_made_without_one(kind: type[Any], method: str) -> None:
    with pytest.raises(TypeError, match=rf"made by a client.*oncelog\.SyncClient\('a:1'\)\.{method}\('orders'\)"):
        kind("orders", bootstrap_servers="a:1")


def test_every_producer_is_remembered_for_the_end_of_the_interpreter(client: sync.Client) -> None:
    with client.producer() as producer:
        assert producer._inner in producer._thread._producers


def test_a_delivery_that_is_done_is_asked_without_the_thread_of_the_loop(
    client: sync.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    with client.producer() as producer:
        delivery = producer.send(TOPIC, b"a", partition=0)
        many = producer.send_many(TOPIC, [b"b"])
        producer.flush()
        with monkeypatch.context() as patched:
            patched.setattr(sync.Delivery, "_run", None)
            patched.setattr(sync.BatchDelivery, "_run", None)
            assert delivery.result().offset == 0
            assert [written.records for written in many.result()] == [1]


def test_a_participant_knows_what_its_join_found(client: sync.Client) -> None:
    with client.join_transaction(SharedBatch("t", "run", "app", 1)) as participant:
        participant.send(TOPIC, b"a", partition=0)
        result = participant.flush()
        assert (participant.already_committed, participant.committed_rows) == (False, 0)
    client.commit_transaction(SharedBatch("t", "run", "app", 1), result.txn_no, [result])
    with client.join_transaction(SharedBatch("t", "run", "app", 1)) as again:
        assert (again.already_committed, again.committed_rows) == (True, 1)


def test_a_callback_of_subscribe_runs_in_a_thread_and_may_call_the_consumer() -> None:
    cluster = FakeCluster(partitions=1)
    append(cluster, [b"0", b"1"])
    ScriptedGroup(cluster, 0)
    with sync.Client(BROKERS, transport=cluster, clock=SystemClock(), random=Random(1)) as client:
        with client.consumer(group_id="g", auto_offset_reset="earliest") as consumer:
            told: list[tuple[str, bool]] = []

            def on_assigned(given: list[TopicPartition]) -> None:
                told.append(("assigned", threading.current_thread() is threading.main_thread()))
                consumer.seek(given[0], 1)

            def on_revoked(given: list[TopicPartition]) -> None:
                told.append(("revoked", threading.current_thread() is threading.main_thread()))
                consumer.commit()

            consumer.subscribe(TOPIC, on_assigned=on_assigned, on_revoked=on_revoked)
            assert next(iter(consumer)).value == b"1"
        assert told == [("assigned", False), ("revoked", False)]
    assert list(cluster.offsets.values()) == [2]


def test_a_callback_that_reads_is_refused_and_does_not_hang() -> None:
    cluster = FakeCluster(partitions=1)
    ScriptedGroup(cluster, 0)
    with (
        sync.Client(BROKERS, transport=cluster, clock=SystemClock(), random=Random(1)) as client,
        client.consumer(group_id="g") as consumer,
    ):
        consumer.subscribe(TOPIC, on_assigned=lambda given: consumer.getmany(timeout_ms=10))
        with pytest.raises(errors.IllegalStateError, match="may not read"):
            consumer.getmany(timeout_ms=5_000)


def test_work_that_is_done_once_runs_in_another_thread_and_may_block() -> None:
    cluster = FakeCluster()
    append(cluster, [b"1", b"2"])
    stop = threading.Event()
    threads: set[threading.Thread] = set()

    def fn(record: ConsumerRecord) -> None:
        threads.add(threading.current_thread())
        if record.value == b"2":
            stop.set()

    with sync.Client(BROKERS, transport=cluster, clock=SystemClock(), random=Random(1)) as client:
        ScriptedGroup(cluster, 0)
        done = client.process(TOPIC, TOPIC, fn, group_id="g", stop=stop, reading={"fetch_max_wait_ms": 50})
        assert (done.records, done.outputs) == (2, 0)
        assert len(threads) == 1
        assert {threading.current_thread(), client._thread._thread} & threads == set()
    assert [request.offsets[0].offset for request in cluster.requests("SendOffsets")] == [2]


def test_a_function_of_batches_runs_in_another_thread_and_gets_lists() -> None:
    cluster = FakeCluster()
    append(cluster, [b"1", b"2"])
    stop = threading.Event()
    calls: list[tuple[threading.Thread, list[bytes]]] = []

    def fn(records: Records) -> None:
        calls.append((threading.current_thread(), [record.value for record in records]))
        stop.set()

    with sync.Client(BROKERS, transport=cluster, clock=SystemClock(), random=Random(1)) as client:
        ScriptedGroup(cluster, 0)
        done = client.process_batches(TOPIC, TOPIC, fn, group_id="g", stop=stop)
        assert (done.records, done.outputs) == (2, 0)
        [(thread, values)] = calls
        assert values == [b"1", b"2"]
        assert thread not in (threading.current_thread(), client._thread._thread)


def test_an_error_of_work_in_a_thread_names_the_record() -> None:
    cluster = FakeCluster()
    append(cluster, [b"1"])
    with sync.Client(BROKERS, transport=cluster, clock=SystemClock(), random=Random(1)) as client:
        ScriptedGroup(cluster, 0)
        with pytest.raises(errors.ProcessingError, match="ZeroDivisionError") as raised:
            client.process(TOPIC, TOPIC, lambda record: 1 / 0, group_id="g")
        assert raised.value.context["offset"] == "0"
    assert cluster.requests("SendOffsets") == []


def test_works_that_the_log_remembers_are_entered_without_await() -> None:
    cluster = FakeCluster()
    append(cluster, [b"1", b"2"])
    seen: list[tuple[bytes, bool]] = []
    with sync.Client(BROKERS, transport=cluster, clock=SystemClock(), random=Random(1)) as client:
        ScriptedGroup(cluster, 0)
        with client.once(TOPIC, group_id="g", reading={"fetch_max_wait_ms": 50}) as once:
            for work in once.each():
                with contextlib.suppress(ZeroDivisionError), work:
                    assert work.fencing > 0
                    work.send(TOPIC, work.record.value, partition=1)
                    if not seen:
                        raise ZeroDivisionError
                seen.append((work.record.value, work.is_committed))
                if work.is_committed and work.record.value == b"2":
                    break
    assert seen == [(b"1", False), (b"1", True), (b"2", True)]
    assert cluster.values(1) == [b"1", b"2"]
    assert [request.offsets[0].offset for request in cluster.requests("SendOffsets")] == [0, 1, 2]


def test_a_caller_that_blocks_its_thread_keeps_its_records() -> None:
    cluster = FakeCluster()
    channels = FakeChannels(cluster)
    append(cluster, [b"0"])
    touched = threading.Event()

    async def settle(address: str, request: ch.SettleRequest, payload: bytes) -> tuple[Any, bytes]:
        if any(item.verdict == ch.VERDICT_TOUCH for item in request.items):
            touched.set()
        return await channels._Settle(address, request, payload)

    cluster._Settle = settle  # type: ignore[attr-defined]
    with (
        sync.Client(BROKERS, transport=cluster, clock=SystemClock(), random=Random(1)) as client,
        client.worker(TOPIC, channel="billing", auto_touch=True, ack_wait_ms=2_000) as worker,
    ):
        (message,) = worker.getmany()
        assert touched.wait(20), "the worker's loop runs in a thread of its own, whatever its caller does"
        message.ack()
    assert channels.settled() == [0]


def test_a_worker_hands_out_messages_and_settles_them() -> None:
    cluster = FakeCluster()
    channels = FakeChannels(cluster)
    append(cluster, [b"%d" % i for i in range(5)])
    with (
        sync.Client(BROKERS, transport=cluster, clock=SystemClock(), random=Random(1)) as client,
        client.worker(TOPIC, channel="billing") as worker,
    ):
        seen = []
        for message in worker:
            seen.append((message.offset, message.value, message.deliveries, message.topic, message.partition))
            assert (message.key, message.headers, message.timestamp_ms, message.state) == (None, (), 5, "held")
            message.touch()
            message.ack()
            if len(seen) == 2:
                break
        assert seen == [(0, b"0", 1, TOPIC, 0), (1, b"1", 1, TOPIC, 0)]
        rest: list[sync.ChannelMessage] = []
        while len(rest) < 3:
            rest += worker.getmany(timeout_ms=1_000)
        with pytest.raises(TypeError, match="not a int"):
            worker.ack([1])
        worker.ack(rest[:1])
        worker.nack(rest[1:2], delay_ms=60_000)
        rest[2].reject("no")
        with pytest.raises(errors.IllegalStateError):
            rest[2].nack()
        assert worker.claim(0) == []
    assert channels.settled() == [0, 1, 2, 4]
    assert channels.parts[0].dead == {4: "no"}


def test_a_transaction_acknowledges_messages() -> None:
    cluster = FakeCluster()
    channels = FakeChannels(cluster)
    append(cluster, [b"0", b"1"])
    with (
        sync.Client(BROKERS, transport=cluster, clock=SystemClock(), random=Random(1)) as client,
        client.worker(TOPIC, channel="billing") as worker,
        client.producer(transactional_id="t") as producer,
    ):
        found: list[sync.ChannelMessage] = []
        while len(found) < 2:
            found += worker.getmany()
        with producer.transaction() as txn:
            with pytest.raises(TypeError, match="the messages that it handed out"):
                txn.ack("abc")
            txn.ack(found[0])
            txn.ack(found[1:])
        channels.end_transaction(txn.txn_no, is_committed=True)
    assert channels.settled() == [0, 1]


def test_a_record_with_a_time_to_live_is_sent(client: sync.Client) -> None:
    with client.producer() as producer:
        producer.send(TOPIC, b"a", partition=0, ttl_ms=60_000).result()
        producer.send(TOPIC, b"b", partition=0, ttl_ms=60_000, headers={"x": "y"}).result()
        with pytest.raises(errors.InvalidDelayError):
            producer.send(TOPIC, b"c", ttl_ms=-1)
        with client.consumer(TOPIC, auto_offset_reset="earliest") as consumer:
            found: list[Any] = []
            while len(found) < 2:
                found += consumer.getmany()
    assert [[name for name, _ in record.headers] for record in found] == [
        ["oncelog.expires-ms"],
        ["x", "oncelog.expires-ms"],
    ]
