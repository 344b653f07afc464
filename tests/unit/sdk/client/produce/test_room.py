"""Who waits for room is admitted in order, once, and not at all when the producer takes nothing more."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from oncelog import errors
from oncelog.client.produce.room import Room
from oncelog.config import ProducerConfig
from oncelog.core.produce.deliveries import Deliveries
from tests.unit.sdk.client.fake_cluster import FakeCluster
from tests.unit.sdk.core.produce.known_facts import PRODUCER, KnownFacts

BUFFER_BYTES = 1_000


def room(**options: Any) -> tuple[Room, Deliveries]:
    """A full one."""
    config = ProducerConfig(buffer_memory=BUFFER_BYTES, batch_size=500, max_request_size=800, **options)
    deliveries = Deliveries(config, KnownFacts(), None, can_renew=True)
    deliveries.identities.current = PRODUCER
    deliveries.queues.reserve(BUFFER_BYTES)
    return Room(config, deliveries), deliveries


async def turn() -> None:
    """Every task runs as far as it can; the loop chooses in which order."""
    await asyncio.sleep(0.001)


def test_waiters_are_admitted_in_order_as_far_as_there_is_room() -> None:
    async def work(_: FakeCluster) -> None:
        made, deliveries = room()
        admitted: list[int] = []

        async def add(size: int) -> None:
            await made.reserve(size)
            admitted.append(size)
            deliveries.queues.reserve(size)

        tasks = []
        for size in (300, 400, 100):
            tasks.append(asyncio.create_task(add(size)))
            await turn()
        assert (len(made), made.may_add(1)) == (3, False)
        deliveries.queues.unreserve(400)
        made.admit()
        await turn()
        assert admitted == [300], "the third one fits, and is not before the second"
        deliveries.queues.unreserve(600)
        made.admit()
        await asyncio.gather(*tasks)
        assert admitted == [300, 400, 100]
        assert deliveries.queues.used_bytes == 800

    FakeCluster().run(work)


def test_a_waiter_that_gives_up_leaves_its_room_to_the_next_one() -> None:
    async def work(_: FakeCluster) -> None:
        made, deliveries = room()
        first = asyncio.create_task(made.reserve(600))
        await turn()
        second = asyncio.create_task(made.reserve(600))
        await turn()
        deliveries.queues.unreserve(700)
        made.admit()
        first.cancel()  # it was admitted, and has not seen it
        await second
        assert (len(made), deliveries.queues.used_bytes) == (0, 300)

    FakeCluster().run(work)


def test_no_room_in_time_is_an_error_that_names_the_bound() -> None:
    async def work(_: FakeCluster) -> None:
        made, deliveries = room(max_block_ms=50)
        with pytest.raises(errors.BufferExhaustedError, match="no room within 50 ms"):
            await made.reserve(10)
        assert (len(made), deliveries.queues.used_bytes) == (0, BUFFER_BYTES)

    FakeCluster().run(work)


@pytest.mark.parametrize("is_closed", [True, False])
def test_the_end_of_the_producer_ends_every_wait(is_closed: bool) -> None:
    async def work(_: FakeCluster) -> None:
        made, deliveries = room()
        waits = asyncio.create_task(made.reserve(10))
        await turn()
        if is_closed:
            made.close()
        else:
            deliveries.failure = errors.ProducerFencedError("a newer one")
            made.admit()
        with pytest.raises(errors.IllegalStateError if is_closed else errors.ProducerFencedError):
            await waits
        assert deliveries.queues.used_bytes == BUFFER_BYTES

    FakeCluster().run(work)


def test_a_record_that_is_too_large_never_waits() -> None:
    made, _ = room()
    with pytest.raises(errors.MessageTooLargeError):
        made.may_add(801)
