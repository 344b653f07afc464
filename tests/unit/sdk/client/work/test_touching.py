"""A worker with `auto_touch` keeps its records as long as it lives, and no touch is in the way of another word."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from oncelog import errors
from oncelog.client.work.worker import Worker
from oncelog.v1 import channel_pb2 as ch
from tests.unit.sdk.client.fake_cluster import TOPIC, FakeCluster, Lost
from tests.unit.sdk.client.reading import append
from tests.unit.sdk.client.work.fake_channels import CHANNEL, FakeChannels
from tests.unit.sdk.client.work.working import at_work, received


def test_the_worker_touches_by_itself(cluster: FakeCluster, channels: FakeChannels) -> None:
    append(cluster, [b"0"])

    async def work(worker: Worker) -> None:
        (message,) = await worker.getmany()
        await asyncio.sleep(10)
        await message.ack()

    at_work(cluster, work, ack_wait_ms=500, auto_touch=True)
    assert channels.settled() == [0]


def test_a_touch_that_fails_is_not_told(cluster: FakeCluster, channels: FakeChannels) -> None:
    append(cluster, [b"0"])

    async def work(worker: Worker) -> None:
        (message,) = await received(worker, 1)
        entry = channels.parts[0].entries[0]
        entry.worker, entry.deadline_s = "another", 1_000.0
        await asyncio.sleep(1)
        assert (message.state, worker.in_flight) == ("lost", 0)
        with pytest.raises(errors.NotOwnerError):
            await message.ack()

    at_work(cluster, work, ack_wait_ms=500, auto_touch=True)


def test_a_touch_that_is_refused_is_tried_again_with_a_pause(cluster: FakeCluster, channels: FakeChannels) -> None:
    append(cluster, [b"0"])
    calls = 0

    async def refuses(address: str, request: ch.SettleRequest, _: bytes) -> tuple[Any, bytes]:
        nonlocal calls
        calls += 1
        raise errors.TopicAuthorizationError()

    async def work(worker: Worker) -> None:
        (message,) = await received(worker, 1)
        settle, cluster._Settle = cluster._Settle, refuses  # type: ignore[attr-defined]
        await asyncio.sleep(3)
        assert 1 < calls < 20
        cluster._Settle = settle  # type: ignore[attr-defined]
        await message.ack()

    at_work(cluster, work, ack_wait_ms=4_000, auto_touch=True)
    assert channels.settled() == [0]


def test_what_is_left_with_the_caller_by_a_refusal_is_touched_again(
    cluster: FakeCluster, channels: FakeChannels
) -> None:
    append(cluster, [b"0"])

    async def work(worker: Worker) -> None:
        (message,) = await received(worker, 1)
        cluster.fail("Settle", errors.InvalidRequestError("no"))
        with pytest.raises(errors.InvalidRequestError):
            await message.ack()
        await asyncio.sleep(10)
        await message.ack()

    at_work(cluster, work, ack_wait_ms=500, auto_touch=True)
    assert channels.settled() == [0]


def test_a_record_about_which_its_caller_speaks_after_a_failed_transaction_is_touched_again(
    cluster: FakeCluster, channels: FakeChannels
) -> None:
    append(cluster, [b"0"])

    async def whole(_: FakeCluster) -> None:
        async with (
            cluster.client() as client,
            client.producer(transactional_id="t") as producer,
            client.worker(TOPIC, channel=CHANNEL, ack_wait_ms=500, auto_touch=True) as worker,
        ):
            (message,) = await received(worker, 1)
            txn = await producer.begin_transaction()
            cluster.fail("Settle", errors.TxnAbortedError("it timed out"))
            with pytest.raises(errors.TxnAbortedError):
                await txn.ack(message)
            await txn.abort()
            cluster.fail("Settle", errors.InvalidRequestError("no"))
            with pytest.raises(errors.InvalidRequestError):
                await message.ack()
            await asyncio.sleep(10)
            await message.ack()

    cluster.run(whole)
    assert channels.settled() == [0]


@pytest.mark.parametrize("is_refused_here", [False, True])
def test_what_a_failed_transaction_was_to_acknowledge_is_touched_no_more_and_comes_again(
    cluster: FakeCluster, channels: FakeChannels, is_refused_here: bool
) -> None:
    append(cluster, [b"0", b"1"])

    async def whole(_: FakeCluster) -> None:
        async with (
            cluster.client() as client,
            client.producer(transactional_id="t") as producer,
            client.worker(TOPIC, channel=CHANNEL, ack_wait_ms=500, auto_touch=True) as worker,
        ):
            done, message = await received(worker, 2)
            await done.ack()
            txn = await producer.begin_transaction()
            if not is_refused_here:
                cluster.fail("Settle", errors.TxnAbortedError("it timed out"))
            with pytest.raises((errors.TxnAbortedError, errors.IllegalStateError)):
                await txn.ack([message, done] if is_refused_here else message)
            await txn.abort()
            assert message.state == "held"
            append(cluster, [b"2"])  # the worker looks whom to touch
            (after,) = await received(worker, 1)
            await after.ack()
            (again,) = await worker.getmany(timeout_ms=10_000)
            assert (again.value, again.deliveries) == (b"1", 2)

    cluster.run(whole)


def hold_settlements(cluster: FakeCluster, verdict: int, until: asyncio.Event) -> None:
    """Calls with this verdict wait at their broker, before it looks at them."""
    settle = cluster._Settle  # type: ignore[attr-defined]

    async def held(address: str, request: ch.SettleRequest, payload: bytes) -> tuple[Any, bytes]:
        if any(item.verdict == verdict for item in request.items):
            await until.wait()
        answer: tuple[Any, bytes] = await settle(address, request, payload)
        return answer

    cluster._Settle = held  # type: ignore[attr-defined]


def test_no_touch_waits_for_an_acknowledgement(cluster: FakeCluster, channels: FakeChannels) -> None:
    append(cluster, [b"%d" % i for i in range(8)])
    there = asyncio.Event()

    async def work(worker: Worker) -> None:
        *done, last = await received(worker, 8)
        waiting = []
        for message in done:  # more calls than may be under way
            waiting.append(asyncio.ensure_future(message.ack()))
            await asyncio.sleep(0.01)
        async with asyncio.timeout(1):
            await last.touch()
        assert not any(one.done() for one in waiting)
        there.set()
        await asyncio.gather(*waiting)

    hold_settlements(cluster, ch.VERDICT_ACK, there)
    at_work(cluster, work)
    assert channels.settled() == [*range(7)]


def test_a_touch_that_comes_after_the_acknowledgement_does_not_take_the_record_away(
    cluster: FakeCluster, channels: FakeChannels
) -> None:
    append(cluster, [b"0"])
    may_touch = asyncio.Event()

    async def work(worker: Worker) -> None:
        (message,) = await received(worker, 1)
        touching = asyncio.ensure_future(message.touch())
        await asyncio.sleep(0.01)
        cluster.fail("Settle", *(Lost() for _ in range(200)))
        acknowledging = asyncio.ensure_future(message.ack())
        await asyncio.sleep(0.01)
        may_touch.set()
        with pytest.raises(errors.NotOwnerError):
            await touching
        with pytest.raises(errors.RequestTimedOutError):
            await acknowledging
        cluster.faults.clear()
        await message.ack()

    hold_settlements(cluster, ch.VERDICT_TOUCH, may_touch)
    at_work(cluster, work, {"default_api_timeout_ms": 1_000})
    assert channels.settled() == [0]
