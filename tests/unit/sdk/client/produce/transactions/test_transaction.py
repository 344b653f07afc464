"""Transactions of the client: what is asked of the coordinator, and what the caller hears."""

from __future__ import annotations

import asyncio
from typing import Any

import pyarrow as pa
import pytest

from oncelog import errors
from oncelog.client.consume.offsets import GroupMetadata
from oncelog.client.produce.transactions.shared_batch import SharedBatch
from oncelog.types import PartitionId, TopicPartition
from oncelog.v1 import types_pb2
from tests.unit.sdk.client.fake_cluster import TOPIC, TOPIC_ID, FakeCluster, Lost


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


def options(**more: Any) -> dict[str, Any]:
    return {"transactional_id": "t", "request_timeout_ms": 100, "default_api_timeout_ms": 1_000, **more}


def counts(request: Any) -> dict[int, int]:
    return {item.partition: item.records for item in request.counts}


def test_a_block_commits_with_counts_and_sequences_start_at_0_in_every_transaction(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.producer(**options()) as producer:
            for expected_no in (1, 2):
                async with producer.transaction() as txn:
                    first = await txn.send(TOPIC, b"a", partition=0)
                    await txn.send(TOPIC, b"b", partition=1)
                assert (txn.txn_no, txn.outcome) == (expected_no, "committed")
                assert first.offset == expected_no - 1

    cluster.run(work)
    assert [counts(request) for request in cluster.end_requests] == [{0: 1, 1: 1}] * 2
    headers = [header for header, _ in cluster.logs[PartitionId(TOPIC_ID, 0)].records]
    assert [(h.txn_no, h.base_sequence, h.is_transactional) for h in headers] == [(1, 0, True), (2, 0, True)]
    assert cluster.count("InitProducerId") == 1
    assert cluster.count("EnrolPartitions") == 0, "one partition at a time: the leaders enrol"


def test_several_partitions_known_up_front_are_enrolled_in_one_call(cluster: FakeCluster) -> None:
    rows = pa.record_batch({"key": pa.array([b"%d" % i for i in range(50)]), "value": pa.array([b""] * 50)})

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.producer(**options()) as producer, producer.transaction() as txn:
            await txn.send_batch(TOPIC, rows)
            await txn.send_batch(TOPIC, rows)

    cluster.run(work)
    assert cluster.count("EnrolPartitions") == 1
    assert sum(counts(cluster.end_requests[0]).values()) == 100


async def raise_inside(txn: Any) -> None:
    async with txn:
        await txn.send(TOPIC, b"a", partition=0)
        raise KeyError


def test_a_block_that_raises_aborts(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.producer(**options()) as producer:
            txn = producer.transaction()
            with pytest.raises(KeyError):
                await raise_inside(txn)
            assert txn.outcome == "aborted"
            with pytest.raises(errors.IllegalStateError):
                await txn.send(TOPIC, b"a")
            async with producer.transaction() as after:
                await after.send(TOPIC, b"b", partition=0)
            assert after.txn_no == 2

    cluster.run(work)
    assert [request.outcome for request in cluster.end_requests] == [
        types_pb2.TRANSACTION_OUTCOME_ABORTED,
        types_pb2.TRANSACTION_OUTCOME_COMMITTED,
    ]


def test_a_transaction_that_touched_nothing_asks_nobody_and_its_number_is_used_again(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.producer(**options()) as producer:
            async with producer.transaction() as empty:
                pass
            async with producer.transaction() as full:
                await full.send(TOPIC, b"", partition=0)
            assert (empty.txn_no, full.txn_no) == (1, 1)
            assert empty.outcome == "committed"

    cluster.run(work)
    assert len(cluster.end_requests) == 1


def test_a_failed_send_that_nobody_awaited_fails_the_commit(cluster: FakeCluster) -> None:
    cluster.fail("append", errors.InvalidRecordError())

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.producer(**options()) as producer:
            with pytest.raises(errors.InvalidRecordError):
                async with producer.transaction() as txn:
                    await txn.send(TOPIC, b"a", partition=0)
            assert txn.outcome == "aborted"
            with pytest.raises(errors.IllegalStateError):
                await txn.send(TOPIC, b"b")

    cluster.run(work)
    assert [request.outcome for request in cluster.end_requests] == [types_pb2.TRANSACTION_OUTCOME_ABORTED]


def test_after_a_failure_every_call_says_so_and_abort_helps(cluster: FakeCluster) -> None:
    cluster.fail("append", errors.InvalidRecordError())

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.producer(**options()) as producer:
            txn = await producer.begin_transaction()
            with pytest.raises(errors.InvalidRecordError):
                await (await txn.send(TOPIC, b"a", partition=0))
            for call in (lambda: txn.send(TOPIC, b"b"), txn.flush, txn.commit):
                with pytest.raises(errors.InvalidRecordError):
                    await call()  # type: ignore[operator]
            await txn.abort()
            await txn.abort()
            assert (await producer.begin_transaction()).txn_no == 2

    cluster.run(work)


def test_a_commit_without_an_answer_is_asked_again_until_it_is_definite(cluster: FakeCluster) -> None:
    cluster.fail("EndTransaction", Lost(), errors.NetworkError(), errors.ConcurrentTransactionsError())

    async def work(_: FakeCluster) -> None:
        async with cluster.client(**_client()) as client, client.producer(**options()) as producer:
            async with producer.transaction() as txn:
                await txn.send(TOPIC, b"a", partition=0)
            assert txn.outcome == "committed"

    cluster.run(work)
    assert cluster.count("EndTransaction") == 4


def _client() -> dict[str, Any]:
    return {"request_timeout_ms": 100}


def test_a_commit_that_nobody_answers_is_unknown_and_may_be_repeated(cluster: FakeCluster) -> None:
    cluster.fail("EndTransaction", *(errors.NetworkError() for _ in range(1_000)))

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.producer(**options()) as producer:
            txn = producer.transaction()
            with pytest.raises(errors.CommitOutcomeUnknownError):
                async with txn:
                    await txn.send(TOPIC, b"a", partition=0)
            with pytest.raises(errors.IllegalStateError):
                await txn.abort()
            with pytest.raises(errors.IllegalStateError, match="another transaction"):
                await producer.begin_transaction()
            cluster.faults.clear()
            await txn.commit(wait="visible")
            assert (txn.outcome, txn.visible) == ("committed", True)
            await producer.begin_transaction()

    cluster.run(work)
    assert all(request.outcome == types_pb2.TRANSACTION_OUTCOME_COMMITTED for request in cluster.end_requests)


def test_a_commit_that_is_decided_is_heard_of_while_a_partition_has_no_leader(cluster: FakeCluster) -> None:
    """Whoever waited for the markers of a durable commit heard that its outcome is unknown."""
    cluster.has_leaderless = True

    async def work(_: FakeCluster) -> None:
        async with cluster.client(default_api_timeout_ms=1_000) as client, client.producer(**options()) as producer:
            txn = await producer.begin_transaction()
            await txn.send(TOPIC, b"a", partition=0)
            await txn.commit(wait="visible")
            assert (txn.outcome, txn.visible) == ("committed", False)
            async with await client.join_transaction(SharedBatch("t", "run", "app", 4)) as participant:
                await participant.send(TOPIC, b"a", partition=0)
                result = await participant.flush()
            commit = await client.commit_transaction(
                SharedBatch("t", "run", "app", 4), result.txn_no, [result], wait="visible", timeout_ms=1_000
            )
            assert commit.committed_rows == 1

    cluster.run(work)


def test_the_coordinator_had_aborted_it(cluster: FakeCluster) -> None:
    cluster.ended[1] = types_pb2.TRANSACTION_OUTCOME_ABORTED

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.producer(**options()) as producer:
            with pytest.raises(errors.TxnAbortedError):
                async with producer.transaction() as txn:
                    await txn.send(TOPIC, b"a", partition=0)
            assert txn.outcome == "aborted"
            assert (await producer.begin_transaction()).txn_no == 2

    cluster.run(work)


def test_a_fenced_producer_is_finished(cluster: FakeCluster) -> None:
    cluster.fail("EndTransaction", errors.ProducerFencedError())

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.producer(**options()) as producer:
            with pytest.raises(errors.ProducerFencedError):
                async with producer.transaction() as txn:
                    await txn.send(TOPIC, b"a", partition=0)
            with pytest.raises(errors.ProducerFencedError):
                await producer.begin_transaction()

    cluster.run(work)


def test_an_abort_that_failed_is_finished_before_the_next_transaction(cluster: FakeCluster) -> None:
    cluster.fail("EndTransaction", *(errors.NetworkError() for _ in range(100)))

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.producer(**options()) as producer:
            txn = await producer.begin_transaction()
            await txn.send(TOPIC, b"a", partition=0)
            with pytest.raises(errors.NetworkError):
                await txn.abort()
            cluster.faults.clear()
            assert (await producer.begin_transaction()).txn_no == 2
            assert txn.outcome == "aborted"

    cluster.run(work)


def test_cancellation_aborts_to_the_end(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.producer(**options()) as producer:

            async def block() -> None:
                async with producer.transaction() as txn:
                    await txn.send(TOPIC, b"a", partition=0)
                    await asyncio.sleep(100)

            task = asyncio.get_running_loop().create_task(block())
            await asyncio.sleep(0.1)
            task.cancel()
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait((task,))
            assert task.cancelled()

    cluster.run(work)
    assert [request.outcome for request in cluster.end_requests] == [types_pb2.TRANSACTION_OUTCOME_ABORTED]


async def interrupted(work: Any) -> asyncio.Task[Any]:
    """The work, begun, and cancelled as a Ctrl-C does it: it goes on to its end."""
    task: asyncio.Task[Any] = asyncio.ensure_future(work)
    await asyncio.sleep(0.0005)
    task.cancel()
    return task


@pytest.mark.parametrize("is_over", [False, True])
def test_a_commit_that_was_interrupted_is_joined_by_the_next_one(cluster: FakeCluster, is_over: bool) -> None:
    """It said "the transaction is committed and cannot become committed", after the advice to call it again."""

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.producer(**options()) as producer:
            txn = await producer.begin_transaction()
            await txn.send(TOPIC, b"a", partition=0)
            first = await interrupted(txn.commit())
            if is_over:
                await asyncio.wait((first,))
                assert txn.outcome == "committed"
            await txn.commit()
            await asyncio.wait((first,))
            assert first.cancelled()
            assert (txn.outcome, txn.visible, len(cluster.end_requests)) == ("committed", False, 1)
            await txn.commit(wait="visible")
            assert (txn.visible, len(cluster.end_requests)) == (True, 2)
            with pytest.raises(errors.IllegalStateError, match="it is committed"):
                await txn.abort()
            assert (await producer.begin_transaction()).txn_no == 2

    cluster.run(work)


def test_a_commit_whose_first_caller_gives_up_goes_on_for_the_others(cluster: FakeCluster) -> None:
    cluster.fail("EndTransaction", *(errors.NetworkError() for _ in range(3)))

    async def work(_: FakeCluster) -> None:
        limits = {"close_timeout_ms": 100, "retry_backoff_ms": 200}
        async with cluster.client(**limits) as client, client.producer(transactional_id="t") as producer:
            txn = await producer.begin_transaction()
            await txn.send(TOPIC, b"a", partition=0)
            first = await interrupted(txn.commit())
            await txn.commit()
            assert first.cancelled()
            assert txn.outcome == "committed"

    cluster.run(work)


def test_the_next_transaction_begins_when_an_interrupted_abort_has_ended(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.producer(**options()) as producer:
            txn = await producer.begin_transaction()
            await (await txn.send(TOPIC, b"a", partition=0))
            first = await interrupted(txn.abort())
            assert (await producer.begin_transaction()).txn_no == 2
            await asyncio.wait((first,))
            await txn.abort()
            assert (txn.outcome, len(cluster.end_requests)) == ("aborted", 1)

    cluster.run(work)


def test_closing_a_producer_waits_for_a_commit_under_way(cluster: FakeCluster) -> None:
    """Without `await` Ctrl-C leaves a commit running; the `close` after it ended the connections."""

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client:
            producer = client.producer(**options())
            txn = await producer.begin_transaction()
            await txn.send(TOPIC, b"a", partition=0)
            first = await interrupted(txn.commit())
            await producer.close()
            assert txn.outcome == "committed"
            await asyncio.wait((first,))

    cluster.run(work)


@pytest.mark.parametrize("how", ["commit", "abort"])
def test_closing_a_producer_waits_no_longer_than_it_may(cluster: FakeCluster, how: str) -> None:
    cluster.fail("EndTransaction", *(Lost() for _ in range(100)))

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client:
            producer = client.producer(transactional_id="t")
            txn = await producer.begin_transaction()
            await txn.send(TOPIC, b"a", partition=0)
            await txn.flush()
            ending = asyncio.ensure_future(getattr(txn, how)())
            await asyncio.sleep(0.1)
            before = cluster.loop.time()
            await producer.close(timeout_ms=500)
            assert cluster.loop.time() - before < 0.6
            expected = errors.CommitOutcomeUnknownError if how == "commit" else errors.IllegalStateError
            with pytest.raises(expected, match="the producer was closed before"):
                await ending

    cluster.run(work)


def test_closing_a_producer_aborts_its_open_transaction(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.producer(**options()) as producer:
            txn = await producer.begin_transaction()
            await txn.send(TOPIC, b"a", partition=0)

    cluster.run(work)
    assert [request.outcome for request in cluster.end_requests] == [types_pb2.TRANSACTION_OUTCOME_ABORTED]


def test_offsets_go_with_their_group_never_with_a_bare_name(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.producer(**options()) as producer, producer.transaction() as txn:
            with pytest.raises(errors.IllegalStateError):
                await txn.send_offsets({TopicPartition(TOPIC, 0): 5})
            await txn.send_offsets({TopicPartition(TOPIC, 0): 5}, GroupMetadata("g"))
            await txn.send_offsets({TopicPartition(TOPIC, 0): 6}, GroupMetadata("g"))

    cluster.run(work)
    sent = [request for _, method, request in cluster.calls if method.endswith("SendOffsets")]
    assert [(r.commit_sequence, r.member.group_id, r.offsets[0].offset) for r in sent] == [(1, "g", 5), (2, "g", 6)]
    assert len(cluster.end_requests) == 1


def test_a_commit_waits_for_offsets_whose_topic_is_not_known_yet(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.producer(**options()) as producer:
            txn = await producer.begin_transaction()
            sending = asyncio.ensure_future(txn.send_offsets({TopicPartition(TOPIC, 0): 5}, GroupMetadata("g")))
            await asyncio.sleep(0)
            assert not sending.done()
            await asyncio.gather(txn.commit(), sending)
            assert txn.outcome == "committed"

    cluster.run(work)
    assert [method for _, method, _ in cluster.calls if method.endswith(("SendOffsets", "EndTransaction"))] == [
        "Coordinator.SendOffsets",
        "Coordinator.EndTransaction",
    ]


def test_offsets_that_are_no_numbers_fail_the_commit_that_waits_for_them(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.producer(**options()) as producer:
            txn = await producer.begin_transaction()
            given: Any = {TopicPartition(TOPIC, 0): 5, TopicPartition(TOPIC, 1): "x"}
            sending = asyncio.ensure_future(txn.send_offsets(given, GroupMetadata("g")))
            await asyncio.sleep(0)
            committed, sent = await asyncio.gather(txn.commit(), sending, return_exceptions=True)
            assert isinstance(committed, errors.TransactionAbortableError)
            assert isinstance(sent, ValueError)
            await txn.abort()

    cluster.run(work)
    assert all(request.outcome == types_pb2.TRANSACTION_OUTCOME_ABORTED for request in cluster.end_requests)


def test_what_fails_after_the_commit_was_sent_does_not_turn_it_into_a_failure(cluster: FakeCluster) -> None:
    """As an enrolment that is refused because the transaction is committed, of which the answer was lost."""
    cluster.fail("EndTransaction", *(errors.NetworkError() for _ in range(1_000)))

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.producer(**options()) as producer:
            txn = await producer.begin_transaction()
            await txn.send(TOPIC, b"a", partition=0)
            with pytest.raises(errors.CommitOutcomeUnknownError):
                await txn.commit()
            assert txn._core is not None
            txn._core.fail(errors.TxnEndedError())
            cluster.faults.clear()
            await txn.commit()
            assert txn.outcome == "committed"

    cluster.run(work)


def test_what_an_aborted_transaction_left_in_flight_does_not_hold_up_the_next(cluster: FakeCluster) -> None:
    cluster.fail("Produce", Lost())

    async def work(_: FakeCluster) -> float:
        patient = cluster.client(request_timeout_ms=30_000)
        async with patient as client, client.producer(transactional_id="t") as producer:
            txn = await producer.begin_transaction()
            waiting = await txn.send(TOPIC, b"a", partition=0)
            await asyncio.sleep(0.01)
            await txn.abort()
            with pytest.raises(errors.TxnAbortedError):
                await waiting
            async with producer.transaction() as txn:
                await txn.send(TOPIC, b"b", partition=0)
            return cluster.loop.time()

    assert cluster.run(work) < 1.0


def test_two_first_begins_at_once_open_one_session(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client:
            producer = client.producer(transactional_id="t")
            begun = await asyncio.gather(
                producer.begin_transaction(), producer.begin_transaction(), return_exceptions=True
            )
            refused = [one for one in begun if isinstance(one, BaseException)]
            assert [type(one) for one in refused] == [errors.IllegalStateError]
            (txn,) = [one for one in begun if not isinstance(one, BaseException)]
            await txn.send(TOPIC, b"0", partition=0)
            await txn.commit()
            await producer.close()

    cluster.run(work)
    assert cluster.count("InitProducerId") == 1


def test_a_transaction_goes_to_the_topic_that_has_the_name_now(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.producer(transactional_id="t") as producer:
            async with producer.transaction() as txn:
                await txn.send(TOPIC, b"old", partition=0)
            new_id = cluster.create_again()
            async with producer.transaction() as txn:
                await txn.send(TOPIC, b"new", partition=0)
            assert [(c.topic_id, c.records) for c in cluster.end_requests[-1].counts] == [(new_id, 1)]
            assert [record.value for _, record in cluster.logs[PartitionId(new_id, 0)].records] == [b"new"]

    cluster.run(work)


def patient(**more: Any) -> dict[str, Any]:
    return {"default_api_timeout_ms": 1_000, "request_timeout_ms": 400, "retry_backoff_ms": 50, **more}


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
