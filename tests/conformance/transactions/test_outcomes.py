"""Outcomes are each transaction's own: no name is given twice, and nothing that may be open is out of an operator's reach."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog import errors
from oncelog.core.batch.hashing import shard_for
from oncelog.v1 import coordinator_pb2 as co
from oncelog.wire import methods
from tests.conformance.names import ABORTED, COMMITTED, NOT_BEGUN, ONGOING
from tests.conformance.script import Script, cluster
from tests.simulation.cluster import SHARDS


def joining(tid: str) -> co.JoinTransactionRequest:
    token = co.CommitToken(app_id="app", batch_id=0)
    return co.JoinTransactionRequest(transactional_id=tid, owner_run="run-1", token=token, write_attempt="1")


async def join_while_the_life_of_the_shard_ends(s: Script, tid: str) -> int:
    """A join that saw the id in a life of the shard, waited for producer ids, and asks the next life, which knows nothing."""
    owner = s.owner(tid)
    pool = s.coordinator(owner)._producer_ids
    while pool.stock > 2:
        await pool.take(1)
    await s.until(lambda: pool.stock == 2)
    ids = s.hold(methods.ALLOCATE_PRODUCER_IDS, source=owner)
    log = s.hold(methods.PRODUCE, source=owner)

    async def join() -> Any:
        return await s.call(owner, methods.JOIN_TRANSACTION, joining(tid), timeout_ms=10_000)

    first = s.start(join())
    await log.caught()
    shard = s.shard_of(owner, tid)
    life = shard.life
    second = s.start(join())
    await s.until(lambda: not shard.is_serving or shard.life is not life, "its append is lost, and so its life ends")
    log.close()
    await s.until(lambda: shard.is_serving)
    ids.release()
    with pytest.raises(errors.OncelogError):
        await first
    return int((await second).txn_producer_id)


@cluster(coordinator={"producer_ids_prefetch": 2, "append_timeout_ms": 500, "append_deadline_ms": 1_000})
async def test_two_transactional_ids_never_share_a_producer_id(s: Script) -> None:
    other = next(f"q{i}" for i in range(1, 50) if shard_for(f"q{i}", SHARDS) != shard_for("q0", SHARDS))
    ids = [await join_while_the_life_of_the_shard_ends(s, tid) for tid in ("q0", other)]
    assert 0 not in ids
    assert len(set(ids)) == 2


async def test_whoever_notes_a_number_and_dies_before_it_writes_is_never_told_that_it_committed(s: Script) -> None:
    await s.place()
    async with s.client() as one, s.client() as two:
        dying = await one.producer(transactional_id="t").start()
        noted = (await dying.begin_transaction()).txn_no
        async with two.producer(transactional_id="t") as successor, successor.transaction() as txn:
            await txn.send("work", value=b"of the second", partition=0)
        assert (await two.get_outcome("t", noted)).outcome == "aborted"


async def test_a_number_that_was_looked_at_is_not_used_for_the_next_transaction(s: Script) -> None:
    await s.place()
    async with s.client() as client, client.producer(transactional_id="t") as producer:
        async with producer.transaction() as unseen:
            pass
        async with producer.transaction() as empty:
            noted = empty.txn_no
        async with producer.transaction() as txn:
            await txn.send("work", value=b"x", partition=0)
            assert txn.txn_no == noted + 1
        assert unseen.txn_no == noted, "nobody could have noted it when it was used again"


async def test_a_number_that_nobody_began_is_told_as_such_by_every_owner_of_the_shard(s: Script) -> None:
    """Regression: the answer was always "ongoing"."""
    place = await s.place()
    writer = await s.session("t")
    assert await s.outcome(writer) == NOT_BEGUN
    s.kill(s.owner("t"))
    assert await s.outcome(writer) == NOT_BEGUN
    await s.write(place, writer, "x")
    assert await s.outcome(writer) == ONGOING
    assert await s.outcome(writer.next()) == NOT_BEGUN
    async with s.client() as client:
        assert (await client.get_outcome("t", 99)).outcome == "not_begun"
        assert (await client.get_outcome("t", writer.txn_no)).outcome == "ongoing"
    successor = await s.session("t")
    assert await s.outcome(writer) == ABORTED
    assert await s.outcome(successor) == NOT_BEGUN


async def test_a_number_that_was_not_begun_is_never_a_successors(s: Script) -> None:
    """Also the one behind an open transaction: its session asked, died, and another session wrote."""
    place = await s.place()
    first = await s.session("t")
    await s.write(place, first, "lost")
    following = first.next()
    assert await s.outcome(following) == NOT_BEGUN
    second = await s.session("t")
    await s.write(place, second, "x")
    assert (await s.end(second, counts={place: 1}, visible=True)).outcome == COMMITTED
    assert [await s.outcome(writer) for writer in (first, following)] == [ABORTED, ABORTED]


async def torn_by_a_power_cut(s: Script, *, after_ms: int) -> tuple[list[Any], list[Any]]:
    """What is read of two partitions after all brokers lost power, `after_ms` after VISIBLE; the second one's was written."""
    first, second = await s.topic("work", 2, min_insync_replicas="2")
    writer = await s.session("t")
    await s.write(first, writer, "p1")
    await s.write(second, writer, "p2")
    assert (await s.end(writer, counts={first: 1, second: 1}, visible=True)).visible
    await s.sleep(after_ms / 1000)
    nodes = ("broker-0", "broker-1", "broker-2")
    s.power_cut(*nodes, keep=lambda path: f"-{second.topic_id}-1/" in path or "__" in path)
    s.restart(*nodes)
    await s.cluster.healthy()
    await s.sleep(10)
    others = await s.read(second)
    return await s.read(first), others


