"""A producer id belongs to whom it was given, and a transaction to its session, whatever operators' lists tell a stranger."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from oncelog import errors
from oncelog.client.consume.offsets import GroupMetadata
from oncelog.client.produce.transactions.shared_batch import SharedBatch
from oncelog.core.batch.hashing import shard_for
from oncelog.types import TopicPartition
from oncelog.v1 import coordinator_pb2 as co
from oncelog.v1 import partition_pb2 as pa
from oncelog.wire import methods
from oncelog_runtime.metadata import cluster_keys as keys
from tests.conformance.script import COMMITTED, Joined, Place, Script, Writer, cluster

REFUSED = errors.TransactionalIdAuthorizationError
EPOCH_MAX = (1 << 31) - 2
required = cluster(require_session_tokens=True, coordinator={"require_session_tokens": True})


async def told(s: Script, tid: str, place: Place) -> Writer:
    """What anybody can learn of an open transaction: all but its token."""
    listed = await s.call(s.owner(tid), methods.LIST_TRANSACTIONS, co.ListTransactionsRequest())
    (info,) = [item for item in listed.transactions if item.transactional_id == tid]
    where = pa.DescribeProducersRequest(topic_id=place.topic_id, partition=place.partition)
    described = await s.call(s.leader(place), methods.DESCRIBE_PRODUCERS, where)
    (opened,) = described.transactions
    assert (opened.txn_producer_id, opened.txn_no) == (info.producer_id, info.txn_no)
    own = info.producer_id
    return Writer(own, info.producer_epoch, own, info.txn_no, info.txn_shard, tid)


def settle(place: Place, writer: Writer, epoch: int) -> pa.GetProducerStateRequest:
    return pa.GetProducerStateRequest(
        topic_id=place.topic_id,
        partition=place.partition,
        producer_id=writer.producer_id,
        producer_epoch=epoch,
        base_sequence=1_000,
        last_sequence=1_000,
        settle=True,
        session_token=writer.token,
    )


async def refused(*calls: Callable[[], Awaitable[object]]) -> None:
    for call in calls:
        with pytest.raises(REFUSED):
            await call()


@required
async def test_a_stranger_who_knows_every_number_reaches_nothing_of_a_transaction(s: Script) -> None:
    place, other = await s.topic("work", 2, min_insync_replicas="2")
    owner = await s.session("t")
    await s.write(place, owner, "mine")
    stranger = await told(s, "t", place)
    foreign = stranger.of(producer_id=4242)
    plain = Writer(stranger.producer_id, EPOCH_MAX)
    ends = {place: s.replica(s.leader(place), place).log.log_end_offset}
    for token in (b"", b"x", owner.token[:-1], owner.token + b"x", (await s.session("strangers own")).token):
        await refused(
            lambda token=token: s.write(place, stranger.of(token=token), "forged", seq=1),
            lambda token=token: s.write(place, foreign.of(token=token), "forged"),
            lambda token=token: s.write(other, stranger.of(token=token), "forged"),
            lambda token=token: s.write(place, plain.of(token=token), "fence"),
            lambda token=token: s.enrol(stranger.of(token=token), other),
            lambda token=token: s.enrol(stranger.of(token=token), groups=["g"]),
            lambda token=token: s.send_offsets(stranger.of(token=token), "g", place, 7, 1),
            lambda token=token: s.end(stranger.of(token=token), commit=False),
            lambda token=token: s.end(stranger.of(token=token)),
            lambda token=token: s.call(
                s.leader(place), methods.GET_PRODUCER_STATE, settle(place, plain.of(token=token), EPOCH_MAX)
            ),
        )
    assert {place: s.replica(s.leader(place), place).log.log_end_offset} == ends, "a refused call writes nothing"
    await s.write(place, owner, "still mine", seq=1)
    await s.send_offsets(owner, "g", place, 5, 1)
    assert (await s.end(owner, counts={place: 2}, visible=True)).outcome == COMMITTED
    assert (await s.read(place), await s.read(other)) == (["mine", "still mine"], [])
    assert await s.committed_offset("g", place) == 5


@required
async def test_a_stranger_cannot_end_a_plain_producer(s: Script) -> None:
    place = await s.place()
    owner, stranger = await s.producer(), await s.producer()
    await s.write(place, owner, "a")
    for forged in (owner.of(token=b""), owner.of(token=stranger.token)):
        await refused(
            lambda forged=forged: s.write(place, forged, "b", seq=1),
            lambda forged=forged: s.write(place, forged.of(epoch=1), "b"),
            lambda forged=forged: s.call(s.leader(place), methods.GET_PRODUCER_STATE, settle(place, forged, 0)),
        )
    await s.write(place, owner, "b", seq=1)
    reply = await s.call(s.leader(place), methods.GET_PRODUCER_STATE, settle(place, owner, 0))
    assert (reply.written, reply.producer_epoch) == (False, 1), "the owner may"
    assert await s.read(place) == ["a", "b"]


@required
async def test_a_session_that_was_fenced_shows_a_token_that_is_worth_nothing(s: Script) -> None:
    place = await s.place()
    old = await s.session("t")
    await s.write(place, old, "old")
    new = await s.session("t")
    assert old.token != new.token
    forged = new.of(token=old.token)
    await refused(lambda: s.write(place, forged, "late"), lambda: s.end(forged), lambda: s.enrol(forged, place))
    with pytest.raises(errors.ProducerFencedError):
        await s.end(old)
    await s.write(place, new, "new")
    assert (await s.end(new, counts={place: 1}, visible=True)).outcome == COMMITTED
    assert await s.read(place) == ["new"]


@required
async def test_a_runs_transaction_is_ended_by_its_own_driver_alone(s: Script) -> None:
    place = await s.place()
    one, two = await s.join("q"), await s.join("q")
    await s.write_as(one, place, "one")
    await s.write_as(two, place, "two")
    listed = await s.call(s.owner("q"), methods.LIST_TRANSACTIONS, co.ListTransactionsRequest())
    assert [info.owner_run[:7] for info in listed.transactions] == ["sha256:"], "the run's name lets its tasks in"
    number = one.writer.txn_no
    stranger = Joined(one.writer.of(token=b""), one.counts)
    spoken = co.AbortTransactionRequest(
        transactional_id="q", owner_run="run-1", txn_no=number, token=co.CommitToken(app_id="app", batch_id=0)
    )
    renewal = co.RenewTransactionRequest(name=stranger.writer.name, owner_run="run-1")
    await refused(
        lambda: s.commit_batch("q", number, [stranger]),
        lambda: s.commit_batch("q", number, []),
        lambda: s.ask("q", methods.ABORT_TRANSACTION, spoken),
        lambda: s.ask("q", methods.RENEW_TRANSACTION, renewal),
        lambda: s.write(place, stranger.writer, "forged", seq=1),
    )
    await s.ask("q", methods.RENEW_TRANSACTION, co.RenewTransactionRequest(name=one.writer.name, owner_run="run-1"))
    await s.commit_batch("q", number, [one, two])
    await s.stable(place)
    assert sorted(await s.read(place)) == ["one", "two"]
    assert (await s.commit_batch("q", number, [one, two])).already_committed, "a repeat is a success, as ever"
    following = await s.join("q", batch=1)
    spoken.txn_no, spoken.token.batch_id, spoken.session_token = following.writer.txn_no, 1, following.writer.token
    assert (await s.ask("q", methods.ABORT_TRANSACTION, spoken)).aborted


@required
async def test_a_driver_whose_run_was_taken_over_still_hears_that_it_has_committed(s: Script) -> None:
    place = await s.place()
    one = await s.join("q")
    await s.write_as(one, place, "one")
    await s.commit_batch("q", one.writer.txn_no, [one])
    later = await s.join("q", run="run-2", batch=1, attempt="2")
    assert later.writer.token != one.writer.token
    assert (await s.commit_batch("q", one.writer.txn_no, [one])).already_committed


@required
async def test_tokens_outlive_leaders_coordinators_and_a_restore_that_has_lost_the_key(s: Script) -> None:
    place = await s.place()
    owner = await s.session("t")
    await s.write(place, owner, "a")
    old = s.leader(place)
    s.kill(old, s.owner("t"))
    await s.new_leader(place, old)
    s.world.heal()
    await s.cluster.healthy()
    await s.write(place, owner, "b", seq=1)
    key = s.world.metadata.get(keys.SESSION_KEY)
    assert key is not None
    backup = s.world.metadata.snapshot()
    lost = replace(backup, items=tuple(item for item in backup.items if item.key != keys.SESSION_KEY))
    s.world.metadata.restore(lost, 1_000_000)
    await s.sleep(5)
    await s.cluster.healthy()
    again = s.world.metadata.get(keys.SESSION_KEY)
    assert again is not None
    assert again.value == key.value
    await s.write(place, owner, "c", seq=2)
    assert (await s.end(owner, counts={place: 3}, visible=True)).outcome == COMMITTED
    await refused(lambda: s.write(place, owner.next().of(token=b""), "d"))


@required
async def test_the_client_library_shows_its_tokens_everywhere(s: Script) -> None:
    place = await s.place("work")
    async with s.client() as client:
        async with client.producer() as plain:
            await (await plain.send("work", b"plain"))
        async with client.producer(transactional_id="t") as producer:
            async with producer.transaction() as txn:
                await txn.send("work", b"t1")
                await txn.send_offsets({TopicPartition("work", 0): 1}, group=GroupMetadata("g"))
            dropped = await producer.begin_transaction()
            await dropped.send("work", b"aborted")
            await dropped.flush()
            await dropped.abort()
        task = await client.join_transaction(SharedBatch("q", "run", "app", 0))
        async with task:
            await task.send("work", b"joined")
            await task.renew()
            result = await task.flush()
        assert "session_token" not in repr(result)
        commit = await client.commit_transaction(
            SharedBatch("q", "run", "app", 0), result.txn_no, [result], wait="visible"
        )
        assert not commit.already_committed
        task = await client.join_transaction(SharedBatch("q", "run", "app", 1))
        async with task:
            await task.send("work", b"dropped")
            result = await task.flush()
        token = result.session_token
        assert await client.abort_transaction(SharedBatch("q", "run", "app", 1), result.txn_no, session_token=token)
    await s.stable(place)
    assert await s.read(place) == ["plain", "t1", "joined"]


async def test_a_client_of_an_older_version_shows_no_token_and_works_as_before(s: Script) -> None:
    """By default tokens are not asked for: such clients, and such services, do not have them."""
    place = await s.place()
    old, plain = (await s.session("t")).of(token=b""), (await s.producer()).of(token=b"")
    await s.write(place, plain, "plain")
    await s.enrol(old, place)
    await s.write(place, old, "t")
    await s.send_offsets(old, "g", place, 5, 1)
    assert (await s.end(old, counts={place: 1}, visible=True)).outcome == COMMITTED
    one = await s.join("q")
    one.writer = one.writer.of(token=b"")
    await s.write_as(one, place, "joined")
    await s.commit_batch("q", one.writer.txn_no, [one])
    await s.stable(place)
    assert await s.read(place) == ["plain", "t", "joined"]


async def test_ids_and_epochs_that_nobody_can_have_been_given_are_refused(s: Script) -> None:
    place = await s.place()
    owner = await s.producer()
    await s.write(place, owner, "a")
    for forged in (Writer(1 << 61, 0), Writer(7, 0, 1 << 61, 1, shard_for("t", 10), "t")):
        with pytest.raises(errors.InvalidPidMappingError):
            await s.write(place, forged, "never allocated")
    with pytest.raises(errors.InvalidRequestError):
        await s.write(place, owner.of(epoch=EPOCH_MAX), "fence")
    with pytest.raises(errors.InvalidRequestError):
        await s.call(s.leader(place), methods.GET_PRODUCER_STATE, settle(place, owner, EPOCH_MAX))
    await s.write(place, owner, "b", seq=1)
    assert await s.read(place) == ["a", "b"]
