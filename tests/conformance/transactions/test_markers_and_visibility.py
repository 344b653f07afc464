"""Cases D of the conformance list: markers, the last stable offset, read_committed."""

from __future__ import annotations

import asyncio

import pytest

from oncelog import errors
from oncelog.types import TopicPartition
from oncelog.wire import methods
from tests.conformance.script import ABORTED, Script, about


async def test_a_marker_counts_when_the_watermark_has_passed_it(s: Script) -> None:
    place = await s.place()
    first, second = await s.session("t1"), await s.session("t2")
    await s.write(place, first, "1")
    await s.write(place, second, "2")
    leader = s.leader(place)
    log, leadership = s.replica(leader, place).log, s.replica(leader, place).leadership
    assert leadership is not None
    assert log.first_unstable_offset(2) == 0
    held = s.hold(methods.REPLICATE, source=leader, match=about(place))
    ending = s.start(s.end(first, counts={place: 1}, visible=True))
    await s.until(lambda: log.log_end_offset == 3)
    assert log.last_stable_offset(leadership.high_watermark) == 0, "the marker is there, and not committed"
    held.release()
    await ending
    assert await s.latest(place) == 1
    await s.end(second, commit=False, visible=True)
    assert await s.latest(place) == await s.latest(place, committed=False) == 4


async def test_the_oldest_open_transaction_holds_the_rest(s: Script) -> None:
    place = await s.place()
    writers = [await s.session(f"t{number}") for number in range(3)]
    for number, writer in enumerate(writers):
        await s.write(place, writer, str(number))
    seen = []
    for index in (0, 2, 1):
        await s.end(writers[index], counts={place: 1}, visible=True)
        seen.append(await s.latest(place))
    assert seen == [1, 1, 6]


async def test_a_marker_of_an_older_coordinator_is_refused_also_by_the_next_leader(s: Script) -> None:
    place = await s.place()
    writer = (await s.session("t")).of(txn_no=9)
    old = s.leader(place)
    await s.mark(old, s.marker_request(writer, place, commit=False, epoch=5))
    s.kill(old)
    new = await s.new_leader(place, old)
    with pytest.raises(errors.CoordinatorFencedError):
        await s.mark(new, s.marker_request(writer.next(), place, commit=False, epoch=4))
    await s.mark(new, s.marker_request(writer.next(), place, commit=False, epoch=5))
    await s.mark(new, s.marker_request(writer.next().next(), place, commit=False, epoch=6))


async def test_no_plain_batch_while_the_producers_transaction_is_open(s: Script) -> None:
    place = await s.place()
    writer = await s.session("t")
    await s.write(place, writer, "x")
    plain = writer.of(txn_producer_id=-1, txn_no=0, txn_shard=0xFFFF, transactional_id="")
    with pytest.raises(errors.InvalidTxnStateError):
        await s.write(place, plain, "y")


async def test_a_reader_never_sees_what_is_aborted(s: Script) -> None:
    place = await s.place()
    seen: list[bytes | None] = []

    async def follow() -> None:
        async with s.client() as client, client.consumer(fetch_max_wait_ms=20) as consumer:
            where = TopicPartition(place.topic, place.partition)
            await consumer.assign([where])
            consumer.seek(where, 0)
            while True:
                seen.extend(record.value for record in await consumer.getmany(timeout_ms=50))

    following = s.start(follow())
    writer = await s.session("t")
    for _ in range(30):
        await s.write(place, writer, "never")
        await s.end(writer, commit=False)
        writer = writer.next()
        await asyncio.sleep(0.003)
    await s.write(place, writer, "seen")
    await s.end(writer, counts={place: 1}, visible=True)
    await s.sleep(0.5)
    following.cancel()
    assert seen == [b"seen"]


async def test_an_abort_over_many_segments_is_told_from_each_of_them(s: Script) -> None:
    place = await s.place(segment_bytes="1000", max_message_bytes="1000")
    writer = await s.session("t")
    for seq in range(6):
        await s.write(place, writer, f"{seq}" * 200, seq=seq)
    await s.end(writer, commit=False, visible=True)
    assert len(s.replica(s.leader(place), place).log._segments) > 3
    for offset in range(6):
        answer, _ = await s.fetch(place, offset)
        assert [(item.txn_no, item.first_offset) for item in answer.aborted] == [(writer.txn_no, 0)], offset
        assert await s.read(place, from_offset=offset) == []


async def test_a_reader_ends_before_the_first_open_record(s: Script) -> None:
    place = await s.place()
    plain, opened, done = await s.producer(), await s.session("t1"), await s.session("t2")
    await s.write(place, plain, "0")
    await s.write(place, opened, "1")
    await s.sleep(0.05)
    later_ms = s.now_ms
    await s.write(place, done, "2")
    await s.end(done, counts={place: 1}, visible=True)
    assert await s.read(place) == ["0"]
    assert await s.latest(place) == 1
    assert await s.latest(place, timestamp_ms=later_ms) == -1, "beyond the stable end no time is answered"
    assert await s.latest(place, committed=False, timestamp_ms=later_ms) == 2


async def test_an_abort_and_then_a_commit_over_many_partitions(s: Script) -> None:
    places = await s.topic("work", 10, min_insync_replicas="2")
    writer = await s.session("t")
    for place in places:
        await s.write(place, writer, "aborted")
    await s.end(writer, commit=False, visible=True)
    following = writer.next()
    for place in places:
        await s.write(place, following, "committed")
    await s.end(following, counts=dict.fromkeys(places, 1), visible=True)
    assert await s.read(*places) == ["committed"] * 10
    for place in places:
        _, headers = await s.fetch(place)
        assert [header.is_control for header in headers] == [False, True, False, True]


