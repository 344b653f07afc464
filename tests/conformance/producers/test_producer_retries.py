"""Holes 7, 9, 10, 13, 21, 22 and the parts of 25 about producers: sequences, duplicates, names, settled doubts."""

from __future__ import annotations

import pytest

from oncelog import errors
from oncelog.v1 import partition_pb2 as pa
from oncelog.wire import methods
from tests.conformance.script import Script


async def test_an_abort_hides_its_own_data_and_nothing_of_the_next(s: Script) -> None:
    place = await s.place()
    n = await s.session("t")
    markers = s.hold(methods.WRITE_TXN_MARKERS)
    await s.write(place, n, "d(n)")
    await s.end(n, commit=False)
    following = n.next()  # it may begin while the markers of n travel
    await s.write(place, following, "d(n+1)")
    await markers.caught()
    markers.release()
    await s.end(following, counts={place: 1})
    await s.stable(place)
    assert await s.read(place) == ["d(n+1)"]  # the abort of n lies behind it in the log
    assert await s.read(place, from_offset=1) == ["d(n+1)"]
    answer, _ = await s.fetch(place)
    assert [(a.txn_no, a.first_offset) for a in answer.aborted] == [(n.txn_no, 0)]


async def test_one_joint_marker_hides_only_the_losers(s: Script) -> None:
    place = await s.place()
    winner, loser = await s.join(), await s.join()
    await s.write_as(winner, place, "w1")
    await s.write_as(loser, place, "z1", "z2")
    await s.write_as(winner, place, "w2", seq=1)
    await s.commit_batch("q", winner.writer.txn_no, [winner])
    await s.stable(place)
    assert await s.read(place) == ["w1", "w2"]
    answer, _ = await s.fetch(place)
    assert [(a.all, list(a.winners)) for a in answer.aborted] == [(False, [winner.writer.producer_id])]


async def test_sequences_begin_anew_in_every_transaction(s: Script) -> None:
    place = await s.place()
    n = await s.session("t")
    answers = s.lose_answers(methods.PRODUCE, source="script")
    with pytest.raises(errors.NetworkError):  # 0..6 are in, and nobody heard so
        await s.write(place, n, *(f"old-{i}" for i in range(7)))
    answers.close()
    await s.end(n, commit=False)
    following = n.next()
    answer = await s.produce(place, s.batch(place, following, "new", seq=0), tid="t")
    assert not answer.duplicate, "another transaction's sequence 0 is no copy of this one"
    await s.end(following, counts={place: 1})
    await s.stable(place)
    assert await s.read(place) == ["new"]


async def test_a_duplicate_is_answered_like_its_first_copy(s: Script) -> None:
    place = await s.place()
    writer = await s.producer()
    leader = s.leader(place)
    batch = s.batch(place, writer, "x")
    s.hold(methods.REPLICATE, source=leader)  # appended, but on its way to nobody
    first = s.start(s.produce(place, batch, timeout_ms=20_000))
    await s.until(lambda: s.replica(leader, place).log.log_end_offset == 1)
    with pytest.raises(errors.RequestTimedOutError):
        await s.produce(place, batch, timeout_ms=300)  # the copy must not hear what is not so yet
    s.kill(leader)
    with pytest.raises(errors.RetriableError):
        await first
    await s.new_leader(place, leader)
    answer = await s.retry(lambda: s.produce(place, batch))
    assert (answer.base_offset, answer.duplicate) == (0, False)
    assert await s.read(place) == ["x"]


async def test_a_late_copy_of_older_offsets_changes_nothing(s: Script) -> None:
    place = await s.place()
    writer = await s.session("t")
    await s.write(place, writer, "x")
    taps = s.hold(methods.SEND_OFFSETS, source="script")
    first = s.start(s.send_offsets(writer, "g", place, 100, sequence=1))
    copy = await taps.caught()
    taps.close()
    await s.send_offsets(writer, "g", place, 100, sequence=1)  # its retry succeeds
    await s.send_offsets(writer, "g", place, 200, sequence=2)
    copy.deliver_late()  # and only now the first copy is taken from a queue
    await s.sleep(0.5)
    await s.end(writer, counts={place: 1}, visible=True)
    assert await s.committed_offset("g", place, stable=True) == 200
    first.cancel()


