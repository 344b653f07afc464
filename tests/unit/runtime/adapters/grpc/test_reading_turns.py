"""The requests of one connection are read one after the other, and none holds the others up for long."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from oncelog_runtime.adapters.grpc import reading_turns
from oncelog_runtime.adapters.grpc.reading_turns import ReadingTurns
from oncelog_runtime.core import reading_turn

A, B = "ipv4:10.0.0.1:41234", "ipv4:10.0.0.1:41235"


class Calls:
    """Calls that take turns and keep their turn until the test ends it."""

    def __init__(self) -> None:
        self.unfinished_bytes: int | None = 0
        self.turns = ReadingTurns(lambda _connection: self.unfinished_bytes)
        self.begun: list[str] = []
        self.ends: dict[str, asyncio.Event] = {}
        self._begins: dict[str, asyncio.Event] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}

    async def begin(self, name: str, connection: str = A) -> None:
        self.ends[name], self._begins[name] = asyncio.Event(), asyncio.Event()
        self.tasks[name] = asyncio.create_task(self._run(name, connection))
        await asyncio.sleep(0)

    async def _run(self, name: str, connection: str) -> None:
        async with self.turns.turn(connection):
            self.begun.append(name)
            self._begins[name].set()
            await self.ends[name].wait()

    async def hold_up(self) -> None:
        """The first one has the turn, and keeps it from the second one."""
        await self.begin("endless")
        await self.begin("second")
        await asyncio.sleep(0.02)
        assert self.begun == ["endless"]

    async def end(self, name: str) -> None:
        self.ends[name].set()
        await self.tasks[name]
        await asyncio.sleep(0)

    async def has_begun(self, name: str) -> None:
        async with asyncio.timeout(5):
            await self._begins[name].wait()


@pytest.mark.asyncio
async def test_requests_of_one_connection_are_read_in_the_order_of_their_calls() -> None:
    calls = Calls()
    for name in ("first", "second", "third"):
        await calls.begin(name)
    assert calls.begun == ["first"]
    await calls.end("first")
    assert calls.begun == ["first", "second"]
    await calls.end("second")
    await calls.end("third")
    assert calls.begun == ["first", "second", "third"]
    assert len(calls.turns) == 0


@pytest.mark.asyncio
async def test_another_connection_has_turns_of_its_own() -> None:
    calls = Calls()
    await calls.begin("first")
    await calls.begin("other", B)
    assert calls.begun == ["first", "other"]


@pytest.mark.asyncio
async def test_a_request_that_does_not_end_gives_its_turn_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading_turn, "TURN_S", 0.001)
    calls = Calls()
    for name in ("endless", "second", "third"):
        await calls.begin(name)
        await calls.has_begun(name)
    for name in calls.begun:
        await calls.end(name)
    assert len(calls.turns) == 0


@pytest.mark.asyncio
async def test_a_turn_lasts_longer_the_more_requests_are_being_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading_turn, "TURN_S", 0.001)
    lasted: list[float] = []

    class Turn(reading_turns._Turn):
        def __init__(
            self, free: asyncio.Lock, length: reading_turn.ReadingTurn, unfinished_bytes: Callable[[], int | None]
        ) -> None:
            lasted.append(round(length.lasts_s / reading_turn.TURN_S))
            super().__init__(free, length, unfinished_bytes)

    monkeypatch.setattr(reading_turns, "_Turn", Turn)
    calls = Calls()
    for name in ("first", "second", "third"):
        await calls.begin(name)
        await calls.has_begun(name)
    for name in ("first", "second"):
        await calls.end(name)
    await calls.begin("fourth")
    await calls.has_begun("fourth")
    assert lasted == [1, 2, 3, 2]


@pytest.mark.asyncio
async def test_a_call_that_is_read_beyond_its_turn_has_none_to_pass_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading_turn, "TURN_S", 0.001)
    calls = Calls()
    await calls.begin("endless")
    monkeypatch.setattr(reading_turn, "TURN_S", 60.0)
    for name in ("second", "third"):
        await calls.begin(name)
    await calls.has_begun("second")
    await calls.end("endless")
    assert calls.begun == ["endless", "second"]


@pytest.mark.asyncio
async def test_a_cancelled_call_passes_its_turn_on() -> None:
    calls = Calls()
    for name in ("first", "waits", "third", "fourth"):
        await calls.begin(name)
    calls.tasks["waits"].cancel()
    await asyncio.sleep(0)
    calls.ends["first"].set()
    await asyncio.sleep(0)
    calls.tasks["third"].cancel()  # its turn has come, and it has not noticed
    await calls.has_begun("fourth")
    assert calls.begun == ["first", "fourth"]
    await calls.end("fourth")
    await calls.begin("fifth")
    assert calls.begun == ["first", "fourth", "fifth"]


@pytest.mark.asyncio
async def test_a_turn_goes_on_while_its_bytes_came_faster_than_they_may(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request of 64 MiB that does not end came within 60 ms: the next one begins a second later, not 10 ms later."""
    monkeypatch.setattr(reading_turn, "TURN_S", 0.001)
    calls = Calls()
    calls.unfinished_bytes = 3600 * reading_turn.UNFINISHED_BYTES_PER_S
    await calls.hold_up()
    await calls.end("endless")
    assert calls.begun == ["endless", "second"], "a request that has arrived ends its turn"


