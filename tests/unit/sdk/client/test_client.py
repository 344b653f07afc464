"""A client checks its options, makes what it is asked for, and has one end of all calls."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

import oncelog
from oncelog import errors, sync
from oncelog.client.client import Client, TransactionOutcome
from oncelog.client.defaults import SystemClock
from oncelog.client.produce.transactions.shared_batch import SharedBatch
from oncelog.types import Buffer
from oncelog.v1 import coordinator_pb2 as co
from oncelog.v1 import types_pb2
from tests.unit.sdk.client.fake_cluster import BROKERS, FakeCluster
from tests.unit.sdk.client.sending import started


@pytest.mark.parametrize("module", [oncelog.Client, sync.Client], ids=["asyncio", "sync"])
def test_an_unknown_option_comes_with_the_nearest_of_the_producers_and_the_clients(module: type) -> None:
    client = module("a:1")
    for typed, meant in (("lingr_ms", "linger_ms"), ("request_timeout", "request_timeout_ms")):
        with pytest.raises(oncelog.ConfigError, match=f"unknown option `{typed}`; did you mean `{meant}`"):
            client.producer(**{typed: 5})
    with pytest.raises(
        oncelog.ConfigError, match="unknown option `request_timeout`; did you mean `request_timeout_ms`"
    ):
        module("a:1", request_timeout=5)
    with pytest.raises(oncelog.ConfigError, match="belongs to the client"):
        client.consumer(bootstrap_servers="b:1")


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


def test_unknown_options_help(cluster: FakeCluster) -> None:
    with pytest.raises(errors.ConfigError, match="request_timeout_ms"):
        cluster.client(request_timeout=5)


class Counting(FakeCluster):
    """Counts how often its connections are closed, and takes its time for metadata if it is told so."""

    def __init__(self) -> None:
        super().__init__()
        self.closed = 0
        self.is_silent = False

    async def call(
        self, address: str, method: str, header: bytes, payload: Buffer, timeout_ms: int
    ) -> tuple[bytes, Buffer]:
        if self.is_silent:
            await asyncio.sleep(timeout_ms)
        return await super().call(address, method, header, payload, timeout_ms)

    async def close(self) -> None:
        self.closed += 1


def test_entering_a_client_in_another_loop_closes_nothing_of_the_first() -> None:
    cluster = Counting()
    client = Client(BROKERS, transport=cluster, clock=SystemClock(), random=Random(1))

    async def enter() -> None:
        async with client:
            pass

    with asyncio.Runner() as runner:
        runner.run(client.start())
        with asyncio.Runner() as other, pytest.raises(errors.IllegalStateError, match="another event loop"):
            other.run(enter())
        assert cluster.closed == 0
        runner.run(client.close())
    assert cluster.closed == 1


def test_a_client_that_could_not_be_entered_is_closed_and_leaves_no_task() -> None:
    cluster = Counting()
    cluster.is_silent = True

    async def work(_: FakeCluster) -> None:
        client = cluster.client()
        entering = started(client.__aenter__())
        await asyncio.sleep(0.1)
        entering.cancel()
        with pytest.raises(asyncio.CancelledError):
            await entering
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert cluster.closed == 1
        with pytest.raises(errors.IllegalStateError, match="this client is closed"):
            client.producer()

    cluster.run(work)


def test_a_join_that_failed_leaves_nothing_in_the_client(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client:
            for number in range(3):
                cluster.fail("JoinTransaction", errors.BatchRolledBackError())
                with pytest.raises(errors.BatchRolledBackError):
                    await client.join_transaction(SharedBatch("t", "run", "app", number))
            assert client._made == {}

    cluster.run(work)


@pytest.mark.parametrize(
    ("outcome", "word"),
    [
        (types_pb2.TRANSACTION_OUTCOME_COMMITTED, "committed"),
        (types_pb2.TRANSACTION_OUTCOME_ABORTED, "aborted"),
        (types_pb2.TRANSACTION_OUTCOME_NOT_BEGUN, "not_begun"),
        (types_pb2.TRANSACTION_OUTCOME_UNSPECIFIED, "ongoing"),
    ],
)
def test_an_outcome_is_what_the_coordinator_says(
    cluster: FakeCluster, outcome: types_pb2.TransactionOutcome, word: str
) -> None:
    cluster.answers["GetOutcome"] = co.GetOutcomeReply(outcome=outcome, visible=True)

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client:
            assert await client.get_outcome("t", 41) == TransactionOutcome(word, visible=True)

    cluster.run(work)
    assert cluster.requests("GetOutcome") == [co.GetOutcomeRequest(transactional_id="t", txn_no=41)]


def test_an_outcome_that_is_no_longer_kept_is_an_error_and_no_guess(cluster: FakeCluster) -> None:
    cluster.fail("GetOutcome", errors.OutcomeForgottenError())

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client:
            with pytest.raises(errors.OutcomeForgottenError):
                await client.get_outcome("t", 41)

    cluster.run(work)


def test_an_option_of_the_client_may_be_given_to_one_alone_and_the_others_keep_theirs(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client(request_timeout_ms=900, retry_backoff_ms=30) as client:
            own = client.producer(**{"request.timeout.ms": 50, "linger_ms": 3})  # type: ignore[misc]
            other = client.producer()
            assert own._context.config.request_timeout_ms == 50
            assert (own._context.config.retry_backoff_ms, own.config.linger_ms) == (30, 3)
            assert other._context.config.request_timeout_ms == client.config.request_timeout_ms == 900
            assert own._context.home is other._context.home, "they live in the same loop"

    cluster.run(work)


def test_before_the_first_answer_nothing_is_known_and_nobody_asked(cluster: FakeCluster) -> None:
    client = cluster.client()
    assert (client.cluster_id, client.throttled_ms, client.tracer, cluster.calls) == ("", 0, None, [])


def test_what_was_closed_is_forgotten_when_the_next_one_is_made(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client:
            for _ in range(5):
                await client.producer().close()
            client.consumer()
            assert len(client._made) == 1

    cluster.run(work)
