"""Lives of a shard on a fake log: discard and replay, fencing, order of answers, bounds (holes 1, 6; cases C75, C76, C80)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from oncelog import errors
from oncelog_coordinator.config import ShardConfig
from oncelog_coordinator.core.decision import TransactionEnded
from oncelog_coordinator.core.limits import Limits
from oncelog_coordinator.core.transactions import commands as cmd
from oncelog_coordinator.core.transactions.records import EPOCH_KEY, EpochRecord, TransactionRecord
from oncelog_coordinator.core.transactions.transaction_state import ProducerIdNeededError
from oncelog_coordinator.core.transactions.transaction_table import TransactionTable
from oncelog_coordinator.shard.monotonic_wall_clock import SteadyClock
from oncelog_coordinator.shard.shard import LifeParts, Shard
from oncelog_coordinator.shard.shard_runtime import ShardLife, _Step
from oncelog_runtime.observability.metrics import NodeMetrics
from oncelog_runtime.process.bugs import Bugs
from oncelog_runtime.sim.clock import SimClock
from oncelog_runtime.sim.world import SimWorld
from tests.unit.coordinator.driver import P0
from tests.unit.coordinator.fake_log import FakePartition

INIT = cmd.InitProducerId("t", 60_000, "", 7)
SOON = Limits(transactional_id_expiration_ms=100_000, transactional_id_retention_ms=50_000)


class Effects:
    """Keeps effects."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def run(self, effect: Any) -> None:
        self.seen.append(effect)

    async def close(self) -> None:
        pass


class Metrics:
    """Who counts."""

    def __init__(self, clock: SimClock) -> None:
        self.told: list[str] = []
        self.bugs = Bugs(NodeMetrics(), clock)

    @property
    def now_s(self) -> Callable[[], float]:
        return lambda: 1.0

    def ended(self, ended: TransactionEnded, since_s: float) -> None:
        assert since_s == 1.0
        self.told.append(ended.outcome)

    def refused(self, error: errors.OncelogError) -> None:
        self.told.append(type(error).__name__)

    def life_failed(self, kind: str) -> None:
        self.told.append(f"failed {kind}")


class Host:
    """One process with one shard on a partition that outlives it."""

    def __init__(self, world: SimWorld, partition: FakePartition, name: str = "a", **config: Any) -> None:
        self.world = world
        self.partition = partition
        self.owner = True
        self.effects: list[Effects] = []
        self.clock = world.node(f"{name}-{len(world.nodes)}").clock
        self.metrics = Metrics(self.clock)
        self.shard = Shard(
            kind="txn",
            number=3,
            config=ShardConfig(check_invariants=True, **config),
            clock=SteadyClock(self.clock),
            parts=LifeParts(
                make_table=lambda: TransactionTable(SOON),
                open_log=lambda kind, number, epoch: partition.open(epoch),
                make_runner=self._runner,
                next_epoch=self._next_epoch,
            ),
            metrics=self.metrics,
        )
        self.task: asyncio.Task[None] | None = None

    def _runner(self, shard: Shard, life: ShardLife) -> Effects:
        self.effects.append(Effects())
        return self.effects[-1]

    async def _next_epoch(self, kind: str, number: int, above: int) -> int | None:
        return max(self.shard.epoch, above) + 1 if self.owner else None

    async def begin(self, epoch: int = 1) -> Host:
        self.task = asyncio.get_running_loop().create_task(self.shard.run(epoch))
        await self.serving()
        return self

    async def serving(self) -> None:
        while not self.shard.is_serving:  # noqa: ASYNC110
            await asyncio.sleep(0.001)

    async def end(self) -> None:
        assert self.task is not None
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)

    async def open_transaction(self) -> cmd.SessionReply:
        session: cmd.SessionReply = await self.shard.ask(INIT)
        await self.shard.ask(cmd.Enrol(name(session, 1), (P0,)))
        return session


def name(session: cmd.SessionReply, n: int, tid: str = "t") -> cmd.TxnName:
    return cmd.TxnName(tid, session.producer_id, n, session.producer_epoch)


@pytest.fixture
def world() -> Iterator[SimWorld]:
    with SimWorld(7) as one:
        yield one


Scenario = Callable[[Host], Awaitable[None]]


def run(world: SimWorld, scenario: Scenario, **config: Any) -> Host:
    partition = FakePartition()
    host = Host(world, partition, **config)

    async def whole() -> None:
        await host.begin()
        await scenario(host)
        await host.end()

    world.run(whole())
    return host


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


def test_a_life_begins_with_its_epoch_record_and_answers_only_afterwards(world: SimWorld) -> None:
    async def scenario(host: Host) -> None:
        assert host.partition.items() == [(EPOCH_KEY, EpochRecord(1).encode())]
        await host.open_transaction()

    host = run(world, scenario)
    assert [epoch for epoch, _ in host.partition.batches] == [1] * len(host.partition.batches)
    with pytest.raises(errors.CoordinatorLoadInProgressError):
        host.shard.life  # noqa: B018


def a_life(world: SimWorld, partition: FakePartition) -> ShardLife:
    clock = SteadyClock(world.node("alone").clock)
    return ShardLife(TransactionTable(SOON), partition.open(1), 1, ShardConfig(), clock, on_effect=lambda _: None)


def test_nothing_is_appended_after_the_end_of_a_life_or_without_a_proof_that_was_asked_for(world: SimWorld) -> None:
    async def whole() -> None:
        life = a_life(world, FakePartition())
        await life.load()
        with pytest.raises(AssertionError, match="proof of ownership"):
            life._append(_Step(None, confirm=True), {})
        await life.close()
        with pytest.raises(AssertionError, match="after the end"):
            life._append(_Step(None), {"k": b"v"})

    world.run(whole())


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


def test_1_a_lost_answer_discards_the_core_and_the_next_life_sees_what_landed(world: SimWorld) -> None:
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


def test_1_an_append_of_an_older_life_cannot_land_behind_the_replay(world: SimWorld) -> None:
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


def test_6_a_frozen_owner_gives_no_answer_after_its_time(world: SimWorld) -> None:
    async def scenario(old: Host) -> None:
        session = await old.open_transaction()
        new = await Host(world, old.partition, "b").begin(2)
        await new.shard.ask(cmd.End(name(session, 1), True))
        old.owner = False
        with pytest.raises(errors.NotCoordinatorError):
            await old.shard.ask(cmd.Resolve(session.producer_id, 1, P0.topic_id, 0))
        await new.end()

    run(world, scenario)


def test_75_while_the_log_refuses_nobody_is_served_and_then_everybody_is(world: SimWorld) -> None:
    async def scenario(host: Host) -> None:
        session = await host.open_transaction()
        host.partition.refuse = True
        with pytest.raises(errors.CoordinatorNotAvailableError, match="the shard starts anew: refused"):
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


def test_80_a_log_that_cannot_be_read_keeps_the_shard_away(world: SimWorld) -> None:
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
