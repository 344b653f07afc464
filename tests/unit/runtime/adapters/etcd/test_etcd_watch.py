"""A watch never loses a change: a listing, then changes from there on, and a new listing where history is gone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import pytest

from oncelog.errors import MetadataUnavailableError
from oncelog_runtime.adapters.etcd import etcd_watch
from oncelog_runtime.adapters.etcd.etcd_watch import EtcdWatch
from oncelog_runtime.etcd_wire import kv_pb2, rpc_pb2
from oncelog_runtime.ports import Change, KeyValue, Listing


class Call:
    """One stream: what was asked, and what is answered until `None` or an error."""

    def __init__(self, opened: asyncio.Queue[Call], metadata: Any) -> None:
        self.request: Any = None
        self.metadata = metadata
        self.is_cancelled = False
        self.asked = 0
        self.was_asked = asyncio.Event()
        self._opened = opened
        self._answers: asyncio.Queue[Any] = asyncio.Queue()

    async def write(self, request: Any) -> None:
        if request.HasField("progress_request"):
            self.asked += 1
            self.was_asked.set()
            return
        self.request = request.create_request
        self._opened.put_nowait(self)

    async def read(self) -> Any:
        answer = await self._answers.get()
        if isinstance(answer, Exception):
            raise answer
        return grpc.aio.EOF if answer is None else answer

    def answer(self, revision: int, *events: kv_pb2.Event, **more: Any) -> None:
        header = rpc_pb2.ResponseHeader(revision=revision)
        self._answers.put_nowait(rpc_pb2.WatchResponse(header=header, events=events, **more))

    def end(self, error: Exception | None = None) -> None:
        self._answers.put_nowait(error)

    def cancel(self) -> None:
        self.is_cancelled = True
        self.end()


class Broken(grpc.RpcError):
    def code(self) -> grpc.StatusCode:
        return grpc.StatusCode.UNAVAILABLE


def put(key: str, value: bytes, revision: int) -> kv_pb2.Event:
    return kv_pb2.Event(kv=kv_pb2.KeyValue(key=key.encode(), value=value, mod_revision=revision))


def gone(key: str, revision: int) -> kv_pb2.Event:
    kv = kv_pb2.KeyValue(key=key.encode(), mod_revision=revision)
    return kv_pb2.Event(type=kv_pb2.Event.DELETE, kv=kv)


class World:
    """An etcd whose streams the test answers, and one watch on it."""

    def __init__(self) -> None:
        self.opened: asyncio.Queue[Call] = asyncio.Queue()
        self.listings: list[Listing | MetadataUnavailableError] = [Listing((), 5)]
        self.watch = EtcdWatch(lambda: ("channel", (("token", "x"),)), self.listing, "/a/")

    async def listing(self) -> Listing:
        found = self.listings.pop(0)
        if isinstance(found, MetadataUnavailableError):
            raise found
        return found

    def Watch(self, metadata: Any) -> Call:
        return Call(self.opened, metadata)

    async def stream(self) -> Call:
        """The next stream that the watch opens, which has begun."""
        call = await self.opened.get()
        call.answer(call.request.start_revision - 1, created=True)
        return call


@pytest.fixture
def on_etcd(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[World], Awaitable[None]]], None]:
    monkeypatch.setattr(etcd_watch, "_MAX_BACKOFF_S", 0.001)

    def run(test: Callable[[World], Awaitable[None]]) -> None:
        async def bounded() -> None:
            async with asyncio.timeout(20):
                world = World()
                monkeypatch.setattr(etcd_watch, "_STUB", lambda _channel: world)
                await test(world)
                await world.watch.aclose()

        asyncio.run(bounded())

    return run


Run = Callable[[Callable[[World], Awaitable[None]]], None]


def test_after_the_listing_come_the_changes_above_its_revision(on_etcd: Run) -> None:
    async def test(world: World) -> None:
        assert await anext(world.watch) == Listing((), 5)
        stream = await world.stream()
        assert (stream.request.key, stream.request.range_end, stream.request.start_revision) == (b"/a/", b"/a0", 6)
        assert ("token", "x") in stream.metadata
        assert ("hasleader", "true") in stream.metadata, "a member without a leader ends the stream"
        stream.answer(7, put("/a/x", b"1", 7), put("/a/y", b"2", 7))
        stream.answer(8, gone("/a/x", 8))
        changes = [await anext(world.watch) for _ in range(3)]
        assert changes == [
            Change("/a/x", b"1", 7),
            Change("/a/y", b"2", 7),
            Change("/a/x", None, 8),
        ]
        assert [isinstance(change, Change) and change.has_more for change in changes] == [True, False, False]

    on_etcd(test)


@pytest.mark.parametrize("error", [Broken(), None], ids=["an error", "an end"])
def test_a_stream_that_ends_is_opened_again_behind_the_last_change(on_etcd: Run, error: Exception | None) -> None:
    async def test(world: World) -> None:
        await anext(world.watch)
        first = await world.stream()
        first.answer(9, put("/a/x", b"1", 9))
        first.end(error)
        assert await anext(world.watch) == Change("/a/x", b"1", 9)
        again = await world.stream()
        assert again.request.start_revision == 10
        again.answer(11, put("/a/x", b"2", 11))
        assert await anext(world.watch) == Change("/a/x", b"2", 11)

    on_etcd(test)


def test_a_notice_of_progress_moves_the_position_and_the_first_answer_does_not(on_etcd: Run) -> None:
    async def test(world: World) -> None:
        await anext(world.watch)
        first = await world.opened.get()
        first.answer(30, created=True)
        first.end()
        second = await world.stream()
        assert second.request.start_revision == 6, "what lies between was not seen"
        second.answer(40)
        second.end()
        assert (await world.stream()).request.start_revision == 41

    on_etcd(test)


def test_what_was_compacted_is_listed_anew(on_etcd: Run) -> None:
    async def test(world: World) -> None:
        again = Listing((KeyValue("/a/x", b"3", 20),), 21)
        world.listings.append(again)
        await anext(world.watch)
        stream = await world.stream()
        stream.answer(21, canceled=True, compact_revision=20)
        assert await anext(world.watch) == again
        assert (await world.stream()).request.start_revision == 22

    on_etcd(test)


def test_a_compaction_below_the_position_loses_nothing(on_etcd: Run) -> None:
    async def test(world: World) -> None:
        await anext(world.watch)
        (await world.stream()).answer(21, canceled=True, compact_revision=3)
        assert (await world.stream()).request.start_revision == 6
        assert world.listings == []

    on_etcd(test)


def test_an_etcd_that_went_back_is_listed_anew(on_etcd: Run) -> None:
    async def test(world: World) -> None:
        restored = Listing((KeyValue("/a/x", b"old", 2),), 3)
        world.listings.append(restored)
        await anext(world.watch)
        (await world.opened.get()).answer(3, created=True)
        assert await anext(world.watch) == restored
        assert (await world.stream()).request.start_revision == 4

    on_etcd(test)


def test_a_reader_who_is_too_slow_begins_again_with_a_listing(on_etcd: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(etcd_watch, "MAX_WAITING", 3)

    async def test(world: World) -> None:
        world.listings.append(Listing((), 50))
        stream = await world.stream()
        for revision in range(6, 10):
            stream.answer(revision, put("/a/x", b"", revision))
        again = await world.stream()
        assert again.request.start_revision == 51
        assert await anext(world.watch) == Listing((), 50), "which says it all"
        assert stream.is_cancelled

    on_etcd(test)


def test_a_listing_that_fails_is_asked_for_again(on_etcd: Run) -> None:
    async def test(world: World) -> None:
        world.listings.insert(0, MetadataUnavailableError("away"))
        assert await anext(world.watch) == Listing((), 5)

    on_etcd(test)


def test_a_wait_that_is_given_up_loses_nothing(on_etcd: Run) -> None:
    async def test(world: World) -> None:
        await anext(world.watch)
        stream = await world.stream()
        waiting = asyncio.ensure_future(anext(world.watch))
        await asyncio.sleep(0)
        waiting.cancel()
        stream.answer(7, put("/a/x", b"1", 7))
        assert await anext(world.watch) == Change("/a/x", b"1", 7)

    on_etcd(test)


def test_the_end_of_a_watch_ends_its_stream_and_whoever_waits(on_etcd: Run) -> None:
    async def test(world: World) -> None:
        await anext(world.watch)
        stream = await world.stream()

        async def rest() -> list[Any]:
            return [item async for item in world.watch]

        reading = asyncio.create_task(rest())
        await asyncio.sleep(0)
        await world.watch.aclose()
        assert await reading == []
        assert stream.is_cancelled

    on_etcd(test)


def test_a_bug_does_not_look_like_silence(on_etcd: Run) -> None:
    async def test(world: World) -> None:
        world.listings[0] = "nonsense"  # type: ignore[call-overload]
        with pytest.raises(AttributeError):
            [item async for item in world.watch]

    on_etcd(test)


def test_a_stream_that_says_nothing_any_more_is_opened_again(on_etcd: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Regression: a watch was quiet for minutes on a connection that answered others: its broker named no owners of shards."""
    monkeypatch.setattr(etcd_watch, "QUIET_S", 0.05)

    async def test(world: World) -> None:
        await anext(world.watch)
        first = await world.stream()
        first.answer(9, put("/a/x", b"1", 9))
        assert await anext(world.watch) == Change("/a/x", b"1", 9)
        await first.was_asked.wait()
        first.answer(50, watch_id=-1)  # a sign of life, and no promise about the changes up to 50
        first.was_asked.clear()
        await first.was_asked.wait()
        again = await world.stream()
        assert first.is_cancelled
        assert again.request.start_revision == 10

    on_etcd(test)


def test_a_stream_that_never_begins_is_opened_again(on_etcd: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(etcd_watch, "QUIET_S", 0.05)

    async def test(world: World) -> None:
        await anext(world.watch)
        first = await world.opened.get()
        again = await world.opened.get()
        assert (first.asked, first.is_cancelled, again.request.start_revision) == (0, True, 6)

    on_etcd(test)
