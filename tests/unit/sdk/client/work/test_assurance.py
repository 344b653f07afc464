"""A record that has waited at its worker is handed out when its leader has just confirmed it, and no other one is."""

from __future__ import annotations

import asyncio

from oncelog import errors
from oncelog.client.produce.producer import Producer
from oncelog.client.work.message import ChannelMessage
from oncelog.client.work.worker import Worker
from oncelog.core.work.holding import Held
from oncelog.v1 import channel_pb2 as ch
from tests.unit.sdk.client.fake_cluster import BROKERS, FakeCluster
from tests.unit.sdk.client.reading import append
from tests.unit.sdk.client.work.fake_channels import FakeChannels
from tests.unit.sdk.client.work.working import at_work, at_work_with_a_producer, values

WAITED_S = 0.6


def touches(channels: FakeChannels) -> int:
    """Records that were touched."""
    items = [item for request in channels.settlements for item in request.items]
    return sum(item.last_offset - item.first_offset + 1 for item in items if item.verdict == ch.VERDICT_TOUCH)


def test_what_has_just_come_is_not_asked_about(cluster: FakeCluster, channels: FakeChannels) -> None:
    append(cluster, [b"0", b"1", b"2"])

    async def work(worker: Worker) -> None:
        assert values(await worker.getmany(1)) == [b"0"]
        assert values(await worker.getmany(2)) == [b"1", b"2"]
        assert touches(channels) == 0

    at_work(cluster, work)


def test_what_has_waited_is_asked_about_at_once_even_by_a_reader_without_time(
    cluster: FakeCluster, channels: FakeChannels
) -> None:
    append(cluster, [b"0", b"1", b"2"])

    async def work(worker: Worker) -> None:
        await worker.getmany(1)
        await asyncio.sleep(WAITED_S)
        assert values(await worker.getmany(timeout_ms=0)) == [b"1", b"2"]
        assert touches(channels) == 2

    at_work(cluster, work)


def test_what_another_worker_was_given_meanwhile_is_not_handed_out(
    cluster: FakeCluster, channels: FakeChannels
) -> None:
    """Its leader died, the next one gave it to somebody who acknowledged it, and this client has not heard of that yet."""
    append(cluster, [b"0", b"1", b"2"])

    async def work(worker: Worker) -> None:
        await worker.getmany(1)
        part = channels.parts[0]
        part.entries[1].worker = "another"
        await asyncio.sleep(WAITED_S)
        assert values(await worker.getmany()) == [b"2"]

    at_work(cluster, work)


def test_nothing_is_handed_out_while_its_leader_is_silent(cluster: FakeCluster, channels: FakeChannels) -> None:
    append(cluster, [b"0", b"1"])

    async def work(worker: Worker) -> None:
        await worker.getmany(1)
        await asyncio.sleep(WAITED_S)
        cluster.fail("Settle", errors.NetworkError(address=BROKERS[0]))
        before_s = asyncio.get_running_loop().time()
        assert values(await worker.getmany()) == [b"1"]
        assert asyncio.get_running_loop().time() > before_s + 0.01, "the first touch failed, the second one did not"

    at_work(cluster, work)


def test_a_reader_gets_its_answer_in_time_while_a_leader_is_silent(
    cluster: FakeCluster, channels: FakeChannels
) -> None:
    append(cluster, [b"0", b"1"])

    async def work(worker: Worker) -> None:
        await worker.getmany(1)
        await asyncio.sleep(WAITED_S)

        async def silent(*_: object) -> object:
            await asyncio.sleep(3)
            raise errors.NetworkError(address=BROKERS[0])

        cluster._Settle = silent  # type: ignore[attr-defined]
        for timeout_ms, longest_s in ((0, 0.55), (300, 0.55), (700, 0.75)):
            before_s = asyncio.get_running_loop().time()
            assert await worker.getmany(timeout_ms=timeout_ms) == []
            assert asyncio.get_running_loop().time() - before_s < longest_s

    at_work(cluster, work)


