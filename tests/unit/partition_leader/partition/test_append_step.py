"""One step decides about everything that waits; what cannot be done refuses the command that it is for."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from oncelog.errors import InternalServerError, NotLeaderError, StorageError, UnknownServerError
from oncelog_partition_leader.core.producers.transactions import TxnSession
from tests.unit.partition_leader.leading import Leading, Run, batch, run, turn
from tests.unit.partition_leader.test_contained_faults import PoisonedError, take_report

__all__ = ["run"]  # the fixture


def test_a_command_that_depends_on_the_group_is_decided_after_the_group_is_written(run: Run) -> None:
    async def scenario(leading: Leading) -> None:
        appends: list[int] = []
        healthy = leading.log.append_as_leader

        def counted(batches: Any, *more: Any) -> Any:
            appends.append(len(batches))
            return healthy(batches, *more)

        leading.log.append_as_leader = counted  # type: ignore[method-assign]
        for producer_id, sequence in ((1, 0), (2, 0), (1, 1), (3, 0)):
            leading.produce(batch(producer_id, sequence))
        await turn()
        assert appends == [2, 2]

    run(scenario)


@pytest.mark.parametrize(("reason", "told"), [("full", "full"), ("io", "failed")])
def test_a_disk_that_refuses_an_append_refuses_its_commands_and_the_broker_hears_of_it(
    run: Run, monkeypatch: pytest.MonkeyPatch, reason: str, told: str
) -> None:
    async def scenario(leading: Leading) -> None:
        def refused(*_: Any) -> Any:
            error = StorageError("no", reason=reason)
            if reason == "io":
                leading.log._fail(error)
            raise error

        monkeypatch.setattr(leading.log, "append_as_leader", refused)
        first, second = leading.produce(batch(1, 0)), leading.produce(batch(1, 1))
        await turn()
        assert isinstance(first.exception(), StorageError)
        assert second.exception() is not None
        assert leading.host.told.count(told) == 1
        if reason == "io":
            assert leading.leadership.ended is not None, "what follows is refused by the end, and not tried on this log"

    run(scenario)


def test_an_enrolment_that_cannot_be_asked_for_refuses_its_batch_and_leaves_nothing_behind(run: Run) -> None:
    async def scenario(leading: Leading) -> None:
        healthy = leading.host.enrol

        def poisoned(*_: Any) -> None:
            raise PoisonedError

        leading.host.enrol = poisoned  # type: ignore[method-assign]
        refused, plain = leading.produce(batch(7, 0, txn_no=1)), leading.produce(batch(9, 0))
        await turn()
        assert isinstance(refused.exception(), InternalServerError)
        leading.acknowledge(1)
        assert plain.result().base_offset == 0
        leading.host.enrol = healthy  # type: ignore[method-assign]
        leading.produce(batch(7, 0, txn_no=1))
        await turn()
        assert leading.host.enrolments == [TxnSession(7, 1, 0)], "the next one asks again"
        take_report(asyncio.get_running_loop())

    run(scenario)


def test_a_step_after_the_end_appends_nothing(run: Run) -> None:
    async def scenario(leading: Leading) -> None:
        answer = leading.produce(batch(1, 0))
        leading.leadership.ended = NotLeaderError()
        leading.leadership._step.run(leading.leadership.queue.take())
        assert isinstance(answer.exception(), NotLeaderError)
        assert leading.log.log_end_offset == 0

    run(scenario)


@pytest.mark.parametrize("wrong", ["base_offset", "next_offset"])
def test_an_append_that_came_out_elsewhere_is_unknown_and_fails_the_log(
    run: Run, monkeypatch: pytest.MonkeyPatch, wrong: str
) -> None:
    """The assertion ends neither the broker nor the wait of a handler."""

    async def scenario(leading: Leading) -> None:
        healthy = leading.log.append_as_leader

        def elsewhere(*arguments: Any) -> Any:
            (appended,) = healthy(*arguments)
            return [appended._replace(**{wrong: getattr(appended, wrong) + 1})]

        monkeypatch.setattr(leading.log, "append_as_leader", elsewhere)
        answer = leading.produce(batch(1, 0))
        await turn()
        assert isinstance(answer.exception(), UnknownServerError)
        assert leading.host.told[-1] == "broken"
        assert isinstance(take_report(asyncio.get_running_loop()), AssertionError)

    run(scenario)
