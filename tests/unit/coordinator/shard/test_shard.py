"""Lives of a shard on a fake log: discard and replay, fencing, order of answers, bounds (holes 1, 6; cases C75, C76, C80)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from oncelog import errors
from oncelog_coordinator.core.transactions import commands as cmd
from oncelog_coordinator.core.transactions.transaction_state import ProducerIdNeededError
from oncelog_coordinator.core.transactions.transaction_table import TransactionTable
from oncelog_coordinator.shard.shard_runtime import ShardLife
from oncelog_runtime.sim.world import SimWorld
from tests.unit.coordinator.driver import P0
from tests.unit.coordinator.fake_log import FakePartition
from tests.unit.coordinator.shard_host import INIT, Host, name, run


@pytest.fixture
def world() -> Iterator[SimWorld]:
    with SimWorld(7) as one:
        yield one


def test_an_owner_whose_epoch_the_log_has_outgrown_goes_on_above_it(world: SimWorld) -> None:
    """etcd was restored, and the owner before had a clock that was hours ahead."""
    partition = FakePartition()
    partition.epoch = 90_000
    host = Host(world, partition)

    async def whole() -> None:
        await host.begin(7)
        assert host.shard.epoch == 90_001
        assert host.shard.lives == 2
        await host.end()

    world.run(whole())


# ---------------------------------------------------------------- one life


def test_lives_that_come_to_nothing_are_further_and_further_apart(world: SimWorld) -> None:
    async def scenario(host: Host) -> None:
        session = await host.open_transaction()
        host.partition.refuse = True
        with pytest.raises(errors.CoordinatorNotAvailableError):
            await host.shard.ask(cmd.End(name(session, 1), True))
        await asyncio.sleep(60)
        assert 8 <= host.shard.lives <= 20, "and not a thousand"
        assert "refused" in host.shard.vitality.trouble
        assert host.metrics.told.count("failed txn") == host.shard.lives
        host.partition.refuse = False
        await host.serving()
        assert host.shard.vitality.trouble, "one good second is no health"
        await asyncio.sleep(6)
        host.shard.look_at_clock()
        assert not host.shard.vitality.trouble

    run(world, scenario)


# ---------------------------------------------------------------- life after life


@pytest.mark.case("hole 1")
def test_a_life_that_is_taken_away_while_it_ends_ends_its_effects_too(
    world: SimWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it would send its markers for as long as the process lives."""

    async def scenario(host: Host) -> None:
        closing = asyncio.Event()

        async def slow(_life: ShardLife, _error: errors.OncelogError | None) -> None:
            closing.set()
            await asyncio.sleep(10)

        monkeypatch.setattr(ShardLife, "close", slow)
        host.partition.refuse = True
        asked = asyncio.ensure_future(host.shard.ask(INIT))
        await closing.wait()
        await host.end()
        assert host.effects[0].is_closed
        asked.cancel()

    run(world, scenario)


def test_a_lost_answer_discards_the_core_and_the_next_life_sees_what_landed(world: SimWorld) -> None:
    async def scenario(host: Host) -> None:
        session = await host.open_transaction()
        host.partition.lose_answers = True
        with pytest.raises(errors.CoordinatorNotAvailableError):
            await host.shard.ask(cmd.End(name(session, 1), True))
        await host.serving()
        assert host.shard.epoch == 2
        assert [effect.txn_no for effect in host.effects[-1].seen] == [1], "phase two is resumed"
        assert (await host.shard.ask(cmd.End(name(session, 1), True))).committed
        with pytest.raises(errors.InvalidTxnStateError):
            await host.shard.ask(cmd.End(name(session, 1), False))

    run(world, scenario)


@pytest.mark.case("hole 1")
def test_an_append_of_an_older_life_cannot_land_behind_the_replay(world: SimWorld) -> None:
    """C1's PREPARE_COMMIT is delayed; C2 takes over, sees ONGOING and aborts; then C1's append arrives."""

    async def scenario(old: Host) -> None:
        session = await old.open_transaction()
        partition = old.partition
        partition.hold = True
        commit = asyncio.ensure_future(old.shard.ask(cmd.End(name(session, 1), True)))
        await asyncio.sleep(0.01)
        held, partition.hold = partition.hold, False
        assert held
        new = await Host(world, partition, "b").begin(2)
        assert (await new.shard.ask(cmd.End(name(session, 1), False))).committed is False
        old.owner = False
        partition.release()
        with pytest.raises(errors.NotCoordinatorError):
            await commit
        assert (await new.shard.ask(cmd.GetOutcome("t", 1))).committed is False
        assert old.task is not None
        await asyncio.wait([old.task])
        await new.end()

    run(world, scenario)


@pytest.mark.case("hole 6")
def test_a_frozen_owner_gives_no_answer_after_its_time(world: SimWorld) -> None:
    async def scenario(old: Host) -> None:
        session = await old.open_transaction()
        new = await Host(world, old.partition, "b").begin(2)
        await new.shard.ask(cmd.End(name(session, 1), True))
        old.owner = False
        with pytest.raises(errors.NotCoordinatorError):
            await old.shard.ask(cmd.Resolve(session.producer_id, 1, P0.topic_id, 0))
        await new.end()

    run(world, scenario)


