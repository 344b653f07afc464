"""Cases B of the conformance list: idempotent appends."""

from __future__ import annotations

import pytest

from oncelog import errors
from oncelog.wire import methods
from tests.conformance.script import Script


async def test_a_gap_is_refused_and_the_next_is_taken(s: Script) -> None:
    place = await s.place()
    writer = await s.producer()
    await s.write(place, writer, "0", "1")
    with pytest.raises(errors.OutOfOrderSequenceError):
        await s.write(place, writer, "5", seq=5)
    assert await s.write(place, writer, "2", seq=2) == 2


async def test_an_older_epoch_is_fenced_and_writes_nothing(s: Script) -> None:
    place = await s.place()
    writer = await s.producer()
    await s.write(place, writer.of(epoch=1), "new")
    with pytest.raises(errors.InvalidProducerEpochError):
        await s.write(place, writer, "old")
    assert await s.latest(place, committed=False) == 1


async def test_after_the_largest_sequence_only_zero_is_next(s: Script) -> None:
    place = await s.place()
    writer = await s.producer()
    await s.use_up(place, writer, 1 << 31)
    with pytest.raises(errors.OutOfOrderSequenceError):
        await s.write(place, writer, "one", seq=1)
    assert await s.write(place, writer, "zero", seq=0) == 1 << 31


async def test_a_batch_may_straddle_the_wrap(s: Script) -> None:
    place = await s.place()
    writer = await s.producer()
    first = (1 << 31) - 11
    await s.use_up(place, writer, first)
    straddling = s.batch(place, writer, *(str(i) for i in range(21)), seq=first)
    answer = await s.produce(place, straddling)
    assert not answer.duplicate
    assert (await s.produce(place, straddling)).duplicate
    await s.write(place, writer, "ten", seq=10)  # the last sequence was 9


async def test_a_repeat_gets_the_offset_of_its_first_copy(s: Script) -> None:
    place = await s.place()
    writer = await s.producer()
    for seq in range(6):
        await s.write(place, writer, str(seq), seq=seq)
    last = s.batch(place, writer, "6", "7", "8", seq=6)
    first = await s.produce(place, last)
    again = await s.produce(place, last)
    assert (again.base_offset, again.duplicate) == (first.base_offset, True) == (6, True)
    assert again.append_timestamp_ms == first.append_timestamp_ms
    assert await s.latest(place, committed=False) == 9


async def test_a_partial_overlap_is_refused(s: Script) -> None:
    place = await s.place()
    writer = await s.producer()
    await s.write(place, writer, *"012345")
    await s.write(place, writer, *"678", seq=6)
    with pytest.raises(errors.OutOfOrderSequenceError):
        await s.write(place, writer, *"78", seq=7)


async def test_a_new_epoch_begins_at_zero(s: Script) -> None:
    place = await s.place()
    writer = await s.producer()
    await s.write(place, writer, "old")
    newer = writer.of(epoch=1)
    with pytest.raises(errors.OutOfOrderSequenceError):
        await s.write(place, newer, "new", seq=1)
    assert await s.write(place, newer, "new", seq=0) == 1


async def test_without_state_only_zero_is_taken(s: Script) -> None:
    place = await s.place()
    with pytest.raises(errors.UnknownProducerIdError) as caught:
        await s.write(place, await s.producer(), "x", seq=3)
    assert caught.value.context["log_start_offset"] == "0", "so that a client can tell deletion from loss"


async def test_a_refused_append_leaves_no_trace(s: Script) -> None:
    place = await s.place()
    writer = await s.producer()
    await s.write(place, writer, "x")
    leader = s.leader(place)
    disk, log = s.world.nodes[leader].disk, s.replica(leader, place).log
    disk.capacity = disk.used()
    batch = s.batch(place, writer, "y", seq=1)
    with pytest.raises(errors.StorageError):
        await s.produce(place, batch)
    known = log.producers.producer(writer.producer_id)
    assert known is not None
    assert (log.log_end_offset, known.window.last_sequence) == (1, 0)
    disk.capacity = None
    answer = await s.retry(lambda: s.produce(place, batch))
    assert answer.base_offset == 1
    assert await s.read(place) == ["x", "y"]


async def test_one_batch_per_partition_and_request(s: Script) -> None:
    place = await s.place()
    one, two = await s.producer(), await s.producer()
    with pytest.raises(errors.InvalidRecordError):
        await s.produce(place, s.batch(place, one, "x") + s.batch(place, two, "y"))
    assert await s.latest(place, committed=False) == 0


