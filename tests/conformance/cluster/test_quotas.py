"""Quotas in a whole cluster: who sends too much waits and loses nothing, others do not notice, and what a broker passes on
for a client is counted once.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping

import pytest

from oncelog import errors
from oncelog.client.admin.admin import AccessRule, Quota
from oncelog.types import TopicPartition
from oncelog.v1 import coordinator_pb2 as co
from oncelog.v1 import partition_pb2 as pa
from oncelog.v1 import types_pb2
from oncelog.wire import methods
from oncelog_coordinator.coordinator import CoordinatorNode
from oncelog_partition_leader.broker import Broker
from oncelog_runtime.core.quota import QuotaKind
from oncelog_runtime.serving.quotas import Quotas
from tests.conformance.cluster.test_moving import controller
from tests.conformance.script import Place, Script, cluster
from tests.conformance.transactions.test_internal_topics import knock

SCRIPTS_OWN = ("User:health", "User:root", *(f"User:client-{number}" for number in range(1, 20)))
NOISY, QUIET = "User:noisy", "User:quiet"
counted = cluster(doors=True, super_users=(*SCRIPTS_OWN, NOISY, QUIET))
KIB = 1 << 10
NONCES = itertools.count(1)


def quotas_of(s: Script) -> list[Quotas]:
    """Of every broker and coordinator."""
    services = [found for found in s.cluster.services.values() if isinstance(found, Broker | CoordinatorNode)]
    return [found.ports.quotas if isinstance(found, Broker) else found._ports.quotas for found in services]


async def limit(s: Script, subject: str, limits: Mapping[str, int]) -> None:
    """Returns when every process counts by it."""
    async with s.client() as client:
        await client.admin.set_quotas([Quota(subject, limits)])
        described = {item.kind: item.limit for item in (await client.admin.describe_quota(subject)).limits}
        assert {kind: described[kind] for kind in limits} == dict(limits)
    await s.until(lambda: all(limits.items() <= dict(found.table.limits_of(subject)).items() for found in quotas_of(s)))


def now_s() -> float:
    return asyncio.get_running_loop().time()


async def write(s: Script, name: str, place: Place, count: int, size: int) -> float:
    """How long an SDK producer of this name takes to write so many records."""
    began = now_s()
    async with (
        s.cluster.client(name) as client,
        client.producer(batch_size=16 * KIB, max_request_size=64 * KIB, delivery_timeout_ms=60_000) as producer,
    ):
        for number in range(count):
            await producer.send(place.topic, bytes(size), partition=place.partition, key=str(number).encode())
        await producer.flush()
    return now_s() - began


@counted
async def test_a_producer_above_its_quota_writes_at_its_rate_and_loses_nothing(s: Script) -> None:
    place = await s.place()
    await limit(s, NOISY, {"produce_bytes_per_s": 100 * KIB})
    took = await write(s, "noisy", place, 300, 10 * KIB)
    rate = 3_000 * KIB / (took + 1)  # one second's worth may go at once
    assert 90 * KIB < rate < 110 * KIB
    assert await s.latest(place) == 300
    held = sum(sum(found._delays[QuotaKind.PRODUCE_BYTES].counts) for found in quotas_of(s))
    assert held <= 300 * 4 / 5, "it waits by itself: of five requests at once, the first has nothing left to wait for"
    assert await write(s, "quiet", place, 300, 10 * KIB) < 3


@counted
async def test_a_consumer_above_its_quota_reads_at_its_rate(s: Script) -> None:
    place = await s.place()
    await write(s, "quiet", place, 300, 10 * KIB)
    await limit(s, NOISY, {"fetch_bytes_per_s": 100 * KIB})
    began, read = now_s(), 0
    async with s.cluster.client("noisy") as client, client.consumer() as consumer:
        where = TopicPartition(place.topic, 0)
        await consumer.assign([where])
        consumer.seek(where, 0)
        while read < 300:
            read += len(await consumer.getmany(timeout_ms=500))
    rate = 3_000 * KIB / (now_s() - began + 1)
    assert 85 * KIB < rate < 115 * KIB


@counted
async def test_what_a_broker_passes_on_is_counted_where_the_client_asked_and_nowhere_else(s: Script) -> None:
    place = await s.place()
    leader = s.leader(place)
    first = next(name for name, _ in s.cluster.brokers() if name != leader)
    await limit(s, NOISY, {"produce_bytes_per_s": KIB})
    records = pa.ProduceRecordsRequest(
        topic=place.topic, partition=0, records=[types_pb2.Record(value=bytes(10 * KIB))], acks=-1, timeout_ms=1_000
    )
    await knock(s, first, "client", methods.PRODUCE_RECORDS, records, who="noisy")
    with pytest.raises(errors.ThrottlingQuotaExceededError):
        await knock(s, first, "client", methods.PRODUCE_RECORDS, records, who="noisy")
    await knock(s, leader, "client", methods.PRODUCE_RECORDS, records, who="noisy")  # nothing was used up here
    assert s.replica(leader, place).log.log_end_offset == 2
    with pytest.raises(errors.ThrottlingQuotaExceededError):
        await knock(s, leader, "client", methods.PRODUCE_RECORDS, records, who="noisy")
    await s.call(leader, methods.PRODUCE_RECORDS, records)  # services have no quota


@counted
async def test_partitions_are_made_at_the_rate_of_the_quota_and_the_sdk_waits_for_its_turn(s: Script) -> None:
    await limit(s, NOISY, {"partition_changes_per_min": 6})
    async with s.cluster.client("noisy", default_api_timeout_ms=120_000) as noisy:
        began = now_s()
        await noisy.admin.create_topic("a", partitions=9, replication_factor=3)  # into debt: three too many
        await noisy.admin.create_topic("a", partitions=9, replication_factor=3, if_not_exists=True)  # makes nothing
        assert now_s() - began < 10
        with pytest.raises(errors.ThrottlingQuotaExceededError) as caught:
            await knock(
                s,
                controller(s),
                "client",
                methods.CREATE_TOPIC,
                pa.CreateTopicRequest(topic="b", partitions=1, replication_factor=1, timeout_ms=1_000),
                who="noisy",
            )
        assert 15_000 < caught.value.retry_after_ms <= 30_000
        await noisy.admin.create_topic("b", partitions=1, replication_factor=1)
        assert 25 < now_s() - began < 45


@counted
async def test_transactional_ids_of_an_hour_are_bounded_and_known_ones_go_on(s: Script) -> None:
    await limit(s, NOISY, {"transactional_ids_per_h": 1})

    async def begin(name: str) -> co.InitProducerIdReply:
        owner = s.owner(name)
        request = co.InitProducerIdRequest(
            transactional_id=name, transaction_timeout_ms=60_000, nonce=f"{next(NONCES):032x}"
        )
        return await knock(s, owner, "client", methods.INIT_PRODUCER_ID, request, who="noisy")

    first = "t-0"
    other = next(f"t-{n}" for n in range(1, 100) if s.owner(f"t-{n}") == s.owner(first))
    await begin(first)
    await begin(first)
    with pytest.raises(errors.ThrottlingQuotaExceededError, match="transactional_ids_per_h = 1"):
        await begin(other)
    assert (await s.session(other)).txn_producer_id >= 0  # of somebody else's hour


@counted
async def test_quotas_are_set_removed_and_told_to_those_who_may(s: Script) -> None:
    await limit(s, "User:*", {"requests_per_s": 1_000, "connections": 7})
    await limit(s, NOISY, {"requests_per_s": 50})
    async with s.client() as root, s.cluster.client("eve") as eve:
        assert [quota.subject for quota in await root.admin.list_quotas()] == ["User:*", NOISY]
        told = {item.kind: (item.limit, item.source) for item in (await root.admin.describe_quota(NOISY)).limits}
        assert told["requests_per_s"] == (50, NOISY)
        assert told["connections"] == (7, "User:*")
        assert told["fetch_bytes_per_s"] == (None, "")
        own = await eve.admin.describe_quota()
        assert own.subject == "User:eve"
        assert {item.kind: item.limit for item in own.limits}["connections"] == 7
        for ask in (
            eve.admin.list_quotas,
            lambda: eve.admin.describe_quota(NOISY),
            lambda: eve.admin.remove_quotas([NOISY]),
        ):
            with pytest.raises(errors.ClusterAuthorizationError):
                await ask()
        await root.admin.create_acls([AccessRule("User:eve", "DESCRIBE_CONFIGS", "CLUSTER", "oncelog-cluster")])
        assert len(await eve.admin.list_quotas()) == 2
        for wrong in (
            Quota("eve", {"requests_per_s": 1}),
            Quota("User:ANONYMOUS", {"requests_per_s": 1}),
            Quota("Address:10.0.0.1/8", {"requests_per_s": 1}),
            Quota(NOISY, {"requests_per_s": 0}),
            Quota(NOISY, {"records_per_s": 1}),
            Quota(NOISY, {}),
        ):
            with pytest.raises(errors.InvalidRequestError):
                await root.admin.set_quotas([Quota("User:*", {"connections": 1}), wrong])
        assert await root.admin.remove_quotas([NOISY]) == 1
        assert await root.admin.remove_quotas([NOISY, "User:*"], ["connections"]) == 1
        assert await root.admin.list_quotas() == [Quota("User:*", {"requests_per_s": 1_000})]
        assert await root.admin.remove_quotas(["User:*"]) == 1
    await s.until(lambda: not any(found.is_active for found in quotas_of(s)))
