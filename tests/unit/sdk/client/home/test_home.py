"""A client lives in one event loop, until its `close`."""

from __future__ import annotations

import asyncio
import inspect
import signal
from collections.abc import Awaitable, Callable, Iterator
from random import Random
from typing import Any

import pytest

from oncelog import errors, sync
from oncelog.client.admin.admin import Admin
from oncelog.client.client import Client
from oncelog.client.defaults import SystemClock
from oncelog.client.produce.transactions.participant import ParticipantResult
from oncelog.client.produce.transactions.shared_batch import SharedBatch
from oncelog.sync.admin import Admin as SyncAdmin
from tests.unit.sdk.client.fake_cluster import BROKERS, TOPIC, FakeCluster
from tests.unit.sdk.sync.test_sync import in_child

ELSEWHERE = r"belongs to another event loop.*inside of each asyncio\.run.*SyncClient"
CLOSED = r"this client is closed.*make another one"
A_RESULT = ParticipantResult(1, 2, 0, ())
Use = Callable[[Client], Awaitable[Any]]


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


@pytest.fixture(autouse=True)
def bound() -> Iterator[None]:
    """Where a check is missing these may wait for ever, whatever is cancelled: then they fail."""

    def late(*_: object) -> None:
        raise AssertionError("this waits for ever")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, 30, 0.5)  # again and again: ending a loop may wait as well
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def connected(cluster: FakeCluster, **config: Any) -> Client:
    """With a real loop's clock: there are several loops here, and virtual ones cannot be told apart by time."""
    return Client(BROKERS, transport=cluster, clock=SystemClock(), random=Random(1), **config)


def refused(work: Awaitable[Any], match: str) -> None:
    async def within() -> None:
        async with asyncio.timeout(5):  # most of these waited for ever
            with pytest.raises(errors.IllegalStateError, match=match):
                await work

    asyncio.run(within())


# ---------------------------------------------------------------- two loops


OF_CLIENT: list[Use] = [
    lambda client: client.start(),
    lambda client: client.admin.list_topics(),
    lambda client: client.admin.describe_cluster(),
    lambda client: client.get_outcome("t", 1),
    lambda client: client.join_transaction(SharedBatch("t", "run", "app", 1)),
    lambda client: client.commit_transaction(SharedBatch("t", "run", "app", 1), 1, [A_RESULT]),
    lambda client: client.abort_transaction(SharedBatch("t", "run", "app", 1), 1),
    lambda client: client.close(),
]


@pytest.mark.parametrize("use", OF_CLIENT)
def test_a_client_in_another_loop_is_refused_before_it_asks_anybody(cluster: FakeCluster, use: Use) -> None:
    client = connected(cluster)
    asyncio.run(client.start())  # type: ignore[arg-type]
    before = len(cluster.calls)
    refused(use(client), ELSEWHERE)
    assert len(cluster.calls) == before


@pytest.mark.parametrize(
    "use",
    [
        lambda producer: producer.start(),
        lambda producer: producer.send(TOPIC, b"a"),
        lambda producer: producer.send_and_wait(TOPIC, b"a"),
        lambda producer: producer.send_many(TOPIC, [b"a"]),
        lambda producer: producer.flush(),
        lambda producer: producer.close(),
    ],
)
def test_a_producer_in_another_loop_is_refused(cluster: FakeCluster, use: Callable[[Any], Awaitable[Any]]) -> None:
    """A record that was sent there waited in a batch that nobody would send."""
    producer = connected(cluster).producer(linger_ms=60_000)

    async def leaves_a_batch_open() -> None:
        await producer.start()
        await producer.send(TOPIC, b"first", partition=0)

    asyncio.run(leaves_a_batch_open())
    refused(use(producer), ELSEWHERE)


@pytest.mark.parametrize("many", [False, True])
def test_a_delivery_is_not_waited_for_in_another_loop(cluster: FakeCluster, many: bool) -> None:
    """It waited for ever."""
    producer = connected(cluster).producer(linger_ms=60_000)

    async def sends() -> Any:
        await producer.start()
        return await (producer.send_many(TOPIC, [b"a"]) if many else producer.send(TOPIC, b"a", partition=0))

    async def called_back(delivery: Any) -> None:
        delivery.add_done_callback(lambda _: None)

    delivery = asyncio.run(sends())
    refused(delivery, ELSEWHERE)
    refused(called_back(delivery), ELSEWHERE)


