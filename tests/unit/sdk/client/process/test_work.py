"""What a function of `Client.process` may return, and what its errors say."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from oncelog import errors
from oncelog.client.consume.fetched_records import ConsumerRecord, Records
from oncelog.client.consume.offsets import OffsetAndMetadata
from oncelog.client.process.work import Work, each, each_in_thread, whole, whole_in_thread
from oncelog.client.produce.writer import Message
from oncelog.types import TopicPartition

BOTH = pytest.mark.parametrize("how", [each, each_in_thread])
IN_THREAD = pytest.mark.parametrize("how", [lambda fn: each_in_thread(fn, None), whole_in_thread])
How = Callable[[Any, Any], Work]


def records(count: int = 2) -> Records[Any, Any]:
    made: Records[Any, Any] = Records(None)
    made.extend(ConsumerRecord("in", 3, offset, 0, b"k%d" % offset, b"v%d" % offset, ()) for offset in range(count))
    return made


def run(work: Work, count: int = 2) -> list[tuple[int, Any, Any]]:
    """(offset of the input, key, value) of each output."""

    async def whole() -> list[Any]:
        return [(o.record.offset, o.message.key, o.message.value) for o in await work(records(count))]

    return asyncio.run(whole())


def yielding(record: ConsumerRecord) -> Iterator[bytes]:
    yield b"a"
    yield b"b"


@BOTH
@pytest.mark.parametrize(
    ("fn", "expected"),
    [
        (lambda record: None, []),
        (lambda record: [], []),
        (lambda record: record.value, [(b"k0", b"v0")]),
        (lambda record: Message("m"), [(None, "m")]),
        (lambda record: [b"a", None, Message("m", "k")], [(b"k0", b"a"), ("k", "m")]),
        (yielding, [(b"k0", b"a"), (b"k0", b"b")]),
    ],
)
def test_a_function_returns_nothing_one_or_many(how: How, fn: Any, expected: Any) -> None:
    assert run(how(fn, None), 1) == [(0, *output) for output in expected]


@pytest.mark.parametrize("how", [whole, whole_in_thread])
@pytest.mark.parametrize(
    ("fn", "expected"),
    [
        (lambda records: None, []),
        (lambda records: b"all", [(None, b"all")]),
        (lambda records: [record.value for record in records], [(None, b"v0"), (None, b"v1")]),
        (lambda records: [Message("m", records[1].key), None, [b"a"]], [(b"k1", "m"), (None, b"a")]),
        (lambda records: (Message(record.value, record.key) for record in records), [(b"k0", b"v0"), (b"k1", b"v1")]),
    ],
)
def test_a_function_of_batches_returns_nothing_one_or_many(how: Any, fn: Any, expected: Any) -> None:
    read = records()
    made = asyncio.run(how(fn)(read))
    assert [(output.message.key, output.message.value) for output in made] == expected
    assert all(output.record is read for output in made)


def test_a_function_of_batches_has_a_list_of_its_own() -> None:
    read = records()
    read.offsets[TopicPartition("in", 3)] = OffsetAndMetadata(2)

    async def fn(given: Records) -> None:
        assert (given, given.offsets, given.group) == (read, read.offsets, read.group)
        given.clear()
        given.offsets.clear()

    assert asyncio.run(whole(fn)(read)) == []
    assert (len(read), len(read.offsets)) == (2, 1)


def test_a_function_of_batches_may_block_in_its_thread_and_is_a_plain_one() -> None:
    threads: list[threading.Thread] = []
    asyncio.run(whole_in_thread(lambda given: threads.append(threading.current_thread()))(records()))
    assert threads[0] is not threading.current_thread()

    async def fn(given: Records) -> None:
        """Nothing."""

    with pytest.raises(errors.ConfigError, match="takes a plain function"):
        whole_in_thread(fn)


def test_a_thread_whose_batch_is_given_up_ends_after_its_record() -> None:
    """Regression: after a Ctrl-C the function was called for the rest of the batch, and the interpreter waited for that."""
    begun, may_end = threading.Event(), threading.Event()
    seen: list[int] = []
    threads: list[threading.Thread] = []

    def fn(record: ConsumerRecord) -> None:
        seen.append(record.offset)
        threads.append(threading.current_thread())
        begun.set()
        may_end.wait()

    async def give_up() -> None:
        work = asyncio.ensure_future(each_in_thread(fn, None)(records(5)))
        await asyncio.to_thread(begun.wait)
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
        may_end.set()

    asyncio.run(give_up())
    threads[0].join()
    assert seen == [0]


@IN_THREAD
def test_a_function_has_one_thread_until_its_work_is_over(how: Callable[[Any], Work]) -> None:
    threads: list[threading.Thread] = []
    works = [how(lambda _: threads.append(threading.current_thread()))]

    async def both() -> None:
        for _ in range(2):
            await works[0](records(1))

    asyncio.run(both())
    assert threads[0] is threads[1] is not threading.current_thread()
    works.clear()
    gc.collect()
    threads[0].join(60)
    assert not threads[0].is_alive()


@IN_THREAD
def test_functions_that_block_hold_up_no_other(how: Callable[[Any], Work]) -> None:
    """Regression: above the number of threads that an event loop has for everybody, which the client needs too."""
    count = 33  # it has 32 at most
    all_of_them = threading.Barrier(count, timeout=60)

    async def at_once() -> None:
        await asyncio.gather(*(how(lambda _: all_of_them.wait() and None)(records(1)) for _ in range(count)))

    asyncio.run(at_once())


def test_a_coroutine_function_is_awaited_one_record_after_the_other() -> None:
    seen: list[tuple[str, int]] = []

    async def fn(record: ConsumerRecord) -> bytes:
        seen.append(("begun", record.offset))
        await asyncio.sleep(0)
        seen.append(("done", record.offset))
        return record.value

    assert [value for _, _, value in run(each(fn, None))] == [b"v0", b"v1"]
    assert seen == [("begun", 0), ("done", 0), ("begun", 1), ("done", 1)]


@BOTH
def test_an_error_names_the_record(how: How) -> None:
    def fn(record: ConsumerRecord) -> object:
        return {0: b""}[record.offset]

    with pytest.raises(errors.ProcessingError, match=r"KeyError.*nothing of its batch") as raised:
        run(how(fn, None))
    assert raised.value.context == {"topic": "in", "partition": "3", "offset": "1"}
    assert isinstance(raised.value.__cause__, KeyError)


@BOTH
def test_on_error_returns_what_is_written_instead_or_raises(how: How) -> None:
    def fn(record: ConsumerRecord) -> bytes:
        raise ValueError(record.offset)

    assert run(how(fn, lambda record, error: f"{error!r}" if record.offset else None)) == [(1, b"k1", "ValueError(1)")]
    with pytest.raises(errors.ProcessingError, match="ZeroDivisionError"):
        run(how(fn, lambda record, error: 1 / 0))


def test_on_error_may_be_a_coroutine_function() -> None:
    async def instead(record: ConsumerRecord, error: Exception) -> bytes:
        return b"instead"

    async def fn(record: ConsumerRecord) -> bytes:
        raise ValueError

    assert run(each(fn, instead), 1) == [(0, b"k0", b"instead")]


def test_long_work_lets_the_event_loop_have_its_turn() -> None:
    """Else heartbeats would wait for a whole batch."""

    async def whole() -> int:
        turns = 0
        clock = asyncio.get_running_loop().time

        async def beat() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        def busy(record: ConsumerRecord) -> None:
            until = clock() + 0.011
            while clock() < until:
                pass

        task = asyncio.create_task(beat())
        await each(busy, None)(records(5))
        task.cancel()
        return turns

    assert asyncio.run(whole()) >= 4


def test_blocking_functions_run_in_a_thread_of_their_own() -> None:
    threads: set[threading.Thread] = set()

    def fn(record: ConsumerRecord) -> None:
        threads.add(threading.current_thread())

    run(each_in_thread(fn, None))
    assert threading.current_thread() not in threads
    assert len(threads) == 1


async def _async(record: ConsumerRecord) -> bytes:
    return b""


def test_a_coroutine_function_has_no_place_in_a_thread() -> None:
    """Nobody would await it."""
    with pytest.raises(errors.ConfigError, match="plain function"):
        each_in_thread(_async, None)
