"""A worker of a share group acknowledges all that it has before it polls again, and counts what the broker has confirmed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from typing import cast

import pytest
import pytest_asyncio

from bench.kafka_share import KafkaError, ShareConsumer, ShareWorker, in_pieces

pytestmark = pytest.mark.asyncio


class Consumer:
    """In place of a share consumer: hands out `polls`; the broker confirms what `confirms` says, or refuses it."""

    def __init__(self) -> None:
        self.polls: list[list[str]] = [["a", "b", "c"], ["d"]]
        self.calls: list[str] = []
        self.confirms = 0
        self.refuses = False

    def poll(self, _wait_ms: int) -> list[str]:
        found = self.polls.pop(0) if self.polls else []
        if found:
            self.calls.append(f"poll {''.join(found)}")
        return found

    def settle(self, count: int) -> None:
        self.calls.extend(["settle"] * count)

    def settle_all(self) -> None:
        self.calls.append("settle all")

    def confirmed(self) -> int:
        if self.refuses:
            raise KafkaError("refused")
        return self.confirms

    def close(self) -> None:
        self.calls.append("close")


@pytest.fixture
def consumer() -> Consumer:
    return Consumer()


@pytest_asyncio.fixture
async def worker(consumer: Consumer) -> AsyncIterator[ShareWorker]:
    with ThreadPoolExecutor(1) as thread:
        yield ShareWorker(cast(ShareConsumer, consumer), thread)


async def test_what_a_poll_gave_is_committed_at_once(worker: ShareWorker, consumer: Consumer) -> None:
    await worker.ack(await worker.take())
    await worker.ack(await worker.take())
    await worker.close()
    assert consumer.calls == ["poll abc", "settle all", "poll d", "settle all", "close"]


async def test_a_poll_waits_until_each_message_is_acknowledged(worker: ShareWorker, consumer: Consumer) -> None:
    consumer.confirms = 3
    messages = await worker.take()
    taking = asyncio.ensure_future(worker.take())
    acks = [asyncio.ensure_future(worker.ack([message])) for message in messages]
    assert await taking == ["d"]
    assert consumer.calls == ["poll abc", "settle", "settle", "settle", "poll d"]
    await asyncio.gather(*acks)


async def test_a_single_message_is_settled_once_the_broker_has_confirmed_it(
    worker: ShareWorker, consumer: Consumer
) -> None:
    consumer.confirms = 2
    acks = [asyncio.ensure_future(worker.ack([message])) for message in await worker.take()]
    await worker.take()
    await asyncio.gather(*acks[:2])
    assert not acks[2].done()
    acks[2].cancel()


async def test_a_refused_acknowledgement_is_an_error(worker: ShareWorker, consumer: Consumer) -> None:
    acks = [asyncio.ensure_future(worker.ack([message])) for message in await worker.take()]
    consumer.refuses = True
    with pytest.raises(KafkaError, match="refused"):
        await worker.take()
    for ack in acks:
        ack.cancel()


async def test_a_settlement_that_fails_fails_each_message(
    worker: ShareWorker, consumer: Consumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_count: int) -> None:
        raise KafkaError("no such record")

    monkeypatch.setattr(consumer, "settle", fail)
    results = await asyncio.gather(*(worker.ack([one]) for one in await worker.take()), return_exceptions=True)
    assert [str(result) for result in results] == ["no such record"] * 3


async def test_some_of_several_messages_are_refused(worker: ShareWorker) -> None:
    messages = await worker.take()
    with pytest.raises(ValueError, match="2 of 3 messages"):
        await worker.ack(messages[:2])


class Builder:
    """In place of Java's StringBuilder."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.longest = 0

    def length(self) -> int:
        return len(self._text)

    def substring(self, begin: int, end: int) -> str:
        assert end <= len(self._text)
        self.longest = max(self.longest, end - begin)
        return self._text[begin:end]


@pytest.mark.parametrize("length", [0, 1, 3_999, 4_000, 4_001, 20_000])
async def test_a_long_text_comes_in_pieces_that_fit_a_buffer(length: int) -> None:
    builder = Builder("abcdefg" * (length // 7) + "x" * (length % 7))
    assert in_pieces(builder) == builder._text
    assert builder.longest <= 4_000
