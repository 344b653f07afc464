"""Ids that were removed, in a whole cluster: nothing old is taken for something new, and nothing that must last is gone."""

from __future__ import annotations

import pytest

from oncelog import errors
from oncelog.v1 import coordinator_pb2 as co
from oncelog.wire import methods
from tests.conformance.names import COMMITTED, NOT_BEGUN
from tests.conformance.script import Script, cluster

SOON = {"transactional_id_expiration_ms": 2_000, "transactional_id_retention_ms": 1_500}


async def known(s: Script) -> set[str]:
    async with s.client() as client:
        return {item.transactional_id for item in await client.admin.list_transactions()}


async def until_removed(s: Script, *ids: str) -> None:
    for _ in range(60):
        if not await known(s) & set(ids):
            return
        await s.sleep(0.5)
    raise AssertionError(f"still there: {sorted(await known(s))}")


@cluster(coordinator=SOON)
async def test_a_zombie_of_a_removed_id_writes_nothing_also_when_the_id_is_used_again(s: Script) -> None:
    first, second = await s.topic("work", 2)
    old = await s.session("t")
    await s.write(first, old, "old")
    await s.end(old, counts={first: 1}, visible=True)
    await until_removed(s, "t")
    for place in (first, second):  # one leader knows the old producer id, the other does not
        with pytest.raises(errors.InvalidPidMappingError):
            await s.write(place, old.next(), "zombie")
    new = await s.session("t")
    assert new.producer_id != old.producer_id
    assert new.txn_no > old.txn_no
    await s.write(first, new, "new")
    for place in (first, second):
        with pytest.raises(errors.InvalidPidMappingError):
            await s.write(place, old.next(), "zombie")
        with pytest.raises(errors.OncelogError):
            await s.write(place, old, "zombie")
    with pytest.raises(errors.InvalidPidMappingError):
        await s.send_offsets(old.next(), "g", first, 7, sequence=1)
    await s.end(new, counts={first: 1}, visible=True)
    assert await s.read(first, second) == ["old", "new"]


@cluster(coordinator=SOON)
async def test_the_outcome_of_a_removed_id_is_forgotten_for_ever(s: Script) -> None:
    place = await s.place()
    old = await s.session("t")
    await s.write(place, old, "x")
    await s.end(old, counts={place: 1}, visible=True)
    await until_removed(s, "t")
    for _ in range(2):  # by an owner that removed it, and by one that read its log
        for ask in (s.outcome, s.end, s.resolve):
            with pytest.raises(errors.OutcomeForgottenError):
                await ask(old)
        owner = s.owner("t")
        s.kill(owner)
        await s.until(lambda was=owner: s.owner("t") not in ("", was))  # type: ignore[misc]
        s.restart(owner)
        await s.cluster.healthy()
    new = await s.session("t")
    with pytest.raises(errors.OutcomeForgottenError):
        await s.outcome(old)
    assert await s.outcome(new) == NOT_BEGUN
    await s.end(new)
    assert await s.outcome(new) == COMMITTED


@cluster(coordinator=SOON)
async def test_an_id_with_a_token_stays_and_one_whose_token_expires_goes(s: Script) -> None:
    place = await s.place()
    written = {}
    for tid, expires in (("stays", False), ("goes", True)):
        joined = written[tid] = await s.join(tid)
        await s.write_as(joined, place, tid)
        await s.commit_batch(tid, joined.writer.txn_no, [joined], expires=expires)
    await until_removed(s, "goes")
    assert await known(s) == {"stays"}
    assert (await s.join_reply("stays", "run-2", 0, "9")).already_committed
    with pytest.raises(errors.OutcomeForgottenError):
        await s.commit_batch("goes", written["goes"].writer.txn_no, [written["goes"]], expires=True)
    assert sorted(await s.read(place)) == ["goes", "stays"]


@cluster(coordinator=SOON)
async def test_an_id_whose_marker_does_not_arrive_is_not_removed(s: Script) -> None:
    place = await s.place()
    writer = await s.session("t")
    await s.write(place, writer, "x")
    markers = s.hold(methods.WRITE_TXN_MARKERS)
    await s.end(writer, counts={place: 1})
    await s.sleep(10)
    assert await known(s) == {"t"}
    assert await s.outcome(writer) == COMMITTED
    markers.release()
    await s.stable(place)
    await until_removed(s, "t")
    assert await s.read(place) == ["x"]


@cluster(coordinator=SOON)
async def test_an_id_whose_participant_lives_is_not_removed(s: Script) -> None:
    place = await s.place()
    joined = await s.join("q", lease_ms=4_000, max_duration_ms=600_000)
    await s.write_as(joined, place, "x")
    renewal = co.RenewTransactionRequest(name=joined.writer.name, owner_run="run-1")
    for _ in range(5):
        await s.sleep(2)
        await s.ask("q", methods.RENEW_TRANSACTION, renewal)
    await s.commit_batch("q", joined.writer.txn_no, [joined])
    await s.stable(place)
    assert await s.read(place) == ["x"]


@cluster(coordinator=SOON)
async def test_a_producer_that_slept_for_too_long_is_told_and_a_new_one_goes_on(s: Script) -> None:
    """With the SDK: what it makes of these answers never leads to a second copy by itself."""
    place = await s.place()
    async with s.client() as client:
        sleeper = await client.producer(transactional_id="t").start()
        async with sleeper.transaction() as txn:
            await txn.send("work", b"first")
        await until_removed(s, "t")
        with pytest.raises(errors.InvalidPidMappingError):
            async with sleeper.transaction() as late:
                await late.send("work", b"late")
        with pytest.raises(errors.OutcomeForgottenError):
            await client.get_outcome("t", txn.txn_no)
        async with client.producer(transactional_id="t") as young, young.transaction() as again:
            await again.send("work", b"second")
    await s.stable(place)
    assert await s.read(place) == ["first", "second"]
