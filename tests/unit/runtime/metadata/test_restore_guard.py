"""A restored etcd is noticed by whatever shows it, said once, lifted above all that was seen, and read anew."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

import pytest

from oncelog_runtime.metadata.cluster_keys import (
    PULSE_KEY,
    RESTORED_KEY,
    Broker,
    Partition,
    Topic,
    broker_key,
    decommission_key,
    partition_key,
    shard_epoch_key,
    topic_key,
)
from oncelog_runtime.metadata.cluster_view import ClusterView
from oncelog_runtime.metadata.restore_guard import PULSE_FILE, PULSE_S, Forgets, RestoreGuard
from oncelog_runtime.ports import Change, KeyValue, Listing, Put
from oncelog_runtime.sim import SimDisk, SimWorld

OLD, NEW = (Topic(name, name[0] * 32, 1, 1) for name in ("old", "new"))


class Node:
    """A view that follows the store, and its guard."""

    def __init__(
        self,
        world: SimWorld,
        name: str,
        disk: SimDisk | None = None,
        *,
        beats: bool = False,
        forgets: Forgets = lambda _items, _away_ms: (),
    ) -> None:
        self.view = ClusterView()
        self.store = world.metadata_client(name)
        self.steps: list[str] = []
        self.view.listen(lambda keys: self.steps.append(f"saw {len(keys)}"))
        self.guard = RestoreGuard(
            self.store,
            self.view,
            disk=disk,
            beats=lambda: beats,
            before_restart=lambda: self.steps.append("before restart"),
            forgets=forgets,
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Node]:
        tasks = [asyncio.create_task(self.view.follow(self.store))]
        await self.guard.begin()
        tasks.append(asyncio.create_task(self.guard.run()))
        while not self.view.revision:
            await self.view.changed()
        try:
            yield self
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


def run(scenario: Callable[[SimWorld], Awaitable[None]]) -> None:
    with SimWorld(1) as world:
        world.metadata.commit((), (put(OLD),), ())
        world.run(scenario(world))


def put(topic: Topic) -> Put:
    return Put(topic_key(topic.name), topic.encode())


def restored(world: SimWorld) -> KeyValue | None:
    return world.metadata.get(RESTORED_KEY)


def test_a_store_that_goes_on_is_left_alone_and_its_pulse_is_kept() -> None:
    async def scenario(world: SimWorld) -> None:
        disk = SimDisk(world.loop, world.random("disk"), world.plan, "n")
        async with Node(world, "n", disk, beats=True).running() as node:
            await asyncio.sleep(3.5 * PULSE_S)
            world.metadata.compact()
            world.metadata.break_watches()
            await asyncio.sleep(1)
            assert node.guard.restores == 0
        assert restored(world) is None
        pulse = world.metadata.get(PULSE_KEY)
        assert pulse is not None
        assert pulse.value == b"3"
        assert b'"pulse": 3' in disk.read_file(PULSE_FILE)

    run(scenario)


@pytest.mark.parametrize("bump", [0, 1_000_000])
def test_everybody_starts_again_once_and_no_revision_comes_twice(bump: int) -> None:
    async def scenario(world: SimWorld) -> None:
        async with Node(world, "a", beats=True).running() as a, Node(world, "b").running() as b:
            backup = world.metadata.snapshot()
            world.metadata.commit((), (put(NEW),), ())
            world.metadata.commit((), (put(OLD),), ())
            await asyncio.sleep(1)
            seen = max(a.view.newest_revision, b.view.newest_revision)
            world.metadata.restore(backup, bump)
            await asyncio.sleep(2 * PULSE_S)
            for node in (a, b):
                assert node.guard.restores == 1
                assert list(node.view.topics) == [OLD.name]
                before = node.steps.index("before restart")
                assert node.steps[before + 1].startswith("saw "), (
                    "claims end before the view shows what is left of them"
                )
                assert node.view.restored_at() == world.metadata.get(RESTORED_KEY).mod_revision  # type: ignore[union-attr]
            done = await a.store.commit(puts=[put(NEW)])
            assert done.revision > seen
            await asyncio.sleep(1)
            assert sorted(a.view.topics) == sorted(b.view.topics) == [NEW.name, OLD.name]

    run(scenario)


def test_epochs_of_shards_that_somebody_heard_of_are_written_back() -> None:
    """The last owner's clock was hours ahead, so time gives no higher one; etcd's newer ones stay."""

    async def scenario(world: SimWorld) -> None:
        ahead, behind, unknown = (shard_epoch_key("txn", shard) for shard in range(3))
        world.metadata.commit((), (Put(ahead, b"500"), Put(behind, b"500")), ())
        async with Node(world, "a", beats=True).running(), Node(world, "b").running():
            backup = world.metadata.snapshot()
            world.metadata.commit((), (Put(ahead, b"90000"),), ())
            world.metadata.commit((), (Put(unknown, b"90001"),), ())
            await asyncio.sleep(1)
            world.metadata.restore(backup, 0)
            world.metadata.commit((), (Put(behind, b"501"),), ())
            await asyncio.sleep(2 * PULSE_S)
        assert [int(world.metadata.get(key).value) for key in (ahead, behind, unknown)] == [90_000, 501, 90_001]  # type: ignore[union-attr]

    run(scenario)


def test_who_was_down_meanwhile_knows_the_pulse_from_its_file() -> None:
    async def scenario(world: SimWorld) -> None:
        disk = SimDisk(world.loop, world.random("disk"), world.plan, "n")
        backup = world.metadata.snapshot()
        async with Node(world, "n", disk, beats=True).running():
            await asyncio.sleep(3.5 * PULSE_S)
        world.metadata.restore(backup, 1_000_000)
        async with Node(world, "n", disk).running() as node:
            assert node.guard.restores == 1
            found = restored(world)
            assert found is not None
            assert found.value == b"4", "above every pulse that was seen"
            await asyncio.sleep(2 * PULSE_S)
            assert node.guard.restores == 1
        async with Node(world, "n", disk).running() as node:
            assert node.guard.restores == 0, "said once"

    run(scenario)


def test_brokers_that_were_seen_are_known_after_a_restart_and_a_restore_until_they_are_decommissioned() -> None:
    async def scenario(world: SimWorld) -> None:
        disk = SimDisk(world.loop, world.random("disk"), world.plan, "n")
        backup = world.metadata.snapshot()
        async with Node(world, "n", disk, beats=True).running() as node:
            for broker_id in (1, 2, 3):
                world.metadata.commit((), (Put(broker_key(broker_id), Broker("a:1", "a:1", "n").encode()),), ())
            await asyncio.sleep(1.5 * PULSE_S)
            world.metadata.commit((), (), (broker_key(3),))
            await asyncio.sleep(1.5 * PULSE_S)
            assert node.guard.brokers_seen == {1, 2, 3}
        world.metadata.restore(backup, 1_000_000)
        async with Node(world, "n", disk).running() as node:
            assert not node.view.brokers
            assert node.guard.brokers_seen == {1, 2, 3}
            world.metadata.commit((), (Put(broker_key(1), Broker("a:1", "a:1", "n").encode()),), ())
            for broker_id in (1, 2):
                world.metadata.commit((), (Put(decommission_key(broker_id), b"{}"),), ())
            world.metadata.commit((), (), (decommission_key(2),))
            await asyncio.sleep(1.5 * PULSE_S)
            assert node.guard.brokers_seen == {1, 3}, "1 is there"
        async with Node(world, "n", disk).running() as node:
            assert node.guard.brokers_seen == {1, 3}

    run(scenario)


def test_a_decommissioned_broker_that_still_has_replicas_is_known_on() -> None:
    async def scenario(world: SimWorld) -> None:
        async with Node(world, "n").running() as node:
            for broker_id in (1, 2):
                world.metadata.commit((), (Put(broker_key(broker_id), Broker("a:1", "a:1", "n").encode()),), ())
            partition = Partition("old", (2,), None, 3, ()).encode()
            world.metadata.commit((), (Put(partition_key(OLD.topic_id, 0), partition),), ())
            world.metadata.commit((), (), (broker_key(1), broker_key(2)))
            for broker_id in (1, 2):
                world.metadata.commit((), (Put(decommission_key(broker_id), b"{}"),), ())
                world.metadata.commit((), (), (decommission_key(broker_id),))
            await asyncio.sleep(1)
            assert node.guard.brokers_seen == {2}

    run(scenario)


def test_a_topic_that_etcd_lacks_proves_a_restore_though_its_revision_was_raised_and_no_pulse_passed() -> None:
    async def scenario(world: SimWorld) -> None:
        async with Node(world, "n").running() as node:
            backup = world.metadata.snapshot()
            world.metadata.commit((), (put(NEW),), ())
            await asyncio.sleep(1)
            world.metadata.restore(backup, 1_000_000)
            await asyncio.sleep(1)
            assert (node.guard.restores, NEW.name in node.view.topics) == (1, False)
            await asyncio.sleep(2 * PULSE_S)
            assert node.guard.restores == 1, "said once"

    run(scenario)


def test_a_log_of_which_etcd_knows_nothing_proves_a_restore_once() -> None:
    async def scenario(world: SimWorld) -> None:
        disk = SimDisk(world.loop, world.random("disk"), world.plan, "n")
        async with Node(world, "n", disk).running():
            pass
        for expected, found in ((1, ["a"]), (0, ["a"]), (1, ["a", "b"]), (0, ["b"])):
            async with Node(world, "n", disk, forgets=lambda _items, _ms, found=found: found).running() as node:  # type: ignore[misc]
                assert node.guard.restores == expected, found

    run(scenario)


def test_logs_are_asked_with_everything_that_etcd_holds_and_how_long_this_process_was_away() -> None:
    async def scenario(world: SimWorld) -> None:
        disk = SimDisk(world.loop, world.random("disk"), world.plan, "n")
        asked: list[float] = []

        def forgets(items: Sequence[KeyValue], away_ms: float) -> list[str]:
            assert topic_key(OLD.name) in [item.key for item in items]
            asked.append(away_ms)
            return []

        async with Node(world, "n", disk, forgets=forgets).running(), Node(world, "other", beats=True).running():
            await asyncio.sleep(1)
        async with Node(world, "other", beats=True).running():
            await asyncio.sleep(3.5 * PULSE_S)
        async with Node(world, "n", disk, forgets=forgets).running():
            await asyncio.sleep(1)
        assert asked == [float("inf"), 2 * 3 * PULSE_S * 1000]

    run(scenario)


def test_who_claimed_something_before_a_restore_starts_again_though_its_first_listing_came_after_it() -> None:
    """Else its incarnation stayed older than the restore, and no election could ever believe its answer."""

    async def scenario(world: SimWorld) -> None:
        async with Node(world, "a", beats=True).running() as a:
            late = Node(world, "late")
            await late.guard.begin()
            backup = world.metadata.snapshot()
            world.metadata.commit((), (put(OLD),), ())
            await asyncio.sleep(1)
            world.metadata.restore(backup, 1_000_000)
            await asyncio.sleep(1)
            assert a.guard.restores == 1
            tasks = [asyncio.create_task(late.view.follow(late.store)), asyncio.create_task(late.guard.run())]
            await asyncio.sleep(1)
            assert late.guard.restores == 1, "at once, not with the next look"
            assert "before restart" in late.steps
            await asyncio.sleep(2 * PULSE_S)
            assert late.guard.restores == 1
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    run(scenario)


def test_a_contradiction_is_declared_at_once_and_once() -> None:
    async def scenario(world: SimWorld) -> None:
        async with Node(world, "n").running() as node, Node(world, "other").running() as other:
            node.guard.contradicted("epoch 7 of t-0")
            await asyncio.sleep(1)
            assert (node.guard.restores, other.guard.restores) == (1, 1)
            await asyncio.sleep(2 * PULSE_S)
            assert (node.guard.restores, other.guard.restores) == (1, 1)

    run(scenario)


def test_what_the_watch_brought_while_everything_was_listed_is_not_forgotten() -> None:
    async def scenario(world: SimWorld) -> None:
        async with Node(world, "n").running() as node:
            backup = world.metadata.snapshot()
            world.metadata.commit((), (put(OLD),), ())
            await asyncio.sleep(1)
            listed = node.store.list

            async def late(prefix: str) -> Listing:
                """The answer is late: meanwhile a topic was made, and the watch was faster."""
                listing = await listed(prefix)
                if prefix == "/oncelog/" and restored(world) is not None and NEW.name not in node.view.topics:
                    done = world.metadata.commit((), (put(NEW),), ())
                    node.view.change(Change(topic_key(NEW.name), NEW.encode(), done.revision))
                return listing

            node.store.list = late  # type: ignore[method-assign]
            world.metadata.restore(backup)
            await asyncio.sleep(2 * PULSE_S)
            assert node.guard.restores == 1
            assert NEW.name in node.view.topics

    run(scenario)


def listing(revision: int, *items: KeyValue) -> Listing:
    return Listing(items, revision)


def topic_at(topic: Topic, revision: int) -> KeyValue:
    return KeyValue(topic_key(topic.name), topic.encode(), revision)


def view_in_doubt() -> tuple[ClusterView, list[str]]:
    view, doubts = ClusterView(), list[str]()
    view.on_doubt = lambda: doubts.append("doubt")
    view.listed(listing(20, topic_at(OLD, 15), KeyValue(shard_epoch_key("txn", 0), b"7", 18)))
    assert not doubts
    return view, doubts


@pytest.mark.parametrize(
    "found",
    [
        listing(19, topic_at(OLD, 15)),
        listing(30, topic_at(OLD, 14)),
        listing(30, topic_at(OLD, 15), KeyValue(RESTORED_KEY, b"1", 30)),
    ],
    ids=["an older revision", "an older key", "somebody has said so"],
)
def test_a_listing_that_went_back_is_not_entered_but_told_of(found: Listing) -> None:
    view, doubts = view_in_doubt()
    view.listed(found)
    assert doubts
    assert (view.revision, view.revision_of(topic_key(OLD.name)), view.restored_at()) == (20, 15, 0)


def test_a_key_that_was_learned_ahead_of_a_listing_is_no_contradiction() -> None:
    view, doubts = view_in_doubt()
    view.learn([topic_at(OLD, 25)])
    view.listed(listing(22, topic_at(OLD, 15)))
    assert not doubts
    assert view.revision_of(topic_key(OLD.name)) == 25


def test_a_restart_replaces_everything_but_the_epochs_of_shards() -> None:
    view, _ = view_in_doubt()
    told: list[list[str]] = []
    view.listen(told.append)
    view.change(Change(RESTORED_KEY, b"1", 21))
    assert view.restored_at() == 0, "it is taken in with everything else"
    view.restart(
        listing(22, topic_at(NEW, 3), KeyValue(shard_epoch_key("txn", 0), b"2", 4), KeyValue(RESTORED_KEY, b"1", 21))
    )
    assert list(view.topics) == [NEW.name]
    assert view.shard_epochs["txn", 0] == 7, "an epoch never goes back"
    assert view.revision_of(shard_epoch_key("txn", 0)) == 4, "and yet the key can be compared"
    assert view.restored_at() == view.restored_is().mod_revision == 21
    assert view.is_doubtful(view.topics[NEW.name])
    assert topic_key(OLD.name) in told[-1], "who holds something for a key that is gone hears of it"
