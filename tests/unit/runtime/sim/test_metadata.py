"""The simulated metadata store: lost answers, lost leases, cuts and lost positions. (The port itself: tests/contracts.)"""

from __future__ import annotations

import asyncio

import pytest

from oncelog.errors import MetadataUnavailableError
from oncelog_runtime.ports import Change, Listing, Put
from oncelog_runtime.sim import FaultPlan, SimWorld


def test_a_lost_answer_is_neither_yes_nor_no() -> None:
    async def scenario(world: SimWorld) -> bool:
        with pytest.raises(MetadataUnavailableError) as error:
            await world.metadata_client().commit(puts=[Put("/a", b"")])
        assert error.value.context["unknown"] == "true"
        return world.metadata.get("/a") is not None

    written = set()
    for seed in range(20):
        with SimWorld(seed, FaultPlan(lose_metadata_request=0.5, lose_metadata_answer=1.0)) as world:
            written.add(world.run(scenario(world)))
    assert written == {True, False}


def test_a_cut_node_gets_no_answers_and_catches_up_later() -> None:
    with SimWorld(1) as world:
        store, other = world.metadata_client("n"), world.metadata_client("m")

        async def scenario() -> None:
            watch = store.watch("/")
            assert await anext(watch) == Listing((), 1)
            world.metadata.cut("n")
            with pytest.raises(MetadataUnavailableError):
                await store.get("/a")
            await other.commit(puts=[Put("/a", b"1")])
            await other.commit(puts=[Put("/a", b"2")])
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(1):
                    await anext(watch)
            world.metadata.heal("n")
            assert [await anext(watch), await anext(watch)] == [Change("/a", b"1", 2), Change("/a", b"2", 3)]

        world.run(scenario())


def test_a_watch_that_was_cut_over_a_compaction_lists_again() -> None:
    with SimWorld(1) as world:
        store, other = world.metadata_client("n"), world.metadata_client("m")

        async def scenario() -> None:
            watch = store.watch("/")
            await anext(watch)
            world.metadata.cut("n")
            await other.commit(puts=[Put("/a", b"1")])
            await other.commit(deletes=["/a"])
            await other.commit(puts=[Put("/b", b"2")])
            world.metadata.compact()
            world.metadata.heal()
            again = await anext(watch)
            assert isinstance(again, Listing)
            assert [item.key for item in again.items] == ["/b"]
            await other.commit(puts=[Put("/c", b"")])
            assert await anext(watch) == Change("/c", b"", 5)

        world.run(scenario())


@pytest.mark.parametrize("seed", range(10))
def test_whatever_is_lost_a_watcher_ends_with_the_truth(seed: int) -> None:
    with SimWorld(seed, FaultPlan(relist=0.2, watch_max_ms=50)) as world:
        store, view = world.metadata_client(), {}
        revisions = []

        async def follow() -> None:
            async for item in store.watch("/"):
                if isinstance(item, Listing):
                    view.clear()
                    view.update({kv.key: kv.value for kv in item.items})
                    revisions.append(item.revision)
                    continue
                revisions.append(item.mod_revision)
                if item.value is None:
                    view.pop(item.key, None)
                else:
                    view[item.key] = item.value

        async def scenario() -> None:
            following = asyncio.create_task(follow())
            random = world.random("workload")
            for i in range(100):
                key = f"/{random.randrange(5)}"
                if random.random() < 0.3:
                    await store.commit(deletes=[key])
                else:
                    await store.commit(puts=[Put(key, b"%d" % i)])
                if random.random() < 0.05:
                    world.metadata.compact()
            await asyncio.sleep(5)
            assert view == {item.key: item.value for item in world.metadata.list("/").items}
            assert revisions == sorted(revisions)
            following.cancel()

        world.run(scenario())


def test_a_lease_ends_early_on_command() -> None:
    with SimWorld(1) as world:
        store = world.metadata_client()

        async def scenario() -> None:
            lease = await store.grant_lease(60_000)
            await store.commit(puts=[Put("/a", b"", lease)])
            assert world.metadata.expire_some_lease(world.random("x"))
            assert await store.keep_alive(lease) == 0
            assert await store.get("/a") is None
            assert not world.metadata.expire_some_lease(world.random("x"))

        world.run(scenario())


def test_a_paused_process_loses_its_lease() -> None:
    with SimWorld(1) as world:
        node = world.node("n")
        found = []

        async def hold() -> None:
            lease = await node.ports.metadata.grant_lease(2_000)
            while left := await node.ports.metadata.keep_alive(lease):
                found.append(left)
                await asyncio.sleep(0.5)
            found.append(left)

        async def scenario() -> None:
            node.spawn(hold())
            await asyncio.sleep(10)
            assert set(found) == {2_000}
            node.pause(3_000)
            await asyncio.sleep(4)
            assert found[-1] == 0

        world.run(scenario())
