"""A consumer that subscribes: what it reads, whom it tells, and what it does when its membership ends."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from oncelog import errors
from oncelog.client.client import Client
from oncelog.client.consume.consumer import Consumer
from oncelog.client.consume.offsets import GroupMetadata
from oncelog.types import TopicPartition
from tests.unit.sdk.client.consume.scripted_group import SESSION_MS, ScriptedGroup
from tests.unit.sdk.client.fake_cluster import TOPIC, TOPIC_ID, FakeCluster
from tests.unit.sdk.client.reading import EARLIEST, P0, P1, append, values

Told = list[tuple[str, list[TopicPartition]]]
Work = Callable[[ScriptedGroup, Client], Awaitable[None]]


@pytest.fixture
def cluster() -> FakeCluster:
    made = FakeCluster()
    append(made, [b"0", b"1", b"2"])
    append(made, [b"x"], partition=1)
    return made


def in_group(cluster: FakeCluster, *assigned: int) -> Callable[[Work], None]:
    """Runs a test's work with the coordinator of a group, which assigns these partitions first."""

    def run(work: Work) -> None:
        async def whole(_: FakeCluster) -> None:
            async with cluster.client(default_api_timeout_ms=10_000) as client:
                await work(ScriptedGroup(cluster, *assigned), client)

        cluster.run(whole)

    return run


def member(client: Client, told: Told | None = None, **options: Any) -> Consumer:
    """A consumer of the group that subscribes and writes down what it is told."""
    consumer = client.consumer(group_id="g", **{**EARLIEST, **options})
    seen: Told = [] if told is None else told
    consumer.subscribe(
        TOPIC,
        on_assigned=lambda given: seen.append(("assigned", given)),
        on_revoked=lambda given: seen.append(("revoked", given)),
        on_lost=lambda given: seen.append(("lost", given)),
    )
    return consumer


async def all_of(consumer: Consumer) -> list[bytes]:
    """What is there to read now."""
    found: list[bytes] = []
    while records := await consumer.getmany(timeout_ms=300):
        found += values(records)
    return found


def test_the_first_read_joins_and_reads_what_is_assigned(cluster: FakeCluster) -> None:
    @in_group(cluster, 0)
    async def _(group: ScriptedGroup, client: Client) -> None:
        told: Told = []
        async with member(client, told, group_instance_id="i", client_rack="r") as consumer:
            assert (consumer.assignment(), group.heartbeats) == ([], [])
            assert await all_of(consumer) == [b"0", b"1", b"2"]
            assert (consumer.assignment(), told) == ([P0], [("assigned", [P0])])
        join = group.heartbeats[0]
        assert (join.group_id, join.member_epoch, join.subscription.topics) == ("g", 0, [TOPIC])
        assert (join.subscription.instance_id, join.subscription.rack) == ("i", "r")


def test_topics_that_a_consumer_of_a_group_is_made_with_are_subscribed_to(cluster: FakeCluster) -> None:
    @in_group(cluster, 0)
    async def _(group: ScriptedGroup, client: Client) -> None:
        async with client.consumer(TOPIC, group_id="g", **EARLIEST) as consumer:
            assert (consumer.assignment(), group.heartbeats) == ([], [])
            assert await all_of(consumer) == [b"0", b"1", b"2"], "its share, which is not all"
            assert group.heartbeats[0].subscription.topics == [TOPIC]
            assert consumer.group() == GroupMetadata("g", group.member_id, group.epoch)
            with pytest.raises(errors.IllegalStateError, match=r"client\.consumer\(group_id='billing'\)"):
                await consumer.assign([P1])
        assert group.leaves()


def test_a_consumer_that_was_made_with_topics_takes_callbacks_by_subscribe(cluster: FakeCluster) -> None:
    @in_group(cluster, 0)
    async def _(group: ScriptedGroup, client: Client) -> None:
        told: Told = []
        async with client.consumer(TOPIC, group_id="g", **EARLIEST) as consumer:
            consumer.subscribe(TOPIC, on_assigned=lambda given: told.append(("assigned", given)))
            assert await all_of(consumer) == [b"0", b"1", b"2"]
        assert told == [("assigned", [P0])]


