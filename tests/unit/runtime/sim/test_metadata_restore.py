"""The simulated metadata store goes back to a snapshot, as a restored etcd does."""

from __future__ import annotations

import asyncio

import pytest

from oncelog_runtime.ports import Change, Compare, KeyValue, Listing, Put
from oncelog_runtime.sim import SimWorld


def test_keys_revisions_and_leases_are_as_they_were() -> None:
    with SimWorld(1) as world:
        store = world.metadata_client()

        async def scenario() -> None:
            kept = await store.grant_lease(2_000)
            await store.commit(puts=[Put("/a", b"1"), Put("/leased", b"", kept)])
            backup = world.metadata.snapshot()
            later = await store.grant_lease(2_000)
            await store.commit(puts=[Put("/a", b"2"), Put("/b", b"", later)])
            await store.revoke_lease(kept)
            world.metadata.restore(backup)
            listing = await store.list("/")
            assert listing == Listing((KeyValue("/a", b"1", 2), KeyValue("/leased", b"", 2, kept)), 2)
            assert (await store.keep_alive(kept), await store.keep_alive(later)) == (2_000, 0)
            assert (await store.commit([Compare("/a", 2)], [Put("/a", b"3")])).revision == 3

        world.run(scenario())


def test_a_lease_of_the_backup_has_its_whole_time_again_and_then_runs_out() -> None:
    with SimWorld(1) as world:
        store = world.metadata_client()

        async def scenario() -> None:
            lease = await store.grant_lease(2_000)
            await store.commit(puts=[Put("/leased", b"", lease)])
            backup = world.metadata.snapshot()
            await asyncio.sleep(1.5)
            world.metadata.restore(backup)
            await asyncio.sleep(1.5)
            assert world.metadata.get("/leased") is not None
            await asyncio.sleep(1)
            assert world.metadata.get("/leased") is None

        world.run(scenario())


@pytest.mark.parametrize("bump", [0, 1_000_000])
def test_a_watch_begins_again_with_a_listing(bump: int) -> None:
    with SimWorld(1) as world:
        store = world.metadata_client()

        async def scenario() -> None:
            await store.commit(puts=[Put("/a", b"1")])
            backup = world.metadata.snapshot()
            watch = store.watch("/")
            await anext(watch)
            await store.commit(puts=[Put("/a", b"2")])
            assert await anext(watch) == Change("/a", b"2", 3)
            world.metadata.restore(backup, bump)
            assert await anext(watch) == Listing((KeyValue("/a", b"1", 2),), 2 + bump)
            await store.commit(puts=[Put("/c", b"")])
            assert await anext(watch) == Change("/c", b"", 3 + bump)

        world.run(scenario())


def test_a_watch_that_a_restored_store_has_passed_misses_what_lies_between() -> None:
    """Without a bump nothing in etcd's answers says that the past is another one."""
    with SimWorld(1) as world:
        store, other = world.metadata_client("n"), world.metadata_client("m")

        async def scenario() -> None:
            backup = world.metadata.snapshot()
            await other.commit(puts=[Put("/a", b"1")])
            watch = store.watch("/")
            assert isinstance(await anext(watch), Listing)
            world.metadata.cut("n")
            world.metadata.restore(backup)
            await other.commit(puts=[Put("/b", b"2")])
            await other.commit(puts=[Put("/c", b"3")])
            world.metadata.heal("n")
            assert await anext(watch) == Change("/c", b"3", 3)

        world.run(scenario())
