"""Access rules where they meet the rest: leaders that are asked by another broker, batches of a session, internal topics."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from oncelog import errors
from oncelog.client.admin.admin import AccessRule
from oncelog.v1 import partition_pb2 as pa
from oncelog.v1 import types_pb2
from oncelog.wire import methods
from oncelog_partition_leader.broker import Broker
from oncelog_runtime.core.security.matcher import Matcher
from oncelog_runtime.metadata.cluster_keys import INTERNAL_TOPICS
from oncelog_runtime.security.stored import ACLS
from tests.conformance.script import COMMITTED, Place, Script, Writer, cluster
from tests.conformance.transactions.test_internal_topics import by_records, forged, knock, questions
from tests.simulation.cluster import DOORS

SCRIPTS_OWN = ("User:health", "User:root", *(f"User:client-{number}" for number in range(1, 20)))
rules = cluster(doors=True, super_users=SCRIPTS_OWN)
NOT_HERS = (errors.TopicAuthorizationError, errors.UnknownTopicError)


async def add(s: Script, *wanted: AccessRule) -> None:
    """Returns when these rules are in force at every broker."""
    async with s.client() as client:
        await client.admin.create_acls(list(wanted))
    total = sum(item.key.startswith(ACLS) for item in s.world.metadata.snapshot().items)
    rules_of = [service.ports.security for service in s.cluster.services.values() if isinstance(service, Broker)]
    await s.until(lambda: all(found is not None and len(found.stored.acls) == total for found in rules_of))
    await s.sleep(0.001)  # many changes are put in force as one, in the next step of the loop


def records(place: Place, value: bytes) -> pa.ProduceRecordsRequest:
    return pa.ProduceRecordsRequest(
        topic=place.topic, partition=0, records=[types_pb2.Record(value=value)], acks=-1, timeout_ms=1_000
    )


def reading(place: Place) -> pa.FetchRecordsRequest:
    return pa.FetchRecordsRequest(
        topic=place.topic, partition=0, isolation_level=types_pb2.ISOLATION_LEVEL_READ_COMMITTED
    )


def other_than(s: Script, leader: str) -> str:
    return next(name for name, _ in s.cluster.brokers() if name != leader)


def let_do_everything(s: Script, node: str, *principals: str) -> None:
    """This broker alone judges by other rules, as one that has not heard of a change."""
    broker = s.cluster.services[node]
    assert isinstance(broker, Broker)
    assert broker.ports.security is not None
    policy = broker.ports.security.policy
    policy.matcher = Matcher((), principals)
    policy.generation += 1


@rules
async def test_a_client_whose_rights_end_at_the_first_broker_is_refused_at_the_leader(s: Script) -> None:
    place = await s.place()
    leader = s.leader(place)
    first = other_than(s, leader)
    let_do_everything(s, first, "User:late", "User:early")
    with pytest.raises(NOT_HERS):
        await knock(s, first, "client", methods.PRODUCE_RECORDS, records(place, b"forged"), who="late")
    with pytest.raises(NOT_HERS):
        await knock(s, first, "client", methods.FETCH_RECORDS, reading(place), who="late")
    assert s.replica(leader, place).log.log_end_offset == 0, "a refused call writes nothing"
    await add(s, *(AccessRule("User:early", right, "TOPIC", place.topic) for right in ("READ", "WRITE")))
    await knock(s, first, "client", methods.PRODUCE_RECORDS, records(place, b"mine"), who="early")
    reply = await knock(s, first, "client", methods.FETCH_RECORDS, reading(place), who="early")
    assert [record.value for record in reply.records] == [b"mine"]
    await add(s, AccessRule("User:early", "READ", "TOPIC", place.topic, host="10.0.0.1", permission="DENY"))
    let_do_everything(s, first, "User:early")
    with pytest.raises(errors.TopicAuthorizationError):
        await knock(s, first, "client", methods.FETCH_RECORDS, reading(place), who="early")


@rules
async def test_a_client_at_a_door_that_it_shares_cannot_claim_to_be_somebody_else(s: Script) -> None:
    place = await s.place()
    data = s.batch(place, Writer(-1), "forged")
    item = pa.ProducePartition(topic_id=place.topic_id, partition=0, length=len(data))
    fetch = pa.FetchPartition(topic_id=place.topic_id, partition=0, leader_epoch=-1)
    for listener in ("internal", "client", "external"):
        claim = types_pb2.ForwardedCaller(listener=listener, peer="x", principal="User:root", host="10.0.0.1")
        produce = pa.ProduceRequest(acks=-1, timeout_ms=1_000, partitions=[item], forwarded_for=claim)
        read = pa.FetchRequest(isolation_level=1, max_bytes=1 << 20, partitions=[fetch], forwarded_for=claim)
        for door in DOORS:
            with pytest.raises(NOT_HERS):
                await knock(s, s.leader(place), door, methods.PRODUCE, produce, data, who="eve")
            with pytest.raises(NOT_HERS):
                await knock(s, s.leader(place), door, methods.FETCH, read, who="eve")
    assert s.replica(s.leader(place), place).log.log_end_offset == 0


@rules
async def test_a_batch_is_written_under_the_transactional_id_of_its_session_alone(s: Script) -> None:
    """Bob has rights of his own, knows every number of Ann's transaction, and even her token: it is of her id."""
    place = await s.place()
    for who in ("ann", "bob"):
        await add(
            s,
            AccessRule(f"User:{who}", "WRITE", "TOPIC", place.topic),
            AccessRule(f"User:{who}", "WRITE", "TRANSACTIONAL_ID", f"{who}.", pattern_type="PREFIXED"),
        )
    ann, bob = await s.session("ann.t"), await s.session("bob.t")

    def write(who: str, writer: Writer, value: str, seq: int = 0) -> Callable[[], Awaitable[object]]:
        data = s.batch(place, writer, value, seq=seq)
        item = pa.ProducePartition(
            topic_id=place.topic_id,
            partition=0,
            length=len(data),
            transactional_id=writer.transactional_id,
            session_token=writer.token,
        )
        request = pa.ProduceRequest(acks=-1, timeout_ms=1_500, partitions=[item])
        return lambda: knock(s, s.leader(place), "client", methods.PRODUCE, request, data, who=who)

    await s.retry(write("ann", ann, "mine"))
    for name in ("ann.t", "bob.t", ""):
        for token in (b"", bob.token, ann.token):
            for writer in (ann, ann.of(producer_id=4242)):
                with pytest.raises(errors.TransactionalIdAuthorizationError):
                    await write("bob", writer.of(transactional_id=name, token=token), "forged", 1)()
    await s.retry(write("bob", bob, "his"))
    assert (await s.end(ann, counts={place: 1}, visible=True)).outcome == COMMITTED
    assert (await s.end(bob, counts={place: 1}, visible=True)).outcome == COMMITTED
    assert await s.read(place) == ["mine", "his"]