def test_a_consumer_of_a_group_without_topics_may_assign_all_of_them_and_joins_nothing(cluster: FakeCluster) -> None:
    @in_group(cluster, 0)
    async def _(group: ScriptedGroup, client: Client) -> None:
        async with client.consumer(group_id="g", **EARLIEST) as consumer:
            await consumer.assign_topics(TOPIC)
            assert sorted(await all_of(consumer)) == [b"0", b"1", b"2", b"x"]
            await consumer.commit()
        assert group.heartbeats == []
        assert cluster.offsets == {(TOPIC_ID, 0): 3, (TOPIC_ID, 1): 1}


def test_a_partition_begins_at_the_committed_offset(cluster: FakeCluster) -> None:
    @in_group(cluster, 0, 1)
    async def _(group: ScriptedGroup, client: Client) -> None:
        cluster.offsets[TOPIC_ID, 0] = 2
        async with member(client) as consumer:
            assert sorted(await all_of(consumer)) == [b"2", b"x"]


def test_on_assigned_may_seek(cluster: FakeCluster) -> None:
    @in_group(cluster, 0)
    async def _(group: ScriptedGroup, client: Client) -> None:
        async with client.consumer(group_id="g", **EARLIEST) as consumer:
            consumer.subscribe(TOPIC, on_assigned=lambda given: consumer.seek(P0, 1))
            assert await all_of(consumer) == [b"1", b"2"]


def test_a_revoked_partition_is_committed_then_let_go_then_told(cluster: FakeCluster) -> None:
    @in_group(cluster, 0, 1)
    async def _(group: ScriptedGroup, client: Client) -> None:
        async with client.consumer(group_id="g", **EARLIEST) as consumer:
            applied: list[int] = []

            async def on_revoked(given: list[TopicPartition]) -> None:
                applied.append(group.applied)
                assert set(given) <= set(consumer.assignment()), "they are this member's until this returns"
                await consumer.commit()

            consumer.subscribe(TOPIC, on_revoked=on_revoked)
            await all_of(consumer)
            await group.assign(0)
            await cluster.pause()
            assert consumer.assignment() == [P0, P1], "not in the middle of the caller's work"
            await all_of(consumer)
            assert consumer.assignment() == [P0]
            assert cluster.offsets[TOPIC_ID, 1] == 1
            await group.until_applied()
            assert applied == [1], "the coordinator learns of it afterwards"


def test_a_partition_that_stays_is_not_fetched_again(cluster: FakeCluster) -> None:
    @in_group(cluster, 0)
    async def _(group: ScriptedGroup, client: Client) -> None:
        async with member(client) as consumer:
            first = await consumer.getmany(max_records=1)
            cursor = consumer._fetcher.cursors[P0]
            await group.assign(0, 1)
            rest = await all_of(consumer)
            assert consumer._fetcher.cursors[P0] is cursor
            assert sorted(values(first) + rest) == [b"0", b"1", b"2", b"x"]
            fetched = [item.fetch_offset for request in cluster.requests("Fetch") for item in request.partitions]
            assert fetched.count(0) == 2, "each partition once from its beginning"


def test_a_waiting_read_carries_a_change_out_at_once(cluster: FakeCluster) -> None:
    @in_group(cluster)
    async def _(group: ScriptedGroup, client: Client) -> None:
        async with member(client) as consumer:
            waiting = asyncio.ensure_future(consumer.getmany())
            await asyncio.sleep(1)
            began = asyncio.get_running_loop().time()
            await group.assign(1)
            assert values(await waiting) == [b"x"]
            assert asyncio.get_running_loop().time() - began < 0.5


def test_lost_partitions_are_no_longer_read_in_the_middle_of_a_batch(cluster: FakeCluster) -> None:
    @in_group(cluster, 0)
    async def _(group: ScriptedGroup, client: Client) -> None:
        told: Told = []
        async with member(client, told) as consumer:
            assert (await anext(consumer)).value == b"0"
            group.assigned = (1,)
            await group.fence()
            await asyncio.sleep(1)
            assert told == [("assigned", [P0])], "a callback runs in a read"
            assert (await anext(consumer)).value == b"x"
            assert told[1:] == [("lost", [P0]), ("assigned", [P1])]
            assert len({beat.member_id for beat in group.heartbeats}) == 2


def test_without_on_lost_the_loss_is_told_as_a_revocation(cluster: FakeCluster) -> None:
    @in_group(cluster, 0)
    async def _(group: ScriptedGroup, client: Client) -> None:
        revoked: list[list[TopicPartition]] = []
        async with client.consumer(group_id="g", **EARLIEST) as consumer:
            consumer.subscribe(TOPIC, on_revoked=revoked.append)
            await all_of(consumer)
            await group.fence()
            await asyncio.sleep(1)
            await consumer.getmany(timeout_ms=0)
            assert revoked == [[P0]]


