"""Operators' calls against the real services in a simulated cluster: lists are complete, changes reach every broker."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from oncelog import errors
from oncelog.core.batch.hashing import shard_for
from oncelog.types import PartitionId
from oncelog.v1 import partition_pb2 as pb
from oncelog.wire import methods
from oncelog_runtime.metadata import cluster_keys as keys
from tests.conformance.script import Script, run_script
from tests.simulation.cluster import SHARDS


def script(test: Callable[[Script], Awaitable[None]]) -> Callable[[], None]:
    """A test that runs in a cluster of its own."""

    def run() -> None:
        run_script(test)

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


# ---------------------------------------------------------------- lists are complete


@script
async def test_a_list_waits_for_shards_that_move(s: Script) -> None:
    for number in range(8):
        await s.session(f"t{number}")
    names = [f"t{number}" for number in range(8)]
    async with s.client() as client:
        assert [t.transactional_id for t in await client.admin.list_transactions()] == names
        s.kill("coordinator-0")
        s.expire_ownership("coordinator-0")
        assert [t.transactional_id for t in await client.admin.list_transactions()] == names
    async with s.client() as fresh:
        assert [t.transactional_id for t in await fresh.admin.list_transactions()] == names


@script
async def test_a_list_that_cannot_be_complete_is_an_error(s: Script) -> None:
    await s.session("t")
    async with s.client(default_api_timeout_ms=2_000) as client:
        s.kill("coordinator-0", "coordinator-1")
        with pytest.raises(errors.CoordinatorNotAvailableError, match="incomplete") as told:
            await client.admin.list_transactions()
        assert str(shard_for("t", SHARDS)) in told.value.context["shards"]
        with pytest.raises(errors.CoordinatorNotAvailableError, match="incomplete"):
            await client.admin.list_groups()


@script
async def test_an_answer_of_a_deposed_coordinator_does_not_count(s: Script) -> None:
    await s.session("t")
    old = s.owner("t")
    await s.depose_coordinator(old)
    writer = await s.session("t")
    async with s.client() as client:
        (found,) = [t for t in await client.admin.list_transactions() if t.transactional_id == "t"]
    assert (found.producer_epoch, found.coordinator.partition(":")[0]) == (writer.epoch, s.owner("t"))
    assert s.owner("t") != old


# ---------------------------------------------------------------- topics


@script
async def test_a_topic_never_gets_fewer_replicas_than_the_default_in_silence(s: Script) -> None:
    def there_are(count: int) -> Callable[[], bool]:
        return lambda: all(len(broker.view.brokers) == count for _, broker in s.cluster.brokers())

    async with s.client() as client:
        s.kill("broker-2")
        await s.until(there_are(2), "its registration ends")
        with pytest.raises(errors.InvalidReplicationFactorError, match="default_replication_factor") as told:
            await client.admin.create_topic("new")
        assert (told.value.context["replication_factor"], told.value.context["brokers"]) == ("3", "2")
        for factor in (3, -1):
            with pytest.raises(errors.InvalidReplicationFactorError, match="ask for fewer"):
                await client.admin.create_topic("new", replication_factor=factor)
        assert s.world.metadata.get(keys.topic_key("new")) is None, "a refusal leaves no trace"
        await client.admin.create_topic("fewer", replication_factor=2)
        s.cluster.node("broker-2").restart()
        await s.until(there_are(3), "it is back")
    place = await s.place("new")
    assert len(s.state(place).replicas) == 3


@script
async def test_options_reach_every_replica_without_restart(s: Script) -> None:
    place = await s.place()
    async with s.client() as client:
        after = await client.admin.alter_topic(place.topic, config={"retention.ms": "5000", "segment_bytes": "4096"})
        assert (after.changed, dict(after.config)["retention_ms"]) == (True, "5000")
        for node in (s.leader(place), *s.followers(place)):
            assert s.replica(node, place).log.config.retention_ms == 5_000
        again = await client.admin.alter_topic(place.topic, config={"retention_ms": "5000"})
        assert not again.changed
        sources = {c.name: c.source for c in await client.admin.topic_configs(place.topic)}
        assert (sources["retention_ms"], sources["segment_ms"]) == ("topic", "default")
        await client.admin.alter_topic(place.topic, unset=["retention_ms"])
        for node in (s.leader(place), *s.followers(place)):
            assert s.replica(node, place).log.config.retention_ms > 5_000
            assert s.replica(node, place).log.config.segment_bytes == 4_096


@script
async def test_a_dry_run_changes_nothing(s: Script) -> None:
    place = await s.place()
    async with s.client() as client:
        after = await client.admin.alter_topic(place.topic, config={"retention_ms": "5000"}, validate_only=True)
        assert after.changed
        assert "retention_ms" not in (await client.admin.describe_topic(place.topic)).config


@script
async def test_what_is_illegal_changes_nothing_and_says_what_is_legal(s: Script) -> None:
    place = await s.place()
    async with s.client() as client:
        for config, says in (
            ({"retention_ms": "soon"}, "-1 "),
            ({"retension_ms": "5"}, "did you mean retention_ms"),
            ({"flush_mode": "often"}, "replicated or fsync"),
            ({"min_insync_replicas": "0"}, "1 and up"),
        ):
            with pytest.raises(errors.ConfigError, match=says):
                await client.admin.alter_topic(place.topic, config=config)
        with pytest.raises(errors.ConfigError, match="set and unset"):
            await client.admin.alter_topic(place.topic, config={"retention_ms": "5"}, unset=["retention.ms"])
        with pytest.raises(errors.InvalidTopicError):
            await client.admin.alter_topic(keys.OFFSETS_TOPIC, config={"retention_ms": "5"})
        with pytest.raises(errors.InvalidTopicError):
            await client.admin.add_partitions(keys.OFFSETS_TOPIC, 99)
        with pytest.raises(errors.UnknownTopicError):
            await client.admin.alter_topic("nowhere", unset=["retention_ms"])
        assert dict((await client.admin.describe_topic(place.topic)).config) == {"min_insync_replicas": "2"}


@script
async def test_a_higher_minimum_refuses_writes_at_once(s: Script) -> None:
    place = await s.place(min_insync_replicas="1")
    writer = await s.producer()
    s.kill(*s.followers(place))
    await s.until(lambda: len(s.isr(place)) == 1, "the followers leave the ISR")
    await s.retry(lambda: s.write(place, writer, "a"))
    async with s.client() as client:
        await client.admin.alter_topic(place.topic, config={"min_insync_replicas": "2"})
        with pytest.raises(errors.NotEnoughReplicasError):
            await s.write(place, writer, "b", seq=1)
        await client.admin.alter_topic(place.topic, config={"min_insync_replicas": "1"})
    assert await s.write(place, writer, "b", seq=1) == 1


@script
async def test_after_a_change_to_fsync_what_is_acknowledged_survives_a_power_cut_of_all(s: Script) -> None:
    place = await s.place()
    writer = await s.producer()
    await s.write(place, writer, "a")
    async with s.client() as client:
        await client.admin.alter_topic(place.topic, config={"flush_mode": "fsync"})
    await s.write(place, writer, "b", seq=1)
    nodes = [s.leader(place), *s.followers(place)]
    s.power_cut(*nodes)
    s.restart(*nodes)
    await s.rejoined(nodes[0], place)
    assert await s.read(place) == ["a", "b"]


@script
async def test_a_change_from_fsync_answers_who_waits_and_waits_for_no_sync_any_more(s: Script) -> None:
    place = await s.place(flush_mode="fsync")
    writer = await s.producer()
    await s.write(place, writer, "a")
    for node in (s.leader(place), *s.followers(place)):
        s.slow_syncs(node)
    waiting = s.start(s.write(place, writer, "b", seq=1, acks=1, timeout_ms=5_000))
    await s.sleep(0.2)
    assert not waiting.done()
    async with s.client() as client:
        await client.admin.alter_topic(place.topic, config={"flush_mode": "replicated"})
    assert await asyncio.wait_for(waiting, 0.5) == 1
    assert await s.write(place, writer, "c", seq=2, timeout_ms=1_000) == 2


@script
async def test_partitions_are_added_and_usable_when_the_call_returns(s: Script) -> None:
    (place,) = await s.topic("work", 1)
    async with s.client() as client:
        after = await client.admin.add_partitions("work", 3)
        assert (after.partitions, after.changed) == (3, True)
        assert not (await client.admin.add_partitions("work", 3)).changed
        topic = await client.admin.describe_topic("work")
        assert [len(p.isr) for p in topic.partitions] == [3, 3, 3]
        async with client.producer() as producer:
            await producer.send_and_wait("work", b"x", partition=2)
        for wrong in (2, 0, 100_000):
            with pytest.raises(errors.InvalidPartitionsError):
                await client.admin.add_partitions("work", wrong)
    assert topic.topic_id == place.topic_id


@script
async def test_a_lost_answer_to_a_change_is_no_second_change(s: Script) -> None:
    await s.topic("work", 1)
    lost = s.lose_answers(methods.ALTER_TOPIC)
    async with s.client() as client:
        waiting = s.start(client.admin.add_partitions("work", 4))
        await lost.caught()
        lost.close()
        assert (await waiting).partitions == 4
        assert len((await client.admin.describe_topic("work")).partitions) == 4


@script
async def test_the_next_controller_finishes_what_a_dead_one_began(s: Script) -> None:
    await s.topic("work", 1)
    async with s.client() as client:
        controller = keys.decode_ref(s.world.metadata.get(keys.CONTROLLER_KEY).value)  # type: ignore[union-attr]
        held = s.delay_etcd_writes(f"broker-{controller.broker_id}", keys.PARTITIONS)
        waiting = s.start(client.admin.add_partitions("work", 60))  # more than one commit: the topic's key comes first
        await s.until(lambda: held.waiting > 0)
        s.kill(f"broker-{controller.broker_id}")
        assert (await waiting).partitions == 60
        topic = await client.admin.describe_topic("work")
        assert all(p.leader is not None for p in topic.partitions)


# ---------------------------------------------------------------- what stands in a partition


@script
async def test_records_are_counted_without_markers_and_aborted_ones(s: Script) -> None:
    place = await s.place()
    async with s.client() as client, client.producer(transactional_id="t") as producer:
        for outcome in ("commit", "abort", "commit"):
            txn = await producer.begin_transaction()
            for value in ("a", "b"):
                await txn.send(place.topic, value=value)
            await txn.flush()
            await (txn.abort() if outcome == "abort" else txn.commit(wait="visible"))
        await s.stable(place)
        opened = await producer.begin_transaction()
        await opened.send(place.topic, value="open")
        await opened.flush()
        topics = [await client.admin.describe_topic(place.topic)]
        for start, expected in ((0, 4), (1, 3), (3, 2), (8, 0), (9, 0)):
            (log,) = (await client.admin.describe_partitions(topics, {PartitionId(*place.id): start})).values()
            assert (log.records, log.counted_to) == (expected, 9), start
        assert (log.last_stable_offset, log.high_watermark, log.log_end_offset) == (9, 10, 10)
        assert log.open_transactions == 1
        (found,) = [p for p in await client.admin.describe_producers(place.topic, 0) if p.txn_start_offset >= 0]
        assert (found.txn_no, found.txn_start_offset) == (4, 9)
        await opened.abort()


@script
async def test_a_transaction_without_its_marker_hangs_and_an_open_one_does_not(s: Script) -> None:
    place = await s.place()
    writer = await s.session("t")
    await s.write(place, writer, "a")
    async with s.client() as client:
        topics = [await client.admin.describe_topic(place.topic)]
        assert await client.admin.find_hanging(topics, 0) == []
        markers = s.hold(methods.WRITE_TXN_MARKERS)
        await s.end(writer, counts={place: 1})
        (found,) = await client.admin.find_hanging(topics, 0)
        assert (found.transactional_id, found.txn_no, found.first_offset) == ("t", writer.txn_no, 0)
        assert "no marker" in found.reason
        assert await client.admin.find_hanging(topics) == [], "it is not old enough"
        markers.release()
        await s.stable(place)
        assert await client.admin.find_hanging(topics, 0) == []


@script
async def test_a_fenced_producer_writes_nothing_more(s: Script) -> None:
    place = await s.place()
    async with s.client() as client:
        async with client.producer(transactional_id="t") as producer:
            txn = await producer.begin_transaction()
            await txn.send(place.topic, value="a")
            await txn.flush()
            before = await client.admin.describe_transaction("t")
            assert await client.admin.fence_producer("t") == before.producer_epoch + 1
            with pytest.raises(errors.OncelogError):
                await txn.commit()
            with pytest.raises(errors.ProducerFencedError):
                async with producer.transaction() as later:
                    await later.send(place.topic, value="b")
        with pytest.raises(errors.InvalidPidMappingError):
            await client.admin.fence_producer("nobody")
        async with client.producer(transactional_id="t") as producer, producer.transaction() as txn:
            await txn.send(place.topic, value="c")
    await s.stable(place)
    assert await s.read(place) == ["c"]


# ---------------------------------------------------------------- groups


@script
async def test_groups_are_listed_described_moved_and_deleted_and_stay_so_after_a_fail_over(s: Script) -> None:
    first, second = await s.topic("work", 2)
    async with s.client() as client:
        for group in ("g1", "g2"):
            await client.admin.set_group_offsets(group, {("work", 0): 5, ("work", 1): 7})
        assert [(g.group_id, g.state, g.offsets) for g in await client.admin.list_groups()] == [
            ("g1", "EMPTY", 2),
            ("g2", "EMPTY", 2),
        ]
        assert await client.admin.delete_group_offsets("g1", [PartitionId(*first.id)]) == 1
        assert await client.admin.delete_group_offsets("g1", [PartitionId(*first.id)]) == 0
        assert await client.admin.delete_group_offsets("g2") == 2
        owner = s.group_owner("g1")
        s.kill(owner)
        s.expire_ownership(owner)
        assert [g.group_id for g in await client.admin.list_groups()] == ["g1"]
        described = await client.admin.describe_group("g1")
        assert [(o.topic, o.partition, o.offset) for o in described.offsets] == [("work", second.partition, 7)]
        assert (await client.admin.describe_group("g2")).offsets == ()


@script
async def test_offsets_that_an_open_transaction_would_bring_back_are_not_deleted(s: Script) -> None:
    place = await s.place()
    writer = await s.session("t")
    await s.commit_offset("g", place, 3)
    await s.send_offsets(writer, "g", place, 9, 1)
    async with s.client(default_api_timeout_ms=1_000) as client:
        (pending,) = (await client.admin.describe_group("g")).pending
        assert (pending.txn_no, pending.offsets) == (writer.txn_no, ((place.topic, 0, 9),))
        with pytest.raises(errors.UnstableOffsetCommitError, match="txn abort"):
            await client.admin.delete_group_offsets("g")
        await s.end(writer, commit=False)
        assert await client.admin.delete_group_offsets("g") == 1
    assert await s.committed_offset("g", place) is None


@script
async def test_a_broker_that_does_not_lead_says_so_in_its_item(s: Script) -> None:
    place = await s.place()
    request = pb.DescribePartitionsRequest(
        partitions=[pb.DescribePartition(topic_id=place.topic_id, partition=p) for p in (0, 9)]
    )
    reply = await s.call(s.followers(place)[0], methods.DESCRIBE_PARTITIONS, request)
    assert [item.HasField("error") for item in reply.partitions] == [True, True]


# ---------------------------------------------------------------- placement


@script
async def test_a_leader_is_chosen_and_replicas_move(s: Script) -> None:
    place = await s.place()
    async with s.client() as client:
        (other, *_) = (int(node.removeprefix("broker-")) for node in s.followers(place))
        await client.admin.transfer_leadership(place.topic, 0, other)
        await s.until(lambda: s.leader(place) == f"broker-{other}")
        old = s.state(place).replicas
        assert await client.admin.reassign_partitions({(place.topic, 0): old[::-1]}) == []
        await s.until(lambda: s.state(place).replicas == old[::-1])
        (refused,) = await client.admin.reassign_partitions({(place.topic, 0): [99]})
        assert (refused.topic, refused.partition) == (place.topic, 0)
        with pytest.raises(errors.UnknownTopicError):
            await client.admin.transfer_leadership(place.topic, 5, other)
        await s.until(lambda: not s.world.metadata.list(keys.REASSIGNMENTS).items)
        assert await client.admin.list_reassignments() == []
