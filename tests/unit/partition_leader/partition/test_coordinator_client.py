"""Enrolments that a leader asks for: everybody who waits hears something."""

from __future__ import annotations

import asyncio
from typing import Any

from oncelog.errors import InternalServerError, OncelogError
from oncelog_partition_leader.core.producers.transactions import TxnSession
from oncelog_partition_leader.partition.coordinator_client import Coordinators
from oncelog_runtime.process.tasks import TaskOwner

SESSION = TxnSession(7, 1, 0)


class Met:
    """The faults that were met."""

    def __init__(self) -> None:
        self.errors: list[BaseException] = []

    def met(self, _where: str, error: BaseException, _what: str = "") -> InternalServerError:
        self.errors.append(error)
        return InternalServerError()


class Asker:
    def __init__(self, fault: Exception | None = None) -> None:
        self.partition: Any = None
        self.heard: list[OncelogError | None] = []
        self._fault = fault

    def enrolled(self, _session: TxnSession, refusal: OncelogError | None) -> None:
        self.heard.append(refusal)
        if self._fault is not None:
            raise self._fault


def test_a_fault_of_one_who_asked_keeps_the_answer_from_nobody_else() -> None:
    async def test() -> None:
        bugs: Any = Met()
        failed: list[BaseException] = []
        unused: Any = None
        coordinators = Coordinators(unused, unused, TaskOwner(failed.append), 1_000, bugs, unused)
        fault = RuntimeError("poisoned")
        askers = [Asker(), Asker(fault), Asker()]
        for asker in askers:
            coordinators.enrol_soon(asker, SESSION, 3, "orders")
        for _ in range(5):
            await asyncio.sleep(0)
        assert [len(asker.heard) for asker in askers] == [1, 1, 1]
        assert all(isinstance(asker.heard[0], InternalServerError) for asker in askers), "nobody could be asked"
        assert fault in bugs.errors
        assert failed == []

    asyncio.run(test())
