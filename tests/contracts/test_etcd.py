"""What only a real etcd can show: the same history as the simulated store, restarts, and a compaction under a watch."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random

import pytest

from oncelog.errors import MetadataUnavailableError
from oncelog_runtime.adapters.etcd.etcd_process import EtcdProcess
from oncelog_runtime.adapters.etcd.etcd_watch import EtcdWatch
from oncelog_runtime.adapters.etcd.metadata_store import EtcdMetadata
from oncelog_runtime.ports import Change, Compare, Listing, MetadataStore, Put
from tests.contracts.conftest import RealRunner, SimRunner

pytestmark = pytest.mark.etcd
ROOT = "/differential/"


async def random_history(store: MetadataStore, seed: int) -> list[object]:
    """Runs drawn operations; returns every answer and every change, with revisions and leases counted from zero."""
    random, leases, log = Random(seed), [], []
    base = (await store.commit(puts=[Put(f"{ROOT}start", b"")])).revision
    watch = store.watch(ROOT)
    await anext(watch)
    revisions = {f"{ROOT}{i}": 0 for i in range(6)}
    for i in range(120):
        kind = random.random()
        keys = random.sample(sorted(revisions), 3)
        if kind < 0.1 or not leases:
            leases.append(await store.grant_lease(60_000))
        elif kind < 0.2:
            await store.revoke_lease(random.choice(leases))
        elif kind < 0.9:
            expected = revisions[keys[0]] if random.random() < 0.8 else base + 1
            puts = [Put(keys[1], b"%d" % i, random.choice([0, *leases]))]
            deletes = [keys[2]] if random.random() < 0.4 else []
            try:
                done = await store.commit([Compare(keys[0], expected)], puts, deletes)
                log.append((done.succeeded, done.revision - base))
            except MetadataUnavailableError as error:
                log.append(error.context)
        for item in (listing := await store.list(ROOT)).items:
            revisions[item.key] = item.mod_revision
        present = {item.key for item in listing.items}
        revisions = {key: revision if key in present else 0 for key, revision in revisions.items()}
        shown = [(kv.key, kv.value, kv.mod_revision - base, kv.lease_id in leases) for kv in listing.items]
        log.append((listing.revision - base, shown))
    last = await store.commit(puts=[Put(f"{ROOT}last", b"")])
    async for item in watch:
        assert isinstance(item, Change)
        log.append((item.key, item.value, item.mod_revision - base))
        if item.mod_revision == last.revision:
            break
    await store.commit(deletes=[item.key for item in (await store.list(ROOT)).items])
    return log


@pytest.mark.parametrize("seed", range(3))
def test_the_simulated_store_behaves_as_etcd(etcd_endpoint: str, seed: int) -> None:
    logs: list[list[object]] = []

    async def on_etcd() -> None:
        store = EtcdMetadata([etcd_endpoint])
        logs.append(await random_history(store, seed))
        await store.close()

    async def on_sim(store: MetadataStore) -> None:
        logs.append(await random_history(store, seed))

    RealRunner().run(on_etcd())
    sim = SimRunner()
    sim.run(on_sim(sim.world.metadata_client()))
    assert len(logs[0]) > 240
    assert logs[0] == logs[1]


def test_a_watch_whose_position_was_compacted_lists_again(etcd_endpoint: str) -> None:
    async def scenario() -> None:
        store = EtcdMetadata([etcd_endpoint])
        old = await store.commit(puts=[Put("/compacted/a", b"1")])
        await store.commit(puts=[Put("/compacted/a", b"2")])
        done = await store.commit(puts=[Put("/compacted/a", b"3")])
        await store.compact(done.revision)
        stale = [Listing((), old.revision)]

        async def listing() -> Listing:
            return stale.pop() if stale else await store.list("/compacted/")

        watch = EtcdWatch(lambda: (store.streams(), None), listing, "/compacted/")
        assert await anext(watch) == Listing((), old.revision)
        again = await anext(watch)
        assert isinstance(again, Listing)
        assert [item.value for item in again.items] == [b"3"]
        after = await store.commit(puts=[Put("/compacted/a", b"4")])
        assert await anext(watch) == Change("/compacted/a", b"4", after.revision)
        await watch.aclose()
        await store.close()

    RealRunner().run(scenario())


def test_a_watch_that_is_ahead_of_a_restored_etcd_lists_again(etcd_endpoint: str) -> None:
    """etcd itself would wait in silence until its revision has reached the position."""

    async def scenario() -> None:
        store = EtcdMetadata([etcd_endpoint])
        done = await store.commit(puts=[Put("/behind/a", b"1")])
        before = [Listing((), done.revision + 1_000)]

        async def listing() -> Listing:
            return before.pop() if before else await store.list("/behind/")

        watch = EtcdWatch(lambda: (store.streams(), None), listing, "/behind/")
        assert await anext(watch) == Listing((), done.revision + 1_000)
        again = await anext(watch)
        assert isinstance(again, Listing)
        assert [item.value for item in again.items] == [b"1"]
        after = await store.commit(puts=[Put("/behind/a", b"2")])
        assert await anext(watch) == Change("/behind/a", b"2", after.revision)
        await watch.aclose()
        await store.close()

    RealRunner().run(scenario())


def test_an_etcd_that_was_killed_is_unknown_then_resumed(etcd_endpoint: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        etcd = EtcdProcess(tmp_path)
        store = EtcdMetadata([await etcd.start()], timeout_ms=1_000)
        watch = store.watch("/k/")
        await anext(watch)
        first = await store.commit(puts=[Put("/k/a", b"1")])
        assert await anext(watch) == Change("/k/a", b"1", first.revision)
        etcd.kill()
        with pytest.raises(MetadataUnavailableError) as error:
            await store.commit(puts=[Put("/k/a", b"lost?")])
        assert error.value.context["unknown"] == "true"
        with pytest.raises(MetadataUnavailableError) as error:
            await store.get("/k/a")
        assert "unknown" not in error.value.context
        await etcd.start()
        second = None
        for _ in range(100):
            try:
                second = await store.commit(puts=[Put("/k/a", b"2")])
                break
            except MetadataUnavailableError:
                await asyncio.sleep(0.05)
        assert second is not None
        assert await anext(watch) == Change("/k/a", b"2", second.revision)
        await store.close()
        await etcd.stop()

    RealRunner().run(scenario())


def test_a_member_that_is_gone_does_not_matter_while_another_answers(etcd_endpoint: str) -> None:
    async def scenario() -> None:
        store = EtcdMetadata(["127.0.0.1:9", etcd_endpoint])
        for i in range(10):
            await store.commit(puts=[Put("/two", b"%d" % i)])
        await store.close()

    RealRunner().run(scenario())


def test_members_that_all_moved_are_found_before_a_lease_ends(
    etcd_endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a rolling restart in Kubernetes: the same names, other addresses."""
    host, _, port = etcd_endpoint.rpartition(":")
    addresses = {"member-0": "127.0.0.9", "member-1": "127.0.0.9"}
    monkeypatch.setattr(
        "oncelog_runtime.adapters.etcd.etcd_client.socket.getaddrinfo",
        lambda name, number, *_: [(2, 1, 6, "", (addresses[name], number))],
    )

    async def scenario() -> None:
        store = EtcdMetadata([f"member-0:{port}", f"member-1:{port}"], timeout_ms=1_000)
        with pytest.raises(MetadataUnavailableError):
            await store.get("/moved")
        addresses.update({"member-0": host, "member-1": host})
        async with asyncio.timeout(2.0):
            while True:
                try:
                    await store.get("/moved")
                    break
                except MetadataUnavailableError:
                    await asyncio.sleep(0.05)
        await store.close()

    RealRunner().run(scenario())