async def test_a_late_copy_of_a_plain_commit_changes_nothing(s: Script) -> None:
    place = await s.place()
    await s.sleep(0.5)  # the coordinator learns of the topic
    await s.heartbeat("g", "m", place.topic)
    taps = s.watch(methods.COMMIT_OFFSETS)
    await s.commit_offset("g", place, 100, member="m", epoch=1, sequence=1)
    copy = await taps.caught()
    await s.commit_offset("g", place, 200, member="m", epoch=1, sequence=2)
    copy.deliver_late()
    await s.sleep(0.5)
    assert await s.committed_offset("g", place) == 200


async def test_after_the_wrap_the_next_batch_is_next_and_no_duplicate(s: Script) -> None:
    place = await s.place()
    writer = await s.producer()
    half = 1 << 30
    await s.use_up(place, writer, 2 * half)  # the last sequence is 2^31 - 1
    batch = s.batch(place, writer, *(f"v{i}" for i in range(10)), seq=0)
    answer = await s.produce(place, batch)
    assert (answer.base_offset, answer.duplicate) == (2 * half, False)
    again = await s.produce(place, batch)
    assert (again.base_offset, again.duplicate) == (2 * half, True)
    assert await s.read(place, from_offset=2 * half) == [f"v{i}" for i in range(10)]


async def test_not_written_is_final(s: Script) -> None:
    place = await s.place()
    writer = await s.producer()
    await s.write(place, writer, "x")
    held = s.hold(methods.PRODUCE, source="script")
    lost = s.start(s.write(place, writer, "y", seq=1))
    batch = await held.caught()
    held.close()
    request = pa.GetProducerStateRequest(
        topic_id=place.topic_id,
        partition=place.partition,
        producer_id=writer.producer_id,
        producer_epoch=writer.epoch,
        base_sequence=1,
        last_sequence=1,
        settle=True,
    )
    leader = s.leader(place)
    reply = await s.call(leader, methods.GET_PRODUCER_STATE, request)
    assert (reply.known, reply.written) == (True, False)
    batch.release()  # after that word it must not land any more
    with pytest.raises(errors.InvalidProducerEpochError):
        await lost
    assert await s.read(place) == ["x"]
    again = await s.call(leader, methods.GET_PRODUCER_STATE, request)
    assert not again.written


async def test_a_deposed_leader_settles_nothing(s: Script) -> None:
    place = await s.place()
    writer = await s.producer()
    old = s.leader(place)
    s.cut(old, *s.followers(place))
    s.cut_from_etcd(old)
    new = await s.new_leader(place, old)
    assert s.leads(old, place), "it does not know yet"
    await s.write(place, writer, "x", to=new)
    request = pa.GetProducerStateRequest(
        topic_id=place.topic_id, partition=0, producer_id=writer.producer_id, settle=True, last_sequence=0
    )
    with pytest.raises(errors.RetriableError):
        await s.call(old, methods.GET_PRODUCER_STATE, request, timeout_ms=3_000)


async def test_a_replayed_init_does_not_fence_the_living_session(s: Script) -> None:
    place = await s.place()
    inits = s.watch(methods.INIT_PRODUCER_ID)
    writer = await s.session("t", nonce="attempt-1")
    await s.write(place, writer, "x")
    (await inits.caught()).deliver_late()
    await s.sleep(0.5)
    again = await s.session("t", nonce="attempt-1")
    assert again == writer
    assert not (await s.end(writer, counts={place: 1})).visible
    await s.stable(place)
    assert await s.read(place) == ["x"]


async def test_a_retry_at_another_leader_is_known_by_its_content(s: Script) -> None:
    place = await s.place()
    writer = await s.producer()
    batch = s.batch(place, writer, "x")
    await s.produce(place, batch)
    old = s.leader(place)
    s.kill(old)
    await s.new_leader(place, old)
    answer = await s.retry(lambda: s.produce(place, batch))  # offset, epoch and append time were the old leader's
    assert (answer.base_offset, answer.duplicate) == (0, True)
    with pytest.raises(errors.DuplicateSequenceError):
        await s.write(place, writer, "other")


async def test_what_follows_a_refused_batch_begins_a_new_epoch(s: Script) -> None:
    place = await s.place(max_message_bytes="2000")
    async with s.client() as client, client.producer(compression_type="none") as producer:
        await producer.send_and_wait(place.topic, value=b"a")
        too_large = await producer.send(place.topic, value=bytes(5_000))
        with pytest.raises(errors.OncelogError):
            await too_large
        await producer.send_and_wait(place.topic, value=b"b")
    assert await s.read(place) == ["a", "b"]
