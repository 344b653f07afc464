"""The rules in force follow what stands in etcd: nobody before the first listing, the last ones while it is away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from oncelog.errors import MetadataUnavailableError
from oncelog_runtime.core.quota import QuotaKind
from oncelog_runtime.core.security.access import Policy
from oncelog_runtime.core.security.acl import Acl, Operation, PatternType, ResourceType
from oncelog_runtime.core.security.quotas import Quota
from oncelog_runtime.ports import Listing, Put
from oncelog_runtime.security.authorizer import Authorizer
from oncelog_runtime.security.stored import acl_key, encode, quota_key
from oncelog_runtime.serving.quotas import Quotas
from oncelog_runtime.sim import SimWorld

READ, TOPIC = Operation.READ, ResourceType.TOPIC
QUOTA = Quota("User:ann", {QuotaKind.REQUESTS: 5})


def rule(topic: str) -> Acl:
    return Acl("User:ann", TOPIC, PatternType.LITERAL, topic, READ)


def put(*topics: str) -> list[Put]:
    return [Put(acl_key(rule(topic)), encode(rule(topic).as_dict())) for topic in topics]


class World:
    """A store, and an authorizer that follows it."""

    def __init__(self, sim: SimWorld) -> None:
        self.sim, self.store = sim, sim.metadata_client("writer")
        self.policy, self.quotas = Policy(), Quotas()
        self.authorizer = Authorizer(self.policy, self.quotas)

    def may_read(self, topic: str) -> bool:
        access = self.authorizer.access("User:ann", "h")
        access.look()
        return access.allows(READ, TOPIC, topic)


def follow(scenario: Callable[[World], Awaitable[None]]) -> None:
    with SimWorld("authorizer") as sim:
        world = World(sim)

        async def go() -> None:
            following = sim.spawn(world.authorizer.follow(sim.metadata_client("node")))
            await scenario(world)
            following.cancel()

        sim.run(go())


def test_nobody_is_let_in_by_rules_that_were_not_read() -> None:
    async def scenario(world: World) -> None:
        with pytest.raises(MetadataUnavailableError, match="not read its access rules yet") as caught:
            world.authorizer.access("User:ann", "h")
        assert caught.value.retry_after_ms == 200
        await asyncio.sleep(1)
        assert world.authorizer.is_loaded
        assert not world.may_read("orders")

    follow(scenario)


def test_rules_come_and_go_with_what_stands_in_etcd() -> None:
    async def scenario(world: World) -> None:
        done = await world.store.commit(puts=put("orders"))
        assert await world.authorizer.until(done.revision, 1_000)
        assert world.may_read("orders")
        gone = await world.store.commit(deletes=[acl_key(rule("orders"))])
        assert await world.authorizer.until(gone.revision, 1_000)
        assert not world.may_read("orders")

    follow(scenario)


def test_many_changes_at_once_are_one_change_of_the_rules() -> None:
    async def scenario(world: World) -> None:
        await asyncio.sleep(1)
        before = world.policy.generation
        done = await world.store.commit(puts=put(*(f"t{number}" for number in range(50))))
        assert await world.authorizer.until(done.revision, 1_000)
        assert world.policy.generation == before + 1
        assert world.may_read("t0")
        assert world.may_read("t49")

    follow(scenario)


def test_while_etcd_is_away_the_last_rules_count_and_a_new_listing_says_it_all() -> None:
    async def scenario(world: World) -> None:
        done = await world.store.commit(puts=put("old", "kept"))
        assert await world.authorizer.until(done.revision, 1_000)
        world.sim.metadata.cut("node")
        changed = await world.store.commit(puts=put("new"), deletes=[acl_key(rule("old"))])
        assert not await world.authorizer.until(changed.revision, 5_000)
        assert (world.may_read("old"), world.may_read("new")) == (True, False)
        world.sim.metadata.compact()
        world.sim.metadata.heal()
        assert await world.authorizer.until(changed.revision, 5_000)
        assert [world.may_read(topic) for topic in ("old", "kept", "new")] == [False, True, True]

    follow(scenario)


def test_whoever_waits_for_a_revision_waits_no_longer_than_he_may() -> None:
    async def scenario(world: World) -> None:
        began = world.sim.loop.now_ms()
        assert not await world.authorizer.until(10_000, 700)
        assert world.sim.loop.now_ms() - began == 700

    follow(scenario)


def test_quotas_follow_the_same_watch() -> None:
    async def scenario(world: World) -> None:
        done = await world.store.commit(puts=[Put(quota_key("User:ann"), encode(QUOTA.as_dict()))])
        assert await world.authorizer.until(done.revision, 1_000)
        assert world.quotas.table.limits_of("User:ann") == QUOTA.limits

    follow(scenario)


class OneListing:
    """A store that tells one thing."""

    async def watch(self, _prefix: str) -> AsyncIterator[Listing]:
        yield Listing((), 3)
        await asyncio.Event().wait()


def test_rules_that_were_read_and_are_not_in_force_yet_are_waited_for() -> None:
    async def scenario() -> None:
        authorizer = Authorizer(Policy())
        following = asyncio.create_task(authorizer.follow(OneListing()))  # type: ignore[arg-type]

        async def wait() -> bool:
            assert await authorizer.until(3, 10_000)
            return authorizer.is_loaded

        assert await asyncio.create_task(wait())  # whose first step comes right after the listing
        following.cancel()

    asyncio.run(scenario())
