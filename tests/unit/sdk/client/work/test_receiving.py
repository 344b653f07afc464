"""A request stands at every broker that may have something, and what does not pass is told."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from oncelog import errors
from oncelog.client.home.context import now_ms
from oncelog.client.work.message import ChannelMessage
from oncelog.client.work.partitions import Partitions
from oncelog.client.work.received_records import AnswerReader
from oncelog.client.work.worker import Worker
from oncelog.core.work.holding import Held, Holding
from oncelog.core.work.message_states import MessageIncident, MessageState
from oncelog.v1 import channel_pb2 as ch
from tests.unit.sdk.client.fake_cluster import BROKERS, FakeCluster
from tests.unit.sdk.client.reading import append
from tests.unit.sdk.client.work.fake_channels import FakeChannels
from tests.unit.sdk.client.work.working import at_work, values


def test_a_deleted_channel_ends_the_worker(cluster: FakeCluster, channels: FakeChannels) -> None:
    async def work(worker: Worker) -> None:
        await asyncio.sleep(3)
        channels.channel = None
        for _ in range(2):
            with pytest.raises(errors.UnknownChannelError):
                await worker.getmany(timeout_ms=20_000)

    at_work(cluster, work)


def test_a_topic_that_is_created_again_ends_the_worker(cluster: FakeCluster, channels: FakeChannels) -> None:
    async def work(worker: Worker) -> None:
        cluster.create_again()
        with pytest.raises(errors.UnknownTopicError, match="created again"):
            await worker.getmany(timeout_ms=20_000)

    at_work(cluster, work, {"metadata_max_age_ms": 1_000})


def test_brokers_that_have_not_heard_of_a_new_channel_are_asked_again(
    cluster: FakeCluster, channels: FakeChannels
) -> None:
    channels.unaware = set(BROKERS)
    append(cluster, [b"0"])

    async def work(worker: Worker) -> None:
        assert await worker.getmany(timeout_ms=500) == []
        channels.unaware = set()
        assert values(await worker.getmany(timeout_ms=1_000)) == [b"0"]

    at_work(cluster, work)


def test_no_more_comes_than_may_be_in_flight(cluster: FakeCluster, channels: FakeChannels) -> None:
    for partition in (0, 1):
        append(cluster, [b"%d" % i for i in range(30)], partition=partition)

    async def work(worker: Worker) -> None:
        got: list[ChannelMessage] = []
        seen = 0
        while seen < 60:
            got += await worker.getmany(timeout_ms=1_000)
            assert len(got) <= 7
            await got.pop(0).ack()
            seen += 1

    at_work(cluster, work, max_in_flight=7)
    assert channels.most_held <= 7
    assert channels.most_granted <= 7


def test_fewer_records_than_brokers_rotate(cluster: FakeCluster, channels: FakeChannels) -> None:
    for partition in (0, 1):
        append(cluster, [b"%d" % partition] * 10, partition=partition)

    async def work(worker: Worker) -> None:
        seen = []
        async for message in worker:
            seen.append(message.partition)
            await message.ack()
            if len(seen) == 20:
                break
        assert 0 in seen[:3]
        assert 1 in seen[:3]

    at_work(cluster, work, max_in_flight=1)
    assert channels.most_held == channels.most_granted == 1


def test_a_batch_that_cannot_be_read_is_told_once(cluster: FakeCluster, channels: FakeChannels) -> None:
    append(cluster, [b"0"])
    log = next(iter(cluster.logs.values()))
    good = log.batches[0]
    log.batches[0] = good[:-1] + bytes([good[-1] ^ 1])

    async def work(worker: Worker) -> None:
        with pytest.raises(errors.CorruptMessageError):
            await worker.getmany(timeout_ms=1_000)

    at_work(cluster, work)


@pytest.mark.parametrize(("part", "method"), [(AnswerReader, "read"), (Partitions, "by_leader")])
def test_a_defect_of_ours_ends_the_worker_for_every_reader(
    cluster: FakeCluster, channels: FakeChannels, monkeypatch: pytest.MonkeyPatch, part: type, method: str
) -> None:
    """Else nothing asks this broker any more, and readers wait for records that never come."""

    def breaks(*_: object) -> None:
        raise ZeroDivisionError("a defect")

    async def work(worker: Worker) -> None:
        monkeypatch.setattr(part, method, breaks)
        append(cluster, [b"0"])
        for _ in range(2):
            with pytest.raises(errors.IllegalStateError, match=r"report this.*ZeroDivisionError\('a defect'\)"):
                await worker.getmany(timeout_ms=60_000)

    at_work(cluster, work)


def test_what_waits_at_a_worker_that_has_ended_goes_to_others(
    cluster: FakeCluster, channels: FakeChannels, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With `auto_touch` it would stay there until its process ends."""
    append(cluster, [b"%d" % i for i in range(5)], partition=0)

    def breaks(*_: object) -> None:
        raise ZeroDivisionError("a defect")

    async def work(worker: Worker) -> None:
        (first,) = await worker.getmany(1)
        assert worker.in_flight > 1, "more has come, and waits to be handed out"
        with monkeypatch.context() as patch:
            patch.setattr(Partitions, "by_leader", breaks)
            worker._receiver.kick()
            await asyncio.sleep(0.1)  # what stands at the broker has not come back by then
        assert (worker.in_flight, first.state, channels.in_flight()) == (1, "held", [first.offset])
        await first.ack()

    at_work(cluster, work, max_in_flight=5, auto_touch=True, ack_wait_ms=1_000)
    assert channels.settled() == [0]
    assert channels.parts[0].entries[1].deliveries == 0, "these deliveries do not count"