async def test_consume_transform_produce_with_every_second_transaction_aborted(s: Script) -> None:
    source = await s.place("source")
    target = await s.place("target")
    plain = await s.producer()
    await s.write(source, plain, *(str(number) for number in range(500)))
    async with s.client() as client, client.producer(transactional_id="copy") as producer:
        aborts = 0
        while True:
            async with client.consumer(group_id="g", auto_offset_reset="earliest", max_poll_records=25) as consumer:
                await consumer.assign([TopicPartition("source", 0)])
                records = await consumer.getmany(timeout_ms=300)
                if not records:
                    break
                txn = await producer.transaction().begin()
                for record in records:
                    await txn.send("target", value=record.value)
                await txn.send_offsets(records)
                aborts += 1
                await (txn.abort() if aborts % 2 else txn.commit(wait="visible"))
    await s.stable(target)
    assert await s.read(target) == [str(number) for number in range(500)]
    assert aborts >= 40


async def test_a_second_instance_fences_the_first(s: Script) -> None:
    place = await s.place()
    first = await s.session("t")
    await s.write(place, first, "first")
    second = await s.session("t")
    with pytest.raises(errors.OncelogError):
        await s.end(first, counts={place: 1})
    with pytest.raises(errors.OncelogError):
        await s.write(place, first, "more", seq=1)
    with pytest.raises(errors.OncelogError):
        await s.send_offsets(first, "g", place, 1, sequence=1)
    with pytest.raises(errors.OncelogError):
        await s.enrol(first.next(), place)
    await s.write(place, second, "second")
    await s.end(second, counts={place: 1}, visible=True)
    await s.stable(place)
    assert await s.read(place) == ["second"]


async def test_after_its_time_out_a_transaction_takes_nothing(s: Script) -> None:
    place = await s.place()
    async with s.client() as client, client.producer(transactional_id="t", transaction_timeout_ms=1_000) as producer:
        txn = await producer.transaction().begin()
        await (await txn.send(place.topic, value=b"one"))
        await s.sleep(3)
        late = await txn.send(place.topic, value=b"two")
        with pytest.raises(errors.AbortableTransactionError):
            await late
        await txn.abort()
        async with producer.transaction() as following:
            await following.send(place.topic, value=b"three")
    await s.stable(place)
    assert await s.read(place) == ["three"]
    assert await s.read(place, committed=False) == ["one", "three"]


async def test_after_a_dead_leader_and_an_expired_batch_the_next_transaction_works(s: Script) -> None:
    place = await s.place()
    config = {"transactional_id": "t", "delivery_timeout_ms": 1_500, "request_timeout_ms": 500}
    async with s.client() as client, client.producer(**config) as producer:
        txn = await producer.transaction().begin()
        await (await txn.send(place.topic, value=b"one"))
        nodes = ("broker-0", "broker-1", "broker-2")
        s.kill(*nodes)
        lost = await txn.send(place.topic, value=b"two")
        with pytest.raises(errors.DeliveryTimedOutError):
            await lost
        s.restart(*nodes)
        await txn.abort()
        async with producer.transaction() as following:
            await following.send(place.topic, value=b"three")
    await s.stable(place)
    assert await s.read(place) == ["three"]


async def test_below_min_isr_of_its_log_a_shard_begins_no_session(s: Script) -> None:
    place = await s.place()
    old = await s.session("t")
    await s.write(place, old, "x")
    log = s.shard_log("t")
    down = s.followers(log)
    s.kill(*down)
    with pytest.raises(errors.RetriableError):
        await s.retry(lambda: s.session("t", nonce="new"), within_s=3)
    s.restart(*down)
    await s.cluster.healthy()
    new = await s.session("t", nonce="new")
    assert new.epoch == old.epoch + 1
    with pytest.raises(errors.TxnAbortedError):
        await s.end(old.of(epoch=new.epoch), counts={place: 1})
    with pytest.raises(errors.ProducerFencedError):
        await s.end(old, counts={place: 1})
    assert await s.outcome(old) == ABORTED


async def test_a_fetch_ends_at_the_stable_offset_though_more_is_committed(s: Script) -> None:
    place = await s.place()
    await s.write(place, await s.producer(), "0")
    await s.write(place, await s.session("t"), "1")
    answer, headers = await s.fetch(place)
    assert (answer.last_stable_offset, answer.high_watermark, len(headers)) == (1, 2, 1)
    answer, headers = await s.fetch(place, committed=False)
    assert len(headers) == 2


async def test_what_was_read_once_reads_the_same_for_ever(s: Script) -> None:
    place = await s.place()
    committed, aborted = await s.session("t1"), await s.session("t2")
    await s.write(place, committed, "c")
    await s.write(place, aborted, "a")
    await s.end(committed, counts={place: 1}, visible=True)
    await s.end(aborted, commit=False, visible=True)
    end = await s.latest(place)
    before = await s.fetch(place)
    bulk = bytes(s._bulk)
    later = await s.session("t3")
    await s.write(place, later, "later")
    old = s.leader(place)
    s.kill(old)
    await s.new_leader(place, old)
    answer, headers = await s.retry(lambda: s.fetch(place))
    assert bytes(s._bulk)[: len(bulk)] == bulk, "byte for byte, from another leader"
    assert answer.aborted == before[0].aborted
    assert [header.base_offset for header in headers if header.base_offset < end] == [0, 1, 2, 3]


async def test_visible_is_visible_at_once(s: Script) -> None:
    place = await s.place()
    writer = await s.session("t")
    for number in range(10):
        await s.write(place, writer, str(number))
        assert (await s.end(writer, counts={place: 1}, visible=True)).visible
        assert await s.read(place) == [str(i) for i in range(number + 1)]
        writer = writer.next()
