"""The newest record of each key is the whole state of a shard: for each kind of table, after any commands.

A reference compaction of a prefix, with tombstones or without, a log that was shortened by its owner, and the newest records in
any order of their keys: a replay of each gives the state that the owner had.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random
from typing import Any

import pytest

from oncelog import errors
from oncelog_coordinator.core.channels.channel_records import Retry
from oncelog_coordinator.core.group_shard.shard_table import GroupShardTable
from oncelog_coordinator.core.limits import Limits
from oncelog_coordinator.core.log_bound import LogBound, LogLimits, Written
from oncelog_coordinator.core.offsets.offset_commands import (
    CommitOffsets,
    DeleteOffsets,
    GroupMarker,
    Member,
    SendOffsets,
)
from oncelog_coordinator.core.transactions import commands as cmd
from oncelog_coordinator.core.transactions.transaction_table import TransactionTable
from tests.unit.coordinator.channel_driver import CHANNEL, OTHER, Led, see_channels
from tests.unit.coordinator.core.groups.test_group_table import World, value
from tests.unit.coordinator.driver import P0, P1, P2, Driver, name
from tests.unit.coordinator.durable import durable
from tests.unit.coordinator.group_driver import Groups, part

Log = list[tuple[str, bytes | None]]
LIMITS = Limits(
    kept_outcomes=4,
    expire_per_tick=3,
    transactional_id_expiration_ms=20_000,
    transactional_id_retention_ms=30_000,
)


def of_transactions(random: Random) -> tuple[Log, Any]:
    """Sessions, transactions, runs, leaders' questions, and ids that expire and are removed."""
    driver, sessions = Driver(LIMITS), {}
    for _ in range(120):
        tid = random.choice("stu")
        session = sessions.get(tid)
        n = driver.table.index.find(tid)
        number = 1 if n is None else max(1, n.last_txn_no + random.choice([0, 0, 0, 1, 1]))
        try:
            what = random.randrange(9)
            if session is None or what == 0:
                sessions[tid] = driver.init(tid)
            elif what in (1, 2):
                driver.do(cmd.Enrol(name(session, number, tid), tuple(random.sample([P0, P1, P2], 2))))
            elif what in (3, 4):
                driver.do(cmd.End(name(session, number, tid), random.random() < 0.6))
            elif what in (5, 6):
                driver.mark(number, P0, P1, P2, tid=tid)
            elif what == 7:
                driver.do(cmd.Resolve(random.choice([session.producer_id, 77]), number + 3, *P0))
            else:
                driver.tick(random.choice([100, 5_000, 25_000, 60_000]))
        except errors.OncelogError:
            continue
    return driver.log, driver.table


def of_groups(random: Random) -> tuple[Log, Any]:
    """Members that come and go and commit, simple groups, offsets in transactions, and groups that are removed."""
    world = World(random.randrange(1 << 30))
    world.groups = Groups(Limits(group_retention_ms=60_000), t=3, u=2)
    leaders = [Led(world.groups).begin(), Led(world.groups, partition=1).begin(), Led(world.groups, OTHER).begin()]
    see_channels(world.groups, CHANNEL, OTHER)
    for number in range(60):
        world.step()
        group = random.choice(["g", "other", "third"])
        simple = Member(group, "", -1)
        pid, n = random.choice([7, 8]), number // 20 + 1
        try:
            what = random.randrange(5)
            if what == 0:
                world.groups.do(CommitOffsets(simple, number, (value(part("t", 0), number),)))
            elif what == 1:
                txn = cmd.TxnName("t", pid, n, 0)
                world.groups.do(SendOffsets(txn, 3, simple, number + 1, (value(part("t", number % 2), number),)))
            elif what == 2:
                world.groups.do(GroupMarker(group, pid, n, random.random() < 0.5, 3, number))
            elif what == 3 and random.random() < 0.3:
                world.groups.do(DeleteOffsets(group, None))
        except errors.OncelogError:
            continue
        _of_channels(random, leaders)
    if random.random() < 0.5:  # everybody leaves, and the group is removed
        world.groups.do(CommitOffsets(Member("third", "", -1), 99, (value(part("t", 0), 1),)))
        for member in sorted(world.alive()):
            world.readers[member].leave()
        world.groups.wait(61_000)
    return world.groups.log, world.groups.table


def _of_channels(random: Random, leaders: list[Led]) -> None:
    """Writes, seeks and transactions of channels, and now and then a new leader."""
    led, first = random.choice(leaders), random.randrange(4_000)
    n = 1 + max((one.txn_no for one in led.state.pending.values()), default=0) if led.state is not None else 1
    try:
        what = random.randrange(8)
        if what < 4:
            led.write(
                random.choice([0, first - first // 3]), (first, first + 5), retried=(Retry(first // 2, what + 1),)
            )
        elif what == 4:
            led.ack(n + 9, (first, first + 3))
        elif what == 5:
            led.mark(n + 8, commit=random.random() < 0.7, epoch=1_000)
        elif what == 6 and random.random() < 0.2:
            led.seek(first)
        else:
            led.epoch += 1
            led.open()
    except errors.OncelogError:
        return


KINDS: dict[str, tuple[Callable[[Random], tuple[Log, Any]], Callable[[], Any]]] = {
    "transactions": (of_transactions, lambda: TransactionTable(LIMITS)),
    "groups": (of_groups, GroupShardTable),
}


def newest(log: Iterable[tuple[str, bytes | None]], *, tombstones: bool = True) -> Log:
    """Compaction: the last record of each key, in the order of the log."""
    found: dict[str, bytes | None] = {}
    for key, data in log:
        found.pop(key, None)
        found[key] = data
    return [(key, data) for key, data in found.items() if tombstones or data is not None]


def shortened(log: Log, random: Random) -> Log:
    """What is left when the owner repeats what is old, and everything below the newest free offset is deleted."""
    bound, written = LogBound(LogLimits(random.choice([1, 5, 30]), 1 << 20, 2)), []
    for key, data in log:
        append: dict[str, bytes | None] = {key: data}
        for record in bound.repeats(1):
            append.setdefault(record.key, record.encode())
        items = [Written(each, _Raw(each, found), 10, found is None) for each, found in append.items()]
        bound.committed(bound.appended(items), len(written))
        written += append.items()
    return written[bound.free_below :]


class _Raw:
    """A record as it stands in the log."""

    def __init__(self, key: str, data: bytes | None) -> None:
        self.key = key
        self._data = data

    def encode(self) -> bytes | None:
        """See `LogRecord`."""
        return self._data


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(25))
def test_a_replay_of_what_is_left_of_a_log_gives_the_state_of_its_owner(kind: str, seed: int) -> None:
    work, make = KINDS[kind]
    random = Random(seed)
    log, table = work(random)
    expected = durable(table)
    assert expected, "something was done"

    def replayed(left: Log) -> dict[str, bytes]:
        fresh = make()
        for key, data in newest(left):
            if (record := fresh.decode(key, data)) is not None:
                fresh.apply(record)
        fresh.loaded(0)
        return durable(fresh)

    assert replayed(log) == expected
    for _ in range(5):
        cut = random.randrange(len(log) + 1)
        for tombstones in (True, False):
            assert replayed(newest(log[:cut], tombstones=tombstones) + log[cut:]) == expected
        shuffled = newest(log, tombstones=random.random() < 0.5)
        random.shuffle(shuffled)
        assert replayed(shuffled) == expected, "the order of the keys does not matter"
    left = shortened(log, random)
    assert replayed(left) == expected
    assert len(left) <= 4 * len(expected) + 40