def test_a_member_that_hears_nothing_stops_before_its_partitions_are_given_away(cluster: FakeCluster) -> None:
    @in_group(cluster, 0)
    async def _(group: ScriptedGroup, client: Client) -> None:
        told: Told = []
        async with member(client, told, max_poll_interval_ms=3_600_000) as consumer:
            await all_of(consumer)
            group.is_silent = True
            await asyncio.sleep(SESSION_MS / 1000)
            assert consumer.assignment() == []
            await consumer.getmany(timeout_ms=0)
            assert told[-1] == ("lost", [P0])
            group.is_silent = False


def test_a_commit_names_the_member_and_its_epoch(cluster: FakeCluster) -> None:
    @in_group(cluster, 0)
    async def _(group: ScriptedGroup, client: Client) -> None:
        async with member(client) as consumer:
            records = await consumer.getmany()
            assert records.group is not None
            assert records.group == consumer.group()
            assert (records.group.member_id, records.group.member_epoch) == (group.member_id, group.epoch)
            await consumer.commit()
            [request] = cluster.requests("CommitOffsets")
            assert (request.member.member_id, request.member.member_epoch) == (group.member_id, group.epoch)


def test_what_a_callback_raises_is_raised_by_the_read_and_the_change_is_carried_out(cluster: FakeCluster) -> None:
    @in_group(cluster, 0, 1)
    async def _(group: ScriptedGroup, client: Client) -> None:
        def fail(given: list[TopicPartition]) -> None:
            raise ValueError("mine")

        async with client.consumer(group_id="g", **EARLIEST) as consumer:
            consumer.subscribe(TOPIC, on_revoked=fail)
            await all_of(consumer)
            await group.assign(0)
            await cluster.pause()
            with pytest.raises(ValueError, match="mine"):
                await consumer.getmany(timeout_ms=1_000)
            assert consumer.assignment() == [P0]
            await group.until_applied()
            with pytest.raises(ValueError, match="mine"):
                await consumer.close()
        assert len(group.leaves()) == 1


def test_a_callback_may_not_read(cluster: FakeCluster) -> None:
    @in_group(cluster, 0)
    async def _(group: ScriptedGroup, client: Client) -> None:
        async with client.consumer(group_id="g", **EARLIEST) as consumer:

            async def on_assigned(given: list[TopicPartition]) -> None:
                await consumer.getmany()

            consumer.subscribe(TOPIC, on_assigned=on_assigned)
            with pytest.raises(errors.IllegalStateError, match="may not read"):
                await consumer.getmany()
            assert await all_of(consumer) == [b"0", b"1", b"2"], "the assignment was carried out"


def test_a_task_that_a_callback_began_may_read_later(cluster: FakeCluster) -> None:
    @in_group(cluster, 0)
    async def _(group: ScriptedGroup, client: Client) -> None:
        begun: list[asyncio.Task[list[bytes]]] = []

        async def later(consumer: Consumer) -> list[bytes]:
            await asyncio.sleep(1)
            return await all_of(consumer)

        async with client.consumer(group_id="g", **EARLIEST) as consumer:
            consumer.subscribe(TOPIC, on_assigned=lambda given: begun.append(asyncio.ensure_future(later(consumer))))
            await consumer.getmany(max_records=1)
            assert await begun[0] == [b"1", b"2"]


def test_a_refusal_is_raised_and_the_next_read_tries_again(cluster: FakeCluster) -> None:
    @in_group(cluster, 0)
    async def _(group: ScriptedGroup, client: Client) -> None:
        cluster.fail("GroupHeartbeat", errors.GroupAuthorizationError("no READ on the group"))
        async with member(client) as consumer:
            with pytest.raises(errors.GroupAuthorizationError):
                await consumer.getmany(timeout_ms=1_000)
            assert await all_of(consumer) == [b"0", b"1", b"2"]


@pytest.mark.parametrize(("options", "epoch"), [({}, -1), ({"group_instance_id": "i"}, -2)])
def test_closing_tells_revokes_and_leaves(cluster: FakeCluster, options: dict[str, Any], epoch: int) -> None:
    @in_group(cluster, 0)
    async def _(group: ScriptedGroup, client: Client) -> None:
        told: Told = []
        async with member(client, told, **options) as consumer:
            await all_of(consumer)
        assert told[-1] == ("revoked", [P0])
        assert group.leaves() == [(group.member_id, epoch)]