def test_what_comes_after_a_worker_has_ended_goes_back(cluster: FakeCluster, channels: FakeChannels) -> None:
    async def work(worker: Worker) -> None:
        await asyncio.sleep(1)
        worker._receiver._end(errors.IllegalStateError("ended"))
        append(cluster, [b"0"], partition=0)
        await asyncio.sleep(2)
        assert (worker.in_flight, channels.in_flight()) == (0, [])

    at_work(cluster, work, auto_touch=True)
    assert channels.parts[0].entries[0].deliveries == 0


def test_what_an_ended_worker_cannot_give_back_is_not_touched(cluster: FakeCluster, channels: FakeChannels) -> None:
    append(cluster, [b"%d" % i for i in range(5)], partition=0)

    async def refuses(address: str, request: ch.SettleRequest, _: bytes) -> tuple[Any, bytes]:
        raise errors.UnknownChannelError()

    async def work(worker: Worker) -> None:
        await worker.getmany(1)
        assert worker.in_flight > 2
        lost = next(held for held in worker._receiver.holding if held.state is MessageState.WAITING)
        lost.moves(MessageIncident.TAKEN_AWAY)
        worker._receiver.over(lost)
        cluster._Settle = refuses  # type: ignore[attr-defined]
        worker._receiver._end(errors.UnknownChannelError())
        await asyncio.sleep(0.1)
        assert worker.in_flight == 1, "the caller's own; the others are not this worker's any more"

    at_work(cluster, work, max_in_flight=10, auto_touch=True)


def test_a_process_that_was_frozen_hands_out_nothing_that_may_be_anothers(
    cluster: FakeCluster, channels: FakeChannels
) -> None:
    """Its brokers give a silent worker up long before the deadlines of its records."""

    append(cluster, [b"%d" % i for i in range(5)], partition=0)

    async def work(worker: Worker) -> None:
        (first,) = await worker.getmany(1)
        receiver = worker._receiver
        assert len(receiver.holding) > 1, "more has come, and waits to be handed out"
        receiver.seen_ms -= 16_000  # nothing of the process has run for so long
        assert receiver.inbox.take(9) == []
        places = [held.place for held in receiver.holding]
        assert places == [first._held.place], "about what the caller has, the broker has the last word"

    at_work(cluster, work, max_in_flight=5)


def test_a_message_whose_time_has_passed_is_not_handed_out(cluster: FakeCluster, channels: FakeChannels) -> None:
    append(cluster, [b"0", b"1"], partition=0)

    async def work(worker: Worker) -> None:
        await worker.getmany(1)
        receiver = worker._receiver
        (waiting,) = (held for held in receiver.holding if held.state is MessageState.WAITING)
        waiting.until_ms = now_ms()
        assert receiver.inbox.take(9) == []
        assert waiting.state is MessageState.LOST

    at_work(cluster, work, max_in_flight=5)


def test_an_idle_worker_asks_each_broker_six_times_a_minute(cluster: FakeCluster, channels: FakeChannels) -> None:
    async def work(worker: Worker) -> None:
        await worker.getmany(timeout_ms=2_000)
        before = len(channels.receives)
        assert await worker.getmany(timeout_ms=60_000) == []
        assert len(channels.receives) - before <= 6 * len(BROKERS)

    at_work(cluster, work)


def test_a_partition_that_comes_to_a_broker_where_a_request_stands_is_asked_for_at_once(
    cluster: FakeCluster, channels: FakeChannels
) -> None:
    async def work(worker: Worker) -> None:
        assert await worker.getmany(timeout_ms=5_000) == []
        channels.fail_over(0, BROKERS[1])
        append(cluster, [b"0"])
        assert values(await worker.getmany(timeout_ms=1_000)) == [b"0"]
        assert channels.most_granted <= worker.config.max_in_flight

    at_work(cluster, work, {"metadata_max_age_ms": 500})


def test_handing_out_a_message_does_not_look_at_all_that_are_held(
    cluster: FakeCluster, channels: FakeChannels, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Regression: a worker that held 20,000 took longer to hand them out than they were its own."""
    append(cluster, [b"%d" % i for i in range(200)])
    looks = 0

    def each(holding: Holding) -> Iterator[Held]:
        nonlocal looks
        looks += 1
        return iter(holding._held.values())

    monkeypatch.setattr(Holding, "__iter__", each)

    async def work(worker: Worker) -> None:
        got: list[ChannelMessage] = []
        while len(got) < 200:
            got += await worker.getmany(timeout_ms=1_000)
        assert looks < 10
        await worker.ack(got)

    at_work(cluster, work, max_in_flight=300)