async def test_five_in_flight_stay_in_order_when_the_first_one_fails(s: Script) -> None:
    place = await s.place()
    async with s.client() as client, client.producer() as producer:
        await producer.send_and_wait(place.topic, value=b"start")
        held = s.hold(methods.PRODUCE, source=client.config.client_id)
        deliveries = []
        for number in range(5):
            deliveries.append(await producer.send(place.topic, value=b"%d" % number))
            await held.caught(number + 1)  # each in a request of its own
        held.close()
        for message in held.seen[1:]:
            message.release()  # they overtake the first one: the leader sees a gap
        await s.sleep(0.05)
        held.seen[0].fail()
        for delivery in deliveries:
            await delivery
    assert await s.read(place) == ["start", *"01234"]


async def test_sixteen_full_batches_in_flight_stay_in_order_when_the_first_one_fails(s: Script) -> None:
    place = await s.place()
    async with s.client() as client, client.producer(batch_size=600) as producer:
        await producer.send_and_wait(place.topic, value=b"start")
        held = s.hold(methods.PRODUCE, source=client.config.client_id)
        values = [b"%02d" % number + bytes(600) for number in range(16)]
        deliveries = []
        for number, value in enumerate(values):
            deliveries.append(await producer.send(place.topic, value=value))
            await held.caught(number + 1)
        more = await producer.send(place.topic, value=b"more")
        held.close()
        await s.sleep(0.05)
        assert len(held.seen) == 16, "no more batches than the leader remembers"
        for message in held.seen[1:]:
            message.release()
        await s.sleep(0.05)
        held.seen[0].fail()
        for delivery in (*deliveries, more):
            await delivery
    assert await s.read(place) == ["start", *(value.decode() for value in values), "more"]


async def test_a_written_batch_stays_once_through_a_change_of_leader(s: Script) -> None:
    place = await s.place()
    async with s.client() as client, client.producer() as producer:
        await producer.send_and_wait(place.topic, value=b"0")
        lost = s.lose_answers(methods.PRODUCE, source=client.config.client_id)
        first = await producer.send(place.topic, value=b"1")
        await lost.caught()
        old = s.leader(place)
        s.kill(old)
        second = await producer.send(place.topic, value=b"2")
        lost.close()
        await first
        await second
    assert await s.read(place) == ["0", "1", "2"]


async def test_all_five_are_known_after_a_restart(s: Script) -> None:
    place = await s.place(flush_mode="fsync")
    writer = await s.producer()
    batches = [s.batch(place, writer, str(seq), seq=seq) for seq in range(5)]
    for batch in batches:
        await s.produce(place, batch)
    nodes = ("broker-0", "broker-1", "broker-2")
    s.power_cut(*nodes)
    s.restart(*nodes)
    await s.cluster.healthy()
    answers = [await s.retry(lambda batch=batch: s.produce(place, batch)) for batch in batches]
    assert [(answer.base_offset, answer.duplicate) for answer in answers] == [(seq, True) for seq in range(5)]


async def test_sixteen_are_known_to_a_new_leader_and_older_ones_by_their_sequences_alone(s: Script) -> None:
    place = await s.place(flush_mode="fsync")
    writer = await s.producer()
    batches = [s.batch(place, writer, str(seq), seq=seq) for seq in range(17)]
    for batch in batches:
        await s.produce(place, batch)
    s.kill(s.leader(place))
    answers = [await s.retry(lambda batch=batch: s.produce(place, batch)) for batch in batches]
    assert all(answer.duplicate for answer in answers)
    assert [answer.base_offset for answer in answers] == [-1, *range(1, 17)], (
        "the first one is known by its sequence alone"
    )
    assert await s.read(place) == [str(seq) for seq in range(17)]


async def test_other_content_under_the_same_sequence_is_a_bug(s: Script) -> None:
    place = await s.place()
    writer = await s.producer()
    await s.write(place, writer, "x")
    with pytest.raises(errors.FatalProducerError) as caught:
        await s.write(place, writer, "y")
    assert isinstance(caught.value, errors.DuplicateSequenceError)


async def test_a_batch_for_another_partition_is_refused(s: Script) -> None:
    first, second = await s.topic("work", 2)
    with pytest.raises(errors.MisdirectedBatchError):
        await s.produce(second, s.batch(first, await s.producer(), "x"))
