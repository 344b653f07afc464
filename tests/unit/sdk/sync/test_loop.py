"""`for record in consumer` and `producer.send(...)` without `await`: many records cross to the event loop at once, and nobody
can tell from the results.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from random import Random
from typing import Any

import pytest

from oncelog import errors, sync
from oncelog.client.defaults import SystemClock
from oncelog.core.batch.batch import encode_batch
from oncelog.core.produce.accumulator import BATCH_OVERHEAD_BYTES
from oncelog.types import PartitionId
from tests.unit.sdk.client.fake_cluster import BROKERS, TOPIC, TOPIC_ID, FakeCluster
from tests.unit.sdk.sync.test_sync import in_child

P0 = (TOPIC, 0)
BATCH = 50


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


@pytest.fixture
def client(cluster: FakeCluster) -> Iterator[sync.Client]:
    with sync.Client(BROKERS, transport=cluster, clock=SystemClock(), random=Random(1)) as made:
        yield made


@pytest.fixture
def consumer(client: sync.Client, cluster: FakeCluster) -> Iterator[sync.Consumer]:
    """Of partition 0, which has four batches."""
    for first in range(0, 4 * BATCH, BATCH):
        values = [b"%d" % i for i in range(first, first + BATCH)]
        batch = encode_batch([None] * BATCH, values, timestamps_ms=[5] * BATCH, topic_id=TOPIC_ID, partition=0)
        cluster.logs[PartitionId(TOPIC_ID, 0)].append(batch)
    with client.consumer(auto_offset_reset="earliest", group_id="g") as made:
        made.assign([P0])
        yield made


def offsets(records: Any) -> list[int]:
    return [record.offset for record in records]


# ------------------------------------------------------------ reading


def test_every_record_comes_once_and_in_order(consumer: sync.Consumer) -> None:
    assert offsets(islice(consumer, 4 * BATCH)) == list(range(4 * BATCH))


@pytest.mark.parametrize("seen", [1, 2, BATCH - 1, BATCH, BATCH + 1, 2 * BATCH])
def test_the_position_is_behind_the_last_record_that_was_seen(consumer: sync.Consumer, seen: int) -> None:
    for record in consumer:
        if record.offset == seen - 1:
            break
    assert consumer.position(P0) == seen
    consumer.commit()
    found = consumer.committed(P0)[consumer.assignment()[0]]
    assert found is not None
    assert found.offset == seen
    assert offsets(consumer.getmany(max_records=2)) == [seen, seen + 1]
    assert next(iter(consumer)).offset == seen + 2


def test_a_commit_within_the_loop_covers_what_was_seen_and_the_loop_goes_on(consumer: sync.Consumer) -> None:
    for record in islice(consumer, 3 * BATCH):
        if record.offset % 7 == 0:
            assert consumer.position(P0) == record.offset + 1


def test_a_seek_within_the_loop_takes_the_loop_along(consumer: sync.Consumer) -> None:
    seen: list[int] = []
    for record in consumer:
        seen.append(record.offset)
        if record.offset == 3:
            consumer.seek(P0, 120)
        if len(seen) == 6:
            break
    assert seen == [0, 1, 2, 3, 120, 121]


def test_a_pause_within_the_loop_stops_it_until_resume(consumer: sync.Consumer) -> None:
    seen: list[int] = []
    for record in consumer:
        seen.append(record.offset)
        if record.offset == 3:
            consumer.pause(P0)
            assert consumer.getmany(timeout_ms=20) == []
            consumer.resume(P0)
        if len(seen) == 6:
            break
    assert seen == [0, 1, 2, 3, 4, 5]


def test_the_loop_ends_when_the_consumer_is_closed_in_it(consumer: sync.Consumer) -> None:
    seen: list[int] = []
    for record in consumer:
        seen.append(record.offset)
        if record.offset == 3:
            consumer.close()
    assert seen == [0, 1, 2, 3]


def test_two_threads_share_the_records_and_no_record_comes_twice(consumer: sync.Consumer) -> None:
    def read(count: int) -> list[int]:
        return offsets(islice(consumer, count))

    with ThreadPoolExecutor(2) as pool:
        one, other = pool.map(read, [2 * BATCH, 2 * BATCH])
    assert sorted(one + other) == list(range(4 * BATCH))


def test_a_poll_beside_the_loop_and_the_loop_share_the_records(consumer: sync.Consumer) -> None:
    begun = threading.Barrier(2)

    def poll() -> list[int]:
        begun.wait()
        return [offset for _ in range(20) for offset in offsets(consumer.getmany(timeout_ms=0, max_records=3))]

    with ThreadPoolExecutor(1) as pool:
        polled = pool.submit(poll)
        begun.wait()
        seen = offsets(islice(consumer, 2 * BATCH))
        seen += polled.result()
    assert sorted(seen) == list(range(len(seen)))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_does_not_go_on_with_the_batch_of_its_parent(consumer: sync.Consumer) -> None:
    records = iter(consumer)
    assert next(records).offset == 0
    assert in_child(lambda: next(records)) == b"ForkedClientError"
    assert next(records).offset == 1


# ------------------------------------------------------------ sending


def test_records_are_written_once_in_the_order_in_which_they_were_sent(
    client: sync.Client, cluster: FakeCluster
) -> None:
    with client.producer(linger_ms=1) as producer:
        sent = [producer.send(TOPIC, b"%d" % i, partition=0) for i in range(3_000)]
    assert cluster.values(0) == [b"%d" % i for i in range(3_000)]
    assert [delivery.result().offset for delivery in sent] == list(range(3_000))
    assert all(delivery.done() for delivery in sent)


def test_each_thread_finds_its_own_order(client: sync.Client, cluster: FakeCluster) -> None:
    def send(name: int) -> None:
        for i in range(500):
            producer.send(TOPIC, b"%d %d" % (name, i), partition=1)

    with client.producer(linger_ms=1) as producer, ThreadPoolExecutor(3) as pool:
        list(pool.map(send, range(3)))
    found = [tuple(map(int, (value or b"").split())) for value in cluster.values(1)]
    assert len(found) == 1_500
    assert all([i for who, i in found if who == name] == list(range(500)) for name in range(3))


def test_keys_and_rows_without_one_go_where_the_asyncio_producer_sends_them(
    client: sync.Client, cluster: FakeCluster
) -> None:
    from oncelog.core.batch.hashing import partition_for_key

    with client.producer() as producer:
        sent = {b"%d" % i: producer.send(TOPIC, b"v", key=b"%d" % i) for i in range(200)}
        for _ in range(10):
            producer.send(TOPIC, b"without a key")
    assert {key: delivery.result().partition for key, delivery in sent.items()} == {
        key: partition_for_key(key, 2) for key in sent
    }
    assert len(cluster.values(0)) + len(cluster.values(1)) == 210


def test_a_commit_covers_every_record_that_was_sent_before_it(client: sync.Client, cluster: FakeCluster) -> None:
    with client.producer(transactional_id="t") as producer:
        for number in (1, 2):
            with producer.transaction() as txn:
                for i in range(300):
                    txn.send(TOPIC, b"%d" % i, partition=i % 2)
            assert (txn.txn_no, txn.outcome) == (number, "committed")
    assert len(cluster.values(0)) + len(cluster.values(1)) == 600
    assert len(cluster.end_requests) == 2


def test_nothing_is_taken_into_a_transaction_that_is_over(client: sync.Client, cluster: FakeCluster) -> None:
    with client.producer(transactional_id="t") as producer:
        with producer.transaction() as txn:
            txn.send(TOPIC, b"a", partition=0)
            txn.send(TOPIC, b"b", partition=0)
        with pytest.raises(errors.IllegalStateError):
            txn.send(TOPIC, b"late", partition=0)
    assert cluster.values(0) == [b"a", b"b"]


def test_what_a_record_has_wrong_is_said_at_once(client: sync.Client, cluster: FakeCluster) -> None:
    with client.producer(max_request_size=1_000, batch_size=1_000) as producer:
        producer.send(TOPIC, b"known by now").result()
        with pytest.raises(errors.MessageTooLargeError):
            producer.send(TOPIC, b"x" * 2_000)
        with pytest.raises(errors.InvalidRecordError, match="type int"):
            producer.send(TOPIC, 5)
        with pytest.raises(errors.InvalidTimestampError):
            producer.send(TOPIC, b"a", timestamp_ms=-1)
        with pytest.raises(errors.UnknownTopicError, match="partitions 0 to 1"):
            producer.send(TOPIC, b"a", partition=7)
        with pytest.raises(errors.UnknownTopicError, match="partitions 0 to 1"):
            producer.send(TOPIC, b"a", partition=-1)
        with pytest.raises(errors.UnknownTopicError):
            producer.send("nowhere", b"a")
    with pytest.raises(errors.IllegalStateError, match="closed"):
        producer.send(TOPIC, b"a")
    assert len(cluster.values(0)) + len(cluster.values(1)) == 1


def test_what_a_partitioner_raises_is_said_at_once_and_nothing_else_is_lost(
    client: sync.Client, cluster: FakeCluster
) -> None:
    with client.producer(transactional_id="t", partitioner=lambda key, _: int(key)) as producer:
        with producer.transaction() as txn:
            txn.send(TOPIC, b"a", key=b"0")
            txn.send(TOPIC, b"b", key=b"0")
            with pytest.raises(ValueError, match="no number"):
                txn.send(TOPIC, b"c", key=b"no number")
            sent = txn.send(TOPIC, b"d", key=b"0")
        assert sent.result().offset == 2
    assert cluster.values(0) == [b"a", b"b", b"d"]


def test_a_full_buffer_makes_the_sender_wait_and_then_says_so(client: sync.Client, cluster: FakeCluster) -> None:
    with client.producer(buffer_memory=8_000, batch_size=2_000, max_block_ms=60) as producer:
        producer.send(TOPIC, b"known by now", partition=0).result()
        cluster.down.update(BROKERS)

        def send_until_full() -> None:
            for _ in range(100):
                producer.send(TOPIC, b"x" * 100, partition=0)

        with pytest.raises(errors.BufferExhaustedError):
            send_until_full()
        overhead = BATCH_OVERHEAD_BYTES * (
            8_000 // (2_000 - BATCH_OVERHEAD_BYTES) + 1
        )  # counted when a batch is opened
        assert producer._inner._sender.deliveries.queues.used_bytes <= 8_000 + overhead
        cluster.down.clear()
        producer.flush()
        producer.send(TOPIC, b"there is room again", partition=0).result()


def test_metadata_that_grew_old_is_asked_for_anew(client: sync.Client, cluster: FakeCluster) -> None:
    with (
        sync.Client(BROKERS, transport=cluster, clock=SystemClock(), random=Random(1), metadata_max_age_ms=1) as hasty,
        hasty.producer() as producer,
    ):
        for i in range(20):
            producer.send(TOPIC, b"%d" % i, partition=0).result()
    assert len(cluster.values(0)) == 20
