"""Copies that come late: a call is made, the state moves on, the same bytes arrive again, and nothing newer changes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from oncelog import errors
from oncelog.client.admin.admin import AccessRule
from oncelog.client.client import Client
from oncelog.client.consume.offsets import GroupMetadata
from oncelog.types import TopicPartition
from oncelog.v1 import coordinator_pb2 as co
from oncelog.v1 import partition_pb2 as pa
from oncelog.v1 import security_pb2 as se
from oncelog.v1 import types_pb2
from oncelog.wire import methods
from oncelog.wire.methods import MethodSpec
from oncelog_cli.cluster.node_drain import BROKER, COORDINATOR, Node
from oncelog_runtime.metadata import cluster_keys as keys
from tests.conformance.copies import COPIES, READS
from tests.conformance.script import Script, cluster

Step = Callable[[Script, Client], Awaitable[Any]]


async def nothing(_s: Script, _client: Client) -> None:
    """No preparation."""


@dataclass(frozen=True)
class Story:
    """`call` makes the calls that are copied; `then` is what others do before the copies arrive."""

    specs: tuple[MethodSpec[Any, Any], ...]
    call: Step
    then: Step
    before: Step = nothing


# ---------------------------------------------------------------- what can be seen


async def everything(s: Script, client: Client) -> dict[str, Any]:
    """All that a call could have changed: what is in etcd, ends of logs, outcomes and offsets."""
    found: dict[str, Any] = {}
    for prefix in (keys.TOPICS, keys.REASSIGNMENTS, keys.DECOMMISSIONS, f"{keys.ROOT}/drains/", keys.SECURITY):
        found.update({item.key: item.value for item in s.world.metadata.list(prefix).items})
    for topic in await client.admin.list_topics():
        for number, offsets in (await client.admin.partition_offsets(topic.name)).items():
            partition = topic.partitions[number]
            found[f"{topic.name}-{number}"] = (offsets, partition.leader, partition.leader_epoch, partition.replicas)
    found["transactions"] = [(t.producer_epoch, t.txn_no, t.state) for t in await client.admin.list_transactions()]
    found["group"] = [(o.partition, o.offset) for o in (await client.admin.describe_group("g")).offsets]
    return found


# ---------------------------------------------------------------- topics


async def create(_s: Script, client: Client, **config: str) -> None:
    await client.admin.create_topic("t", config=config)


async def create_unless_there(_s: Script, client: Client) -> None:
    assert not (await client.admin.create_topic("t", if_not_exists=True)).created


async def create_what_exists(_s: Script, client: Client) -> None:
    with pytest.raises(errors.TopicExistsError):
        await client.admin.create_topic("t")


async def delete(_s: Script, client: Client) -> None:
    await client.admin.delete_topic("t")


async def create_and_write(s: Script, client: Client) -> None:
    await create(s, client)
    await write(s, client)


async def write(_s: Script, client: Client) -> None:
    async with client.producer() as producer:
        await producer.send_and_wait("t", value=b"acknowledged", partition=0)


def retention(ms: str) -> Step:
    async def alter(_s: Script, client: Client) -> None:
        await client.admin.alter_topic("t", config={"retention_ms": ms})

    return alter


async def delete_all_records(_s: Script, client: Client) -> None:
    assert await client.admin.delete_records("t", 0) == 1


# ---------------------------------------------------------------- placement


async def _leader(client: Client) -> int:
    leader = (await client.admin.describe_topic("t")).partitions[0].leader
    assert leader is not None
    return leader


async def lead_elsewhere(_s: Script, client: Client) -> None:
    """Another replica leads; called twice, the first one leads again, or the third."""
    (partition,) = (await client.admin.describe_topic("t")).partitions
    other = next(broker for broker in partition.replicas if broker != partition.leader)
    await client.admin.transfer_leadership("t", 0, other)
    while await _leader(client) != other:
        await _s.sleep(0.1)


async def create_with_two(s: Script, client: Client) -> None:
    await client.admin.create_topic("t", replication_factor=2)


async def move_second_replica(s: Script, client: Client) -> None:
    """To the broker that has none; called twice, it is back."""
    first, second = (await client.admin.describe_topic("t")).partitions[0].replicas
    target = (first, next(broker for broker in range(3) if broker not in (first, second)))
    assert await client.admin.reassign_partitions({("t", 0): target}) == []
    while (await client.admin.describe_topic("t")).partitions[0].replicas != target:
        await s.sleep(0.2)
    await s.until(lambda: not s.world.metadata.list(keys.REASSIGNMENTS).items)


async def decommission(_s: Script, client: Client) -> None:
    await client.admin.decommission([3])


async def recommission(_s: Script, client: Client) -> None:
    await client.admin.recommission([3])


def drain(kind: str, action: int) -> Step:
    async def ask(s: Script, client: Client) -> None:
        health = await client.admin.cluster_health()
        broker_id, address = health.brokers[0]
        if kind == COORDINATOR:
            # one that owns nothing any more is no shard's owner: the address is looked up once
            address = s.world.nodes["coordinator-0"].address
        node = Node(kind, address, client._context.transport, broker_id if kind == BROKER else None)
        await s.retry(lambda: node.ask(action))

    return ask


# ---------------------------------------------------------------- transactions and groups


async def open_transaction(s: Script, client: Client) -> None:
    place = await s.place()
    await s.write(place, await s.session("t"), "stuck")


async def force_abort(_s: Script, client: Client) -> None:
    assert await client.admin.abort_transaction("t") == 1


async def open_the_next(s: Script, client: Client) -> None:
    known = await client.admin.describe_transaction("t")
    name = co.TransactionName(
        transactional_id="t",
        txn_shard=known.txn_shard,
        txn_producer_id=known.producer_id,
        txn_no=known.txn_no + 1,
        producer_epoch=known.producer_epoch,
    )
    topic = await client.admin.describe_topic("work")
    place = types_pb2.TopicPartition(topic_id=topic.topic_id, partition=0)
    await s.ask("t", methods.ENROL_PARTITIONS, co.EnrolPartitionsRequest(name=name, partitions=[place]))


async def whole_transaction(s: Script, client: Client) -> None:
    async with client.producer(transactional_id="t") as producer, producer.transaction() as txn:
        await txn.send("work", value=b"n", partition=0)
        await txn.send_offsets({TopicPartition("work", 0): 1}, GroupMetadata("g"))
        await txn.commit(wait="visible")
    await s.sleep(3)  # its markers are asked for on disk


async def work_topic(s: Script, _client: Client) -> None:
    await s.place()


def group_at(offset: int) -> Step:
    async def commit(_s: Script, client: Client) -> None:
        await client.admin.set_group_offsets("g", {("work", 0): offset})

    return commit


async def work_topic_and_offset(s: Script, client: Client) -> None:
    await work_topic(s, client)
    await group_at(3)(s, client)


async def forget_group(_s: Script, client: Client) -> None:
    assert await client.admin.delete_group_offsets("g") == 1


# ---------------------------------------------------------------- access


RULE: Final = AccessRule("User:ann", "READ", "TOPIC", "t")


async def allow(_s: Script, client: Client) -> None:
    await client.admin.create_acls([RULE])


async def no_longer_allow(_s: Script, client: Client) -> None:
    assert await client.admin.delete_acls([RULE]) == 1


def password(salt: bytes) -> Step:
    user = se.ScramUser(name="ann", salt=salt, iterations=4096, stored_key=bytes(64), server_key=bytes(64))

    async def alter(_s: Script, client: Client) -> None:
        await client._caller.to_controller(methods.ALTER_USER, se.AlterUserRequest(user=user), once=True)

    return alter


OLD_PASSWORD, NEW_PASSWORD = password(b"o" * 16), password(b"n" * 16)


async def remove_user(_s: Script, client: Client) -> None:
    assert await client.admin.delete_user("ann")


START, CANCEL = types_pb2.DRAIN_ACTION_START, types_pb2.DRAIN_ACTION_CANCEL
STORIES: Final = {
    "create": Story((methods.CREATE_TOPIC,), create, delete),
    "create, if it does not exist": Story((methods.CREATE_TOPIC,), create_unless_there, delete, create),
    "create what exists": Story((methods.CREATE_TOPIC,), create_what_exists, delete, create),
    "delete": Story((methods.DELETE_TOPIC,), delete, create_and_write, create),
    "alter": Story((methods.ALTER_TOPIC,), retention("1000"), retention("100000000"), create),
    "delete records": Story((methods.DELETE_RECORDS,), delete_all_records, write, create_and_write),
    "transfer": Story((methods.TRANSFER_LEADERSHIP,), lead_elsewhere, lead_elsewhere, create),
    "reassign": Story((methods.REASSIGN_PARTITIONS,), move_second_replica, move_second_replica, create_with_two),
    "decommission": Story((methods.DECOMMISSION_BROKERS,), decommission, recommission),
    "recommission": Story((methods.DECOMMISSION_BROKERS,), recommission, decommission, decommission),
    "drain a broker": Story((methods.DRAIN_BROKER,), drain(BROKER, START), drain(BROKER, CANCEL)),
    "drain a coordinator": Story((methods.DRAIN_COORDINATOR,), drain(COORDINATOR, START), drain(COORDINATOR, CANCEL)),
    "force abort": Story((methods.FORCE_ABORT,), force_abort, open_the_next, open_transaction),
    "a transaction": Story(
        (
            methods.INIT_PRODUCER_ID,
            methods.ENROL_PARTITIONS,
            methods.PRODUCE,
            methods.SEND_OFFSETS,
            methods.END_TRANSACTION,
            methods.WRITE_TXN_MARKERS,
            methods.WRITE_GROUP_MARKERS,
            methods.SYNC_REPLICA,
        ),
        whole_transaction,
        open_the_next,
        work_topic,
    ),
    "allow": Story((methods.CREATE_ACLS,), allow, no_longer_allow),
    "no longer allow": Story((methods.DELETE_ACLS,), no_longer_allow, allow, allow),
    "change a password": Story((methods.ALTER_USER,), OLD_PASSWORD, NEW_PASSWORD),
    "remove a user": Story((methods.DELETE_USER,), remove_user, NEW_PASSWORD, OLD_PASSWORD),
    "set offsets": Story((methods.COMMIT_OFFSETS,), group_at(5), group_at(9), work_topic),
    "delete offsets": Story((methods.DELETE_OFFSETS,), forget_group, group_at(9), work_topic_and_offset),
}


@cluster(brokers=4, replica_balance_enabled=False)
@pytest.mark.parametrize("name", STORIES)
async def test_a_late_copy_changes_nothing_of_the_newer_state(s: Script, name: str) -> None:
    story = STORIES[name]
    async with s.client() as client:
        await story.before(s, client)
        taps = [s.watch(spec) for spec in story.specs]
        await story.call(s, client)
        for tap in taps:
            tap.close()
        await story.then(s, client)
        await s.sleep(2)
        newer = await everything(s, client)
        for tap in taps:
            assert tap.seen, f"{tap.spec.name} was not called"
            for copy in tap.seen:
                copy.deliver_late()
        await s.sleep(3)
        assert await everything(s, client) == newer


# ---------------------------------------------------------------- callers of version 0.1


async def test_an_older_client_that_deletes_by_name_is_refused_where_the_name_has_changed_hands(s: Script) -> None:
    async with s.client() as client:
        await client.admin.create_topic("t")
        by_name = pa.DeleteTopicRequest(topic="t")
        controller = client._metadata
        await client._caller.to_controller(methods.DELETE_TOPIC, by_name)
        assert controller.controller is not None
        await client.admin.create_topic("t")
        with pytest.raises(errors.InvalidRequestError, match="topic_id"):
            await client._caller.to_controller(methods.DELETE_TOPIC, by_name)
        await client.admin.delete_topic("t")


async def test_an_older_clients_end_of_the_log_is_the_end_as_first_asked(s: Script) -> None:
    place = await s.place()
    writer = await s.producer()
    await s.write(place, writer, "old")
    request = pa.DeleteRecordsRequest(topic_id=place.topic_id, partition=0, before_offset=-1)
    for seq in (1, 2):
        reply = await s.call(s.leader(place), methods.DELETE_RECORDS, request)
        assert reply.log_start_offset == 1, "the second one may be a copy of the first"
        await s.write(place, writer, "new", seq=seq)


# ---------------------------------------------------------------- callers with stubs alone


@pytest.mark.parametrize("key", [None, b"k"])
async def test_an_idempotent_caller_of_plain_records_names_the_partition(s: Script, key: bytes | None) -> None:
    """Left to the broker, each try goes to the next partition, or with a key to another one when some were added."""
    places = await s.topic(partitions=3)
    writer = await s.producer()
    record = types_pb2.Record(key=key, value=b"once", timestamp_ms=1)
    request = pa.ProduceRecordsRequest(
        topic=places[0].topic, partition=-1, records=[record], producer_id=writer.producer_id
    )
    for _ in range(2):
        with pytest.raises(errors.InvalidRequestError, match="names the partition"):
            await s.call("broker-0", methods.PRODUCE_RECORDS, request)
    request.partition = 2
    answers = [await s.call("broker-0", methods.PRODUCE_RECORDS, request) for _ in range(2)]
    assert [answer.duplicate for answer in answers] == [False, True]
    request.partition, request.producer_id = -1, 0
    assert (await s.call("broker-0", methods.PRODUCE_RECORDS, request)).base_offset >= 0, "without an id, as before"
    assert await s.read(*places) == ["once", "once"]


# ---------------------------------------------------------------- the table


def test_every_method_has_a_row() -> None:
    assert set(COPIES) == set(methods.ALL), "say in tests/conformance/copies.py what makes a copy of the call harmless"


def test_the_documentation_shows_the_table() -> None:
    page = (Path(__file__).parents[3] / "docs/repeated-calls.md").read_text()
    shown = dict(line[2:-2].split(" | ", 1) for line in page.splitlines() if line.startswith("| `"))
    wanted = {f"`{name}`": words for name, words in COPIES.items() if words != READS}
    assert shown == wanted
