"""The SDK against a whole simulated cluster with a bad network: what it says of each record is what the log holds.

Not the big simulation (that one has its own checker): this one looks at one producer and its promises.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest

from oncelog import errors
from oncelog.client.client import Client
from oncelog_runtime.sim.faults import FaultPlan
from tests.simulation.cluster import SimCluster

TOPIC = "sdk"
PARTITIONS = 2
BAD_NETWORK = FaultPlan(
    lose_reply=0.05,
    break_link=0.03,
    stall_link=0.01,
    duplicate_request=0.05,
    replay_request=0.05,
    slow_message=0.05,
    slow_ms=400.0,
    replay_max_ms=20_000.0,
)


@dataclass(slots=True)
class Said:
    """What the SDK said of each value."""

    order: dict[int, list[int]] = field(default_factory=lambda: {p: [] for p in range(PARTITIONS)})
    written: dict[int, int] = field(default_factory=dict)
    unknown: set[int] = field(default_factory=set)
    refused: set[int] = field(default_factory=set)


async def read_all(client: Client, isolation_level: str = "read_committed") -> dict[int, list[tuple[int, int]]]:
    """(offset, value) of every record, by partition."""
    found: dict[int, list[tuple[int, int]]] = {p: [] for p in range(PARTITIONS)}
    async with client.consumer(TOPIC, auto_offset_reset="earliest", isolation_level=isolation_level) as consumer:
        ends = await consumer.end_offsets(consumer.assignment())
        while any([await consumer.position(p) < end for p, end in ends.items()]):
            for record in await consumer.getmany(timeout_ms=1_000):
                found[record.partition].append((record.offset, int(record.value)))
    return found


async def send_some(producer: Any, said: Said, random: Random, values: range) -> None:
    waiting = []
    for value in values:
        partition = random.randrange(PARTITIONS)
        said.order[partition].append(value)
        try:
            waiting.append((value, await producer.send(TOPIC, b"%d" % value, partition=partition)))
        except errors.OncelogError:
            said.refused.add(value)
        if random.random() < 0.3:
            await asyncio.sleep(random.random() * 0.05)
    for value, delivery in waiting:
        try:
            said.written[value] = (await delivery).offset
        except errors.OncelogError as error:
            definite = error.context.get("written") == "false" or not isinstance(error, errors.DeliveryTimedOutError)
            (said.refused if definite else said.unknown).add(value)


def check(said: Said, found: dict[int, list[tuple[int, int]]]) -> None:
    values = [value for rows in found.values() for _, value in rows]
    assert len(values) == len(set(values)), "a record is there twice"
    offsets = {value: offset for rows in found.values() for offset, value in rows}
    assert set(said.written) <= set(values), "an acknowledged record is lost"
    assert not said.refused & set(values), "a record that was definitely refused is there"
    for value, offset in said.written.items():
        assert offset in (-1, offsets[value])
    for partition, rows in found.items():
        seen = [value for _, value in rows]
        assert seen == sorted(seen, key=said.order[partition].index), "the order of sends was not kept"


@pytest.mark.parametrize("seed", range(6))
def test_every_record_is_there_once_in_order_or_definitely_not(seed: int) -> None:
    said = Said()

    async def main(cluster: SimCluster) -> None:
        await cluster.healthy()
        random = cluster.world.random("sdk-test")
        async with cluster.client("writer", request_timeout_ms=700) as client:
            await client.admin.create_topic(TOPIC, partitions=PARTITIONS, replication_factor=3)
            cluster.world.set_plan(BAD_NETWORK)
            delivery_timeout_ms = random.choice([1_500, 5_000])
            async with client.producer(delivery_timeout_ms=delivery_timeout_ms, batch_size=2_000) as producer:
                for start in range(0, 400, 40):
                    await send_some(producer, said, random, range(start, start + 40))
            cluster.world.heal()
            await cluster.healthy()
            await asyncio.sleep(25)  # late copies of requests arrive
            check(said, await read_all(client))

    with SimCluster(seed) as cluster:
        cluster.world.loop.run(main(cluster))
    assert len(said.written) > 50


@dataclass(slots=True)
class Outcomes:
    """What became of the values of each transaction, as far as the SDK said."""

    committed: set[int] = field(default_factory=set)
    aborted: set[int] = field(default_factory=set)
    unknown: dict[int, set[int]] = field(default_factory=dict)


async def run_transaction(producer: Any, random: Random, values: range, told: Outcomes) -> bool:
    """Commits or aborts; False when the producer is finished."""
    txn = producer.transaction()
    mine = set(values)
    try:
        async with txn:
            for value in values:
                await txn.send(TOPIC, b"%d" % value, partition=random.randrange(PARTITIONS))
            if random.random() < 0.3:
                await txn.abort()
    except errors.OncelogError as error:
        if txn._core is None:
            told.aborted |= mine  # it never began
        elif txn.outcome == "aborted":
            told.aborted |= mine
        else:
            told.unknown[txn.txn_no] = mine
        return not (error.fatal or isinstance(error, errors.CommitOutcomeUnknownError))
    (told.committed if txn.outcome == "committed" else told.aborted).update(mine)
    return True


async def transact(client: Client, random: Random, told: Outcomes, until: int) -> None:
    """Sessions of one transactional id, one after the other."""
    value = 0
    while value < until:
        try:
            async with client.producer(transactional_id="sdk-test", transaction_timeout_ms=3_000) as producer:
                alive = True
                while alive and value < until and random.random() < 0.9:
                    value += 4
                    alive = await run_transaction(producer, random, range(value - 4, value), told)
        except errors.OncelogError:
            continue


@pytest.mark.parametrize("seed", range(6))
def test_a_transaction_is_all_there_or_not_at_all_and_says_which(seed: int) -> None:
    told = Outcomes()

    async def main(cluster: SimCluster) -> None:
        await cluster.healthy()
        async with cluster.client("writer", request_timeout_ms=700, default_api_timeout_ms=4_000) as client:
            await client.admin.create_topic(TOPIC, partitions=PARTITIONS, replication_factor=3)
            cluster.world.set_plan(BAD_NETWORK)
            await transact(client, cluster.world.random("sdk-test"), told, until=240)
            cluster.world.set_plan(FaultPlan())  # the reader who judges is given four seconds for a call
            cluster.world.heal()
            await cluster.healthy()
            await asyncio.sleep(25)  # late copies arrive, open transactions time out
            for txn_no, mine in told.unknown.items():
                outcome = (await client.get_outcome("sdk-test", txn_no)).outcome
                (told.committed if outcome == "committed" else told.aborted).update(mine)
            found = [value for rows in (await read_all(client)).values() for _, value in rows]
            assert len(found) == len(set(found))
            assert set(found) == told.committed

    with SimCluster(seed) as cluster:
        cluster.world.loop.run(main(cluster))
    assert told.committed
    assert told.aborted
