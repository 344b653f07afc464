"""What a process may say of the cluster before, and after, it has read everything once."""

from __future__ import annotations

import asyncio

import pytest

from oncelog.errors import LeaderNotAvailableError, UnknownTopicError
from oncelog.types import BrokerRef, PartitionId
from oncelog_runtime.metadata import cluster_keys
from oncelog_runtime.metadata.cluster_keys import (
    BROKER_DRAIN_KEY,
    COORDINATOR_DRAIN_KEY,
    LOGS_TOLD_KEY,
    RESTORED_KEY,
    Broker,
    Drain,
    Partition,
    Reassignment,
    broker_key,
    decommission_key,
    deleted_topic_key,
    partition_key,
    reassignment_key,
    topic_key,
)
from oncelog_runtime.metadata.cluster_view import ClusterView
from oncelog_runtime.ports import Change, KeyValue, Listing

OWN_KEY = KeyValue(broker_key(0), Broker("broker-0:1", "broker-0:1", "nonce").encode(), 5)
PARTITION = PartitionId("0" * 32, 0)


def test_a_process_that_knows_its_own_registration_alone_says_of_no_topic_that_it_does_not_exist() -> None:
    view = ClusterView()
    view.learn([OWN_KEY])  # as a broker does that has just registered
    with pytest.raises(LeaderNotAvailableError) as error:
        view.require_leader(PARTITION)
    assert error.value.retriable
    with pytest.raises(LeaderNotAvailableError):
        view.topic("work")


def test_after_the_first_listing_an_absent_topic_is_unknown() -> None:
    view = ClusterView()
    view.listed(Listing((OWN_KEY,), 6))
    with pytest.raises(UnknownTopicError):
        view.require_leader(PARTITION)
    with pytest.raises(UnknownTopicError):
        view.topic("work")


def test_who_gives_up_waiting_for_a_change_leaves_nothing_behind() -> None:
    async def scenario() -> None:
        view = ClusterView()
        for _ in range(3):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.001):
                    await view.changed()
        assert not view._waiters
        waiting = asyncio.ensure_future(view.changed())
        await asyncio.sleep(0)
        view.learn([OWN_KEY])
        await waiting
        assert not view._waiters

    asyncio.run(scenario())


ENDLESS = b'{"topic":"t","replicas":[1e400],"leader":null,"leader_epoch":0,"isr":[]}'


@pytest.mark.parametrize(
    "value",
    [b"[" * 100_000, ENDLESS, b"[]", b"7", b'"x"', b"null", b"\xff"],
    ids=["deep", "endless", "list", "number", "text", "null", "no text"],
)
def test_a_value_that_nobody_can_read_does_not_count_and_the_watch_goes_on(value: bytes) -> None:
    view = ClusterView()
    for key in (
        cluster_keys.partition_key("f" * 32, 0),
        cluster_keys.topic_key("t"),
        cluster_keys.broker_key(1),
        cluster_keys.CONTROLLER_KEY,
    ):
        view.learn([KeyValue(key, value, 5)])
    view.learn([KeyValue(cluster_keys.topic_key("good"), cluster_keys.Topic("good", "f" * 32, 1, 1).encode(), 6)])
    assert (list(view.topics), list(view.partitions), list(view.brokers), view.controller) == (["good"], [], [], None)


@pytest.mark.parametrize("number", ["-1", "+1", " 1", "1_0", "", "\u0661"])
def test_a_partition_has_a_number_as_our_keys_write_it(number: str) -> None:
    """Found by fuzzing: `int` takes more, and partition -1 was in the view."""
    view = ClusterView()
    key = f"{cluster_keys.PARTITIONS}{'0' * 32}/{number}"
    view.learn([KeyValue(key, Partition("t", (1,), None, 0, ()).encode(), 5)])
    assert not view.partitions


WHERE = PartitionId("0" * 32, 3)
MOVE = Reassignment((1, 2, 3), (4, 2, 3))


def view_of(*items: tuple[str, bytes]) -> ClusterView:
    view = ClusterView()
    view.listed(Listing(tuple(KeyValue(key, value, i + 1) for i, (key, value) in enumerate(items)), 100))
    return view


def test_a_drain_counts_while_its_incarnation_is_registered() -> None:
    registered = (broker_key(2), Broker("a:1", "a:1", "n").encode())
    assert view_of(registered, (BROKER_DRAIN_KEY, Drain("2", 1, 0).encode())).draining_broker() == BrokerRef(2, 1)
    assert view_of(registered, (BROKER_DRAIN_KEY, Drain("2", 9, 0).encode())).draining_broker() is None
    assert view_of(registered).draining_broker() is None