def test_a_delivery_that_is_done_may_be_awaited_anywhere(cluster: FakeCluster) -> None:
    async def sends() -> Any:
        async with connected(cluster) as client, client.producer() as producer:
            return await producer.send(TOPIC, b"a", partition=0)

    delivery = asyncio.run(sends())
    assert asyncio.run(_awaited(delivery)).offset == 0


@pytest.mark.parametrize(
    "use",
    [
        lambda producer, txn: txn.send(TOPIC, b"b"),
        lambda producer, txn: txn.flush(),
        lambda producer, txn: txn.commit(),
        lambda producer, txn: txn.abort(),
        lambda producer, txn: producer.begin_transaction(),
    ],
)
def test_a_transaction_in_another_loop_is_refused_and_not_harmed(
    cluster: FakeCluster, use: Callable[[Any, Any], Awaitable[Any]]
) -> None:
    client = connected(cluster)
    with asyncio.Runner() as runner:

        async def begun() -> Any:
            producer = client.producer(transactional_id="t")
            txn = await producer.begin_transaction()
            await (await txn.send(TOPIC, b"a", partition=0))
            return producer, txn

        producer, txn = runner.run(begun())
        with asyncio.Runner() as other, pytest.raises(errors.IllegalStateError, match=ELSEWHERE):
            other.run(_awaited(use(producer, txn)))
        runner.run(txn.commit())
        runner.run(client.close())
    assert txn.outcome == "committed"


@pytest.mark.parametrize(
    "use",
    [
        lambda consumer: consumer.getmany(),
        lambda consumer: consumer.getone(),
        lambda consumer: anext(aiter(consumer)),
        lambda consumer: anext(consumer.batches()),
        lambda consumer: consumer.read_arrow(),
        lambda consumer: anext(consumer.read_range((TOPIC, 0), 0, 1)),
        lambda consumer: consumer.assign([(TOPIC, 0)]),
        lambda consumer: consumer.end_offsets([(TOPIC, 0)]),
        lambda consumer: consumer.commit({(TOPIC, 0): 1}),
        lambda consumer: consumer.committed(),
        lambda consumer: consumer.close(),
    ],
)
def test_a_consumer_in_another_loop_is_refused(cluster: FakeCluster, use: Callable[[Any], Awaitable[Any]]) -> None:
    consumer = connected(cluster).consumer(group_id="g")
    asyncio.run(consumer.assign_topics(TOPIC))  # type: ignore[arg-type]
    refused(use(consumer), ELSEWHERE)


@pytest.mark.parametrize(
    "use",
    [
        lambda consumer: consumer.seek((TOPIC, 0), 7),
        lambda consumer: consumer.pause((TOPIC, 0)),
        lambda consumer: consumer.resume((TOPIC, 0)),
    ],
)
def test_what_moves_a_consumer_without_waiting_is_refused_in_another_loop(
    cluster: FakeCluster, use: Callable[[Any], None]
) -> None:
    consumer = connected(cluster).consumer(TOPIC)
    asyncio.run(consumer.start())  # type: ignore[arg-type]
    before = [(cursor.position, cursor.is_paused) for cursor in consumer._fetcher.cursors.values()]

    async def moves() -> None:
        use(consumer)

    refused(moves(), ELSEWHERE)
    assert [(cursor.position, cursor.is_paused) for cursor in consumer._fetcher.cursors.values()] == before


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_is_told_that_it_is_one(cluster: FakeCluster) -> None:
    """It was told to make a client in each `asyncio.run()`, which it did not need to hear."""
    client = connected(cluster)
    producer = client.producer()
    asyncio.run(producer.start())  # type: ignore[arg-type]
    unused = connected(cluster)
    for use in (lambda: producer.send(TOPIC, b"a"), client.start, client.close, unused.start):
        assert in_child(lambda use=use: asyncio.run(_awaited(use()))) == b"ForkedClientError"
    for make in (client.producer, unused.consumer):
        assert in_child(make) == b"ForkedClientError"