async def test_a_transaction_that_is_complete_survives_a_power_cut_of_all_replicas(s: Script) -> None:
    assert await torn_by_a_power_cut(s, after_ms=3_000) == (["p1"], ["p2"])


async def test_one_that_loses_a_part_before_it_is_complete_is_named(s: Script) -> None:
    s.hold(methods.SYNC_REPLICA)
    with pytest.raises(errors.TransactionDataLossError):
        await torn_by_a_power_cut(s, after_ms=0)


async def test_commits_wait_for_no_disk_of_a_replicated_topic(s: Script) -> None:
    place = await s.place(min_insync_replicas="2")
    s.hold(methods.SYNC_REPLICA)
    writer = await s.session("t")
    await s.write(place, writer, "x")
    assert (await s.end(writer, counts={place: 1}, visible=True)).visible
    assert await s.read(place) == ["x"]


async def test_followers_of_version_0_1_which_cannot_say_what_is_on_disk_count_as_they_did(s: Script) -> None:
    place = await s.place()
    for node in ("broker-0", "broker-1", "broker-2"):
        s.broker(node).ports.server._handlers.pop(methods.SYNC_REPLICA.name)
    writer = await s.session("t")
    await s.write(place, writer, "x")
    await s.end(writer, counts={place: 1}, visible=True)
    await s.sleep(3)
    known = await s.ask("t", methods.DESCRIBE_TRANSACTION, co.DescribeTransactionRequest(transactional_id="t"))
    assert known.transaction.state == "COMPLETE_COMMIT"


async def test_force_abort_ends_what_a_dead_coordinator_let_a_leader_open(s: Script) -> None:
    place = await s.place()
    writer = await s.session("t", timeout_ms=900_000)
    await s.write(place, writer, "n")
    await s.end(writer, counts={place: 1}, visible=True)
    following = writer.next()
    owner = s.owner("t")
    await s.write(place, following, "n+1")  # enrolled ahead: the record that says so is lazy, and lost
    s.kill(owner)
    await s.until(lambda: s.owner("t") not in ("", owner))
    reply = await s.ask("t", methods.FORCE_ABORT, co.ForceAbortRequest(transactional_id="t"))
    assert reply.txn_no == following.txn_no
    await s.stable(place)
    assert await s.read(place) == ["n"]