@rules
async def test_no_rule_opens_the_clusters_own_topics_to_clients(s: Script) -> None:
    """Neither everything on every topic, nor a rule of the topic's own name, nor being a super user."""
    await s.session("t")  # the log of its shard is written
    await add(
        s,
        *(AccessRule("User:open", "ALL", kind, "*") for kind in ("TOPIC", "GROUP", "TRANSACTIONAL_ID", "TOKEN_APP_ID")),
        AccessRule("User:open", "ALL", "CLUSTER", "oncelog-cluster"),
        *(AccessRule("User:open", "ALL", "TOPIC", name) for name in INTERNAL_TOPICS),
    )
    for place in (s.internal(name, 0) for name in INTERNAL_TOPICS):
        leader = s.leader(place)
        end = s.replica(leader, place).log.log_end_offset
        epoch = s.world.metadata.revision + 1
        for who in ("open", "root"):
            for door in DOORS:
                calls = [*questions(place), (methods.PRODUCE_RECORDS, by_records(place, epoch))]
                for spec, request in calls:
                    with pytest.raises(errors.TopicAuthorizationError, match="clients may not"):
                        await knock(s, leader, door, spec, request, who=who)
                with pytest.raises(errors.TopicAuthorizationError, match="clients may not"):
                    await knock(s, leader, door, methods.PRODUCE, *forged(s, place, epoch), who=who)
        assert s.replica(leader, place).log.log_end_offset == end, "a refused call writes nothing"