def test_unsubscribing_leaves_for_good_and_the_consumer_may_be_assigned_by_hand(cluster: FakeCluster) -> None:
    @in_group(cluster, 0)
    async def _(group: ScriptedGroup, client: Client) -> None:
        async with member(client, group_instance_id="i") as consumer:
            await all_of(consumer)
            with pytest.raises(errors.IllegalStateError, match="unsubscribe"):
                await consumer.assign([P1])
            await consumer.unsubscribe()
            await consumer.unsubscribe()
            assert (group.leaves(), consumer.assignment()) == ([(group.member_id, -1)], [])
            await consumer.assign([P1])
            assert await all_of(consumer) == [b"x"]
            with pytest.raises(errors.IllegalStateError, match="by hand"):
                consumer.subscribe(TOPIC)


def test_closing_does_not_wait_for_a_coordinator_that_is_silent(cluster: FakeCluster) -> None:
    @in_group(cluster, 0)
    async def _(group: ScriptedGroup, client: Client) -> None:
        async with member(client) as consumer:
            await all_of(consumer)
            cluster.down = set(cluster.client().config.bootstrap_servers)
            began = asyncio.get_running_loop().time()
        assert asyncio.get_running_loop().time() - began < 6
        cluster.down = set()


def test_a_consumer_that_does_not_read_leaves_and_its_next_read_joins_again(cluster: FakeCluster) -> None:
    @in_group(cluster, 0)
    async def _(group: ScriptedGroup, client: Client) -> None:
        told: Told = []
        async with member(client, told, max_poll_interval_ms=5_000) as consumer:
            await all_of(consumer)
            await asyncio.sleep(6)
            assert len(group.leaves()) == 1
            assert consumer.assignment() == []
            append(cluster, [b"new"])
            assert b"new" in await all_of(consumer)
            assert [what for what, _ in told] == ["assigned", "lost", "assigned"]


@pytest.mark.parametrize("is_silent", [False, True])
def test_a_read_that_waits_for_records_is_a_read_all_the_time(cluster: FakeCluster, is_silent: bool) -> None:
    @in_group(cluster, 0)
    async def _(group: ScriptedGroup, client: Client) -> None:
        told: Told = []
        async with member(client, told, max_poll_interval_ms=2_000) as consumer:
            await all_of(consumer)
            group.is_silent = is_silent
            assert await consumer.getmany(timeout_ms=20_000) == []
            group.is_silent = False
            assert told == [("assigned", [P0])]


def test_a_second_subscribe_replaces_topics_and_callbacks_under_the_same_membership(cluster: FakeCluster) -> None:
    @in_group(cluster, 0)
    async def _(group: ScriptedGroup, client: Client) -> None:
        async with member(client) as consumer:
            await all_of(consumer)
            told: Told = []
            consumer.subscribe(TOPIC, pattern="b.*", on_assigned=lambda given: told.append(("second", given)))
            await group.assign(0, 1)
            await all_of(consumer)
            assert told == [("second", [P1])]
        said = [beat.subscription for beat in group.heartbeats if beat.HasField("subscription")]
        assert [(one.version, one.pattern) for one in said] == [(1, ""), (2, "b.*")]
        assert len({beat.member_id for beat in group.heartbeats}) == 1


