"""Whatever is written and whenever it is compacted, a fresh reader finds the last committed value of each key.

The model is a dict: the last value per key of the records that a read_committed reader got before any compaction.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from oncelog_partition_leader.core.compaction.rewriting import from_offset_on
from oncelog_partition_leader.core.producers.producer_state import ProducerStates
from oncelog_partition_leader.log.compaction import pass_work
from oncelog_partition_leader.log.compaction.pass_job import Limits
from oncelog_partition_leader.log.partition_log import PartitionLog
from oncelog_runtime.sim.disk import SimDisk
from tests.unit.partition_leader.compaction_helpers import (
    COMPACT,
    DAY_MS,
    LIMITS,
    Pair,
    headers_of,
    keyed,
    records_of,
    seen,
    table_of,
)
from tests.unit.partition_leader.log_helpers import NOW_MS, contents, fence, marker, open_log, run, write


class Writers:
    """Producers with and without transactions that write to one log at random, and the model of what is committed."""

    def __init__(self, log: PartitionLog, random: Random) -> None:
        self.log = log
        self.random = random
        self.sequences: dict[int, int] = {}
        self.fenced: dict[int, int] = {}
        self.epoch = 1
        self.txn_no = dict.fromkeys((50, 51, 52), 0)
        self.open: dict[int, int] = {}

    def pairs(self) -> list[Pair]:
        random = self.random
        return [
            (b"k%d" % random.randrange(24), None if random.random() < 0.2 else random.randbytes(random.randrange(40)))
            for _ in range(random.randint(1, 8))
        ]

    def plain(self) -> None:
        producer_id, pairs = self.random.randrange(5), self.pairs()
        sequence = self.sequences.get(producer_id, 0)
        producer = (producer_id, self.fenced.get(producer_id, 0), sequence)
        self.sequences[producer_id] = sequence + len(pairs)
        codec, with_headers = self.random.choice([0, 1, 2]), self.random.random() < 0.2
        write(self.log, keyed(*pairs, producer=producer, codec=codec, with_headers=with_headers), epoch=self.epoch)

    def fence(self) -> None:
        producer_id = self.random.randrange(5)
        self.fenced[producer_id] = self.fenced.get(producer_id, 0) + 1
        self.sequences[producer_id] = 0
        write(self.log, fence(producer_id, self.fenced[producer_id]), epoch=self.epoch)

    def transaction(self) -> None:
        txn = self.random.choice(sorted(self.txn_no))
        if txn not in self.open:
            self.txn_no[txn] += 1
            self.open[txn] = 0
        pairs = self.pairs()
        writer = self.random.choice([txn, txn + 100])
        write(self.log, keyed(*pairs, producer=(writer, 0, 0), txn=(txn, self.txn_no[txn])), epoch=self.epoch)
        self.open[txn] += len(pairs)

    def end(self) -> None:
        if self.open:
            txn = self.random.choice(sorted(self.open))
            del self.open[txn]
            winners = self.random.choice([None, (txn,)])
            commit = self.random.random() < 0.6
            write(self.log, marker((txn, self.txn_no[txn]), commit=commit, winners=winners), epoch=self.epoch)

    def step(self) -> None:
        steps = [self.plain] * 6 + [self.transaction] * 4 + [self.end] * 3 + [self.fence]
        if self.random.random() < 0.02:
            self.epoch += 1
        self.random.choice(steps)()


def stable(log: PartitionLog, records: list) -> list:  # type: ignore[type-arg]
    end = log.last_stable_offset(log.log_end_offset)
    return [record for record in records if record.offset < end]


@pytest.mark.parametrize("seed", range(24))
def test_a_fresh_reader_finds_the_last_committed_value_of_each_key(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pass_work, "_PIECE_BYTES", Random(seed).choice([2_000, 1 << 20, 1 << 20]))

    async def test(disk: SimDisk) -> None:
        random = Random(seed)
        config = replace(COMPACT, delete_retention_ms=random.choice([0, 1_000, DAY_MS]))
        limits = random.choice([LIMITS, Limits(keys_max=12, key_bytes_max=1 << 20, bytes_per_s=0)])
        log = await open_log(disk, config)
        writers, now_ms = Writers(log, random), NOW_MS
        expected: dict[bytes, bytes] = {}
        told: set[object] = set()
        for _ in range(random.randint(3, 8)):
            for _ in range(random.randint(5, 60)):
                writers.step()
            await log.sync()
            known = stable(log, seen(log))
            told |= set(known)
            expected = table_of(known)
            now_ms += random.choice([0, 500, 2_000, 2 * DAY_MS])
            before = (
                log.log_end_offset,
                log.epochs.entries,
                log.producers.snapshot(),
                set(log.producers.transactions.open),
            )
            for _ in range(random.randint(1, 3)):
                held = random.choice([0, random.randrange(log.log_end_offset + 1), log.log_end_offset])
                await log.compact(now_ms, log.log_end_offset, limits, held_everywhere=held)
            log.check()
            headers_of(log)
            found = stable(log, seen(log))
            assert table_of(found) == expected
            assert set(found) <= told, "nothing is made up, and no offset moved"
            after = (
                log.log_end_offset,
                log.epochs.entries,
                log.producers.snapshot(),
                set(log.producers.transactions.open),
            )
            assert after == before
            if random.random() < 0.4:
                visible = seen(log)
                if random.random() < 0.5:
                    await log.close()
                else:
                    disk = disk.after_power_cut()
                log = writers.log = await open_log(disk, config)
                log.check()
                assert seen(log) == visible
                assert set(log.producers.transactions.open) == before[3]
        await follows(log, disk, writers)

    run(test, seed)


@pytest.mark.parametrize("seed", range(24))
def test_a_replica_that_is_behind_ends_with_the_same_table_and_the_same_open_transactions(seed: int) -> None:
    async def test(disk: SimDisk) -> None:
        random = Random(seed)
        config = replace(COMPACT, delete_retention_ms=random.choice([0, 1_000]))
        log = await open_log(disk, config)
        slow = await open_log(disk, config, directory=f"copies/{log.directory}")
        writers, now_ms = Writers(log, random), NOW_MS
        for _ in range(random.randint(4, 10)):
            for _ in range(random.randint(5, 40)):
                writers.step()
            await log.sync()
            for _ in range(random.randint(1, 3)):
                now_ms += random.choice([0, 500, 2_000])
                await log.compact(now_ms, log.log_end_offset, LIMITS, held_everywhere=slow.log_end_offset)
                if random.random() < 0.4:
                    feed(log, slow, random)
        while slow.log_end_offset < log.log_end_offset:
            feed(log, slow, random)
        assert set(slow.producers.transactions.open) == set(log.producers.transactions.open)
        assert table_of(stable(slow, seen(slow))) == table_of(stable(log, seen(log)))

    run(test, seed)


def feed(log: PartitionLog, slow: PartitionLog, random: Random) -> None:
    """Sends a follower some of what it lacks."""
    data = log.read(slow.log_end_offset, random.choice([1, 2_000]), log.log_end_offset)
    if len(data):
        data = from_offset_on(data, slow.log_end_offset)
        slow.append_as_follower(data, log.last_epoch)


async def follows(log: PartitionLog, disk: SimDisk, writers: Writers) -> None:
    """A new replica that replays what is left knows of each producer and transaction what an old one knows."""
    fresh = await open_log(disk, log.config, directory=f"copies/{log.directory}")
    fresh.append_as_follower(contents(log), log.last_epoch)
    assert records_of(fresh) == records_of(log)
    assert seen(fresh) == seen(log)
    assert fresh.epochs.entries == log.epochs.entries
    one, two = fresh.producers, log.producers
    assert set(one.transactions.open) == set(two.transactions.open)
    assert one.transactions.shard_epochs == two.transactions.shard_epochs
    for txn_producer_id, known in two.transactions.ended.items():
        assert one.transactions.ended[txn_producer_id].ended_up_to == known.ended_up_to
        assert one.transactions.session_epoch(txn_producer_id) == known.session_epoch
    for producer_id in writers.sequences:
        assert _position(one, producer_id) == _position(two, producer_id)


def _position(states: ProducerStates, producer_id: int) -> object:
    entry = states.producer(producer_id)
    return None if entry is None else (entry.producer_epoch, entry.window.last_sequence)
