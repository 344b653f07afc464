"""Draining: what moves, what stays, who waits in line, and what a new incarnation forgets."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog import errors
from oncelog.v1 import coordinator_pb2 as co
from oncelog.v1 import partition_pb2 as pa
from oncelog.v1 import types_pb2
from oncelog.wire import methods
from oncelog_coordinator.coordinator import CoordinatorNode
from oncelog_runtime.metadata import cluster_keys as keys
from oncelog_runtime.observability import health
from tests.conformance.script import Place, Script, cluster

START, CANCEL, STATUS = types_pb2.DRAIN_ACTION_START, types_pb2.DRAIN_ACTION_CANCEL, types_pb2.DRAIN_ACTION_STATUS


async def drain(s: Script, node: str, action: Any = START) -> pa.DrainBrokerReply:
    """One call."""
    reply: pa.DrainBrokerReply = await s.call(node, methods.DRAIN_BROKER, pa.DrainBrokerRequest(action=action))
    return reply


async def drained(s: Script, node: str) -> None:
    """Asks until the broker is safe to stop."""
    await s.retry(lambda: drain(s, node))

    async def state() -> int:
        return int((await drain(s, node, STATUS)).state)

    deadline = s.now_ms + 20_000
    while await state() != types_pb2.DRAIN_STATE_DRAINED:
        assert s.now_ms < deadline, f"{node} is not drained"
        await s.sleep(0.1)


def leads(s: Script, node: str) -> int:
    """Partitions that etcd says are led by this broker."""
    broker_id = s.broker(node).me().broker_id
    states = [keys.Partition.decode(item.value) for item in s.world.metadata.list(keys.PARTITIONS).items]
    return sum(state.leader is not None and state.leader.broker_id == broker_id for state in states)


def ready(s: Script, node: str) -> bool:
    assert s.world.nodes[node].ports.health.serving(health.LIVENESS), "whatever happens, it is alive"
    return s.world.nodes[node].ports.health.serving(health.READINESS)


async def test_a_drained_broker_leads_nothing_and_stays_in_every_isr(s: Script) -> None:
    place: Place = await s.place()
    writer = await s.producer()
    await s.write(place, writer, "x")
    node = s.leader(place)
    await s.until(lambda: ready(s, node))
    await drained(s, node)
    assert leads(s, node) == 0
    assert s.isr(place) == {"broker-0", "broker-1", "broker-2"}, "a change of leaders costs no replica"
    assert not ready(s, node)
    item = s.world.metadata.get(keys.CONTROLLER_KEY)
    assert item is not None
    assert keys.decode_ref(item.value) != s.broker(node).me(), "nor is it the controller"
    await s.retry(lambda: s.write(place, writer, "y", seq=1))
    assert await s.read(place) == ["x", "y"]


async def test_one_broker_drains_at_a_time_and_cancel_ends_it(s: Script) -> None:
    place = await s.place()
    first, (second, _) = s.leader(place), s.followers(place)
    await drained(s, first)
    with pytest.raises(errors.DrainingElsewhereError) as refused:
        await drain(s, second)
    assert refused.value.retriable
    assert refused.value.retry_after_ms > 0
    assert (await drain(s, second, STATUS)).state == types_pb2.DRAIN_STATE_NOT_DRAINING
    await drain(s, first, CANCEL)
    await s.until(lambda: ready(s, first))
    await drained(s, second)
    assert leads(s, second) == 0


async def test_a_new_incarnation_does_not_drain_and_removes_what_the_old_one_left(s: Script) -> None:
    place = await s.place()
    node = s.leader(place)
    await drained(s, node)
    s.kill(node)
    s.restart(node)
    await s.rejoined(node, place)
    await s.until(lambda: s.world.metadata.get(keys.BROKER_DRAIN_KEY) is None, "the old drain is removed")
    assert (await drain(s, node, STATUS)).state == types_pb2.DRAIN_STATE_NOT_DRAINING
    await s.until(lambda: ready(s, node), "it is ready again")


async def test_the_drain_of_a_dead_broker_blocks_nobody(s: Script) -> None:
    place = await s.place()
    first, (second, third) = s.leader(place), s.followers(place)
    await drained(s, first)
    s.kill(first)
    await s.until(lambda: s.isr(place) == {second, third})
    await s.retry(lambda: drain(s, second))
    await s.until(lambda: leads(s, second) == 0)
    await s.sleep(2)
    reply = await drain(s, second, STATUS)
    assert reply.state == types_pb2.DRAIN_STATE_DRAINING, (
        "it holds the drain, and waits: the ISR would fall below its minimum"
    )
    assert (reply.leaderships, reply.needed > 0) == (0, True)
    s.restart(first)
    await drained(s, second)
    assert s.isr(place) == {first, second, third}


async def test_nobody_who_drains_is_elected_while_another_can_lead(s: Script) -> None:
    place = await s.place()
    old, (second, third) = s.leader(place), s.followers(place)
    await drained(s, second)
    s.kill(old)
    assert await s.new_leader(place, old) == third


async def test_a_lost_answer_of_etcd_leaves_no_doubt_about_a_drain(s: Script) -> None:
    place = await s.place()
    node = s.leader(place)
    s.lose_etcd_answers(node, keys.BROKER_DRAIN_KEY)
    await drained(s, node)
    assert leads(s, node) == 0


async def test_a_clean_stop_drains_first(s: Script) -> None:
    place = await s.place()
    writer = await s.producer()
    await s.write(place, writer, "x")
    node = s.leader(place)
    s.cluster.ask_to_stop(node)
    began = s.now_ms
    await s.retry(lambda: s.write(place, writer, "y", seq=1))
    assert s.now_ms - began < 500, "somebody else leads at once"
    await s.world.nodes[node].stopped()
    assert await s.read(place) == ["x", "y"]


async def test_leaderships_are_given_away_five_at_a_time_and_users_first(s: Script) -> None:
    """Who leads them next answers nobody while it takes them."""
    node = s.leader((await s.topic("work", 24))[0])
    metadata, commits, me = s.world.metadata, [], s.broker(node).me()
    commit = metadata.commit

    def noted(compares: Any, puts: Any, deletes: Any) -> Any:
        known = {put.key: metadata.get(put.key) for put in puts if put.key.startswith(keys.PARTITIONS)}
        before = [keys.Partition.decode(item.value) for item in known.values() if item is not None]
        given = [state.topic in keys.INTERNAL_TOPICS for state in before if state.leader == me]
        result = commit(compares, puts, deletes)
        if given and result.succeeded:
            commits.append(given)
        return result

    metadata.commit = noted  # type: ignore[method-assign]
    s.cluster.ask_to_stop(node)
    await s.world.nodes[node].stopped()
    assert max(map(len, commits)) == 5
    order = [is_internal for given in commits for is_internal in given]
    assert order[:5] == [False] * 5
    assert order == sorted(order), "users' first"


@cluster(brokers=2, internal_topic_replication_factor=2, default_replication_factor=2)
async def test_a_cluster_of_two_skips_the_drain(s: Script) -> None:
    reply = await drain(s, "broker-0")
    assert reply.state == types_pb2.DRAIN_STATE_SKIPPED
    assert "2 brokers" in reply.reason
    assert (await drain(s, "broker-0", STATUS)).state == types_pb2.DRAIN_STATE_NOT_DRAINING


async def test_another_broker_than_the_one_that_is_meant_refuses(s: Script) -> None:
    with pytest.raises(errors.StaleBrokerEpochError):
        await s.call("broker-0", methods.DRAIN_BROKER, pa.DrainBrokerRequest(action=START, broker_id=1))


# ---------------------------------------------------------------- coordinators


def owns(s: Script, node: str) -> int:
    service = s.cluster.services[node]
    assert isinstance(service, CoordinatorNode)
    return len(service._owned)


async def coordinator(s: Script, node: str, action: Any) -> co.DrainCoordinatorReply:
    reply: co.DrainCoordinatorReply = await s.call(
        node, methods.DRAIN_COORDINATOR, co.DrainCoordinatorRequest(action=action)
    )
    return reply


async def coordinator_drained(s: Script, node: str) -> None:
    await s.retry(lambda: coordinator(s, node, START))
    deadline = s.now_ms + 20_000
    while (await coordinator(s, node, STATUS)).state != types_pb2.DRAIN_STATE_DRAINED:
        assert s.now_ms < deadline, f"{node} is not drained"
        await s.sleep(0.1)


async def test_a_drained_coordinator_owns_nothing_until_it_is_started_again(s: Script) -> None:
    await s.until(lambda: owns(s, "coordinator-0") > 0)
    await coordinator_drained(s, "coordinator-0")
    assert owns(s, "coordinator-0") == 0
    assert not ready(s, "coordinator-0")
    with pytest.raises(errors.DrainingElsewhereError):
        await coordinator(s, "coordinator-1", START)
    writer = await s.session("a")
    place = await s.place()
    await s.write(place, writer, "x")
    await s.sleep(5)
    assert owns(s, "coordinator-0") == 0
    s.cluster.ask_to_stop("coordinator-0")
    await s.world.nodes["coordinator-0"].stopped()
    s.restart("coordinator-0")
    await s.until(lambda: owns(s, "coordinator-0") > 0, "started again it owns shards again")
    await s.until(lambda: ready(s, "coordinator-0"))
    assert (await coordinator(s, "coordinator-1", STATUS)).state == types_pb2.DRAIN_STATE_NOT_DRAINING


async def test_a_cancelled_coordinator_owns_shards_again(s: Script) -> None:
    await coordinator_drained(s, "coordinator-1")
    await coordinator(s, "coordinator-1", CANCEL)
    await s.until(lambda: owns(s, "coordinator-1") > 0)
    await s.until(lambda: ready(s, "coordinator-1"))


@cluster(coordinators=1)
async def test_the_only_coordinator_skips_the_drain(s: Script) -> None:
    assert (await coordinator(s, "coordinator-0", START)).state == types_pb2.DRAIN_STATE_SKIPPED
    assert owns(s, "coordinator-0") > 0


async def test_a_draining_coordinator_that_is_left_alone_owns_shards_again(s: Script) -> None:
    await coordinator_drained(s, "coordinator-0")
    s.kill("coordinator-1")
    await s.until(lambda: owns(s, "coordinator-0") > 0, "better than nobody")


async def test_all_coordinators_that_stop_at_once_wait_for_nobody(s: Script) -> None:
    began = s.now_ms
    for node in ("coordinator-0", "coordinator-1"):
        s.cluster.ask_to_stop(node)
    for node in ("coordinator-0", "coordinator-1"):
        await s.world.nodes[node].stopped()
    assert s.now_ms - began < 800


async def test_all_brokers_that_stop_at_once_wait_for_nobody(s: Script) -> None:
    place = await s.place()
    await s.write(place, await s.producer(), "x")
    began = s.now_ms
    for node in ("broker-0", "broker-1", "broker-2"):
        s.cluster.ask_to_stop(node)
    for node in ("broker-0", "broker-1", "broker-2"):
        await s.world.nodes[node].stopped()
    assert s.now_ms - began < 1_400
    s.restart("broker-0", "broker-1", "broker-2")
    await s.cluster.healthy()
    assert await s.read(place) == ["x"]
