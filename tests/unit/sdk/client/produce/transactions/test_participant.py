"""A participant writes under its own id and only while its transaction lives; the driver commits what the winners wrote."""

from __future__ import annotations

import asyncio
import pickle
from typing import Any

import pyarrow as pa
import pytest

from oncelog import errors
from oncelog.client.produce.transactions.participant import Participant, ParticipantResult
from oncelog.client.produce.transactions.shared_batch import SharedBatch
from oncelog.client.produce.writer import Message
from oncelog.types import PartitionId
from oncelog.v1 import coordinator_pb2 as co
from tests.unit.sdk.client.fake_cluster import TOPIC, TOPIC_ID, FakeCluster
from tests.unit.sdk.client.sending import functions_of


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


def test_a_participant_writes_under_its_own_id_and_the_driver_commits(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client:
            async with await client.join_transaction(SharedBatch("t", "run", "app", 4), lease_ms=300) as participant:
                assert participant.txn_no == 9
                await participant.send(TOPIC, b"a", partition=1)
                await participant.send_batch(TOPIC, pa.record_batch({"value": pa.array([b"b"] * 3)}), partition=0)
                result = await participant.flush()
                await asyncio.sleep(0.5)
                assert cluster.count("RenewTransaction") >= 3
            assert (result.rows, result.producer_id) == (4, participant.producer_id)
            assert result.counts == ((TOPIC_ID, 0, 3), (TOPIC_ID, 1, 1))
            commit = await client.commit_transaction(SharedBatch("t", "run", "app", 4), result.txn_no, [result])
            assert (commit.already_committed, commit.committed_rows) == (False, 4)
            await client.commit_transaction(
                SharedBatch("t", "run", "app", 5, token_expires=True), result.txn_no, [result]
            )

    cluster.run(work)
    assert [(token.batch_id, token.expires) for token in cluster.committed_tokens] == [(4, False), (5, True)]
    header, _ = cluster.logs[PartitionId(TOPIC_ID, 0)].records[0]
    assert (header.producer_id != header.txn_producer_id, header.txn_producer_id, header.txn_no) == (True, 1, 9)


def test_who_joins_once_more_renews_once(cluster: FakeCluster) -> None:
    """Regression: the task that renewed first was never ended."""

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client:
            participant = await client.join_transaction(SharedBatch("t", "run", "app", 4), lease_ms=150)
            assert await participant.join() is participant
            await participant.close()
            renewed = cluster.count("RenewTransaction")
            await asyncio.sleep(0.2)
            assert cluster.count("RenewTransaction") == renewed

    cluster.run(work)


def test_a_participant_writes_many_records_in_one_call(cluster: FakeCluster) -> None:
    """Regression: the rows of a part went one `send` after the other."""

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client:
            options: dict[str, Any] = {"value_serializer": lambda n: b"<%d>" % n, "partitioner": lambda key, count: 1}
            async with await client.join_transaction(SharedBatch("t", "run", "app", 4), **options) as participant:
                sent = await participant.send_many(TOPIC, [1, ("k", 2), Message(3, partition=0)])
                assert sent.rows == 3
                result = await participant.flush()
                assert [(written.partition, written.records) for written in await sent] == [(1, 2), (0, 1)]
            assert (result.rows, result.counts) == (3, ((TOPIC_ID, 0, 1), (TOPIC_ID, 1, 2)))

    cluster.run(work)
    assert (cluster.values(0), cluster.values(1)) == ([b"<3>"], [b"<1>", b"<2>"])
    header, _ = cluster.logs[PartitionId(TOPIC_ID, 0)].records[0]
    assert (header.producer_id != header.txn_producer_id, header.txn_producer_id, header.txn_no) == (True, 1, 9)


def test_many_records_of_a_participant_are_refused_as_one_is(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client:
            participant = await client.join_transaction(SharedBatch("t", "run", "app", 4), lease_ms=300)
            with pytest.raises(errors.InvalidRecordError):
                await participant.send_many(TOPIC, [7])
            with pytest.raises(errors.UnknownTopicError):
                await participant.send_many(TOPIC, [Message(b"a", partition=99)])
            cluster.fail("RenewTransaction", errors.TxnEndedError())
            await asyncio.sleep(0.5)
            with pytest.raises(errors.TxnEndedError):
                await participant.send_many(TOPIC, [b"a"])
            await participant.close()
            await client.commit_transaction(SharedBatch("t", "run", "app", 4), 0, [])
            late = await client.join_transaction(SharedBatch("t", "run", "app", 4))
            with pytest.raises(errors.IllegalStateError, match="committed already: write nothing"):
                await late.send_many(TOPIC, [b"a"])

    cluster.run(work)


def test_a_participant_whose_transaction_ended_stops(cluster: FakeCluster) -> None:
    cluster.fail("RenewTransaction", errors.TxnEndedError())

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client:
            participant = await client.join_transaction(SharedBatch("t", "run", "app", 4), lease_ms=300)
            await asyncio.sleep(0.5)
            with pytest.raises(errors.TxnEndedError):
                await participant.send(TOPIC, b"a", partition=1)
            with pytest.raises(errors.TxnEndedError):
                await participant.flush()
            await participant.close()

    cluster.run(work)


def test_a_failure_does_not_grow_with_each_flush_of_a_participant(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with (
            cluster.client() as client,
            await client.join_transaction(SharedBatch("t", "run", "app", 1)) as participant,
        ):
            cluster.fail("append", errors.InvalidRecordError())
            await participant.send(TOPIC, b"a", partition=0)
            told = []
            for _ in range(3):
                with pytest.raises(errors.InvalidRecordError) as raised:
                    await participant.flush()
                told.append(functions_of(raised.value))
            assert told == [told[0]] * 3

    cluster.run(work)


def test_a_participant_that_was_closed_hands_in_nothing(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client:
            participant = await client.join_transaction(SharedBatch("t", "run", "app", 1))
            await participant.send(TOPIC, b"a", partition=0)
            assert (await participant.flush()).rows == 1
            await participant.close()
            with pytest.raises(errors.IllegalStateError, match="the participant is closed"):
                await participant.flush()
            with pytest.raises(errors.IllegalStateError, match="is closed"):
                await participant.send(TOPIC, b"a", partition=0)
            assert participant.txn_no > 0

    cluster.run(work)


def test_a_batch_that_is_committed_already_is_written_by_nobody_and_committed_again_in_vain(
    cluster: FakeCluster,
) -> None:
    cluster.committed["app", 4] = 17

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client:
            async with await client.join_transaction(SharedBatch("t", "run", "app", 4)) as participant:
                assert (participant.already_committed, participant.committed_rows, participant.txn_no) == (True, 17, 0)
                for use in (participant.send(TOPIC, b"a"), participant.flush(), participant.renew()):
                    with pytest.raises(errors.IllegalStateError, match="its batch is committed already: write nothing"):
                        await use
            assert participant.session_token == b""

    cluster.run(work)
    assert cluster.count("RenewTransaction") == 0


def test_before_it_has_joined_a_participant_writes_nothing(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with (
            cluster.client() as client,
            await client.join_transaction(SharedBatch("t", "run", "app", 4)) as joined,
        ):
            other = Participant(
                joined._context, joined._metadata, joined._caller, joined._writer._config, joined.options
            )
            with pytest.raises(errors.IllegalStateError, match=r"join\(\) it first"):
                await other.send(TOPIC, b"a")
            await other.close()

    cluster.run(work)


def test_a_join_sends_every_name(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        batch = SharedBatch("t", "run", "app", 4, "w", token_expires=True)
        async with cluster.client() as client:
            joined = await client.join_transaction(batch, task_attempt="7", lease_ms=300, max_duration_ms=900)
            await joined.close()

    cluster.run(work)
    (request,) = cluster.requests("JoinTransaction")
    assert (request.transactional_id, request.owner_run, request.write_attempt) == ("t", "run", "w")
    assert (request.token.app_id, request.token.batch_id) == ("app", 4)
    assert (request.task_attempt, request.lease_ms, request.max_duration_ms) == ("7", 300, 900)


@pytest.mark.parametrize(("aborted", "told"), [(True, True), (False, False)])
def test_an_abort_says_whether_there_was_anything_to_abort(cluster: FakeCluster, aborted: bool, told: bool) -> None:
    cluster.answers["AbortTransaction"] = co.AbortTransactionReply(aborted=aborted)

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client:
            assert await client.abort_transaction(SharedBatch("t", "run", "app", 4), 9, session_token=b"s") is told

    cluster.run(work)
    (request,) = cluster.requests("AbortTransaction")
    assert (request.transactional_id, request.owner_run, request.txn_no) == ("t", "run", 9)
    assert (request.token.app_id, request.token.batch_id, request.session_token) == ("app", 4, b"s")


def test_a_result_is_handed_over_with_its_token_and_shows_it_to_nobody(cluster: FakeCluster) -> None:
    result = ParticipantResult(9, 101, 3, ((TOPIC_ID, 0, 3),), b"secret")
    assert "secret" not in repr(result)
    assert pickle.loads(pickle.dumps(result)).session_token == b"secret"

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client:
            await client.commit_transaction(SharedBatch("t", "run", "app", 4, "w"), 9, [result])

    cluster.run(work)
    (request,) = cluster.requests("CommitTransaction")
    assert (request.transactional_id, request.owner_run, request.txn_no) == ("t", "run", 9)
    assert (request.token.app_id, request.token.batch_id) == ("app", 4)
    assert (request.session_token, request.write_attempt) == (b"secret", "w")
    assert [(w.producer_id, w.rows, [c.records for c in w.counts]) for w in request.winners] == [(101, 3, [3])]


def test_what_many_winners_wrote_is_told_once_for_each_partition(cluster: FakeCluster) -> None:
    """A count for each writer and partition: 5,400 tasks that wrote to 300 partitions could not be committed at all."""
    writers, partitions = 400, 300
    counts = tuple((TOPIC_ID, partition, 2) for partition in range(partitions))
    results = [ParticipantResult(9, 101 + i, 2 * partitions, counts) for i in range(writers)]

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client:
            await client.commit_transaction(SharedBatch("t", "run", "app", 4, "w"), 9, results)

    cluster.run(work)
    (request,) = cluster.requests("CommitTransaction")
    assert [(w.producer_id, w.rows) for w in request.winners] == [(r.producer_id, r.rows) for r in results]
    told = [(c.topic_id, c.partition, c.records) for w in request.winners for c in w.counts]
    assert told == [(TOPIC_ID, partition, 2 * writers) for partition in range(partitions)]
    assert request.ByteSize() < 1 << 16