def test_a_participant_in_another_loop_is_refused(cluster: FakeCluster) -> None:
    client = connected(cluster)
    with asyncio.Runner() as runner:
        participant = runner.run(client.join_transaction(SharedBatch("t", "run", "app", 1)))
        many = [lambda: participant.send_many(TOPIC, [b"a"]), participant.flush, participant.renew, participant.close]
        for use in (lambda: participant.send(TOPIC, b"a"), *many):
            with asyncio.Runner() as other, pytest.raises(errors.IllegalStateError, match=ELSEWHERE):
                other.run(_awaited(use()))
        runner.run(client.close())


async def _awaited(work: Awaitable[Any]) -> Any:
    async with asyncio.timeout(5):
        return await work


def test_where_a_client_is_made_does_not_matter_the_first_call_decides(cluster: FakeCluster) -> None:
    client = connected(cluster)  # outside of every loop, as many programs do

    async def work() -> int:
        async with client, client.producer() as producer:
            return (await producer.send_and_wait(TOPIC, b"a", partition=0)).offset

    assert asyncio.run(work()) == 0


# ---------------------------------------------------------------- after close

BY_NAME: dict[str, Any] = {
    "partitions": 2, "partition": 0, "offset": 0, "leader_epoch": 1, "broker_id": 1, "topics": [], "times": {0: -1},
    "count_from": None,
    "offsets": {(TOPIC, 0): 1}, "targets": {(TOPIC, 0): [1]}, "broker_ids": [1], "quotas": [], "subjects": [],
    "topic_ids": {TOPIC: "00" * 16},
}  # fmt: skip
NEEDS_NO_CLUSTER = {
    "min_insync_replicas",
    "describe_partitions",
    "find_hanging",
    "raw_reader",
}  # of no topics, or not yet


def arguments(method: Callable[..., Any]) -> dict[str, Any]:
    """What the method must be given: anything of the right kind."""
    needed = [p for p in inspect.signature(method).parameters.values() if p.default is p.empty]
    return {p.name: BY_NAME.get(p.name, TOPIC) for p in needed if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)}


def calls(kind: type[Any]) -> list[str]:
    """Public methods of an admin that ask the cluster."""
    public = (name for name in dir(kind) if not name.startswith("_") and callable(getattr(kind, name)))
    return [name for name in public if name not in NEEDS_NO_CLUSTER]


@pytest.mark.parametrize("name", calls(Admin))
def test_the_admin_of_a_closed_client_asks_nobody(cluster: FakeCluster, name: str) -> None:
    async def work(_: FakeCluster) -> None:
        client = cluster.client()
        await client.start()
        await client.close()
        before = len(cluster.calls)
        method = getattr(client.admin, name)
        with pytest.raises(errors.IllegalStateError, match=CLOSED):
            await method(**arguments(method))
        assert len(cluster.calls) == before

    cluster.run(work)


@pytest.mark.parametrize("use", OF_CLIENT[:-1])
def test_a_closed_client_is_closed_for_good(cluster: FakeCluster, use: Use) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client:
            pass
        await client.close()  # once more: nothing
        with pytest.raises(errors.IllegalStateError, match=CLOSED):
            await use(client)
        for make in (client.producer, client.consumer):
            with pytest.raises(errors.IllegalStateError, match=CLOSED):
                make()
        with pytest.raises(errors.IllegalStateError, match=CLOSED):
            await client.admin.raw_reader().read(TOPIC, 0, 0)

    cluster.run(work)


