"""Enrolled ahead (decision 0017): a decision enrols the partitions of the next number, which then needs no record to open."""

from __future__ import annotations

import pytest

from oncelog import errors
from oncelog.wire import methods
from tests.conformance.script import ABORTED, COMMITTED, ONGOING, Place, Script, Writer


async def committed_once(s: Script, *places: Place, timeout_ms: int = 60_000) -> Writer:
    """The writer of transaction 2, after transaction 1 has written to these partitions."""
    writer = await s.session("t", timeout_ms=timeout_ms)
    for place in places:
        await s.write(place, writer, "first")
    assert (await s.end(writer, counts=dict.fromkeys(places, 1), visible=True)).outcome == COMMITTED
    return writer.next()


async def answered_and_forgotten(s: Script, place: Place, timeout_ms: int = 60_000) -> Writer:
    """Transaction 2 is open on the partition, and the coordinator that said so is dead before it has logged that."""
    writer = await committed_once(s, place, timeout_ms=timeout_ms)
    owner = s.owner("t")
    appended = s.watch(methods.PRODUCE, source=owner)
    await s.write(place, writer, "second")
    assert not appended.seen, "the answer was given at once"
    s.kill(owner)
    return writer


async def test_the_next_transaction_opens_without_a_record(s: Script) -> None:
    places = await s.topic(partitions=2)
    writer = await committed_once(s, *places)
    appended = s.watch(methods.PRODUCE, source=s.owner("t"))
    for place in places:
        await s.write(place, writer, "second")
    assert not appended.seen
    assert (await s.end(writer, counts=dict.fromkeys(places, 1))).outcome == COMMITTED
    assert len(appended.seen) == 1, "one record decides, and enrols the third ahead"
    await s.stable(*places)
    assert sorted(await s.read(*places)) == ["first"] * 2 + ["second"] * 2


async def test_only_partitions_that_were_used_get_a_marker(s: Script) -> None:
    one, other = await s.topic(partitions=2)
    writer = await committed_once(s, one, other)
    end = await s.latest(other)
    await s.write(one, writer, "second")
    await s.end(writer, counts={one: 1}, visible=True)
    assert await s.latest(other) == end


async def test_a_long_transaction_is_logged_after_a_while(s: Script) -> None:
    place = await s.place()
    writer = await committed_once(s, place)
    appended = s.watch(methods.PRODUCE, source=s.owner("t"))
    await s.write(place, writer, "second")
    await s.until(lambda: appended.seen, "the record of what was answered", within_s=2)
    s.kill(s.owner("t"))
    assert await s.outcome(writer) == ONGOING
    assert (await s.end(writer, counts={place: 1})).outcome == COMMITTED


async def test_a_session_goes_on_under_a_later_coordinator(s: Script) -> None:
    place = await s.place()
    writer = await answered_and_forgotten(s, place)
    assert (await s.end(writer, counts={place: 1}, visible=True)).outcome == COMMITTED
    await s.write(place, writer.next(), "third")
    await s.end(writer.next(), counts={place: 1}, visible=True)
    assert await s.read(place) == ["first", "second", "third"]


async def test_offsets_that_a_later_coordinator_commits_are_seen_at_once(s: Script) -> None:
    """Nobody counts offsets, so only the doubt tells that coordinator that this number has any."""
    place = await s.place()
    writer = await s.session("t")
    await s.send_offsets(writer, "g", place, 1, sequence=1)
    assert (await s.end(writer, visible=True)).outcome == COMMITTED
    writer, owner = writer.next(), s.owner("t")
    await s.send_offsets(writer, "g", place, 2, sequence=1)
    s.kill(owner)
    assert (await s.end(writer, visible=True)).outcome == COMMITTED
    assert await s.committed_offset("g", place) == 2


async def test_an_abort_under_a_later_coordinator_reaches_every_expected_partition(s: Script) -> None:
    place = await s.place()
    writer = await answered_and_forgotten(s, place)
    assert (await s.end(writer, commit=False, visible=True)).outcome == ABORTED
    with pytest.raises((errors.TxnAbortedError, errors.TxnEndedError)):
        await s.write(place, writer, "late", seq=1)
    await s.stable(place)
    assert await s.read(place) == ["first"]


async def test_a_later_session_never_gets_a_number_that_may_be_open(s: Script) -> None:
    place = await s.place()
    zombie = await answered_and_forgotten(s, place)
    living = await s.session("t")
    assert living.txn_no > zombie.txn_no
    await s.write(place, living, "third")
    assert (await s.end(living, counts={place: 1}, visible=True)).outcome == COMMITTED
    await s.stable(place)
    assert await s.read(place) == ["first", "third"]


async def test_a_later_run_never_gets_a_number_that_may_be_open(s: Script) -> None:
    place = await s.place()
    zombie = await answered_and_forgotten(s, place)
    joined = await s.retry(lambda: s.join("t"))
    assert joined.writer.txn_no > zombie.txn_no
    await s.stable(place)
    assert await s.read(place) == ["first"]


async def test_the_leader_of_a_dead_producer_heals(s: Script) -> None:
    place = await s.place()
    writer = await answered_and_forgotten(s, place, timeout_ms=4_000)
    await s.stable(place, within_s=60)
    assert await s.outcome(writer) == ABORTED
    assert await s.read(place) == ["first"]


async def test_a_question_does_not_end_a_living_transaction(s: Script) -> None:
    place = await s.place()
    writer = await answered_and_forgotten(s, place)
    assert (await s.resolve(writer, place)).outcome == ONGOING
    assert (await s.end(writer, counts={place: 1}, visible=True)).outcome == COMMITTED
    assert await s.read(place) == ["first", "second"]
