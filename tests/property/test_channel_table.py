"""Channels under writes, transactions, seeks, late copies, leaders and fail-overs in any order, against a model of bit maps.

The model has one integer for each partition in which bit n says that offset n is settled.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from oncelog.errors import (
    CoordinatorNotAvailableError,
    FencedLeaderEpochError,
    InvalidRequestError,
    OffsetCommitStaleError,
    OncelogError,
    TxnEndedError,
)
from oncelog_coordinator.core.channels.channel_commands import ChannelView, SendChannelAcks, WriteChannelState
from oncelog_coordinator.core.channels.channel_records import Retry
from oncelog_coordinator.core.channels.channel_writes import view_of
from oncelog_coordinator.core.group_shard.shard_table import GroupShardTable
from oncelog_coordinator.core.limits import Limits
from oncelog_coordinator.core.transactions.commands import Tick
from tests.unit.coordinator.channel_driver import CHANNEL, OTHER, Led, ranges, see_channels
from tests.unit.coordinator.compacted import last_of_each_key
from tests.unit.coordinator.durable import durable
from tests.unit.coordinator.group_driver import Groups

WHICH = st.integers(0, 2)
PRODUCERS = st.sampled_from([7, 8])
OFFSETS = st.one_of(st.integers(0, 40), st.integers(1_000, 1_060), st.integers(2_040, 5_000))
RANGES = st.lists(st.tuples(OFFSETS, st.sampled_from([0, 0, 1, 7, 30, 1_500])), max_size=3)
RETRIES = st.lists(st.tuples(OFFSETS, st.integers(1, 5)), max_size=3)
LATE = st.sampled_from(["", "", "", "slow", "skips one"])
LIMITS = Limits(expire_per_tick=4, ended_retention_ms=150, gone_topic_ms=1_000, group_resolve_after_ms=100)


def mask(*items: tuple[int, int]) -> int:
    found = 0
    for first, more in items:
        found |= ((1 << more + 1) - 1) << first
    return found


def first_zero(bits: int) -> int:
    return (~bits & (bits + 1)).bit_length() - 1


@dataclass
class Model:
    """One channel on one partition; `before` -1: nothing was written."""

    epoch: int = -1
    write_no: int = 0
    seeks: int = 0
    before: int = -1
    settled: int = 0
    retried: dict[int, int] = field(default_factory=dict)
    pending: dict[tuple[int, int], int] = field(default_factory=dict)

    def settle(self, before: int, bits: int) -> None:
        self.settled |= bits | (1 << before) - 1
        self.before = first_zero(self.settled)
        self.retried = {n: times for n, times in self.retried.items() if not self.settled >> n & 1}

    def lose(self, offset: int) -> None:
        kept = (1 << offset) - 1
        self.settled &= kept
        self.before = min(self.before, offset)
        self.retried = {n: times for n, times in self.retried.items() if n < offset}
        self.pending = {name: bits & kept for name, bits in self.pending.items() if bits & kept}

    def shown(self) -> Any:
        above = self.settled >> max(self.before, 0)
        return self.before, above, self.retried, self.pending, self.epoch, self.write_no, self.seeks


def shown(led: Led) -> Any:
    """What a leader would be told, in the form of the model."""
    here = led.state
    if here is None or here.head is None:
        return Model().shown()
    view = view_of(here, ())
    before = view.settled_before if view.known else -1
    bits = sum(block.settled << block.first_offset for block in view.blocks)
    assert bits == bits >> max(before, 0) << max(before, 0), "nothing is told that the head says"
    times = {item.offset: item.deliveries for block in view.blocks for item in block.retried}
    pending = {
        (item.txn_producer_id, item.txn_no): mask(*((first, last - first) for first, last in item.ranges))
        for item in view.pending
    }
    return before, bits >> max(before, 0), times, pending, here.head.leader_epoch, view.write_no, view.seeks


def outdated(table: GroupShardTable) -> set[str]:
    """The keys of records that count no more."""
    return {key for partitions in table.channels.channels.values() for p in partitions.values() for key in p.outdated}


class Channels(RuleBasedStateMachine):
    """Two partitions of a channel, and one of another one."""

    def __init__(self) -> None:
        super().__init__()
        self.groups = Groups(LIMITS)
        self.led = [Led(self.groups), Led(self.groups, partition=1), Led(self.groups, channel_id=OTHER)]
        self.models = [Model(), Model(), Model()]
        self.old: list[tuple[int, Any]] = []
        """Requests of which copies may still come, and those that have not arrived at all."""
        self.ended: dict[tuple[str, int], int] = {}
        see_channels(self.groups, CHANNEL, OTHER)
        for which in range(3):
            self.open(which, 1)
            self.arrive(which, WriteChannelState(self.led[which].leader, 1, 0))

    def is_ended(self, which: int, pid: int, n: int) -> bool:
        return n <= self.ended.get((self.led[which].channel_id, pid), 0)

    # ------------------------------------------------------------ leaders

    @rule(which=WHICH, later=st.integers(-1, 1))
    def open(self, which: int, later: int) -> None:
        led, model = self.led[which], self.models[which]
        led.epoch = max(model.epoch + later, 0)
        try:
            view: ChannelView = led.open()
        except FencedLeaderEpochError:
            assert led.epoch < model.epoch
            led.epoch = model.epoch
            return
        assert led.epoch >= model.epoch, "an older leader was answered"
        assert view.known == (model.before >= 0)
        model.epoch = led.epoch

    @rule(which=WHICH, before=st.just(0) | OFFSETS, settled=RANGES, retried=RETRIES, late=LATE)
    def write(self, which: int, before: int, settled: Any, retried: Any, late: str) -> None:
        led, model = self.led[which], self.models[which]
        items = tuple(Retry(n, times) for n, times in dict(retried).items())
        spans = ranges(*((first, first + more) for first, more in settled))
        number = model.write_no + (2 if late == "skips one" else 1)
        command = WriteChannelState(led.leader, number, before, spans, items)
        self.old.append((which, command))
        if late != "slow":
            self.arrive(which, command)

    @rule(which=WHICH, offset=OFFSETS)
    def seek(self, which: int, offset: int) -> None:
        led, model = self.led[which], self.models[which]
        command = WriteChannelState(led.leader, model.write_no + 1, offset, seek=True)
        self.old.append((which, command))
        self.arrive(which, command)

    @rule(which=WHICH, offset=OFFSETS)
    def lose(self, which: int, offset: int) -> None:
        led, model = self.led[which], self.models[which]
        command = WriteChannelState(led.leader, model.write_no + 1, 0, forget_from=offset)
        self.old.append((which, command))
        self.arrive(which, command)

    @rule(which=WHICH, pid=PRODUCERS, more=st.integers(0, 1), acks=RANGES.filter(bool), slow=st.booleans())
    def acknowledge(self, which: int, pid: int, more: int, acks: Any, slow: bool) -> None:
        n = self.next_of(pid) + more  # its shard enrols nothing in a decided number
        led = self.led[which]
        led.seeks = self.models[which].seeks
        command = led.acks(n, *((first, first + more) for first, more in acks), pid=pid)
        self.old.append((which, command))
        if not slow:
            self.arrive(which, command)

    @rule(number=st.integers(0, 200))
    def copy(self, number: int) -> None:
        if self.old:
            self.arrive(*self.old[number % len(self.old)])

    def arrive(self, which: int, command: Any) -> None:
        model = self.models[which]
        is_write = isinstance(command, WriteChannelState)
        expected = self.wrote if is_write else self.sent
        is_of_leader = command.leader.leader_epoch == model.epoch
        try:
            self.groups.do(command)
            if isinstance(self.groups.last.reply, OncelogError):
                raise self.groups.last.reply
        except FencedLeaderEpochError:
            assert not is_of_leader
        except OffsetCommitStaleError:
            assert not is_write
            assert command.seeks != model.seeks
        except TxnEndedError:
            assert self.is_ended(which, command.name.txn_producer_id, command.name.txn_no)
        except CoordinatorNotAvailableError:
            assert not is_write, "acknowledgements may come after the end of their transaction"
        except InvalidRequestError:
            assert model.before < 0 or (is_write and command.write_no > model.write_no + 1), "a gap, or no beginning"
        else:
            assert is_of_leader, "a leader that is fenced was confirmed something"
            expected(which, command)

    def wrote(self, which: int, command: WriteChannelState) -> None:
        model = self.models[which]
        if command.write_no <= model.write_no:
            return
        assert command.write_no == model.write_no + 1, "a write was left out"
        model.write_no += 1
        if command.seek:
            model.before, model.settled, model.retried, model.pending = command.settled_before, 0, {}, {}
            model.settled = (1 << command.settled_before) - 1
            model.seeks += 1
            return
        if command.forget_from is not None:
            model.lose(command.forget_from)
            return
        model.retried |= {item.offset: item.deliveries for item in command.retried}
        bits = mask(*((first, last - first) for first, last in command.settled))
        model.settle(max(model.before, command.settled_before), bits)

    def sent(self, which: int, command: SendChannelAcks) -> None:
        model, pid, n = self.models[which], command.name.txn_producer_id, command.name.txn_no
        assert model.before >= 0
        assert command.seeks == model.seeks, "what came before a seek counts no more"
        assert not self.is_ended(which, pid, n), "a transaction that has ended took acknowledgements"
        bits = mask(*((first, last - first) for first, last in command.acknowledged))
        model.pending[pid, n] = model.pending.get((pid, n), 0) | bits

    # ------------------------------------------------------------ transactions and time

    def next_of(self, pid: int) -> int:
        return 1 + max((up_to for (_, producer), up_to in self.ended.items() if producer == pid), default=0)

    @rule(which=WHICH, pid=PRODUCERS, more=st.integers(-1, 1), commit=st.booleans())
    def marker(self, which: int, pid: int, more: int, commit: bool) -> None:
        pending = sorted(self.models[which].pending)
        pid, n = pending[0] if pending and more == 0 else (pid, max(self.next_of(pid) + more, 1))
        led = self.led[which]
        led.mark(n, commit=commit, pid=pid)
        for other, model in zip(self.led, self.models, strict=True):
            bits = model.pending.pop((pid, n), None) if other.channel_id == led.channel_id else None
            if bits is not None and commit:
                model.settle(model.before, bits)
        name = led.channel_id, pid
        self.ended[name] = max(self.ended.get(name, 0), n)

    @rule(ms=st.sampled_from([0, 50, 200]))
    def wait(self, ms: int) -> None:
        self.groups.now_ms += ms
        self.groups.do(Tick())

    @rule()
    def vanish(self) -> None:
        """One channel is deleted, and is gone some time later."""
        see_channels(self.groups, CHANNEL)
        self.groups.wait(LIMITS.gone_topic_ms + 100)
        self.models[2] = Model()
        assert self.led[2].state is None
        self.old = [(which, command) for which, command in self.old if which != 2]  # an id does not come again
        see_channels(self.groups, CHANNEL, OTHER)

    @rule(compacted=st.booleans())
    def fail_over(self, compacted: bool) -> None:
        expected = durable(self.groups.table)
        table = GroupShardTable(LIMITS)
        for key, data in last_of_each_key(self.groups.log) if compacted else self.groups.log:
            table.apply(table.decode(key, data))
        table.loaded(self.groups.now_ms)
        table.check()
        assert durable(table) == expected, "a replay gives what was there"
        assert outdated(table) == outdated(self.groups.table), "and what is to be removed"
        self.groups.table = table
        see_channels(self.groups, CHANNEL, OTHER)
        # what was on its way in the old life was refused there, so nobody is told that it was taken
        self.old = [(which, command) for which, command in self.old if isinstance(command, WriteChannelState)]

    @invariant()
    def agrees_with_the_model(self) -> None:
        for led, model in zip(self.led, self.models, strict=True):
            assert shown(led) == model.shown()


def test_what_is_settled_is_what_was_settled() -> None:
    checks = [HealthCheck.too_slow, HealthCheck.filter_too_much]
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        Channels,
        settings=settings(max_examples=150, stateful_step_count=40, deadline=None, suppress_health_check=checks),
    )
