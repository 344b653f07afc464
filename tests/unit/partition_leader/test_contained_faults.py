"""A fault of ours refuses the command that met it, and nobody else's (leadership, rule 5; storage, rule 1)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from oncelog.core.batch.header import BatchHeader
from oncelog.errors import InternalServerError, StorageError, UnknownServerError
from oncelog_partition_leader.core.producers.producer_state import ProducerStates
from oncelog_partition_leader.log.partition_log import LogConfig
from oncelog_runtime.observability.metrics import Family
from oncelog_runtime.process.bugs import UnexpectedError
from oncelog_runtime.sim.disk import SimDisk
from tests.unit.partition_leader import log_helpers
from tests.unit.partition_leader.leading import Leading, Run, batch, run, turn

__all__ = ["run"]  # the fixture
POISON = 13


class PoisonedError(Exception):
    """What nobody expects."""


def take_report(loop: Any) -> BaseException:
    """The one fault that was reported; without this the simulation takes it for a violation."""
    (report,) = loop.errors
    loop.errors.clear()
    assert isinstance(report, UnexpectedError)
    assert report.__cause__ is not None
    return report.__cause__


@pytest.fixture
def poisoned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Deciding about producer 13 raises."""
    healthy = ProducerStates.decide

    def decide(states: ProducerStates, header: BatchHeader, *more: Any) -> Any:
        if header.producer_id == POISON:
            raise PoisonedError
        return healthy(states, header, *more)

    monkeypatch.setattr(ProducerStates, "decide", decide)


@pytest.mark.usefixtures("poisoned")
def test_a_command_that_cannot_be_decided_is_refused_alone(run: Run) -> None:
    async def scenario(leading: Leading) -> None:
        before, poison, after = (leading.produce(batch(producer, 0)) for producer in (1, POISON, 2))
        await turn()
        with pytest.raises(InternalServerError) as refusal:
            await poison
        assert not refusal.value.retriable
        assert leading.log.log_end_offset == 2
        leading.acknowledge(2)
        assert [(await answer).base_offset for answer in (before, after)] == [0, 1]
        assert isinstance(take_report(asyncio.get_running_loop()), PoisonedError)

    run(scenario)


@pytest.mark.usefixtures("poisoned")
def test_the_same_poison_all_day_is_reported_once_and_counted_each_time(run: Run) -> None:
    async def scenario(leading: Leading) -> None:
        for _ in range(100):
            with pytest.raises(InternalServerError):
                await leading.produce(batch(POISON, 0))
        take_report(asyncio.get_running_loop())
        families = [f for f in leading.host.node_metrics.families() if isinstance(f, Family)]
        rows = {labels: value for family in families for labels, value in family.rows}
        assert rows['where="decision"'] == 100

    run(scenario)


def test_a_batch_that_cannot_be_appended_is_refused_alone(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(leading: Leading) -> None:
        healthy = leading.log.append_as_leader

        def append(batches: Any, *more: Any) -> Any:
            if any(header.producer_id == POISON for header, _ in batches):
                raise PoisonedError
            return healthy(batches, *more)

        monkeypatch.setattr(leading.log, "append_as_leader", append)
        before, poison, after = (leading.produce(batch(producer, 0)) for producer in (1, POISON, 2))
        await turn()
        leading.acknowledge(2)
        with pytest.raises(InternalServerError):
            await poison
        assert [(await answer).base_offset for answer in (before, after)] == [0, 1]
        assert isinstance(take_report(asyncio.get_running_loop()), PoisonedError)

    run(scenario)


@pytest.mark.parametrize(
    "step",
    [
        "oncelog_partition_leader.core.replication.replica_set.ReplicaSet.wrote",
        "oncelog_partition_leader.core.appends.append_group.AppendGroup.add",
    ],
    ids=["after the append", "of the queue itself"],
)
def test_a_fault_of_the_step_answers_everybody_and_ends_the_leadership(
    run: Run, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Nobody waits for ever: not the command that met it, and not those beside it."""

    async def scenario(leading: Leading) -> None:
        def poisoned(*_: Any) -> bool:
            raise PoisonedError

        monkeypatch.setattr(step, poisoned)
        answers = [leading.produce(batch(producer, 0)) for producer in (1, 2)]
        await turn()
        for answer in answers:
            with pytest.raises(UnknownServerError):
                await answer
        assert leading.host.told[-1] == "broken"
        assert leading.leadership.ended is not None
        take_report(asyncio.get_running_loop())

    run(scenario)


def test_a_log_that_could_not_apply_what_it_wrote_refuses_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(disk: SimDisk) -> None:
        log = await log_helpers.open_log(disk)
        log_helpers.write(log, log_helpers.plain())
        with monkeypatch.context() as patch:
            patch.setattr(ProducerStates, "apply", lambda *_: 1 // 0)
            with pytest.raises(StorageError) as failure:
                log_helpers.write(log, log_helpers.plain())
        assert isinstance(failure.value.__cause__, ZeroDivisionError)
        assert log.failed is not None
        with pytest.raises(StorageError):
            log_helpers.write(log, log_helpers.plain())
        await log.close(clean=False)
        again = await log_helpers.open_log(disk)
        again.check()
        assert again.log_end_offset in (1, 2), "the file alone says what is there"

    log_helpers.run(scenario)


def test_a_group_that_crosses_a_segment_is_written_as_far_as_the_disk_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(disk: SimDisk) -> None:
        log = await log_helpers.open_log(disk, LogConfig(segment_bytes=256))
        with monkeypatch.context() as patch:

            def full(*_: Any) -> None:
                raise StorageError("the disk is full", reason="full")

            patch.setattr(log, "_roll", full)
            assert [batch.base_offset for batch in log_helpers.write(log, *[log_helpers.plain()] * 5)] == [0, 1]
        log.check()
        assert [batch.base_offset for batch in log_helpers.write(log, *[log_helpers.plain()] * 3)] == [2, 3, 4]
        log.check()
        assert len(disk.list(log_helpers.DIRECTORY)) >= 3

    log_helpers.run(scenario)


def test_a_follower_writes_each_batch_into_its_segment() -> None:
    async def scenario(disk: SimDisk) -> None:
        leader = await log_helpers.open_log(disk)
        log_helpers.write(leader, *[log_helpers.plain()] * 5)
        data = log_helpers.contents(leader)
        await leader.close()
        disk.remove(log_helpers.DIRECTORY)
        follower = await log_helpers.open_log(disk, LogConfig(segment_bytes=256))
        follower.append_as_follower(data, 1)
        follower.check()
        assert log_helpers.contents(follower) == data
        assert sorted(name for name in disk.list(log_helpers.DIRECTORY) if name.endswith(".log")) == [
            f"{offset:020d}.log" for offset in (0, 2, 4)
        ]

    log_helpers.run(scenario)
