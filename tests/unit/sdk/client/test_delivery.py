"""Callbacks of what is on its way (new_user.md 5: there were none on Delivery)."""

from __future__ import annotations

import asyncio

import pytest

from oncelog import errors
from oncelog.client.delivery import Delivery
from tests.unit.sdk.client.fake_cluster import TOPIC, FakeCluster


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


def test_a_callback_is_called_once_with_the_outcome(cluster: FakeCluster) -> None:
    """new_user.md 5: there was none on Delivery."""
    cluster.fail("append", None, errors.InvalidRecordError("no"))
    called: list[str] = []

    def note(delivery: Delivery) -> None:
        try:
            called.append(f"at {delivery.result().offset}")
        except errors.OncelogError as error:
            called.append(str(error))

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.producer() as producer:
            first = await producer.send(TOPIC, b"a", partition=0)
            first.add_done_callback(note)
            first.add_done_callback(lambda _: called.append("second"))
            await producer.flush()
            await cluster.pause()
            assert sorted(called) == ["at 0", "second"]
            first.add_done_callback(note)
            assert called[2:] == [], "never in the call that adds it"
            await cluster.pause()
            assert called[2:] == ["at 0"]
            (await producer.send(TOPIC, b"b", partition=0)).add_done_callback(note)
            await producer.flush()  # raises nothing: the failure is the callback's
            await cluster.pause()
            assert called[3:] == ["no"]

    cluster.run(work)


def test_a_callback_of_many_rows_waits_for_all_of_them(cluster: FakeCluster) -> None:
    """new_user.md 5."""
    called: list[int] = []

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.producer(batch_size=600) as producer:
            sent = await producer.send_many(TOPIC, [b"x" * 100 for _ in range(50)])
            sent.add_done_callback(lambda done: called.append(sum(part.records for part in done.result())))
            await producer.flush()
            await cluster.pause()

    cluster.run(work)
    assert called == [50]


def test_a_callback_that_raises_harms_nobody(cluster: FakeCluster) -> None:
    """new_user.md 5."""
    told: list[object] = []

    async def work() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context["exception"]))
        async with cluster.client() as client, client.producer() as producer:
            sent = await producer.send(TOPIC, b"a", partition=0)
            sent.add_done_callback(lambda _: [][0])
            assert (await sent).offset == 0

    asyncio.run(work())
    assert [type(error) for error in told] == [IndexError]
