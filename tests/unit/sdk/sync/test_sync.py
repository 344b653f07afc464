"""The façade without `await`: same results, any thread, and no use of it in a forked child."""

from __future__ import annotations

import asyncio
import concurrent.futures
import gc
import os
import queue
import signal
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from oncelog import errors, sync
from oncelog.client.defaults import LazyGrpcTransport, SystemClock
from oncelog.client.produce.transactions.shared_batch import SharedBatch
from oncelog.link import grpc_transport
from tests.unit.sdk.client.fake_cluster import BROKERS, TOPIC, FakeCluster


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


@pytest.fixture
def client(cluster: FakeCluster) -> Iterator[sync.Client]:
    with sync.Client(BROKERS, transport=cluster, clock=SystemClock(), random=Random(1)) as made:
        yield made


def test_write_and_read(client: sync.Client) -> None:
    with client.producer() as producer:
        delivery = producer.send(TOPIC, b"a", partition=0)
        assert delivery.result().offset == 0
        assert delivery.done()
        assert producer.send_and_wait(TOPIC, b"b", partition=0).offset == 1
        rows = pa.record_batch({"value": pa.array([b"c", b"d"])})
        assert producer.send_batch(TOPIC, rows, partition=0).result()[0].base_offset == 2
        assert producer.send_many(TOPIC, [b"e"]).rows == 1
        producer.flush()
    with client.consumer(auto_offset_reset="earliest", group_id="g") as consumer:
        consumer.assign([(TOPIC, 0)])
        assert [r.value for r in consumer.getmany(timeout_ms=2_000, max_records=2)] == [b"a", b"b"]
        consumer.commit()
        assert consumer.committed((TOPIC, 0))[consumer.assignment()[0]].offset == 2  # type: ignore[union-attr]
        assert [o for rows in consumer.read_range((TOPIC, 0), 1, 3) for o in rows.column("offset").to_pylist()] == [
            1,
            2,
        ]
        consumer.seek((TOPIC, 0), 3)
        assert next(iter(consumer)).value == b"d"


def test_a_transaction_block(client: sync.Client, cluster: FakeCluster) -> None:
    with client.producer(transactional_id="t") as producer:
        with producer.transaction() as txn:
            txn.send(TOPIC, b"a", partition=0)
        assert (txn.txn_no, txn.outcome) == (1, "committed")
        aborted = producer.transaction()
        with pytest.raises(KeyError), aborted:
            raise KeyError
    assert aborted.outcome == "aborted"
    assert len(cluster.end_requests) == 1


def test_a_participant(client: sync.Client) -> None:
    with client.join_transaction(SharedBatch("t", "run", "app", 1)) as participant:
        participant.send(TOPIC, b"a", partition=0)
        many = participant.send_many(TOPIC, (value for value in (b"b", b"c")))
        result = participant.flush()
    assert (many.rows, many.done(), sum(written.records for written in many.result())) == (2, True, 2)
    assert client.commit_transaction(SharedBatch("t", "run", "app", 1), result.txn_no, [result]).committed_rows == 3


def test_any_thread_may_call(client: sync.Client, cluster: FakeCluster) -> None:
    with client.producer() as producer, ThreadPoolExecutor(4) as pool:
        offsets = list(pool.map(lambda i: producer.send(TOPIC, b"%d" % i, partition=0).result().offset, range(40)))
    assert sorted(offsets) == list(range(40))


def test_a_callback_runs_in_the_thread_of_the_loop_and_may_ask_for_the_result(client: sync.Client) -> None:
    called: list[tuple[str, int]] = []
    with client.producer() as producer:
        delivery = producer.send(TOPIC, b"a", partition=0)
        delivery.add_done_callback(lambda d: called.append((threading.current_thread().name, d.result().offset)))
        many = producer.send_many(TOPIC, [b"b", b"c"])
        many.add_done_callback(lambda d: called.append((threading.current_thread().name, len(d.result()))))
    assert called == [("oncelog-loop", 0), ("oncelog-loop", len(many.result()))]


def test_clients_share_one_thread(client: sync.Client, cluster: FakeCluster) -> None:
    with sync.Client(BROKERS, transport=cluster):
        assert sum(thread.name == "oncelog-loop" for thread in threading.enumerate()) == 1


def test_a_call_from_inside_the_loop_is_refused_not_hung(client: sync.Client) -> None:
    refused: list[BaseException] = []

    def call_back(_: sync.Delivery) -> None:
        try:
            client.get_outcome("t", 1)
        except RuntimeError as error:
            refused.append(error)

    with client.producer() as producer:
        producer.send(TOPIC, "x").add_done_callback(call_back)
    assert "use the asyncio client" in str(refused[0])


def test_a_serializer_runs_in_the_thread_of_its_caller(client: sync.Client) -> None:
    threads: list[str] = []

    def serialize(value: str) -> bytes:
        threads.append(threading.current_thread().name)
        return value.encode()

    with client.producer(value_serializer=serialize) as producer:
        for _ in range(3):
            producer.send(TOPIC, "x")
    assert threads == [threading.current_thread().name] * 3


