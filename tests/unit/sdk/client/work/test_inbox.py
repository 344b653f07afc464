"""What has come is handed out in order, as long as it is the worker's; what a reader must be told comes after it."""

from __future__ import annotations

import asyncio

import pytest

from oncelog import errors
from oncelog.client.consume.fetched_records import ConsumerRecord
from oncelog.client.home.context import now_ms
from oncelog.client.routing.metadata import Leader
from oncelog.client.work.inbox import Inbox
from oncelog.client.work.message import ChannelMessage
from oncelog.client.work.moment import Moment
from oncelog.config import WorkerConfig
from oncelog.core.work.holding import Held
from oncelog.core.work.settlements import Place
from oncelog_runtime.sim import SimLoop


def message(offset: int) -> ChannelMessage:
    held = Held(Place(0, offset, 1), "b0", 0, 1_000)
    return ChannelMessage(ConsumerRecord("t", 0, offset, 5, None, b"", ()), held, None, WorkerConfig())  # type: ignore[arg-type]


def offsets(messages: list[ChannelMessage]) -> list[int]:
    return [item.offset for item in messages]


def moment() -> Moment:
    return Moment(lambda _: Leader("b0", 1))


def run(work: object) -> None:
    SimLoop(1).run(work)  # type: ignore[arg-type]


def test_messages_come_in_order_without_those_that_are_anothers() -> None:
    async def work() -> None:
        inbox = Inbox(moment, lambda item, _: item.offset != 1)
        inbox.put([message(offset) for offset in range(4)])
        assert offsets(inbox.take(2)) == [0, 2]
        assert offsets(inbox.take(2)) == [3]
        assert inbox.take(2) == []

    run(work())


def test_an_error_comes_after_the_messages_before_it_and_once() -> None:
    async def work() -> None:
        inbox = Inbox(moment, lambda *_: True)
        inbox.put([message(0)])
        inbox.tell(errors.StorageError())
        assert offsets(inbox.take(9)) == [0]
        with pytest.raises(errors.StorageError):
            inbox.take(9)
        assert inbox.take(9) == []

    run(work())


def test_what_ends_the_worker_is_told_at_once_and_always() -> None:
    async def work() -> None:
        inbox = Inbox(moment, lambda *_: True)
        inbox.put([message(0)])
        inbox.tell(errors.UnknownChannelError(), is_fatal=True)
        inbox.tell(errors.UnknownTopicError(), is_fatal=True)
        for _ in range(2):
            with pytest.raises(errors.UnknownChannelError):
                inbox.take(1)

    run(work())


def test_a_wait_ends_with_news_or_with_the_time() -> None:
    async def work() -> None:
        inbox = Inbox(moment, lambda *_: True)
        assert not await inbox.wait(now_ms())
        waiting = asyncio.ensure_future(inbox.wait(now_ms() + 60_000))
        await asyncio.sleep(1)
        inbox.wake()
        assert await waiting
        assert now_ms() < 2_000

    run(work())


def test_a_close_takes_the_rest() -> None:
    async def work() -> None:
        inbox = Inbox(moment, lambda *_: True)
        inbox.put([message(0), message(1)])
        inbox.take(1)
        assert offsets(inbox.take_all()) == [1]
        assert inbox.take_all() == []

    run(work())
