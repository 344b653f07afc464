"""A backlog is worked through once all of it is settled, and a side that fails ends it with its error."""

from __future__ import annotations

import argparse
import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from bench import queues
from bench.queue_peers import Queue
from bench.queues import Backlog, Side, measure_backlogs, measure_idle, peers, table

pytestmark = pytest.mark.asyncio


class Twos:
    """A worker that has messages for ever, two at a time. `fails_at`: the acknowledgement that it refuses."""

    def __init__(self, fails_at: int = -1) -> None:
        self.acked: list[Sequence[int]] = []
        self._taken = 0
        self._fails_at = fails_at

    async def take(self) -> Sequence[int]:
        await asyncio.sleep(0)
        self._taken += 2
        return [self._taken - 2, self._taken - 1]

    async def ack(self, messages: Sequence[int]) -> None:
        if len(self.acked) == self._fails_at:
            raise ConnectionError("the broker is gone")
        self.acked.append(messages)

    async def close(self) -> None: ...


async def test_what_was_taken_together_is_settled_together() -> None:
    worker = Twos()
    await Backlog(6, single=False).done_by([worker])
    assert worker.acked[:3] == [[0, 1], [2, 3], [4, 5]]


async def test_single_messages_are_settled_one_by_one() -> None:
    worker = Twos()
    await Backlog(4, single=True).done_by([worker])
    assert worker.acked[:4] == [[0], [1], [2], [3]]


async def test_several_workers_share_a_backlog() -> None:
    workers = [Twos(), Twos()]
    await Backlog(8, single=False).done_by(workers)
    assert [len(worker.acked) >= 2 for worker in workers] == [True, True]


@pytest.mark.parametrize("single", [True, False])
async def test_an_error_of_a_worker_ends_the_work(single: bool) -> None:
    with pytest.raises(ConnectionError, match="the broker is gone"):
        await Backlog(100, single=single).done_by([Twos(fails_at=3)])


async def test_a_peer_that_is_not_there_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("shutil.which", lambda _name: None)
    nothing = argparse.Namespace(nsqd="", redis="", kafka_jars="")
    assert peers(nothing) == []
    nsq, redis, kafka = capsys.readouterr().out.splitlines()
    assert nsq.startswith("nsqd is not on PATH")
    assert redis.startswith("redis-server is not on PATH")
    assert "--kafka-jars" in kafka
    assert "org.apache.kafka:kafka_2.13" in kafka


class Dry(Twos):
    """A worker for which nothing comes any more."""

    async def take(self) -> Sequence[int]:
        await asyncio.Event().wait()
        return []


async def test_a_backlog_of_which_nothing_is_settled_any_more_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queues, "_STALLED_S", 0.01)
    with pytest.raises(TimeoutError, match="5 messages are left"):
        await Backlog(5, single=False).done_by([Dry()])


async def test_a_side_that_ended_early_has_no_figure_where_it_measured_none() -> None:
    lines = table({("idle", "ours"): [3.0, 1.0, 2.0], ("idle", "theirs"): [5.0], ("k/s", "ours"): [7.0]}).splitlines()
    assert [line.split() for line in lines] == [["ours", "theirs"], ["idle", "2.00", "5.00"], ["k/s", "7.00", "-"]]


class Echo(Twos):
    """A queue that has one worker: itself, and hands out what is published."""

    name, note = "echo", ""

    def __init__(self) -> None:
        super().__init__()
        self._waiting: asyncio.Queue[bytes] = asyncio.Queue()
        self.allowed: list[int] = []

    async def publish(self, values: Sequence[bytes]) -> None:
        for value in values:
            self._waiting.put_nowait(value)

    async def worker(self, max_in_flight: int) -> Echo:
        self.allowed.append(max_in_flight)
        return self

    async def take(self) -> Sequence[int]:
        return [len(await self._waiting.get())]


async def test_idle_latency_is_measured_while_the_servers_of_that_side_are_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queues, "_REST_S", 0.0)
    monkeypatch.setattr(queues, "_IDLE", 3)
    monkeypatch.setattr(queues, "_WARM", 2)
    echo, ended = Echo(), []

    @asynccontextmanager
    async def running(folder: Path) -> AsyncIterator[Queue]:
        yield echo
        ended.append(len(echo.acked))

    found: queues.Found = defaultdict(list)
    await measure_idle(Side("echo", running), tmp_path, found)
    assert ended == [8], "two and three to warm up, three that are measured"
    assert {key: len(value) for key, value in found.items()} == {
        ("idle, p50 ms", "echo"): 1,
        ("idle, p99 ms", "echo"): 1,
    }


async def test_each_worker_of_a_backlog_may_hold_as_many_messages_as_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queues, "_REST_S", 0.0)
    echo = Echo()
    found: queues.Found = defaultdict(list)
    await measure_backlogs(echo, 4, 7, found)
    assert echo.allowed == [7] * 18, "one worker and eight, with single acknowledgements and with batches"
    assert len(found) == 4
