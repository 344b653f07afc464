"""Batches of a partition are queued in the order in which they came, each when its payload is checked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, TypeVar

import pytest

from oncelog.errors import InvalidRecordError, NotLeaderError, ShuttingDownError, UnknownServerError
from oncelog.types import PartitionId
from oncelog_partition_leader.core.appends.commands import Written
from oncelog_partition_leader.rpc.produce.payload_checks import Checking, PayloadChecks
from oncelog_runtime.process.tasks import TaskOwner
from oncelog_runtime.serving.call_context import CALL, CallInfo

pytestmark = pytest.mark.asyncio

T = TypeVar("T")
P0, P1 = (PartitionId("0" * 32, number) for number in (0, 1))
SMALL: Any = SimpleNamespace(uncompressed_length=1_000, codec=1)
LARGE: Any = SimpleNamespace(uncompressed_length=1_001, codec=1)
PLAIN: Any = SimpleNamespace(uncompressed_length=1_001, codec=0)


class Threads:
    """See `oncelog_runtime.ports.Threads`: work runs when the test lets it."""

    def __init__(self) -> None:
        self.begun: list[Callable[[], object]] = []
        self._ends: list[asyncio.Future[None]] = []

    async def run(self, work: Callable[[], T]) -> T:
        self.begun.append(work)
        ends: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._ends.append(ends)
        await ends
        return work()

    async def let_end(self, number: int) -> None:
        self._ends[number].set_result(None)
        await settle()


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


class Entering:
    """The checks, and what has been queued."""

    def __init__(self) -> None:
        self.threads = Threads()
        self.defects: list[Exception] = []
        self.queued: list[str] = []
        self.tasks = TaskOwner(lambda error: pytest.fail(repr(error)))
        bugs: Any = SimpleNamespace(met=self._met)
        self.checks = PayloadChecks(1_000, self.threads, self.tasks, bugs)

    def _met(self, _kind: str, error: Exception, _where: str) -> UnknownServerError:
        self.defects.append(error)
        return UnknownServerError("a defect")

    def enter(
        self,
        name: str,
        header: Any = LARGE,
        place: PartitionId = P0,
        *,
        check: Exception | None = None,
        submit: Exception | None = None,
    ) -> asyncio.Future[Written]:
        def raises(error: Exception | None) -> None:
            if error is not None:
                raise error

        def queue() -> None:
            raises(submit)
            self.queued.append(name)

        done: asyncio.Future[Written] = asyncio.get_running_loop().create_future()
        self.checks.enter(place, header, Checking(lambda: raises(check), queue, done))
        return done


async def test_only_large_compressed_batches_wait_and_what_comes_behind_them() -> None:
    s = Entering()
    assert [s.checks.must_wait(P0, header) for header in (SMALL, LARGE, PLAIN)] == [False, True, False]
    s.enter("large")
    assert [s.checks.must_wait(place, SMALL) for place in (P0, P1)] == [True, False]
    await settle()
    await s.threads.let_end(0)
    assert s.queued == ["large"]
    assert not s.checks.must_wait(P0, SMALL)


async def test_the_order_of_a_partition_stays() -> None:
    s = Entering()
    for name, header in (("first", LARGE), ("second", LARGE), ("small", SMALL)):
        s.enter(name, header)
    s.enter("elsewhere", SMALL, P1)
    await settle()
    assert s.queued == ["elsewhere"]
    await s.threads.let_end(1)
    assert s.queued == ["elsewhere"]
    await s.threads.let_end(0)
    assert s.queued == ["elsewhere", "first", "second", "small"]


async def test_a_refusal_has_its_turn_and_keeps_back_nothing() -> None:
    s = Entering()
    s.enter("first")
    refused = s.enter("refused", check=InvalidRecordError("no rows"))
    s.enter("behind", SMALL)
    deposed = s.enter("deposed", SMALL, submit=NotLeaderError())
    await settle()
    await s.threads.let_end(1)
    assert (s.queued, refused.done()) == ([], False)
    await s.threads.let_end(0)
    assert s.queued == ["first", "behind"]
    assert isinstance(refused.exception(), InvalidRecordError)
    assert isinstance(deposed.exception(), NotLeaderError)


@pytest.mark.parametrize("where", ["check", "submit"])
async def test_a_defect_refuses_its_own_batch(where: str) -> None:
    s = Entering()
    defect: dict[str, Any] = {where: ZeroDivisionError("a defect")}
    refused = s.enter("broken", **defect)
    s.enter("behind", SMALL)
    await settle()
    await s.threads.let_end(0)
    assert isinstance(refused.exception(), UnknownServerError)
    assert (s.queued, [type(error) for error in s.defects]) == (["behind"], [ZeroDivisionError])


async def test_few_are_unpacked_at_a_time() -> None:
    s = Entering()
    for number in range(4):
        s.enter(str(number), place=PartitionId("0" * 32, number))
    await settle()
    assert len(s.threads.begun) == 2
    await s.threads.let_end(1)
    assert (len(s.threads.begun), s.queued) == (3, ["1"])


async def test_callers_take_turns() -> None:
    s = Entering()
    for number, name in enumerate(("many 0", "many 1", "many 2", "many 3", "few")):
        CALL.set(CallInfo(f"ipv4:10.0.0.{1 if 'many' in name else 2}:4000"))
        s.enter(name, place=PartitionId("0" * 32, number))
        await settle()
    await s.threads.let_end(0)
    assert len(s.threads.begun) == 3
    await s.threads.let_end(2)
    assert "few" in s.queued, "it waits for one check of the other caller, and not for all"


async def test_nothing_is_kept_of_callers_that_have_gone() -> None:
    s = Entering()
    for number in range(4):
        CALL.set(CallInfo(f"ipv4:10.0.0.{number}:4000"))
        done = s.enter(str(number), place=PartitionId("0" * 32, number))
        if number == 3:
            done.cancel()
    await settle()
    for number in range(3):
        await s.threads.let_end(number)
    await settle()
    assert not s.checks._callers
    assert s.checks._slots.is_idle


async def test_a_batch_whose_caller_has_gone_is_not_queued() -> None:
    s = Entering()
    gone = [s.enter("gone before"), s.enter("gone meanwhile")]
    gone[0].cancel()
    s.enter("behind", SMALL)
    await settle()
    gone[1].cancel()
    await s.threads.let_end(0)
    assert (len(s.threads.begun), s.queued) == (1, ["behind"])


@pytest.mark.parametrize("begun", [True, False])
async def test_a_process_that_ends_tells_those_that_wait(begun: bool) -> None:
    s = Entering()
    waiting = [s.enter("first"), s.enter("second", SMALL)]
    if begun:
        await settle()
    await s.tasks.stop()
    assert [type(done.exception()) for done in waiting] == [ShuttingDownError] * 2
    assert s.queued == []