def test_what_a_closed_client_made_is_closed(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client:
            plain, transactional = client.producer(), client.producer(transactional_id="t")
            consumer = client.consumer(group_id="g")
            await consumer.assign_topics(TOPIC)
            await plain.send_and_wait(TOPIC, b"a")
            txn = await transactional.begin_transaction()
            participant = await client.join_transaction(SharedBatch("u", "run", "app", 1))
        uses: list[Callable[[], Awaitable[Any]]] = [
            plain.start, plain.flush, lambda: plain.send(TOPIC, b"a"), lambda: plain.send_many(TOPIC, [b"a"]),
            transactional.start, transactional.begin_transaction, txn.commit, lambda: txn.send(TOPIC, b"a"),
            consumer.getmany, consumer.getone, consumer.read_arrow, consumer.commit, consumer.committed,
            lambda: consumer.assign([(TOPIC, 0)]), lambda: consumer.position((TOPIC, 0)), consumer.seek_to_end,
            lambda: participant.send(TOPIC, b"a"), lambda: participant.send_many(TOPIC, [b"a"]),
            participant.flush, participant.renew,
        ]  # fmt: skip
        for use in uses:
            with pytest.raises(errors.IllegalStateError):
                await use()
        with pytest.raises(errors.IllegalStateError, match="the consumer is closed: make another one"):
            consumer.seek((TOPIC, 0), 0)
        assert [record async for record in consumer] == []
        for made in (plain, transactional, consumer, participant):
            await made.close()  # once more: nothing

    cluster.run(work)


def test_a_consumer_that_was_closed_alone_returns_no_empty_lists(cluster: FakeCluster) -> None:
    """`while True: await consumer.getmany(1_000)` kept a core busy for ever."""

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client:
            consumer = client.consumer(TOPIC)
            await consumer.start()
            await consumer.close()
            for use in (consumer.getmany, consumer.getone, consumer.read_arrow):
                with pytest.raises(errors.IllegalStateError, match="the consumer is closed: make another one"):
                    await use(timeout_ms=1_000)

    cluster.run(work)


def test_a_reader_that_waits_while_the_consumer_is_closed_gets_nothing(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client:
            consumer = client.consumer(TOPIC)
            reading = asyncio.create_task(consumer.getmany())
            await asyncio.sleep(1)
            await consumer.close()
            assert await reading == []

    cluster.run(work)


def test_one_failed_producer_does_not_keep_others_from_being_closed(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        client = await cluster.client().start()
        failed, other = client.producer(), client.producer(linger_ms=60_000)
        cluster.fail("append", errors.InvalidRecordError("no consumer could read it"))
        await failed.send(TOPIC, b"a", partition=0)
        await asyncio.sleep(1)
        delivery = await other.send(TOPIC, b"b", partition=0)
        with pytest.raises(errors.InvalidRecordError):
            await client.close()
        assert other.is_closed
        assert delivery.offset == 0

    cluster.run(work)


# ---------------------------------------------------------------- without await


@pytest.fixture
def closed(cluster: FakeCluster) -> sync.Client:
    with sync.Client(BROKERS, transport=cluster, clock=SystemClock(), random=Random(1)) as client:
        pass
    return client


@pytest.mark.parametrize("name", calls(SyncAdmin))
def test_the_blocking_admin_of_a_closed_client_asks_nobody(
    cluster: FakeCluster, closed: sync.Client, name: str
) -> None:
    before = len(cluster.calls)
    method = getattr(closed.admin, name)
    with pytest.raises(errors.IllegalStateError, match=CLOSED):
        method(**arguments(method))
    assert len(cluster.calls) == before


@pytest.mark.parametrize(
    "use",
    [
        lambda client: client.start(),
        lambda client: client.producer(),
        lambda client: client.consumer(TOPIC),
        lambda client: client.get_outcome("t", 1),
        lambda client: client.join_transaction(SharedBatch("t", "run", "app", 1)),
        lambda client: client.commit_transaction(SharedBatch("t", "run", "app", 1), 1, [A_RESULT]),
        lambda client: client.abort_transaction(SharedBatch("t", "run", "app", 1), 1),
    ],
)
def test_a_closed_blocking_client_is_closed_for_good(closed: sync.Client, use: Callable[[sync.Client], Any]) -> None:
    with pytest.raises(errors.IllegalStateError, match=CLOSED):
        use(closed)
    closed.close()  # once more: nothing


def test_what_a_closed_blocking_client_made_is_closed(cluster: FakeCluster) -> None:
    with sync.Client(BROKERS, transport=cluster, clock=SystemClock(), random=Random(1)) as client:
        producer, consumer = client.producer().start(), client.consumer(TOPIC).start()
        transactional = client.producer(transactional_id="t").start()
        producer.send(TOPIC, b"a").result()
    uses: list[Callable[[], Any]] = [
        lambda: producer.send(TOPIC, b"a"), producer.flush, transactional.begin_transaction,
        consumer.getmany, consumer.getone, consumer.read_arrow, lambda: consumer.seek((TOPIC, 0), 0),
    ]  # fmt: skip
    for use in uses:
        with pytest.raises(errors.IllegalStateError, match="is closed"):
            use()
    assert list(consumer) == []
    assert list(consumer.arrow_batches()) == []
