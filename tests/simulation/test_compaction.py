"""A compacted topic under random kills, power cuts and lost volumes: a fresh reader finds what a dict would hold.

The model is the last acknowledged value per key; a key whose newest write is in doubt may have either value. Every replica is
compared, not only the leader: each one compacts for itself.
"""

from __future__ import annotations

from random import Random
from typing import Final

import pytest

from oncelog import errors
from oncelog.client.client import Client
from oncelog.core.batch.batch import decode_batch, iter_batches
from oncelog.types import TopicPartition
from oncelog_runtime.sim.faults import FaultPlan
from tests.conformance.script import Place, Script, cluster, run_script

NODES: Final = ("broker-0", "broker-1", "broker-2")
OPTIONS: Final = {
    "cleanup_policy": "compact",
    "segment_bytes": "2500",
    "min_cleanable_dirty_ratio": "0.01",
    "delete_retention_ms": "5000",
    "flush_mode": "fsync",
}


class Model:
    """Key -> the values that a reader may find; None is a deleted key."""

    def __init__(self) -> None:
        self.table: dict[bytes, set[bytes | None]] = {}

    def written(self, some: dict[bytes, bytes | None]) -> None:
        self.table |= {key: {value} for key, value in some.items()}

    def in_doubt(self, some: dict[bytes, bytes | None]) -> None:
        for key, value in some.items():
            self.table.setdefault(key, {None}).add(value)

    def differs(self, found: dict[bytes, bytes]) -> list[str]:
        """What a reader that found this must not have found."""
        keys = sorted({*self.table, *found})
        return [
            f"{key!r}: {found.get(key)!r}, not one of {self.table.get(key)}"
            for key in keys
            if found.get(key) not in self.table.get(key, {None})
        ]


async def write(client: Client, random: Random, model: Model, number: int) -> None:
    """A transaction, committed or aborted, or a few records without one."""
    some: dict[bytes, bytes | None] = {
        b"key %d" % random.randrange(12): None if random.random() < 0.2 else b"value %d %d" % (number, n)
        for n in range(random.randint(1, 6))
    }
    kind = random.random()
    try:
        if kind < 0.5:
            async with client.producer() as producer:
                for sent in [await producer.send("work", v, key=k, partition=0) for k, v in some.items()]:
                    await sent
        else:
            async with client.producer(transactional_id="t") as producer, producer.transaction() as transaction:
                for key, value in some.items():
                    await transaction.send("work", value, key=key, partition=0)
                if kind < 0.7:
                    raise KeyError
        model.written(some)
    except KeyError:
        return  # aborted
    except errors.OncelogError:
        model.in_doubt(some)


def read_replica(s: Script, node: str, place: Place) -> dict[bytes, bytes]:
    """The table that the files of one replica hold, for a reader of committed records."""
    log = s.replica(node, place).log
    log._tail.clear()
    aborted, offset, table = log.aborted_between(0, 1 << 60), log.log_start_offset, dict[bytes, bytes]()
    while offset < log.log_end_offset:
        for header, data in iter_batches(log.read(offset, 1 << 20, log.log_end_offset)):
            assert header.base_offset == offset, "a log has no gaps"
            offset = header.next_offset
            name = (header.producer_id, header.txn_producer_id, header.txn_no)
            if header.is_control or any(header.is_transactional and entry.skips(*name) for entry in aborted):
                continue
            for record in decode_batch(data, header):
                assert record.key is not None
                if record.value is None:
                    table.pop(record.key, None)
                else:
                    table[record.key] = record.value
    return table


async def trouble(s: Script, random: Random, place: Place) -> None:
    """One broker dies, in one way or another, and comes back."""
    node = random.choice(NODES)
    kind = random.choice(["kill", "kill", "power", "volume"])
    if kind == "volume":
        s.lose_volume(node)
    elif kind == "power":
        s.power_cut(node)
    else:
        s.kill(node)
    await s.sleep(random.random() * 3)
    s.restart(node)
    await s.rejoined(node, place)


async def consumed(s: Script, end: int) -> dict[bytes, bytes]:
    table: dict[bytes, bytes] = {}
    where = TopicPartition("work", 0)
    async with s.client() as client, client.consumer(auto_offset_reset="none") as consumer:
        await consumer.assign([where])
        consumer.seek(where, 0)
        while await consumer.position(where) < end:
            for record in await consumer.getmany(timeout_ms=200):
                if record.value is None:
                    table.pop(record.key, None)
                else:
                    table[record.key] = record.value
    return table


@cluster(compaction_interval_ms=300, tail_cache_bytes=1)
async def script(s: Script, number: int) -> None:
    random, model = Random(f"{number}:compaction"), Model()
    place = await s.place(**OPTIONS)
    for turn in range(12):
        async with s.client() as client:
            for step in range(random.randint(2, 8)):
                await write(client, random, model, 100 * turn + step)
        if random.random() < 0.5:
            await trouble(s, random, place)
        else:
            await s.sleep(random.random() * 4)
    await s.stable(place)
    await s.until(lambda: len(s.isr(place)) == 3)
    end = await s.latest(place)
    await s.until(lambda: all(s.replica(node, place).log.log_end_offset == end for node in NODES))
    await s.sleep(12)
    assert sum(s.broker(node).compactor.passes for node in NODES) > 3, "it was compacted"
    assert model.differs(await consumed(s, end)) == []
    for node in NODES:
        assert model.differs(read_replica(s, node, place)) == [], node


@pytest.mark.parametrize("seed", range(6))
def test_a_compacted_topic_holds_the_last_value_of_each_key_whatever_dies(seed: int) -> None:
    run_script(script, seed, number=seed)


HELPERS_IN_TROUBLE: Final = FaultPlan(helper_death=0.5, helper_freeze=0.02, helper_trouble_max_ms=400, slow_helper=0.01)


@cluster(compaction_interval_ms=300, tail_cache_bytes=1, plan=HELPERS_IN_TROUBLE)
async def script_with_dying_helpers(s: Script, number: int) -> None:
    await script(s, number)
    assert sum(s.broker(node).compactor.failures for node in NODES) > 0, "helpers died"


@pytest.mark.parametrize("seed", range(6, 10))
def test_a_compacted_topic_holds_the_last_value_of_each_key_though_helpers_die_too(seed: int) -> None:
    run_script(script_with_dying_helpers, seed, number=seed)


def test_the_model_tells_a_lost_key_from_one_in_doubt() -> None:
    model = Model()
    model.written({b"a": b"1", b"b": None})
    model.in_doubt({b"a": b"2", b"c": b"3"})
    assert model.differs({b"a": b"2"}) == model.differs({b"a": b"1", b"c": b"3"}) == []
    assert len(model.differs({b"a": b"0"})) == len(model.differs({})) == 1
    assert len(model.differs({b"a": b"1", b"b": b"old"})) == 1