def test_a_silent_leader_keeps_back_no_records_of_others(cluster: FakeCluster, channels: FakeChannels) -> None:
    append(cluster, [b"0", b"1"])
    append(cluster, [b"x", b"y"], partition=1)

    async def work(worker: Worker) -> None:
        found = set(values(await worker.getmany(1)))
        await asyncio.sleep(WAITED_S)
        settle = channels._Settle

        async def silent(address: str, *given: object) -> object:
            if address == BROKERS[0]:
                await asyncio.sleep(20)
                raise errors.NetworkError(address=BROKERS[0])
            return await settle(address, *given)  # type: ignore[arg-type]

        cluster._Settle = silent  # type: ignore[attr-defined]
        before_s = asyncio.get_running_loop().time()
        while not {b"x", b"y"} <= found:
            found |= set(values(await worker.getmany(1, timeout_ms=1_000)))
            await asyncio.sleep(WAITED_S)
            assert asyncio.get_running_loop().time() - before_s < 10
        cluster._Settle = settle  # type: ignore[attr-defined]

    at_work(cluster, work)


def test_an_answer_that_was_slow_makes_sure_for_a_moment_only(cluster: FakeCluster, channels: FakeChannels) -> None:
    append(cluster, [b"0", b"1", b"2"])

    async def work(worker: Worker) -> None:
        await worker.getmany(1)
        await asyncio.sleep(WAITED_S)
        settle = channels._Settle

        async def slowly(*given: object) -> object:
            await asyncio.sleep(0.8)
            return await settle(*given)  # type: ignore[arg-type]

        cluster._Settle = slowly  # type: ignore[attr-defined]
        assert values(await worker.getmany(1)) == [b"1"]
        touched = touches(channels)
        await asyncio.sleep(0.3)
        assert values(await worker.getmany(1)) == [b"2"]
        assert touches(channels) == touched + 1

    at_work(cluster, work)


def test_a_slow_leader_is_believed_for_longer(cluster: FakeCluster, channels: FakeChannels) -> None:
    """Otherwise every answer would come too late, and nothing be handed out."""
    append(cluster, [b"0", b"1"])

    async def work(worker: Worker) -> None:
        await worker.getmany(1)
        await asyncio.sleep(WAITED_S)
        settle = channels._Settle

        async def slowly(*given: object) -> object:
            await asyncio.sleep(0.8)
            return await settle(*given)  # type: ignore[arg-type]

        cluster._Settle = slowly  # type: ignore[attr-defined]
        assert values(await worker.getmany()) == [b"1"]

    at_work(cluster, work)


def comes_again(worker: Worker, message: ChannelMessage, copy: ChannelMessage) -> None:
    """Its leader was frozen, opened the channel again, and delivered it again, all in one moment."""
    held = message._held
    copy._held = Held(held.place, held.broker, held.from_ms, 5_000, held.leader_epoch)
    worker._receiver.holding.add(copy._held)
    worker._receiver.inbox.put([copy])


def test_a_record_that_came_again_before_its_acknowledgement_was_taken_is_not_handed_out(
    cluster: FakeCluster, channels: FakeChannels
) -> None:
    append(cluster, [b"0", b"1"])

    async def work(worker: Worker) -> None:
        (first,) = await worker.getmany(1)
        (copy,) = worker._receiver.inbox.take_all()
        acknowledging = asyncio.ensure_future(first.ack())
        await asyncio.sleep(0)  # it is on its way
        comes_again(worker, first, copy)
        await acknowledging
        assert await worker.getmany(timeout_ms=300) == []

    at_work(cluster, work)


def test_nor_is_one_that_came_again_before_a_transaction_took_its_acknowledgement(
    cluster: FakeCluster, channels: FakeChannels
) -> None:
    append(cluster, [b"0", b"1"])

    async def work(worker: Worker, producer: Producer) -> None:
        (first,) = await worker.getmany(1)
        (copy,) = worker._receiver.inbox.take_all()
        async with producer.transaction() as txn:
            acknowledging = asyncio.ensure_future(txn.ack(first))
            await asyncio.sleep(0)  # it is on its way
            assert first.state == "settling"
            comes_again(worker, first, copy)
            await acknowledging
        assert await worker.getmany(timeout_ms=300) == []

    at_work_with_a_producer(cluster, work)
