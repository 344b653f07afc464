"""The cases of compaction by number: what goes, what stays and for how long, on every replica of a running cluster."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from oncelog.client.client import Client
from oncelog.client.produce.producer import Producer
from oncelog.core.batch.batch import decode_batch, iter_batches
from oncelog.core.batch.header import BatchHeader
from oncelog.core.batch.record import Record
from oncelog.types import TopicPartition
from tests.conformance.script import Place, Script, cluster

COMPACTING = cluster(compaction_interval_ms=500)
KEPT_S = 20
OPTIONS = {
    "cleanup_policy": "compact",
    "segment_bytes": "3000",
    "min_cleanable_dirty_ratio": "0.01",
    "delete_retention_ms": f"{1000 * KEPT_S}",
}
NODES = ("broker-0", "broker-1", "broker-2")


class Replica:
    """What the files of one replica hold."""

    def __init__(self, s: Script, node: str, place: Place) -> None:
        log = s.replica(node, place).log
        log._tail.clear()
        self.headers: list[BatchHeader] = []
        self.records: list[Record] = []
        offset = log.log_start_offset
        while offset < log.log_end_offset:
            for header, data in iter_batches(log.read(offset, 1 << 20, log.log_end_offset)):
                assert header.base_offset == offset, "a log has no gaps"
                offset = header.next_offset
                self.headers.append(header)
                if not header.is_control:
                    self.records += decode_batch(data, header)

    @property
    def markers(self) -> list[int]:
        """The offsets of all markers."""
        return [header.base_offset for header in self.headers if header.is_control and header.is_transactional]

    @property
    def transactional(self) -> int:
        """The number of records that were written in transactions."""
        return sum(h.record_count for h in self.headers if h.is_transactional and not h.is_control)

    def values(self, key: bytes) -> list[bytes | None]:
        """All values of a key."""
        return [record.value for record in self.records if record.key == key]

    def batches_of(self, producer_id: int) -> list[BatchHeader]:
        """All batches of a producer."""
        return [header for header in self.headers if header.producer_id == producer_id]


def everywhere(s: Script, place: Place, holds: Callable[[Replica], bool]) -> Callable[[], bool]:
    """Whether something holds on every replica."""
    return lambda: all(holds(Replica(s, node, place)) for node in NODES)


async def fill(client: Client, first: int, end: int) -> dict[bytes, bytes]:
    """Writes values under ten keys, by a producer of its own, over some segments; returns the last ones."""
    async with client.producer() as producer:
        for number in range(first, end, 3):
            batch = range(number, number + 3)
            for sent in [
                await producer.send("work", b"value %d" % n, key=b"key %d" % (n % 10), partition=0) for n in batch
            ]:
                await sent
    return {b"key %d" % (n % 10): b"value %d" % n for n in range(first, end)}


async def write(producer: Producer, key: bytes, value: bytes | None) -> None:
    await (await producer.send("work", value, key=key, partition=0))


async def transaction(client: Client, pairs: dict[bytes, bytes], *, commit: bool = True) -> None:
    async with client.producer(transactional_id="t") as producer:
        try:
            async with producer.transaction() as open_one:
                for key, value in pairs.items():
                    await (await open_one.send("work", value, key=key, partition=0))  # so that an abort finds data
                if not commit:
                    raise KeyError
        except KeyError:
            return


async def table_of(s: Script, place: Place) -> dict[bytes, bytes]:
    """What a new read_committed reader finds."""
    where, end, table = TopicPartition("work", 0), await s.latest(place), dict[bytes, bytes]()
    async with s.client() as client, client.consumer(auto_offset_reset="none") as consumer:
        await consumer.assign([where])
        consumer.seek(where, 0)
        while await consumer.position(where) < end:
            for record in await consumer.getmany(timeout_ms=200):
                assert record.key is not None
                table.pop(record.key, None)
                if record.value is not None:
                    table[record.key] = record.value
    return table


def table_in(replica: Replica) -> dict[bytes | None, bytes]:
    """The last value of each key in the files of a replica."""
    table: dict[bytes | None, bytes] = {}
    for record in replica.records:
        table.pop(record.key, None)
        if record.value is not None:
            table[record.key] = record.value
    return table


@COMPACTING
@pytest.mark.case("G150")
async def test_a_replaced_transaction_goes_its_marker_stays_for_its_time_and_the_last_one_of_its_id_for_ever(
    s: Script,
) -> None:
    place = await s.place(**OPTIONS)
    async with s.client() as client:
        await transaction(client, {b"key 1": b"one", b"key 2": b"one"})
        await transaction(client, {b"key 3": b"two"})
        table = await fill(client, 0, 300)
        await s.until(everywhere(s, place, lambda replica: replica.transactional == 0), "the data is gone")
        began = s.world.loop.time()
        assert everywhere(s, place, lambda replica: len(replica.markers) == 2)()
        assert await table_of(s, place) == table
        await s.until(everywhere(s, place, lambda replica: len(replica.markers) == 1), "a marker is gone", 120)
        assert s.world.loop.time() - began > KEPT_S / 2
        await s.sleep(3 * KEPT_S)
        last = {node: Replica(s, node, place).markers for node in NODES}
        assert all(len(markers) == 1 for markers in last.values()), "it keeps late batches of the id out"
        assert await table_of(s, place) == table
        await transaction(client, {b"key 3": b"three"})
        assert await table_of(s, place) == table | {b"key 3": b"three"}


@COMPACTING
@pytest.mark.case("G151")
async def test_aborted_data_goes_whatever_its_key_replaces_nothing_and_its_marker_goes_later(s: Script) -> None:
    place = await s.place(**OPTIONS)
    async with s.client() as client:
        async with client.producer() as producer:
            await write(producer, b"kept", b"committed")
        await transaction(client, {b"unique": b"aborted", b"kept": b"aborted"}, commit=False)
        await transaction(client, {b"key 1": b"later"})
        table = await fill(client, 0, 300)
        await s.until(everywhere(s, place, lambda replica: replica.transactional == 0), "the data is gone")
        assert everywhere(s, place, lambda replica: not replica.values(b"unique"))()
        assert everywhere(s, place, lambda replica: replica.values(b"kept") == [b"committed"])()
        assert everywhere(s, place, lambda replica: len(replica.markers) == 2)(), "not in the pass of its data"
        assert await table_of(s, place) == table | {b"kept": b"committed"}
        await s.until(everywhere(s, place, lambda replica: len(replica.markers) == 1), "the marker is gone", 120)
        assert await table_of(s, place) == table | {b"kept": b"committed"}


@COMPACTING
@pytest.mark.case("G152")
@pytest.mark.case("E125")
async def test_the_last_batch_of_a_producer_stays_empty_also_for_a_replica_that_lost_its_disk(s: Script) -> None:
    place = await s.place(**OPTIONS)
    async with s.client() as client, client.producer() as producer:
        await write(producer, b"key 1", b"old")
        await write(producer, b"key 1", b"older than all others")
        first = Replica(s, s.leader(place), place).headers[0]
        table = await fill(client, 0, 300)

        def only_its_last_batch(replica: Replica) -> bool:
            return [(h.record_count, h.base_sequence) for h in replica.batches_of(first.producer_id)] == [(0, 1)]

        await s.until(everywhere(s, place, only_its_last_batch), "emptied")
        lost = s.followers(place)[0]
        s.lose_volume(lost)
        s.restart(lost)
        await s.rejoined(lost, place)
        known = {
            node: s.replica(node, place).log.producers.producer(first.producer_id) for node in (lost, s.leader(place))
        }
        assert [entry and entry.window.last_sequence for entry in known.values()] == [1, 1]
        assert only_its_last_batch(Replica(s, lost, place))
        old = s.leader(place)
        s.kill(old)
        await s.new_leader(place, old)
        s.restart(old)
        await s.rejoined(old, place)
        await write(producer, b"own", b"new")
        table |= {b"own": b"new"} | await fill(client, 300, 450)
        await s.until(
            everywhere(
                s, place, lambda replica: [h.record_count for h in replica.batches_of(first.producer_id)] == [1]
            ),
            "a newer batch took its place",
        )
        assert await table_of(s, place) == table


@COMPACTING
@pytest.mark.case("G154")
async def test_a_tombstone_is_there_for_its_time_after_it_was_cleaned_and_then_goes(s: Script) -> None:
    place = await s.place(**OPTIONS)
    async with s.client() as client:
        async with client.producer() as producer:
            await write(producer, b"gone", b"value")
            await write(producer, b"gone", None)
        table = await fill(client, 0, 300)
        await s.until(everywhere(s, place, lambda replica: replica.values(b"gone") == [None]), "only the tombstone")
        began = s.world.loop.time()
        assert await table_of(s, place) == table
        await s.until(everywhere(s, place, lambda replica: replica.values(b"gone") == []), "no tombstone", 120)
        assert s.world.loop.time() - began > KEPT_S / 2
        assert await table_of(s, place) == table


@COMPACTING
@pytest.mark.case("G150")
@pytest.mark.case("G154")
async def test_tombstones_and_markers_wait_for_a_replica_that_is_away_and_go_when_it_has_them(s: Script) -> None:
    place = await s.place(**OPTIONS)
    async with s.client() as client:
        async with client.producer() as plain, client.producer(transactional_id="u") as producer:
            await write(plain, b"gone", b"value")
            async with producer.transaction() as open_one:
                await (await open_one.send("work", b"in a transaction", key=b"key 1", partition=0))
                away = s.followers(place)[0]
                await s.until(lambda: s.replica(away, place).high_watermark == 2)
                s.kill(away)
            await write(plain, b"gone", None)
            async with producer.transaction() as last:
                await (await last.send("work", b"the last of its id", key=b"key 2", partition=0))
        table = await fill(client, 0, 300)
        here = [node for node in NODES if node != away]
        await s.until(lambda: all(Replica(s, node, place).transactional == 0 for node in here), "the data is gone")
        await s.sleep(2 * KEPT_S)
        passes = [s.broker(node).compactor.passes for node in here]
        await s.sleep(2 * KEPT_S)
        assert [s.broker(node).compactor.passes for node in here] == passes, "what waits costs no passes"
        kept = [Replica(s, node, place) for node in here]
        assert [(r.values(b"gone"), len(r.markers), r.transactional) for r in kept] == [([None], 2, 0)] * 2
        s.restart(away)
        await s.rejoined(away, place)
        end = await s.latest(place)
        assert s.replica(away, place).log.log_end_offset == end
        assert not s.replica(away, place).log.producers.transactions.open
        assert table_in(Replica(s, away, place)) == table, "the key is deleted there, too"
        gone = everywhere(s, place, lambda replica: replica.values(b"gone") == [] and len(replica.markers) == 1)
        await s.until(gone, "both have gone, though nobody writes", 120)
        assert await table_of(s, place) == table


def left_behind(s: Script, node: str, place: Place) -> list[str]:
    """The files of a pass that runs, or that did not come to its end."""
    names = s.world.nodes[node].disk.list(s.replica(node, place).log.directory)
    return [name for name in names if name.endswith((".cleaned", ".compacted"))]


def dying(s: Script, node: str, suffix: str, deaths: list[str], *, power: bool) -> None:
    """Ends the node's process, or its power, right after it renames a file to, or appends to one with, a name that ends so;
    two seconds later it is back.
    """
    disk = s.world.nodes[node].disk
    rename, append = disk.rename, disk.before_append

    loop = s.world.loop

    def die() -> None:
        if not disk.dead:
            deaths.append(node)
            (s.power_cut if power else s.kill)(node)
            loop.call_later(2.0, s.restart, node, context=loop.world)

    def act(path: str) -> None:
        if path.endswith(suffix):
            loop.call_soon(die, context=loop.world)

    def renamed(old: str, new: str) -> None:
        rename(old, new)
        if old.endswith((".cleaned", ".compacted")):
            act(new)

    def appended(path: str, length: int) -> None:
        append(path, length)
        act(path)

    disk.rename = renamed  # type: ignore[method-assign]
    if suffix == ".cleaned":
        disk.before_append = appended  # type: ignore[method-assign]


@COMPACTING
@pytest.mark.case("G155")
@pytest.mark.parametrize("power", [False, True])
@pytest.mark.parametrize("suffix", [".cleaned", ".compacted", ".log"])
async def test_a_broker_that_dies_between_two_renames_of_a_compaction_has_every_last_record_once(
    s: Script, suffix: str, power: bool
) -> None:
    place = await s.place(**OPTIONS, flush_mode="fsync")
    deaths: list[str] = []
    async with s.client() as client:
        for node in NODES:
            dying(s, node, suffix, deaths, power=power)
        table = await fill(client, 0, 300)
        await s.until(lambda: sorted(deaths) == sorted(NODES), "each broker died once", 60)
        for node in NODES:
            await s.rejoined(node, place)
        table |= await fill(client, 300, 390)
    end = await s.latest(place)
    await s.until(lambda: all(s.replica(node, place).log.log_end_offset == end for node in NODES))
    await s.until(everywhere(s, place, lambda replica: len(replica.records) < 100), "compacted", 60)
    await s.until(lambda: not any(left_behind(s, node, place) for node in NODES), "nothing is left of the dead passes")
    for node in NODES:
        offsets = [record.offset for record in Replica(s, node, place).records]
        assert offsets == sorted(set(offsets))
        assert {record.key: record.value for record in Replica(s, node, place).records} == table
    assert await table_of(s, place) == table