def test_a_serializer_of_many_rows_runs_in_the_thread_of_the_loop(client: sync.Client) -> None:
    """As the docstring of `send` says."""
    threads: set[str] = set()

    def serialize(value: str) -> bytes:
        threads.add(threading.current_thread().name)
        return value.encode()

    with client.producer(value_serializer=serialize) as producer:
        producer.send_many(TOPIC, ["x"])
        producer.send_and_wait(TOPIC, "x")
    assert threads == {"oncelog-loop"}


class EndsLate(concurrent.futures.Future[Any]):
    """The work ends between the time-out of a wait and the look whether it is done."""

    def __init__(self, ends: Callable[[EndsLate], None]) -> None:
        super().__init__()
        self._ends = ends

    def result(self, timeout: float | None = None) -> Any:
        if not self.done():
            self._ends(self)
            raise TimeoutError
        return super().result(timeout)


def test_work_that_ends_at_the_end_of_a_wait_has_its_own_outcome(
    client: sync.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bare `TimeoutError` of the wait was raised though the record was written."""
    ends: list[Callable[[EndsLate], None]] = [
        lambda future: future.set_result("its result"),
        lambda future: future.set_exception(errors.RequestTimedOutError("its own")),
    ]

    def start(work: Any, _: Any) -> EndsLate:
        work.close()
        return EndsLate(ends.pop(0))

    monkeypatch.setattr(asyncio, "run_coroutine_threadsafe", start)
    assert client.get_outcome("t", 1) == "its result"
    with pytest.raises(errors.RequestTimedOutError, match="its own"):
        client.get_outcome("t", 1)
    monkeypatch.undo()


def test_what_a_loop_leaves_open_is_closed_by_the_event_loop(client: sync.Client) -> None:
    """It belonged to whatever loop ran in the caller's thread, or to none: then nothing after its `yield` was done."""
    cleaned: queue.SimpleQueue[str] = queue.SimpleQueue()

    async def rows() -> AsyncIterator[int]:
        try:
            while True:
                yield 1
        finally:
            await asyncio.sleep(0)
            cleaned.put(threading.current_thread().name)

    with client.consumer() as consumer:
        reading = consumer._each(rows())
        assert next(reading) == 1
        del reading
        gc.collect()
        assert cleaned.get(timeout=10) == "oncelog-loop"


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """A shell starts what runs in the background with SIGINT ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_interrupts_a_blocking_call(client: sync.Client) -> None:
    consumer = client.consumer()
    consumer.assign([(TOPIC, 0)])
    timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        consumer.getmany()
    timer.join()
    assert consumer.getmany(timeout_ms=10) == []


@pytest.mark.usefixtures("ctrl_c")
def test_whoever_was_interrupted_has_not_seen_what_became_of_his_record(
    client: sync.Client, cluster: FakeCluster
) -> None:
    cluster.fail("append", errors.InvalidRecordError("refused"))
    with client.producer(linger_ms=60_000) as producer:
        sent = producer.send(TOPIC, b"v", partition=0)
        timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            sent.result()
        timer.join()
        with pytest.raises(errors.InvalidRecordError):
            producer.flush()


def in_child(work: Any) -> bytes:
    """What `work` returned, or raised, in a forked child."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            answer = str(work()).encode()
        except BaseException as error:
            answer = type(error).__name__.encode()
        os.write(write, answer)
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as stream:
        answer = stream.read()
    os.waitpid(pid, 0)
    return answer


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_cannot_use_an_inherited_client_but_may_make_one(
    client: sync.Client, cluster: FakeCluster
) -> None:
    producer = client.producer().start()
    assert in_child(lambda: client.producer()) == b"ForkedClientError"
    assert in_child(lambda: producer.send(TOPIC, b"a")) == b"ForkedClientError"

    def fresh() -> str:
        with sync.Client(BROKERS, transport=cluster) as made:
            return made.cluster_id

    assert in_child(fresh) == b"fake"


def test_a_client_of_the_parent_says_what_to_do_in_the_child(client: sync.Client) -> None:
    """The message tells users of gunicorn, Celery and Airflow where to make the client."""

    def said() -> str:
        with pytest.raises(errors.ForkedClientError) as caught:
            client.producer()
        return str(caught.value)

    words = in_child(said).decode()
    assert all(word in words for word in ("make it in the child", "gunicorn", "Celery", "Airflow", "spawn")), words


def test_a_new_client_in_the_child_of_a_connected_parent_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """Regression: it said only "use spawn"; tests/integration/runtime/test_fork.py forks for real."""
    monkeypatch.setattr(grpc_transport, "_forked_with_channels", True)
    with pytest.raises(errors.ForkedClientError) as caught:
        grpc_transport.GrpcTransport()
    words = str(caught.value)
    assert all(word in words for word in ("forkserver", "get_context('spawn')", "close all clients before", "gunicorn"))


def test_a_real_transport_made_before_a_fork_is_refused_in_the_child() -> None:
    transport = LazyGrpcTransport("test")

    def use() -> None:
        transport._make()

    assert in_child(use) == b"ForkedClientError"
