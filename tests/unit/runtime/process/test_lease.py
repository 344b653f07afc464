"""A leased key that stands while its process lives: written, renewed, written anew when it is lost, and withdrawn."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from oncelog.errors import MetadataUnavailableError, OncelogError
from oncelog_runtime.ports import KeyValue, Put
from oncelog_runtime.process.lease import Registration
from oncelog_runtime.sim import SimWorld

KEY, TTL_MS = "/oncelog/brokers/1", 6_000


class World:
    """A store, one registration in it, and what that told."""

    def __init__(self) -> None:
        self.sim = SimWorld("lease")
        self.store = self.sim.metadata_client("me")
        self.watcher = self.sim.metadata_client("watcher")
        self.told: list[tuple[str, int, int]] = []
        self.registration = Registration(
            self.store,
            KEY,
            b"mine",
            TTL_MS,
            lambda revision: self.told.append(("registered", revision, self.sim.loop.now_ms())),
            lambda: self.told.append(("lost", 0, self.sim.loop.now_ms())),
        )

    @property
    def words(self) -> list[str]:
        return [word for word, _, _ in self.told]

    async def found(self) -> KeyValue | None:
        return await self.watcher.get(KEY)


@pytest.fixture
def world() -> Iterator[World]:
    world = World()
    with world.sim:
        yield world


def running(world: World, scenario: Callable[[], Awaitable[None]]) -> None:
    async def go() -> None:
        task = world.sim.spawn(world.registration.run())
        await asyncio.sleep(1)
        await scenario()
        task.cancel()

    world.sim.run(go())


def test_the_key_stands_as_long_as_it_is_renewed_and_its_revision_is_its_own_write(world: World) -> None:
    async def scenario() -> None:
        await asyncio.sleep(10 * TTL_MS / 1000)
        found = await world.found()
        assert found is not None
        assert (found.value, found.mod_revision) == (b"mine", world.registration.mod_revision)
        assert found.lease_id != 0
        assert world.words == ["registered"]

    running(world, scenario)


def test_a_lost_lease_is_told_and_the_key_is_written_anew(world: World) -> None:
    async def scenario() -> None:
        before = await world.found()
        assert before is not None
        world.sim.metadata.expire_lease(before.lease_id)
        await asyncio.sleep(TTL_MS / 1000)
        after = await world.found()
        assert after is not None
        assert after.lease_id != before.lease_id
        assert after.mod_revision > before.mod_revision
        assert world.registration.mod_revision == after.mod_revision
        assert world.words == ["registered", "lost", "registered"]

    running(world, scenario)


def test_a_lease_that_nobody_confirms_counts_as_lost_and_comes_back(world: World) -> None:
    async def scenario() -> None:
        world.sim.metadata.cut("me")
        await asyncio.sleep(3 * TTL_MS / 1000)
        assert world.words == ["registered", "lost"]
        assert world.registration.mod_revision == 0
        world.sim.metadata.heal("me")
        await asyncio.sleep(5)
        assert world.words == ["registered", "lost", "registered"]

    running(world, scenario)


def test_one_renewal_without_an_answer_is_no_loss(world: World) -> None:
    async def scenario() -> None:
        world.sim.metadata.cut("me")
        await asyncio.sleep(TTL_MS / 3_000)
        world.sim.metadata.heal("me")
        await asyncio.sleep(3 * TTL_MS / 1000)
        assert world.words == ["registered"]

    running(world, scenario)


def after_commit(world: World, then: Callable[[], Awaitable[None]]) -> None:
    """What happens between the write of the key and whatever comes next."""
    commit = world.store.commit

    async def changed(*args: Any, **named: Any) -> Any:
        done = await commit(*args, **named)
        await then()
        return done

    world.store.commit = changed  # type: ignore[method-assign]


def test_a_write_whose_answer_was_lost_is_believed_once_it_was_read(world: World) -> None:
    async def lost() -> None:
        raise MetadataUnavailableError("no answer", unknown="true")

    async def scenario() -> None:
        revision = await world.registration.register()
        found = await world.found()
        assert found is not None
        assert (found.value, found.mod_revision) == (b"mine", revision)
        assert world.words == ["registered"]

    after_commit(world, lost)
    world.sim.run(scenario())


def test_a_write_that_certainly_failed_is_not_looked_for(world: World) -> None:
    async def refused() -> None:
        raise MetadataUnavailableError("the lease is gone", reason="lease_gone")

    async def scenario() -> None:
        with pytest.raises(MetadataUnavailableError, match="the lease is gone"):
            await world.registration.register()
        assert world.registration.mod_revision == 0
        assert world.words == []

    after_commit(world, refused)
    world.sim.run(scenario())


def test_a_lease_whose_key_another_one_took_is_revoked(world: World) -> None:
    """Between the write and the look at it somebody else wrote the key."""

    async def taken() -> None:
        await world.watcher.commit(puts=[Put(KEY, b"theirs")])

    async def scenario() -> None:
        with pytest.raises(OncelogError, match="did not reach"):
            await world.registration.register()
        assert world.registration.mod_revision == 0
        assert world.words == []
        found = await world.found()
        assert found is not None
        assert found.value == b"theirs"
        assert world.sim.metadata.snapshot().leases == ()

    after_commit(world, taken)
    world.sim.run(scenario())


def test_a_clean_stop_removes_the_key_at_once_and_any_number_of_times(world: World) -> None:
    async def scenario() -> None:
        await world.registration.withdraw()
        assert await world.found() is None
        await world.registration.withdraw()

    running(world, scenario)


def test_a_stop_without_etcd_leaves_the_key_to_the_leases_end(world: World) -> None:
    async def go() -> None:
        await world.registration.register()
        world.sim.metadata.cut("me")
        await world.registration.withdraw()
        assert await world.found() is not None
        await asyncio.sleep(2 * TTL_MS / 1000)
        assert await world.found() is None

    world.sim.run(go())