@pytest.mark.parametrize(("told", "are_told"), [(None, False), (b"1", True), (b"9", False)])
def test_the_logs_are_told_for_one_restore(told: bytes | None, are_told: bool) -> None:
    assert view_of().logs_are_told, "there was no restore"
    items = [(RESTORED_KEY, b"7")] + ([(LOGS_TOLD_KEY, told)] if told else [])
    assert view_of(*items).logs_are_told is are_told


def test_keys_come_and_go() -> None:
    view = view_of(
        (reassignment_key(*WHERE), MOVE.encode()),
        (decommission_key(4), b"{}"),
        (BROKER_DRAIN_KEY, Drain("2", 9, 0).encode()),
        (COORDINATOR_DRAIN_KEY, Drain("host:1", 5, 0).encode()),
    )
    assert view.reassignments[WHERE].value == MOVE
    assert view.adding(WHERE) == (4,)
    assert list(view.decommissioned) == [4]
    assert view.coordinator_drain is not None
    keys = (reassignment_key(*WHERE), decommission_key(4), BROKER_DRAIN_KEY, COORDINATOR_DRAIN_KEY)
    for revision, key in enumerate(keys, 101):
        view.change(Change(key, None, revision))
    assert not view.reassignments
    assert not view.decommissioned
    assert (view.broker_drain, view.coordinator_drain) == (None, None)
    assert view.adding(WHERE) == ()


def test_the_changes_of_one_answer_reach_listeners_together() -> None:
    view, told = view_of(), list[list[str]]()
    view.listen(told.append)
    drain = Drain("2", 9, 0).encode()
    view.change(Change(BROKER_DRAIN_KEY, drain, 101, has_more=True))
    assert view.broker_drain is not None, "it is entered at once"
    view.change(Change(decommission_key(4), b"{}", 101, has_more=True))
    view.change(Change(BROKER_DRAIN_KEY, drain, 101, has_more=True))  # nothing new
    assert told == []
    view.change(Change(decommission_key(4), b"{}", 101))
    assert told == [[BROKER_DRAIN_KEY, decommission_key(4)]]
    view.change(Change(decommission_key(4), None, 102, has_more=True))
    view.learn([KeyValue(COORDINATOR_DRAIN_KEY, Drain("host:1", 5, 0).encode(), 103)])
    assert told[1:] == [[decommission_key(4), COORDINATOR_DRAIN_KEY]], "what was not told yet goes first"


def test_a_value_that_makes_no_sense_harms_nobody_else() -> None:
    state = Partition("t", (1,), BrokerRef(1, 1), 0, (BrokerRef(1, 1),))
    view = view_of(
        (BROKER_DRAIN_KEY, Drain("not a broker", 1, 0).encode()),
        (f"{cluster_keys.REASSIGNMENTS}x/y", MOVE.encode()),
        (f"{cluster_keys.DECOMMISSIONS}x", b"{}"),
        (partition_key(*WHERE), state.encode()),
    )
    assert (view.broker_drain, dict(view.reassignments), view.decommissioned) == (None, {}, {})
    assert view.partitions[WHERE].value == state


def test_a_listing_that_lacks_a_topic_is_not_believed_unless_it_has_its_tombstone() -> None:
    """A backup of seconds ago, whose revision was raised, shows in nothing else."""
    topic = cluster_keys.Topic("work", "a" * 32, 1, 3)
    known = KeyValue(topic_key("work"), topic.encode(), 7)
    doubts: list[int] = []
    view = ClusterView()
    view.on_doubt = lambda: doubts.append(1)
    view.listed(Listing((OWN_KEY, known), 8))
    lacking, deleted = (
        Listing((OWN_KEY,), 9),
        KeyValue(deleted_topic_key("a" * 32), b'{"deleted_ms":1,"name":"work"}', 9),
    )
    assert view.lost_topics(lacking) == ["work"]
    assert view.lost_topics(Listing((OWN_KEY,), 6)) == [], "it is newer than that listing"
    view.listed(lacking)
    assert (doubts, "work" in view.topics) == ([1], True)
    view.listed(Listing((OWN_KEY, deleted), 9))
    assert (doubts, "work" in view.topics) == ([1], False)
