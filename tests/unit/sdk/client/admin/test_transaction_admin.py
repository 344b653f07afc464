"""Transactions are listed, ended and fenced by name; what hangs on a partition is told with the reason, or the look fails."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog import errors
from oncelog.client.admin.descriptions import HangingTransaction
from oncelog.v1 import coordinator_pb2 as co
from oncelog.v1 import partition_pb2 as pb
from oncelog_runtime.sim import SimClock
from tests.unit.sdk.client.fake_cluster import TOPIC, TOPIC_ID, FakeCluster

PID = 41
ANSWERED = [co.ShardAnswer(shard=0, epoch=1)]


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


def info(name: str = "t", **more: Any) -> co.TransactionInfo:
    return co.TransactionInfo(transactional_id=name, **{"producer_id": PID, "state": "ONGOING", "txn_no": 7, **more})


def described(**more: Any) -> co.DescribeTransactionReply:
    return co.DescribeTransactionReply(transaction=info(**more))


def test_transactions_are_listed_by_name_in_the_states_that_were_asked_for(cluster: FakeCluster) -> None:
    one = info("a", owner_run="run", groups=["g"], timeout_ms=5, start_timestamp_ms=9, producer_epoch=2)
    one.partitions.add(topic=TOPIC, topic_id=TOPIC_ID, partition=1)
    one.partitions.add(topic_id="0d" * 16, partition=0)
    one.tokens.add(app_id="app", batch_id=3)
    cluster.answers["ListTransactions"] = co.ListTransactionsReply(transactions=[info("b"), one], answered=ANSWERED)

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client:
            found = await client.admin.list_transactions(["ONGOING"])
            assert [item.transactional_id for item in found] == ["a", "b"]
            assert found[0].partitions == ((TOPIC, 1), ("0d" * 16, 0)), "a topic that is gone: its id"
            assert (found[0].tokens, found[0].groups, found[0].owner_run) == ((("app", 3),), ("g",), "run")
            assert (found[0].producer_epoch, found[0].timeout_ms, found[0].start_timestamp_ms) == (2, 5, 9)

    cluster.run(work)
    assert [list(request.states) for request in cluster.requests("ListTransactions")] == [["ONGOING"]]


@pytest.mark.parametrize(
    ("told", "aborted"),
    [
        ({"state": "ONGOING", "txn_no": 7}, [7]),
        ({"state": "COMPLETE_COMMIT", "txn_no": 7}, []),
        ({"state": "EMPTY", "txn_no": 7, "may_be_open": 8}, [8]),
    ],
    ids=["open", "ended", "open at a leader perhaps"],
)
def test_an_abort_names_the_transaction_that_is_open_now(
    cluster: FakeCluster, told: dict[str, Any], aborted: list[int]
) -> None:
    """Else a call that comes late would end a later one."""
    cluster.answers["DescribeTransaction"] = described(**told)
    cluster.answers["ForceAbort"] = lambda _, request: co.ForceAbortReply(txn_no=request.txn_no)

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client:
            assert await client.admin.abort_transaction("t") == (aborted or [0])[0]

    cluster.run(work)
    assert [request.txn_no for request in cluster.requests("ForceAbort")] == aborted


@pytest.mark.parametrize(
    ("told", "timeout_ms"),
    [({"timeout_ms": 5_000}, 5_000), ({"timeout_ms": 5_000, "owner_run": "run"}, 60_000), ({}, 60_000)],
    ids=["its own", "a Spark run's bound is none of a session", "unknown"],
)
def test_a_fence_opens_a_session_that_nobody_has(cluster: FakeCluster, told: dict[str, Any], timeout_ms: int) -> None:
    cluster.answers["DescribeTransaction"] = described(**told)
    cluster.answers["InitProducerId"] = co.InitProducerIdReply(producer_id=PID, producer_epoch=3)

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client:
            assert await client.admin.fence_producer("t") == 3

    cluster.run(work)
    (request,) = cluster.requests("InitProducerId")
    assert (request.transactional_id, request.transaction_timeout_ms) == ("t", timeout_ms)
    assert request.nonce


def test_an_id_that_nobody_knows_is_not_fenced_into_being(cluster: FakeCluster) -> None:
    cluster.fail("DescribeTransaction", errors.InvalidPidMappingError("nobody knows it"))

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client:
            with pytest.raises(errors.InvalidPidMappingError):
                await client.admin.fence_producer("t")

    cluster.run(work)
    assert cluster.count("InitProducerId") == 0


def test_producers_of_a_partition_are_those_that_its_leader_knows(cluster: FakeCluster) -> None:
    reply = pb.DescribeProducersReply()
    reply.producers.add(producer_id=PID, producer_epoch=1, last_sequence=5, txn_producer_id=PID, txn_no=7)
    cluster.answers["DescribeProducers"] = reply

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client:
            (found,) = await client.admin.describe_producers(TOPIC, 1)
            assert (found.topic, found.partition, found.producer_id, found.last_sequence) == (TOPIC, 1, PID, 5)
            assert (found.txn_producer_id, found.txn_no) == (PID, 7)
            with pytest.raises(errors.UnknownTopicError, match="partitions 0 to 1"):
                await client.admin.describe_producers(TOPIC, 2)

    cluster.run(work)


# ---------------------------------------------------------------- what hangs


def hanging(
    cluster: FakeCluster, known: list[co.TransactionInfo], age_ms: int = 2_000_000, txn_no: int = 7, **options: Any
) -> list[HangingTransaction]:
    """What is found when partition 1 has a transaction open for so long, and the coordinators know these."""

    def producers(_: str, request: pb.DescribeProducersRequest) -> pb.DescribeProducersReply:
        reply = pb.DescribeProducersReply()
        if request.partition == 1:
            reply.transactions.add(
                txn_producer_id=PID,
                txn_no=txn_no,
                first_offset=3,
                open_since_ms=SimClock(cluster.loop).now_ms() - age_ms,
                records=4,
            )
        return reply

    cluster.answers["DescribeProducers"] = producers
    cluster.answers["ListTransactions"] = co.ListTransactionsReply(transactions=known, answered=ANSWERED)

    async def work(_: FakeCluster) -> list[HangingTransaction]:
        async with cluster.client(default_api_timeout_ms=2_000) as client:
            topic = await client.admin.describe_topic(TOPIC)
            return await client.admin.find_hanging([topic], **options)

    return cluster.run(work)


def ended(**more: Any) -> co.TransactionInfo:
    return info(**{"state": "COMPLETE_COMMIT", **more})


@pytest.mark.parametrize(
    ("known", "reason"),
    [
        ([], "no coordinator knows this producer id"),
        ([info(txn_no=6)], "its coordinator knows numbers up to 6 only"),
        ([ended()], "its coordinator has ended it, but there is no marker here"),
        ([info(txn_no=8)], "its coordinator has ended it, but there is no marker here"),
    ],
    ids=["unknown", "too new", "ended", "a later one is open"],
)
def test_what_is_not_open_at_its_coordinator_hangs(
    cluster: FakeCluster, known: list[co.TransactionInfo], reason: str
) -> None:
    (found,) = hanging(cluster, known)
    assert (found.topic, found.partition, found.txn_no, found.records, found.reason) == (TOPIC, 1, 7, 4, reason)
    assert found.transactional_id == ("t" if known else "")


def test_what_its_coordinator_has_open_too_does_not_hang(cluster: FakeCluster) -> None:
    assert hanging(cluster, [info()]) == []


@pytest.mark.parametrize(("age_ms", "count"), [(999, 0), (1_000, 1)])
def test_what_is_young_is_left_alone(cluster: FakeCluster, age_ms: int, count: int) -> None:
    assert len(hanging(cluster, [], age_ms=age_ms, min_age_ms=1_000)) == count


def test_a_leader_that_does_not_answer_is_raised_and_never_passed_over(cluster: FakeCluster) -> None:
    cluster.fail("DescribeProducers", *(errors.NetworkError("gone") for _ in range(1_000)))
    with pytest.raises(errors.NetworkError):
        hanging(cluster, [])
