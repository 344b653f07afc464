"""Calls find whoever is in charge, are tried again until their deadline, and end with what was said."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog import errors
from oncelog.client.routing.calls import name_call
from oncelog.v1 import coordinator_pb2 as co
from oncelog.v1 import security_pb2 as se
from oncelog.v1 import types_pb2
from oncelog.wire import methods
from tests.unit.sdk.client.fake_cluster import BROKERS, FakeCluster, Lost


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


def patient(**more: Any) -> dict[str, Any]:
    return {"default_api_timeout_ms": 1_000, "request_timeout_ms": 400, "retry_backoff_ms": 50, **more}


def test_silence_at_the_end_does_not_hide_what_was_said_before(cluster: FakeCluster) -> None:
    """Regression: the coordinator's own word arrives, with the cause that it has."""
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


DESCRIBE = co.DescribeTransactionRequest(transactional_id="t")


@pytest.mark.parametrize(
    "fault", [errors.NotCoordinatorError(), errors.NetworkError(), errors.CoordinatorLoadInProgressError()]
)
def test_what_passes_is_asked_again_and_who_is_in_charge_is_looked_up_where_that_may_help(
    cluster: FakeCluster, fault: errors.OncelogError
) -> None:
    cluster.fail("DescribeTransaction", fault)
    cluster.answers["DescribeTransaction"] = co.DescribeTransactionReply()

    async def work(_: FakeCluster) -> int:
        async with cluster.client() as client:
            await client._metadata.refresh(client._context.deadline_ms())
            before = cluster.count("GetMetadata")
            await client._caller.to_txn_coordinator("t", methods.DESCRIBE_TRANSACTION, DESCRIBE)
            return cluster.count("GetMetadata") - before

    looked = cluster.run(work)
    assert (looked > 0) == (not isinstance(fault, errors.CoordinatorLoadInProgressError))
    assert cluster.count("DescribeTransaction") == 2


def test_a_refusal_for_good_is_raised_at_once(cluster: FakeCluster) -> None:
    cluster.fail("DescribeTransaction", errors.InvalidPidMappingError("nobody knows it"))

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client:
            with pytest.raises(errors.InvalidPidMappingError):
                await client._caller.to_txn_coordinator("t", methods.DESCRIBE_TRANSACTION, DESCRIBE)

    cluster.run(work)
    assert cluster.loop.time() < 0.1


def test_without_a_controller_it_ends_at_the_deadline_and_says_so(cluster: FakeCluster) -> None:
    cluster.controller = None

    async def work(_: FakeCluster) -> None:
        async with cluster.client(default_api_timeout_ms=700) as client:
            with pytest.raises(errors.NotControllerError, match="no controller at the moment"):
                await client._caller.to_controller(methods.LIST_QUOTAS, se.ListQuotasRequest())

    cluster.run(work)
    assert 0.5 < cluster.loop.time() < 0.8


def test_a_broker_that_does_not_answer_does_not_keep_us_from_another_one(cluster: FakeCluster) -> None:
    cluster.answers["ListQuotas"] = se.ListQuotasReply()
    cluster.down = {BROKERS[0]}

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client:
            for _ in range(10):
                await client._caller.to_any_broker(methods.LIST_QUOTAS, se.ListQuotasRequest())

    cluster.run(work)


# ---------------------------------------------------------------- ends


def end(outcome: types_pb2.TransactionOutcome, wait: co.EndWait) -> co.EndTransactionRequest:
    return co.EndTransactionRequest(name=co.TransactionName(transactional_id="t", txn_no=4), outcome=outcome, wait=wait)


COMMITTED, ABORTED = types_pb2.TRANSACTION_OUTCOME_COMMITTED, types_pb2.TRANSACTION_OUTCOME_ABORTED


def test_half_of_the_time_is_for_the_markers_and_the_rest_for_the_decision(cluster: FakeCluster) -> None:
    cluster.has_leaderless = True

    async def work(_: FakeCluster) -> None:
        async with cluster.client(request_timeout_ms=30_000) as client:
            request = end(COMMITTED, co.END_WAIT_VISIBLE)
            reply = await client._caller.end_at_txn_coordinator("t", methods.END_TRANSACTION, request, 2_000)
            assert (reply.outcome, reply.visible) == (COMMITTED, False)

    cluster.run(work)
    assert 0.9 < cluster.loop.time() < 1.2


@pytest.mark.parametrize(
    ("outcome", "kind"), [(COMMITTED, errors.CommitOutcomeUnknownError), (ABORTED, errors.RequestTimedOutError)]
)
def test_only_a_commit_without_an_answer_is_of_unknown_outcome(
    cluster: FakeCluster, outcome: types_pb2.TransactionOutcome, kind: type[errors.OncelogError]
) -> None:
    cluster.fail("EndTransaction", *(Lost() for _ in range(100)))

    async def work(_: FakeCluster) -> None:
        async with cluster.client(**patient()) as client:
            with pytest.raises(kind) as caught:
                await client._caller.end_at_txn_coordinator(
                    "t", methods.END_TRANSACTION, end(outcome, co.END_WAIT_DECIDED)
                )
            assert caught.value.context.get("txn_no") == ("4" if outcome == COMMITTED else None)

    cluster.run(work)


# ---------------------------------------------------------------- names of calls


def test_a_call_is_named_in_the_term_that_it_addresses_and_not_at_all_to_who_knows_no_terms() -> None:
    request = se.AlterUserRequest()
    name_call(request, "nonce", 3)
    assert (request.call.nonce, request.call.term) == ("nonce", 3)
    name_call(request, "", 4)
    assert request.call.term == 3, "a call without a name keeps what it has"
    name_call(request, "nonce", 0)
    assert not request.HasField("call")