def test_a_topic_that_was_created_again_is_read_when_the_group_assigns_it(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    @in_group(cluster, 0)
    async def _(group: ScriptedGroup, client: Client) -> None:
        async with member(client) as consumer:
            await all_of(consumer)
            cluster.create_again()
            await client._metadata.refresh(client._context.deadline_ms())
            with caplog.at_level(logging.WARNING):
                await consumer.getmany(timeout_ms=100)
            assert consumer.assignment() == [], "another member may be given it"
            await group.assign(0)
            await consumer.getmany(timeout_ms=100)
            assert consumer.assignment() == [P0]
            assert consumer._fetcher.cursors[P0].id.topic_id == cluster.topic_id


def test_a_member_that_may_not_reset_is_told_once_that_its_topic_was_created_again(cluster: FakeCluster) -> None:
    @in_group(cluster, 0)
    async def _(group: ScriptedGroup, client: Client) -> None:
        cluster.offsets[TOPIC_ID, 0] = 3
        async with member(client, auto_offset_reset="none") as consumer:
            await all_of(consumer)
            cluster.offsets[cluster.create_again(), 0] = 0
            await client._metadata.refresh(client._context.deadline_ms())
            with pytest.raises(errors.UnknownTopicError, match="the group goes on with the first record"):
                await consumer.getmany(timeout_ms=100)
            await group.assign(0)
            await consumer.getmany(timeout_ms=100)
            assert await consumer.position(P0) == 0


def test_what_subscribe_cannot_do_is_said(cluster: FakeCluster) -> None:
    @in_group(cluster)
    async def _(group: ScriptedGroup, client: Client) -> None:
        with pytest.raises(errors.ConfigError, match="subscribe to what"):
            client.consumer(group_id="g").subscribe()
        with pytest.raises(errors.ConfigError, match="give the consumer a group_id"):
            client.consumer().subscribe(TOPIC)
        with pytest.raises(errors.IllegalStateError, match="by hand"):
            client.consumer(TOPIC).subscribe(TOPIC)
        assert group.heartbeats == []


@pytest.mark.parametrize("verb", ["close", "unsubscribe"])
def test_a_callback_may_not_end_the_consumer_that_waits_for_it(cluster: FakeCluster, verb: str) -> None:
    @in_group(cluster, 0)
    async def _(group: ScriptedGroup, client: Client) -> None:
        async with client.consumer(group_id="g", **EARLIEST) as consumer:

            async def on_assigned(given: list[TopicPartition]) -> None:
                await getattr(consumer, verb)()

            consumer.subscribe(TOPIC, on_assigned=on_assigned)
            with pytest.raises(errors.IllegalStateError, match="may not read or close"):
                await consumer.getmany()
            assert await all_of(consumer) == [b"0", b"1", b"2"]


def test_a_revocation_that_raises_does_not_skip_what_was_assigned_with_it(cluster: FakeCluster) -> None:
    @in_group(cluster, 0)
    async def _(group: ScriptedGroup, client: Client) -> None:
        assigned: list[list[TopicPartition]] = []

        def fail(given: list[TopicPartition]) -> None:
            raise ValueError(str(given[0].partition))

        consumer = client.consumer(group_id="g", **EARLIEST)
        consumer.subscribe(TOPIC, on_assigned=assigned.append, on_revoked=fail)
        await all_of(consumer)
        await group.assign(1)
        await cluster.pause()
        with pytest.raises(ValueError, match="0"):
            await consumer.getmany(timeout_ms=1_000)
        assert assigned == [[P0], [P1]]
        with pytest.raises(ValueError, match="1"):
            await consumer.close()


def test_a_read_that_is_cancelled_leaves_no_change_half_done(cluster: FakeCluster) -> None:
    @in_group(cluster, 0, 1)
    async def _(group: ScriptedGroup, client: Client) -> None:
        told: list[str] = []

        async def on_revoked(given: list[TopicPartition]) -> None:
            told.append("begun")
            await asyncio.sleep(1)
            told.append("ended")

        async with client.consumer(group_id="g", **EARLIEST) as consumer:
            consumer.subscribe(TOPIC, on_revoked=on_revoked)
            await all_of(consumer)
            await group.assign(0)
            await cluster.pause()
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(consumer.getmany(), 0.5)
            assert (told, consumer.assignment()) == (["begun"], [P0, P1])
            await consumer.getmany(timeout_ms=0)
            assert (told, consumer.assignment()) == (["begun", "ended"], [P0])


def test_another_task_gets_nothing_of_a_partition_while_it_is_given_away(cluster: FakeCluster) -> None:
    @in_group(cluster, 0)
    async def _(group: ScriptedGroup, client: Client) -> None:
        async with client.consumer(group_id="g", **EARLIEST) as consumer:
            taken: list[bytes] = []

            async def on_revoked(given: list[TopicPartition]) -> None:
                await asyncio.sleep(1)

            consumer.subscribe(TOPIC, on_revoked=on_revoked)
            await consumer.getmany(max_records=1)
            await group.assign()
            await cluster.pause()

            async def read() -> None:
                taken.extend(values(await consumer.getmany(timeout_ms=300)))

            await asyncio.gather(read(), read())
            assert taken == []


def test_a_read_after_the_event_loop_stood_still_returns_nothing_of_lost_partitions(cluster: FakeCluster) -> None:
    @in_group(cluster, 0)
    async def _(group: ScriptedGroup, client: Client) -> None:
        told: Told = []
        async with member(client, told) as consumer:
            assert values(await consumer.getmany(max_records=1)) == [b"0"]
            consumer._group._member.membership._life.proved_ms -= 2 * SESSION_MS  # type: ignore[union-attr]
            assert await consumer.getmany(timeout_ms=0) == []
            assert ("lost", [P0]) in told


def test_a_loss_that_no_read_has_told_is_told_by_the_close(cluster: FakeCluster) -> None:
    @in_group(cluster, 0)
    async def _(group: ScriptedGroup, client: Client) -> None:
        told: Told = []
        async with member(client, told) as consumer:
            await all_of(consumer)
            await group.fence()
            await asyncio.sleep(1)
        assert told[-1] == ("lost", [P0])


# ---------------------------------------------------------------- commits after a loss


@pytest.mark.parametrize("by_hand", [False, True])
def test_nothing_is_committed_after_a_loss_before_a_read_has_told_it(cluster: FakeCluster, by_hand: bool) -> None:
    @in_group(cluster, 0)
    async def _(group: ScriptedGroup, client: Client) -> None:
        async with member(client) as consumer:
            records = await consumer.getmany()
            await group.fence()
            await asyncio.sleep(1)
            now = GroupMetadata("g", group.member_id, group.epoch)
            assert consumer._offsets.group == now, "it is a member again, and owns it"
            with pytest.raises(errors.UnknownMemberError, match="nothing was committed"):
                await consumer.commit(records.offsets if by_hand else None)
            assert cluster.offsets == {}
            await consumer.getmany()
            await consumer.commit()
            assert cluster.offsets != {}


def test_no_transaction_gets_a_membership_under_which_its_offsets_were_not_read(cluster: FakeCluster) -> None:
    @in_group(cluster, 0)
    async def _(group: ScriptedGroup, client: Client) -> None:
        async with member(client) as consumer:
            records = await consumer.getmany()
            before = consumer.group()
            assert records.group == before
            await group.fence()
            await asyncio.sleep(1)
            with pytest.raises(errors.UnknownMemberError):
                consumer.group()
            records = await consumer.getmany()
            assert records.group == consumer.group() != before


@pytest.mark.parametrize("name", ["on_lost", "on_revoked"])
def test_a_commit_in_the_callback_that_tells_a_loss_is_refused(cluster: FakeCluster, name: str) -> None:
    @in_group(cluster, 0)
    async def _(group: ScriptedGroup, client: Client) -> None:
        async def commit(_: list[TopicPartition]) -> None:
            await consumer.commit()

        consumer = client.consumer(group_id="g", **EARLIEST)
        consumer.subscribe(TOPIC, **{name: commit})  # type: ignore[arg-type]
        await consumer.getmany()
        await group.fence()
        await asyncio.sleep(1)
        with pytest.raises(errors.UnknownMemberError):
            await consumer.getmany()
        await consumer.getmany()
        await consumer.close()


def test_a_loss_during_a_callback_is_told_before_what_is_assigned_afterwards(cluster: FakeCluster) -> None:
    @in_group(cluster, 0, 1)
    async def _(group: ScriptedGroup, client: Client) -> None:
        told: Told = []

        async def on_revoked(given: list[TopicPartition]) -> None:
            told.append(("revoked", given))
            await asyncio.sleep(10)

        async with client.consumer(group_id="g", **EARLIEST) as consumer:
            consumer.subscribe(
                TOPIC,
                on_assigned=lambda given: told.append(("assigned", given)),
                on_revoked=on_revoked,
                on_lost=lambda given: told.append(("lost", given)),
            )
            await all_of(consumer)
            await group.assign(0)
            reading = asyncio.create_task(all_of(consumer))
            await asyncio.sleep(1)
            await group.fence()
            await reading
            assert told[1:] == [("revoked", [P1]), ("lost", [P0, P1]), ("assigned", [P0])]


def test_a_loss_while_the_consumer_leaves_its_group_refuses_no_later_commit(cluster: FakeCluster) -> None:
    @in_group(cluster, 0)
    async def _(group: ScriptedGroup, client: Client) -> None:
        async def on_revoked(_: list[TopicPartition]) -> None:
            await group.fence()
            await asyncio.sleep(1)

        async with client.consumer(group_id="g", **EARLIEST) as consumer:
            consumer.subscribe(TOPIC, on_revoked=on_revoked)
            await all_of(consumer)
            await consumer.unsubscribe()
            await consumer.assign([P0])
            await consumer.getmany(timeout_ms=300)
            await consumer.commit()