@pytest.mark.asyncio
async def test_a_turn_ends_when_its_bytes_could_have_come_so_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading_turn, "TURN_S", 0.001)
    calls = Calls()
    calls.unfinished_bytes = reading_turn.UNFINISHED_BYTES_PER_S // 50
    began_s = asyncio.get_running_loop().time()
    await calls.begin("endless")
    await calls.begin("second")
    await calls.has_begun("second")
    assert asyncio.get_running_loop().time() - began_s >= 0.02
    for name in calls.begun:
        await calls.end(name)


@pytest.mark.asyncio
async def test_a_turn_does_not_pay_for_what_was_incomplete_when_it_began(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long upload over a slow way holds up those behind it once, and not those behind each of them once more."""
    monkeypatch.setattr(reading_turn, "TURN_S", 0.001)
    calls = Calls()
    await calls.begin("upload")
    await calls.begin("second")
    await calls.has_begun("second")
    calls.unfinished_bytes = 3600 * reading_turn.UNFINISHED_BYTES_PER_S
    await calls.end("second")
    await calls.begin("third")
    await calls.begin("fourth")
    await calls.has_begun("fourth")
    assert calls.begun == ["upload", "second", "third", "fourth"]


@pytest.mark.asyncio
async def test_a_turn_ends_soon_after_its_bytes_are_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading_turn, "TURN_S", 0.001)
    monkeypatch.setattr(reading_turn, "ASK_AGAIN_S", 0.001)
    calls = Calls()
    calls.unfinished_bytes = 3600 * reading_turn.UNFINISHED_BYTES_PER_S
    await calls.hold_up()
    calls.unfinished_bytes = 0  # another request of the connection had them
    await calls.has_begun("second")


@pytest.mark.asyncio
async def test_a_turn_on_a_connection_that_is_not_found_yet_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else whoever opens a new connection each time is not bounded."""
    monkeypatch.setattr(reading_turn, "TURN_S", 0.001)
    monkeypatch.setattr(reading_turn, "FIND_S", 60.0)
    monkeypatch.setattr(reading_turn, "ASK_AGAIN_S", 0.001)
    calls = Calls()
    calls.unfinished_bytes = None
    await calls.hold_up()
    calls.unfinished_bytes = 0
    await calls.has_begun("second")


@pytest.mark.asyncio
async def test_a_turn_ends_also_when_its_connection_is_never_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading_turn, "TURN_S", 0.001)
    monkeypatch.setattr(reading_turn, "FIND_S", 0.01)
    calls = Calls()
    calls.unfinished_bytes = None
    await calls.begin("first")
    await calls.begin("second")
    await calls.has_begun("second")
