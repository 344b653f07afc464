"""A message is settled once, and each of its words says what it did."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from oncelog import errors
from oncelog.client.work.worker import Worker
from tests.unit.sdk.client.fake_cluster import FakeCluster
from tests.unit.sdk.client.reading import append
from tests.unit.sdk.client.work.fake_channels import FakeChannels
from tests.unit.sdk.client.work.working import at_work


def test_what_is_given_back_comes_again_after_its_delay(cluster: FakeCluster, channels: FakeChannels) -> None:
    append(cluster, [b"0"])

    async def work(worker: Worker) -> None:
        (message,) = await worker.getmany()
        await message.nack(delay_ms=1_000)
        begun = cluster.loop.time()
        (again,) = await worker.getmany()
        assert again.deliveries == 2
        assert cluster.loop.time() - begun >= 0.99

    at_work(cluster, work)


def test_a_rejected_record_is_dead_with_its_reason(cluster: FakeCluster, channels: FakeChannels) -> None:
    append(cluster, [b"0"])

    async def work(worker: Worker) -> None:
        (message,) = await worker.getmany()
        await message.reject("no customer")

    at_work(cluster, work)
    assert channels.parts[0].dead == {0: "no customer"}


def test_a_message_is_settled_once(cluster: FakeCluster, channels: FakeChannels) -> None:
    append(cluster, [b"0"])

    async def work(worker: Worker) -> None:
        (message,) = await worker.getmany()
        await message.ack()
        for word in (message.ack, message.nack, message.touch, message.reject):
            with pytest.raises(errors.IllegalStateError):
                await word()

    at_work(cluster, work)
    assert len([r for r in channels.settlements if r.items]) == 1


def test_a_deadline_that_has_passed_is_told(cluster: FakeCluster, channels: FakeChannels) -> None:
    append(cluster, [b"0"])

    async def work(worker: Worker) -> None:
        (message,) = await worker.getmany()
        (again,) = await worker.getmany()
        assert again.deliveries == 2
        with pytest.raises(errors.NotOwnerError):
            await message.ack()
        await again.ack()

    at_work(cluster, work, ack_wait_ms=500)
    assert channels.settled() == [0]


def test_a_touch_gives_more_time(cluster: FakeCluster, channels: FakeChannels) -> None:
    append(cluster, [b"0"])

    async def work(worker: Worker) -> None:
        (message,) = await worker.getmany()
        for _ in range(5):
            await asyncio.sleep(0.4)
            await message.touch()
        assert await worker.getmany(timeout_ms=1) == []
        await message.ack()

    at_work(cluster, work, ack_wait_ms=500)


@pytest.mark.parametrize("delay_ms", [-1, 86_400_001, 1.5])
def test_a_delay_out_of_range_says_nothing(cluster: FakeCluster, channels: FakeChannels, delay_ms: Any) -> None:
    append(cluster, [b"0"])

    async def work(worker: Worker) -> None:
        (message,) = await worker.getmany()
        with pytest.raises(errors.InvalidDelayError):
            await message.nack(delay_ms=delay_ms)
        assert message.state == "held"

    at_work(cluster, work)


def number_of(data: bytes | None) -> int:
    return int(data or b"0")


def test_key_and_value_are_what_the_deserializers_make_of_them(cluster: FakeCluster, channels: FakeChannels) -> None:
    append(cluster, [b"7", None], keys=[b"1", b"2"])

    async def work(worker: Worker) -> None:
        messages = await worker.getmany()
        assert [(m.key, m.value, m.raw_key, m.raw_value) for m in messages] == [
            ("1", 7, b"1", b"7"),
            ("2", 0, b"2", None),
        ]

    at_work(cluster, work, key_deserializer=lambda key: (key or b"").decode(), value_deserializer=number_of)


def test_a_record_that_is_refused_is_handed_out_and_raises_where_it_is_read(
    cluster: FakeCluster, channels: FakeChannels
) -> None:
    append(cluster, [b"x", b"8"])

    async def work(worker: Worker) -> None:
        bad, good = await worker.getmany()
        for _ in range(2):
            with pytest.raises(ValueError, match="invalid literal"):
                bad.value  # noqa: B018
        assert (bad.key, bad.raw_value, bad.state) == (None, b"x", "held")
        await bad.reject("no number")
        assert good.value == 8
        await good.ack()

    at_work(cluster, work, value_deserializer=number_of)
    assert channels.parts[0].dead == {0: "no number"}


def test_a_deserializer_that_ends_an_iterator_ends_nothing(cluster: FakeCluster, channels: FakeChannels) -> None:
    append(cluster, [b""])

    async def work(worker: Worker) -> None:
        (message,) = await worker.getmany()
        with pytest.raises(RuntimeError, match="StopIteration"):
            message.value  # noqa: B018

    at_work(cluster, work, value_deserializer=lambda data: next(iter(data or b"")))
