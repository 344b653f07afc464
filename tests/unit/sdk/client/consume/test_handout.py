"""Records that a thread takes by itself: each one once, and none after the end."""

from __future__ import annotations

import asyncio
from threading import Thread
from typing import Any

import pytest

from oncelog.client.consume.handout import Handout
from tests.unit.sdk.client.fake_cluster import LATENCY_S, TOPIC, FakeCluster
from tests.unit.sdk.client.reading import EARLIEST, P0, append, values


@pytest.fixture
def cluster() -> FakeCluster:
    made = FakeCluster()
    append(made, [b"0", b"1", b"2"])
    append(made, [b"3", b"4"])
    append(made, [b"x"], partition=1)
    return made


def test_a_batch_that_is_handed_out_during_an_assign_ends_with_it(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.consumer(**EARLIEST) as consumer:
            await consumer.assign([P0])
            await consumer.getmany(max_records=1)
            number = cluster.add_partition()
            assigning = asyncio.get_running_loop().create_task(consumer.assign([P0, (TOPIC, number)]))
            await asyncio.sleep(LATENCY_S / 2)
            record, handout = await consumer.hand_out(1_000)
            assert record is not None
            assert handout is not None
            assert record.offset == 1
            assert not assigning.done()
            await assigning
            assert handout.next() is None
            assert await consumer.position(P0) == 2
            assert values(await consumer.getmany()) == [b"2", b"3", b"4"]

    cluster.run(work)


class Part:
    """What a handout needs of an answer: the records of its batch, and how many of them were taken before."""

    def __init__(self, rows: int, at: int = 0) -> None:
        self.rows, self.at = list(range(rows)), at


class Clock:
    """Stands still."""

    s = 5.0

    def __call__(self) -> float:
        return self.s


def handout(rows: int, at: int = 0, most: int = 10_000, clock: Clock | None = None) -> Handout:
    return Handout(Part(rows, at), most, clock or Clock())  # type: ignore[arg-type]


def test_records_come_in_order_from_the_first_that_was_not_taken() -> None:
    given = handout(5, at=2)
    assert [given.next() for _ in range(5)] == [2, 3, 4, None, None]
    assert given.end() == 5


def test_after_the_end_nothing_is_taken_and_the_end_says_how_far_it_went() -> None:
    given = handout(5)
    assert given.next() == 0
    assert given.end() == 1
    assert given.next() is None
    assert given.end() == 1


def test_a_slow_loop_comes_back_for_a_poll_after_so_many_records_or_so_long() -> None:
    given = handout(5, at=1, most=2)
    assert [given.next() for _ in range(4)] == [1, 2, None, None]
    assert given.end() == 3
    clock = Clock()
    given = handout(5, clock=clock)
    assert given.next() == 0
    clock.s += 0.099
    assert given.next() == 1
    clock.s += 0.002
    assert given.next() is None
    assert given.end() == 2


@pytest.mark.parametrize(
    ("group", "most", "taken"),
    [("g", 1, 0), ("g", 2, 1), ("g", 10, 2), (None, 1, 2)],
    ids=["1 for a group", "2 for a group", "all for a group", "without a group time alone says when to poll"],
)
def test_a_group_polls_after_max_poll_records(cluster: FakeCluster, group: str | None, most: int, taken: int) -> None:
    async def work(_: FakeCluster) -> None:
        options: dict[str, Any] = {**EARLIEST, "max_poll_records": most, "group_id": group}
        async with cluster.client() as client, client.consumer(**options) as consumer:
            await consumer.assign([P0])
            record, handout = await consumer.hand_out(1_000)
            assert record is not None
            found = [] if handout is None else [row.offset for row in iter(handout.next, None)]
            assert found == [1, 2][:taken]
            record, _handout = await consumer.hand_out(1_000)
            assert record is not None
            assert record.offset == taken + 1

    cluster.run(work)


def test_many_threads_take_each_record_once() -> None:
    given, taken = handout(2_000), []

    def take() -> None:
        while (row := given.next()) is not None:
            taken.append(row)

    threads = [Thread(target=take) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(taken) == list(range(2_000))  # type: ignore[type-var]
    assert given.end() == 2_000
