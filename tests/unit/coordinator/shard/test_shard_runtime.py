"""One life of a shard on a fake log: what shares an append, who is told what and when, what a fault of ours costs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from oncelog import errors
from oncelog_coordinator.core import topology
from oncelog_coordinator.core.decision import Command, Decision
from oncelog_coordinator.core.group_shard import group_views
from oncelog_coordinator.core.groups import group_commands
from oncelog_coordinator.core.offsets import offset_commands
from oncelog_coordinator.core.transactions import commands as cmd
from oncelog_coordinator.core.transactions.records import EPOCH_KEY, EpochRecord, TransactionRecord
from oncelog_coordinator.core.transactions.transaction_table import TransactionTable
from oncelog_runtime.sim.world import SimWorld
from tests.unit.coordinator.driver import P0
from tests.unit.coordinator.shard_host import INIT, Host, name, run


class Overdue(TransactionTable):
    """A table with more time-outs than one `Tick` decides; they leave no records."""

    def __init__(self, left: int) -> None:
        super().__init__()
        self.left = left

    def decide(self, command: Any, now_ms: int) -> Decision:
        self.left -= 1
        return Decision()

    def next_deadline_ms(self) -> int | None:
        return 0 if self.left else None


@pytest.fixture
def world() -> Iterator[SimWorld]:
    with SimWorld(7) as one:
        yield one


def test_a_life_begins_with_its_epoch_record_and_answers_only_afterwards(world: SimWorld) -> None:
    async def scenario(host: Host) -> None:
        assert host.partition.items() == [(EPOCH_KEY, EpochRecord(1).encode())]
        await host.open_transaction()

    host = run(world, scenario)
    assert [epoch for epoch, _ in host.partition.batches] == [1] * len(host.partition.batches)
    with pytest.raises(errors.CoordinatorLoadInProgressError):
        host.shard.life  # noqa: B018


def test_everything_that_waits_shares_one_append_and_the_newest_record_of_a_key(world: SimWorld) -> None:
    async def scenario(host: Host) -> None:
        session = await host.shard.ask(INIT)
        before = len(host.partition.batches)
        name_1 = name(session, 1)
        enrols = [host.shard.ask(cmd.Enrol(name_1, (P0._replace(partition=i),))) for i in range(50)]
        await asyncio.gather(*enrols)
        assert len(host.partition.batches) <= before + 5
        assert all(len(items) == 1 for _, items in host.partition.batches)

    run(world, scenario)


def test_many_lazy_records_go_ahead_of_the_append_that_takes_them_along(world: SimWorld) -> None:
    """An append of all of them could be larger than a leader takes."""

    async def scenario(host: Host) -> None:
        for number in range(12):
            session = await host.shard.ask(cmd.InitProducerId(f"t{number}", 60_000, "", 1000 + number))
            named = name(session, 1, f"t{number}")
            await host.shard.ask(cmd.Enrol(named, (P0,)))
            await host.shard.ask(cmd.End(named, True))
        before = len(host.partition.batches)
        for number in range(12):
            host.shard.life.tell(cmd.MarkersDone(f"t{number}", 1, (P0,)))
        await host.shard.ask(cmd.InitProducerId("one more", 60_000, "", 2000))
        logged = [items for _, items in host.partition.batches[before:]]
        assert sorted(key for items in logged for key, _ in items) == sorted(
            ["txn:one more", *(f"txn:t{number}" for number in range(12))]
        )
        assert len(logged) > 2
        assert max(sum(len(key) + len(value or b"") for key, value in items) for items in logged) < 2_000

    run(world, scenario, append_bytes=1_000)


def test_nobody_is_told_uncommitted_state_not_even_by_a_reading_or_a_refusal(world: SimWorld) -> None:
    async def scenario(host: Host) -> None:
        session = await host.open_transaction()
        host.partition.hold = True
        calls: list[Any] = [
            cmd.End(name(session, 1), True),
            cmd.GetOutcome("t", 1),
            cmd.End(name(session, 1), False),
        ]
        asked = [host.shard.life.submit(call) for call in calls]
        await asyncio.sleep(1)
        assert not any(one.done() for one in asked)
        assert not host.effects[-1].seen, "no marker before the decision is durable"
        assert "committed" not in host.metrics.told, "and no count"
        host.partition.release()
        results = await asyncio.gather(*asked, return_exceptions=True)
        assert results[0].committed is True
        assert results[1].committed is True
        assert isinstance(results[2], errors.InvalidTxnStateError)
        assert [effect.txn_no for effect in host.effects[-1].seen] == [1]
        assert host.metrics.told == ["InvalidTxnStateError", "committed"]

    run(world, scenario)


def test_a_reading_that_needs_it_is_confirmed_by_an_append(world: SimWorld) -> None:
    async def scenario(host: Host) -> None:
        await host.open_transaction()
        before = len(host.partition.batches)
        assert (await host.shard.ask(cmd.GetOutcome("t", 1))).committed is None
        assert host.partition.batches[before:] == [(1, [(EPOCH_KEY, EpochRecord(1).encode())])]

    run(world, scenario)


def test_a_definite_refusal_is_spoken_only_when_an_append_has_shown_that_nobody_took_over(world: SimWorld) -> None:
    async def scenario(host: Host) -> None:
        session = await host.open_transaction()
        before = len(host.partition.batches)
        with pytest.raises(errors.ProducerFencedError):
            await host.shard.ask(cmd.End(cmd.TxnName("t", session.producer_id, 1, 9), True))
        assert host.partition.batches[before:] == [(1, [(EPOCH_KEY, EpochRecord(1).encode())])]

    run(world, scenario)


def test_a_caller_that_goes_away_changes_nothing(world: SimWorld) -> None:
    async def scenario(host: Host) -> None:
        session = await host.open_transaction()
        host.partition.hold = True
        gone = asyncio.ensure_future(host.shard.ask(cmd.End(name(session, 1), True)))
        await asyncio.sleep(0.1)
        gone.cancel()
        host.partition.release()
        assert (await host.shard.ask(cmd.End(name(session, 1), True))).committed

    run(world, scenario)


def test_the_inbox_is_bounded(world: SimWorld) -> None:
    async def scenario(host: Host) -> None:
        host.partition.hold = True
        asked = [asyncio.ensure_future(host.shard.ask(INIT)) for _ in range(50)]
        await asyncio.sleep(0.1)
        refused = [one for one in asked if one.done() and isinstance(one.exception(), errors.ResourceExhaustedError)]
        assert len(refused) >= 50 - 3 - 4 - 1, "three wait, four appends are under way"
        host.partition.release()
        await asyncio.gather(*asked, return_exceptions=True)

    run(world, scenario, inbox_max=3)


def test_a_full_inbox_keeps_places_for_what_something_ends_without(world: SimWorld) -> None:
    async def scenario(host: Host) -> None:
        session = await host.open_transaction()
        life, lease = host.shard.life, cmd.Renew(name(session, 1), "run")
        answers: list[asyncio.Future[Any]] = [life.submit(INIT) for _ in range(3)]
        with pytest.raises(errors.ResourceExhaustedError):
            life.submit(cmd.Enrol(name(session, 1), (P0,)))
        answers += [life.submit(lease) for _ in range(1_000)]
        with pytest.raises(errors.ResourceExhaustedError):
            life.submit(lease)
        await asyncio.gather(*answers, return_exceptions=True)

    run(world, scenario, inbox_max=3)


def test_vital_are_heartbeats_leases_and_markers_and_nothing_else() -> None:
    modules = (cmd, group_commands, group_views, offset_commands, topology)
    known = [one for module in modules for one in vars(module).values() if isinstance(one, type)]
    vital = {one.__name__ for one in known if issubclass(one, Command) and one.is_vital}
    assert vital == {"Heartbeat", "Renew", "GroupMarker"}


def test_time_outs_are_found_by_the_clock(world: SimWorld) -> None:
    async def scenario(host: Host) -> None:
        await host.shard.ask(cmd.InitProducerId("t", 1_000, "", 7))
        await host.shard.ask(cmd.Enrol(cmd.TxnName("t", 7, 1, 0), (P0,)))
        for _ in range(12):
            await asyncio.sleep(0.1)
            host.shard.look_at_clock()
        await asyncio.sleep(0.1)
        assert (await host.shard.ask(cmd.GetOutcome("t", 1))).committed is False

    run(world, scenario)


def test_more_overdue_than_one_tick_takes_leaves_others_their_turn(world: SimWorld) -> None:
    async def scenario(host: Host) -> None:
        overdue = Overdue(1_000)
        life = host.shard.life
        life.table = overdue
        turns = 0
        life.look_at_clock()
        while overdue.left:
            await asyncio.sleep(0)
            turns += 1
        assert turns >= 900, "other tasks run between the ticks"

    run(world, scenario)


def test_a_bug_in_a_decision_harms_only_its_caller(world: SimWorld) -> None:
    async def scenario(host: Host) -> None:
        with pytest.raises(errors.InternalServerError) as refusal:
            await host.shard.ask(object())
        assert not refusal.value.retriable
        world.loop.errors.clear()
        await host.open_transaction()
        assert host.shard.lives == 1

    run(world, scenario)


def test_a_broken_invariant_in_a_decision_harms_only_its_caller(
    world: SimWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(host: Host) -> None:
        healthy = TransactionTable.decide

        def decide(table: TransactionTable, command: Any, now_ms: int) -> Any:
            assert not isinstance(command, cmd.ForceAbort), "a rule is broken"
            return healthy(table, command, now_ms)

        monkeypatch.setattr(TransactionTable, "decide", decide)
        poison = host.shard.ask(cmd.ForceAbort("t"))
        beside = host.shard.ask(INIT)
        with pytest.raises(errors.InternalServerError):
            await poison
        assert (await beside).producer_id == 7
        world.loop.errors.clear()
        assert host.shard.lives == 1

    run(world, scenario)


def test_a_look_at_the_clock_that_fails_is_tried_again_later_and_stops_nobody(
    world: SimWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(host: Host) -> None:
        healthy, ticks = TransactionTable.decide, 0

        def decide(table: TransactionTable, command: Any, now_ms: int) -> Any:
            nonlocal ticks
            if isinstance(command, cmd.Tick):
                ticks += 1
                raise ZeroDivisionError
            return healthy(table, command, now_ms)

        monkeypatch.setattr(TransactionTable, "decide", decide)
        await host.shard.ask(cmd.InitProducerId("t", 1_000, "", 7))
        await host.shard.ask(cmd.Enrol(cmd.TxnName("t", 7, 1, 0), (P0,)))
        for _ in range(40):
            await asyncio.sleep(0.1)
            host.shard.look_at_clock()
        assert 2 <= ticks <= 4, "once a second"
        assert (await host.shard.ask(cmd.GetOutcome("t", 1))).committed is None
        world.loop.errors.clear()

    run(world, scenario)


def test_a_command_that_breaks_the_core_is_refused_and_the_others_are_told_to_come_again(
    world: SimWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(host: Host) -> None:
        session = await host.open_transaction()
        healthy = TransactionTable.apply

        def apply(table: TransactionTable, record: Any) -> None:
            healthy(table, record)
            assert getattr(record, "transactional_id", "") != "poison", "a rule is broken"

        monkeypatch.setattr(TransactionTable, "apply", apply)
        beside = host.shard.ask(cmd.End(name(session, 1), True))
        poison = host.shard.ask(cmd.InitProducerId("poison", 60_000, "", 8))
        with pytest.raises(errors.InternalServerError):
            await poison
        with pytest.raises(errors.CoordinatorNotAvailableError):
            await beside
        world.loop.errors.clear()
        await host.serving()
        assert (await host.shard.ask(cmd.End(name(session, 1), True))).committed
        assert host.shard.lives == 2

    run(world, scenario)


def test_complete_waits_for_company_and_is_logged_after_a_while(world: SimWorld) -> None:
    async def scenario(host: Host) -> None:
        session = await host.open_transaction()
        await host.shard.ask(cmd.End(name(session, 1), True))
        before = len(host.partition.batches)
        host.shard.life.tell(cmd.MarkersDone("t", 1, (P0,)))
        await asyncio.sleep(0.01)
        assert (await host.shard.ask(cmd.GetOutcome("t", 1))).visible
        assert len(host.partition.batches) == before, "nothing is in a hurry"
        assert host.effects[-1].seen[-1] == cmd.BecameVisible("t", 1), "but those who wait are told at once"
        await host.shard.ask(cmd.Enrol(name(session, 2), (P0,)))
        assert len(host.partition.batches) == before, "enrolled ahead: nor is this"
        await host.shard.ask(cmd.Enrol(name(session, 2), (P0._replace(partition=9),)))
        assert [len(items) for _, items in host.partition.batches[before:]] == [1], "the newest record says it all"
        await host.shard.ask(cmd.End(name(session, 2), True))
        host.shard.life.tell(cmd.MarkersDone("t", 2, (P0, P0._replace(partition=9))))
        before = len(host.partition.batches)
        for _ in range(5):
            await asyncio.sleep(0.1)
            host.shard.look_at_clock()
        assert len(host.partition.batches) == before + 1

    host = run(world, scenario)
    key, value = host.partition.items()[-1]
    record = TransactionTable().decode(key, value)
    assert isinstance(record, TransactionRecord)
    assert (record.decided, record.outcomes) == ((), "CC")


# ---------------------------------------------------------------- a log that stays short


async def transactions(host: Host, tid: str, first: int, many: int, session: cmd.SessionReply) -> None:
    """Whole transactions of an id, each with its marker."""
    for number in range(first, first + many):
        named = cmd.TxnName(tid, session.producer_id, number, session.producer_epoch)
        await host.shard.ask(cmd.Enrol(named, (P0,)))
        await host.shard.ask(cmd.End(named, True))
        host.shard.life.tell(cmd.MarkersDone(tid, number, (P0,)))


def durable(host: Host) -> dict[str, bytes]:
    """The records of the table, by key."""
    table = host.shard.life.table
    assert isinstance(table, TransactionTable)
    records = [*table.index.records(), *table.index.orphans.values(), table.index.removed]
    return {record.key: record.encode() for record in records}


async def sessions(host: Host, *tids: str) -> dict[str, cmd.SessionReply]:
    found = {}
    for number, tid in enumerate(tids):
        found[tid] = await host.shard.ask(cmd.InitProducerId(tid, 60_000, "", 1000 + number))
    return found


def left(host: Host) -> int:
    """Records that are not deleted."""
    return sum(len(items) for _, _, items in host.partition.offsets())


def test_a_log_stays_short_and_a_later_life_finds_everything(world: SimWorld) -> None:
    async def scenario(host: Host) -> None:
        found = await sessions(host, "idle", "busy")
        await transactions(host, "busy", 1, 100, found["busy"])
        await asyncio.sleep(1)
        host.shard.look_at_clock()
        await asyncio.sleep(1)
        assert len(host.partition.items()) > 100
        assert left(host) < 60, "twice the slack, and what came since"
        before = durable(host)
        await host.end()
        later = await Host(world, host.partition, "b", slack_records=20).begin(2)
        assert durable(later) == before
        assert (await later.shard.ask(cmd.Describe("idle"))).producer_id == 1000
        await later.end()

    run(world, scenario, slack_records=20)


def test_a_log_stays_short_while_every_append_is_full(world: SimWorld) -> None:
    """What waits fills one append after the other, and the old records still get their place."""

    async def scenario(host: Host) -> None:
        await sessions(host, "idle")
        asked = [
            host.shard.life.submit(cmd.InitProducerId(f"busy{number % 3}", 60_000, "", 2000 + number % 3))
            for number in range(400)
        ]
        await asyncio.gather(*asked[:350])
        assert host.partition.start > 100, "the load has not ended yet"
        await asyncio.gather(*asked[350:])
        before = durable(host)
        await host.end()
        later = await Host(world, host.partition, "b").begin(2)
        assert durable(later) == before
        await later.end()

    run(world, scenario, slack_records=20, append_bytes=300)


def test_a_long_log_of_an_older_version_becomes_short_without_any_command(world: SimWorld) -> None:
    async def scenario(host: Host) -> None:
        found = await sessions(host, "idle", "busy")
        await transactions(host, "busy", 1, 50, found["busy"])
        await asyncio.sleep(1)
        host.shard.look_at_clock()
        await asyncio.sleep(1)
        assert left(host) > 50
        await host.end()
        later = await Host(world, host.partition, "b", slack_records=20).begin(2)
        later.shard.look_at_clock()
        await asyncio.sleep(1)
        assert left(later) < 30
        await later.end()

    run(world, scenario)


def test_a_life_that_ends_between_announcement_and_deletion_leaves_it_to_the_next_one(world: SimWorld) -> None:
    async def scenario(host: Host) -> None:
        found = await sessions(host, "idle", "busy")
        host.partition.keep = True
        await transactions(host, "busy", 1, 30, found["busy"])
        await asyncio.sleep(0.1)
        assert host.partition.start == 0
        await host.end()
        host.partition.keep = False
        later = await Host(world, host.partition, "b").begin(2)
        assert later.partition.start >= 20
        await later.end()

    run(world, scenario, slack_records=20)


def test_nothing_is_deleted_before_its_announcement_is_committed(world: SimWorld) -> None:
    async def scenario(host: Host) -> None:
        found = await sessions(host, "idle", "busy")
        for number in range(1, 200):
            named = cmd.TxnName("busy", found["busy"].producer_id, number, 0)
            asked = host.shard.life.submit(cmd.Enrol(named, (P0,)))
            host.partition.hold = True
            before = host.partition.start
            await asyncio.sleep(0.01)
            assert host.partition.start == before, "nothing is committed, so nothing is deleted"
            host.partition.release()
            await asked
            await transactions(host, "busy", number, 1, found["busy"])
        assert host.partition.start > 0

    run(world, scenario, slack_records=5)


def test_a_lazy_record_is_repeated_as_it_is_now(world: SimWorld) -> None:
    """What is old in the log has a newer state that waits for an append: that is what goes out."""

    async def scenario(host: Host) -> None:
        found = await sessions(host, "lazy", "busy")
        await host.shard.ask(cmd.Enrol(cmd.TxnName("lazy", 1000, 1, 0), (P0,)))
        await host.shard.ask(cmd.End(cmd.TxnName("lazy", 1000, 1, 0), True))
        await transactions(host, "busy", 1, 10, found["busy"])
        for number in range(11, 30):
            host.shard.life.tell(cmd.MarkersDone("lazy", 1, (P0,)))
            await transactions(host, "busy", number, 1, found["busy"])
        await asyncio.sleep(1)
        host.shard.look_at_clock()
        await asyncio.sleep(1)
        before = durable(host)
        assert host.partition.start > 10
        await host.end()
        later = await Host(world, host.partition, "b").begin(2)
        assert durable(later) == before
        await later.end()

    run(world, scenario, slack_records=5)
