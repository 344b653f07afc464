"""The contract of `oncelog_runtime.ports.MetadataStore`, for etcd and the simulated store."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from oncelog.errors import MetadataUnavailableError
from oncelog_runtime.adapters.etcd.metadata_store import EtcdMetadata
from oncelog_runtime.ports import Change, Compare, KeyValue, Listing, MetadataStore, Put
from tests.contracts.conftest import RealRunner, SimRunner

_roots = itertools.count()


class Bench:
    """A root of its own for each test, and `run(scenario)`, which gives the scenario a connected store."""

    def __init__(self, runner: RealRunner | SimRunner, connect: Callable[[], MetadataStore]) -> None:
        self.root = f"/test-{next(_roots)}/"
        self._runner = runner
        self.connect = connect
        self.compact: Callable[[MetadataStore, int], Awaitable[None]]

    def run(self, scenario: Callable[[MetadataStore], Awaitable[None]]) -> None:
        async def go() -> None:
            store = self.connect()
            try:
                await scenario(store)
            finally:
                await store.close()

        self._runner.run(go())


@pytest.fixture(params=[pytest.param("etcd", marks=pytest.mark.etcd), "sim"])
def bench(request: pytest.FixtureRequest) -> Bench:
    if request.param == "sim":
        sim = SimRunner()
        bench = Bench(sim, lambda: sim.world.metadata.client("n"))

        async def compact_sim(store: MetadataStore, revision: int) -> None:
            sim.world.metadata.compact()

        bench.compact = compact_sim
        return bench
    endpoint = request.getfixturevalue("etcd_endpoint")
    bench = Bench(RealRunner(), lambda: EtcdMetadata([endpoint]))

    async def compact_etcd(store: MetadataStore, revision: int) -> None:
        assert isinstance(store, EtcdMetadata)
        await store.compact(revision)

    bench.compact = compact_etcd
    return bench


async def soon(iterator: AsyncIterator[Listing | Change]) -> Listing | Change:
    async with asyncio.timeout(10):
        return await anext(iterator)


async def until(check: Callable[[], Awaitable[bool]]) -> None:
    for _ in range(300):
        if await check():
            return
        await asyncio.sleep(0.05)
    raise AssertionError("not within 15 seconds")


def test_a_commit_is_seen_by_every_read(bench: Bench) -> None:
    async def scenario(store: MetadataStore) -> None:
        key = f"{bench.root}a"
        assert await store.get(key) is None
        done = await store.commit(puts=[Put(key, b"one")])
        assert done.succeeded
        assert await store.get(key) == KeyValue(key, b"one", done.revision)
        gone = await store.commit(deletes=[key])
        assert gone.revision == done.revision + 1
        assert await store.get(key) is None

    bench.run(scenario)


def test_compare_and_swap_lets_one_of_many_win(bench: Bench) -> None:
    async def scenario(store: MetadataStore) -> None:
        key = f"{bench.root}a"

        async def take(value: bytes) -> bool:
            return (await store.commit([Compare(key, 0)], [Put(key, value)])).succeeded

        won = await asyncio.gather(*(take(b"%d" % i) for i in range(6)))
        assert sum(won) == 1
        found = await store.get(key)
        assert found is not None
        assert found.value == b"%d" % won.index(True)

    bench.run(scenario)


def test_a_failed_condition_writes_nothing(bench: Bench) -> None:
    async def scenario(store: MetadataStore) -> None:
        a, b = f"{bench.root}a", f"{bench.root}b"
        first = await store.commit(puts=[Put(a, b"1")])
        refused = await store.commit([Compare(a, first.revision), Compare(b, first.revision)], [Put(a, b"2")], [b])
        assert not refused.succeeded
        assert refused.revision == first.revision
        swapped = await store.commit([Compare(a, first.revision), Compare(b, 0)], [Put(a, b"2"), Put(b, b"3")])
        assert swapped.succeeded
        listing = await store.list(bench.root)
        assert listing.items == (KeyValue(a, b"2", swapped.revision), KeyValue(b, b"3", swapped.revision))

    bench.run(scenario)


def test_a_commit_without_effect_makes_no_revision(bench: Bench) -> None:
    async def scenario(store: MetadataStore) -> None:
        first = await store.commit(puts=[Put(f"{bench.root}a", b"1")])
        assert (await store.commit(deletes=[f"{bench.root}nothing"])).revision == first.revision
        assert (await store.commit([Compare(f"{bench.root}a", first.revision)])).succeeded
        assert (await store.list(bench.root)).revision == first.revision

    bench.run(scenario)


def test_what_etcd_refuses_is_refused_before_it_is_sent(bench: Bench) -> None:
    async def scenario(store: MetadataStore) -> None:
        key = f"{bench.root}a"
        with pytest.raises(ValueError, match="twice"):
            await store.commit(puts=[Put(key, b"1"), Put(key, b"2")])
        with pytest.raises(ValueError, match="twice"):
            await store.commit(puts=[Put(key, b"1")], deletes=[key])
        with pytest.raises(ValueError, match="128"):
            await store.commit(puts=[Put(f"{key}{i}", b"") for i in range(129)])
        assert (await store.list(bench.root)).items == ()
        assert (await store.commit(puts=[Put(f"{key}{i}", b"") for i in range(128)])).succeeded

    bench.run(scenario)


def test_a_listing_is_sorted_and_keeps_to_its_prefix(bench: Bench) -> None:
    async def scenario(store: MetadataStore) -> None:
        names = ["b/2", "b/10", "b", "c", "b/1", "ba"]
        for name in names:
            await store.commit(puts=[Put(bench.root + name, name.encode())])
        keys = [item.key.removeprefix(bench.root) for item in (await store.list(f"{bench.root}b/")).items]
        assert keys == ["b/1", "b/10", "b/2"]
        assert [i.key.removeprefix(bench.root) for i in (await store.list(bench.root)).items] == sorted(names)

    bench.run(scenario)


def test_a_watch_begins_with_a_listing_and_misses_nothing(bench: Bench) -> None:
    async def scenario(store: MetadataStore) -> None:
        key = f"{bench.root}w/a"
        before = await store.commit(puts=[Put(key, b"0")])
        watch = store.watch(f"{bench.root}w/")
        first = await soon(watch)
        assert first == Listing((KeyValue(key, b"0", before.revision),), before.revision)
        revisions = []
        for i in range(20):
            revisions.append((await store.commit(puts=[Put(key, b"%d" % i)])).revision)
            await store.commit(puts=[Put(f"{bench.root}elsewhere", b"")])
        gone = await store.commit(deletes=[key])
        seen = [await soon(watch) for _ in range(21)]
        assert seen[:20] == [Change(key, b"%d" % i, revision) for i, revision in enumerate(revisions)]
        assert seen[20] == Change(key, None, gone.revision)

    bench.run(scenario)


def test_changes_of_one_commit_have_one_revision(bench: Bench) -> None:
    async def scenario(store: MetadataStore) -> None:
        watch = store.watch(bench.root)
        await soon(watch)
        done = await store.commit(puts=[Put(f"{bench.root}{i}", b"") for i in range(3)])
        assert [await soon(watch) for _ in range(3)] == [
            Change(f"{bench.root}{i}", b"", done.revision) for i in range(3)
        ]

    bench.run(scenario)


def test_a_wait_for_a_change_may_be_given_up_and_taken_up_again(bench: Bench) -> None:
    async def scenario(store: MetadataStore) -> None:
        watch = store.watch(bench.root)
        await soon(watch)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await anext(watch)
        done = await store.commit(puts=[Put(f"{bench.root}a", b"1")])
        assert await soon(watch) == Change(f"{bench.root}a", b"1", done.revision)

    bench.run(scenario)


def test_a_compaction_does_not_disturb_a_watch_that_keeps_up(bench: Bench) -> None:
    async def scenario(store: MetadataStore) -> None:
        key = f"{bench.root}a"
        watch = store.watch(bench.root)
        await soon(watch)
        done = await store.commit(puts=[Put(key, b"1")])
        assert await soon(watch) == Change(key, b"1", done.revision)
        await bench.compact(store, done.revision)
        after = await store.commit(puts=[Put(key, b"2")])
        assert await soon(watch) == Change(key, b"2", after.revision)

    bench.run(scenario)


def test_a_lease_that_is_revoked_takes_its_keys_along(bench: Bench) -> None:
    async def scenario(store: MetadataStore) -> None:
        lease = await store.grant_lease(5_000)
        a, b, c = (f"{bench.root}{name}" for name in "abc")
        await store.commit(puts=[Put(a, b"", lease), Put(b, b"", lease), Put(c, b"")])
        found = await store.get(a)
        assert found is not None
        assert found.lease_id == lease
        watch = store.watch(bench.root)
        await soon(watch)
        await store.revoke_lease(lease)
        await store.revoke_lease(lease)
        gone = [await soon(watch), await soon(watch)]
        assert sorted(change.key for change in gone if isinstance(change, Change)) == [a, b]
        assert len({change.mod_revision for change in gone if isinstance(change, Change)}) == 1
        assert [item.key for item in (await store.list(bench.root)).items] == [c]

    bench.run(scenario)


def test_a_key_written_without_the_lease_outlives_it(bench: Bench) -> None:
    async def scenario(store: MetadataStore) -> None:
        lease = await store.grant_lease(5_000)
        key = f"{bench.root}a"
        await store.commit(puts=[Put(key, b"1", lease)])
        await store.commit(puts=[Put(key, b"2")])
        await store.revoke_lease(lease)
        found = await store.get(key)
        assert found is not None
        assert (found.value, found.lease_id) == (b"2", 0)

    bench.run(scenario)


def test_a_lease_runs_out_unless_it_is_renewed(bench: Bench) -> None:
    async def scenario(store: MetadataStore) -> None:
        kept, left = await store.grant_lease(1_000), await store.grant_lease(1_000)
        await store.commit(puts=[Put(f"{bench.root}kept", b"", kept), Put(f"{bench.root}left", b"", left)])
        assert await store.keep_alive(kept) == 2_000  # rounded up: two seconds is the least

        async def only_kept() -> bool:
            assert await store.keep_alive(kept) > 0
            return [i.key for i in (await store.list(bench.root)).items] == [f"{bench.root}kept"]

        await until(only_kept)
        assert await store.keep_alive(left) == 0

    bench.run(scenario)


def test_a_commit_under_a_lease_that_is_gone_writes_nothing(bench: Bench) -> None:
    async def scenario(store: MetadataStore) -> None:
        lease = await store.grant_lease(5_000)
        await store.revoke_lease(lease)
        with pytest.raises(MetadataUnavailableError) as error:
            await store.commit(puts=[Put(f"{bench.root}a", b""), Put(f"{bench.root}b", b"", lease)])
        assert error.value.context["reason"] == "lease_gone"
        assert "unknown" not in error.value.context
        assert (await store.list(bench.root)).items == ()

    bench.run(scenario)


def test_close_ends_a_watch_that_waits(bench: Bench) -> None:
    async def scenario(store: MetadataStore) -> None:
        other = bench.connect()
        watch = other.watch(bench.root)
        await soon(watch)

        async def drain() -> list[Listing | Change]:
            return [item async for item in watch]

        waiting = asyncio.create_task(drain())
        await asyncio.sleep(0.05)
        await other.close()
        async with asyncio.timeout(5):
            assert await waiting == []

    bench.run(scenario)