def test_while_the_log_refuses_nobody_is_served_and_then_everybody_is(world: SimWorld) -> None:
    async def scenario(host: Host) -> None:
        session = await host.open_transaction()
        host.partition.refuse = True
        with pytest.raises(errors.CoordinatorNotAvailableError, match="the shard restarts: refused"):
            await host.shard.ask(cmd.End(name(session, 1), True))
        await asyncio.sleep(1)
        # It once said only that it is replaying its log.
        with pytest.raises(errors.CoordinatorLoadInProgressError, match="cannot serve without its log: refused"):
            await host.shard.ask(INIT)
        host.partition.refuse = False
        await host.serving()
        assert (await host.shard.ask(cmd.GetOutcome("t", 1))).committed is None
        assert host.shard.epoch == host.shard.lives

    run(world, scenario)


def test_a_log_that_cannot_be_read_keeps_the_shard_away(world: SimWorld) -> None:
    async def scenario(host: Host) -> None:
        session = await host.open_transaction()
        good = host.partition.batches
        host.partition.batches = [(1, [("txn:t", b"rot")])]
        host.partition.lose_answers = True
        with pytest.raises(errors.CoordinatorNotAvailableError):
            await host.shard.ask(cmd.Enrol(name(session, 1), (P0._replace(partition=9),)))
        host.partition.batches.insert(0, (1, [("txn:zz", b"rot")]))
        await asyncio.sleep(1)
        assert not host.shard.is_serving
        host.partition.batches = good
        await host.serving()
        assert (await host.shard.ask(cmd.GetOutcome("t", 1))).committed is None

    run(world, scenario)


def test_a_broken_invariant_drops_the_core(world: SimWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(host: Host) -> None:
        session = await host.open_transaction()
        table = host.shard.life.table
        assert isinstance(table, TransactionTable)
        table.index.ids.clear()
        with pytest.raises(errors.CoordinatorNotAvailableError):
            await host.shard.ask(cmd.Enrol(name(session, 1), (P0._replace(partition=9),)))
        await host.serving()
        assert (await host.shard.ask(cmd.End(name(session, 1), True))).committed

    run(world, scenario)


# ---------------------------------------------------------------- removal of ids


async def until_removal_is_due(host: Host) -> None:
    """The id has committed number 1, is idle, expires, and nobody has looked at the clock since."""
    session = await host.shard.ask(INIT)
    await host.shard.ask(cmd.End(name(session, 1), True))
    await asyncio.sleep(100.1)
    host.shard.look_at_clock()
    await asyncio.sleep(50.1)


def test_a_session_that_comes_with_the_removal_gets_another_producer_id(world: SimWorld) -> None:
    """Who saw the id brought no producer id, and is told to bring one; whoever does begins above the numbers of the old one."""

    async def scenario(host: Host) -> None:
        await until_removal_is_due(host)
        saw_it = host.shard.life.submit(cmd.InitProducerId("t", 60_000, "", 0))
        brought_one = host.shard.life.submit(cmd.InitProducerId("t", 60_000, "", 9))
        with pytest.raises(ProducerIdNeededError):
            await saw_it
        assert await brought_one == cmd.SessionReply(9, 0, 3)
        _, items = host.partition.batches[-1]
        assert [key for key, _ in items] == ["orphan:0", "txn:t"], "one append, and the newest record of a key"
        await host.end()
        later = await Host(world, host.partition, "b").begin(2)
        with pytest.raises(errors.OutcomeForgottenError):
            await later.shard.ask(cmd.GetOutcome("t", 1))
        assert (await later.shard.ask(cmd.Describe("t"))).producer_id == 9
        await later.end()

    run(world, scenario)


@pytest.mark.parametrize("landed", [True, False])
def test_a_life_that_ends_while_it_removes_has_removed_or_the_next_one_does(world: SimWorld, landed: bool) -> None:
    async def scenario(host: Host) -> None:
        await until_removal_is_due(host)
        host.partition.lose_answers, host.partition.refuse = landed, not landed
        host.shard.look_at_clock()
        await asyncio.sleep(0.01)
        host.partition.refuse = False
        await host.serving()
        assert host.shard.epoch > 1
        with pytest.raises(errors.OutcomeForgottenError):
            await host.shard.ask(cmd.GetOutcome("t", 1))
        with pytest.raises(errors.OutcomeForgottenError):
            await host.shard.ask(cmd.End(cmd.TxnName("t", 7, 1, 0), True))
        session = await host.shard.ask(cmd.InitProducerId("t", 60_000, "", 9))
        assert (session.producer_id, session.next_txn_no) == (9, 3)
        removals = [epoch for epoch, items in host.partition.batches if ("txn:t", None) in items]
        assert removals == ([1] if landed else [2]), "once, by this life or by the next one"

    run(world, scenario)
