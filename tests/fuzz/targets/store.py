"""What stands in etcd and in the cluster's own topics: written by us, or by whoever got there."""

from __future__ import annotations

from collections.abc import Iterator

from oncelog.errors import ConfigError, CorruptMessageError, OncelogError
from oncelog.types import BrokerRef
from oncelog_coordinator.core.group_shard.shard_table import GroupShardTable
from oncelog_coordinator.core.transactions.record_kinds import decode_transaction_record
from oncelog_coordinator.core.transactions.transaction_table import TransactionTable
from oncelog_partition_leader.log.topic_config import TopicConfig, canonical, effective
from oncelog_pid_allocator.core.blocks import Block
from oncelog_runtime.core.security.acl import Acl, Operation, PatternType, Permission, ResourceType
from oncelog_runtime.core.security.matcher import Matcher
from oncelog_runtime.core.security.roles import BUILT_IN, Binding, expand
from oncelog_runtime.metadata import cluster_keys
from oncelog_runtime.metadata.cluster_view import ClusterView
from oncelog_runtime.ports import Change, KeyValue
from oncelog_runtime.security import stored
from tests.fuzz.target import Target, add

TOPIC_ID = "0123456789abcdef0123456789abcdef"
JSON_WORDS = (
    b'"version":1',
    b'"address":',
    b'"isr":',
    b"[[0,1]]",
    b'"leader":',
    b"{}",
    b"[]",
    b'"unknown":{}',
    b"1e999",
)


def split(data: bytes) -> tuple[str, bytes]:
    """A key and a value: what is before the first NUL, and the rest."""
    key, _, value = data.partition(b"\0")
    return key.decode("utf-8", "replace"), value


# ---------------------------------------------------------------- the cluster


def etcd_value(data: bytes) -> object:
    """One value as a watch brings it: what cannot be read is reported and does not count, and the rest goes on."""
    key, value = split(data)
    view = ClusterView()
    view.learn([KeyValue(key, value, 5)])
    view.learn([KeyValue(cluster_keys.CLUSTER_KEY, cluster_keys.Cluster("c" * 32).encode(), 6)])
    assert view.cluster is not None
    assert view.cluster.cluster_id == "c" * 32, "the others are heard"
    for partition, entry in view.partitions.items():
        assert cluster_keys.Partition.decode(entry.value.encode()) == entry.value
        assert partition.partition >= 0
    for topic in view.topics.values():
        assert cluster_keys.Topic.decode(topic.value.encode()) == topic.value
    is_taken = len(view._revisions) > 1
    view.change(Change(key, None, 7))
    return f"taken {key.removeprefix(cluster_keys.ROOT)[:6]}" if is_taken else "left"


def etcd_values() -> Iterator[bytes]:
    refs = (BrokerRef(1, 7), BrokerRef(2, 8))
    values = {
        cluster_keys.CLUSTER_KEY: cluster_keys.Cluster("a" * 32).encode(),
        cluster_keys.broker_key(1): cluster_keys.Broker("a:1", "b:1", "n", "r", "c:1", "d", 100).encode(),
        cluster_keys.topic_key("orders"): cluster_keys.Topic(
            "orders", TOPIC_ID, 3, 2, {"retention_ms": "5"}, {"new": [1]}
        ).encode(),
        cluster_keys.deleted_topic_key(TOPIC_ID): cluster_keys.DeletedTopic("orders", 5).encode(),
        cluster_keys.partition_key(TOPIC_ID, 0): cluster_keys.Partition(
            "orders", (1, 2), refs[0], 3, refs, refs[1], refs
        ).encode(),
        cluster_keys.reassignment_key(TOPIC_ID, 0): cluster_keys.Reassignment((1, 2), (2, 3)).encode(),
        cluster_keys.decommission_key(3): b"",
        cluster_keys.shard_epoch_key("txn", 3): b"7",
        cluster_keys.shard_owner_key("txn", 3): cluster_keys.ShardOwner("a:1", "n", 7).encode(),
        cluster_keys.shard_trouble_key("group", 3): cluster_keys.ShardTrouble("a:1", "no").encode(),
        cluster_keys.BROKER_DRAIN_KEY: cluster_keys.Drain("1", 7, 5).encode(),
        cluster_keys.COORDINATOR_DRAIN_KEY: cluster_keys.Drain("a:1", 0, 5).encode(),
        cluster_keys.CONTROLLER_KEY: cluster_keys.encode_ref(refs[0]),
        cluster_keys.RESTORED_KEY: b"5",
        cluster_keys.PULSE_KEY: b"5",
        cluster_keys.SESSION_KEY: cluster_keys.SessionKey(bytes(32)).encode(),
        cluster_keys.PRODUCER_ID_BLOCK_KEY: b'{"version":1,"broker":"x","block_start":"0","block_end":"999"}',
        f"{cluster_keys.COORDINATORS}a:1": b"",
        f"{cluster_keys.ALLOCATORS}a:1": b"",
    }
    for key, value in values.items():
        yield key.encode() + b"\0" + value


add(Target("etcd_value", etcd_value, (), etcd_values, words=JSON_WORDS))


def pid_block(data: bytes) -> object:
    """The allocator's own key."""
    block = Block.decode(data)
    assert Block.decode(block.encode()) == block
    return block


def pid_blocks() -> Iterator[bytes]:
    yield Block(1_000, 1_999, "a:1").encode()


add(Target("pid_block", pid_block, (OncelogError,), pid_blocks))


# ---------------------------------------------------------------- rules and users


def security_value(data: bytes) -> object:
    """A rule, role, binding or user in etcd. None of them is ever an error: what cannot be read does not count."""
    key, value = split(data)
    known = stored.Stored()
    known.enter(key, value, 5)
    taken = f"{len(known.acls)}{len(known.bindings)}{len(known.roles)}{len(known.users)}"
    for acl in known.acls.values():
        assert isinstance(acl.operation, Operation)
        rules = Matcher((acl,)).rules_of("User:ann", "10.0.0.1")
        rules.decide(Operation.READ, ResourceType.TOPIC, "orders")
        rules.decide_any(Operation.WRITE, ResourceType.GROUP)
        str(acl)
    for binding in known.bindings.values():
        list(expand(binding, {**BUILT_IN, **known.roles_by_name()}))
    for user in known.users.values():
        assert isinstance(user.credential.salt, bytes)
        str(user)
    known.enter(key, None, 6)
    assert known == stored.Stored()
    return taken


def security_values() -> Iterator[bytes]:
    acl = Acl(
        "User:ann", ResourceType.TOPIC, PatternType.PREFIXED, "shop.", Operation.READ, Permission.DENY, "10.0.0.1"
    )
    yield stored.acl_key(acl).encode() + b"\0" + stored.encode(acl.as_dict())
    binding = Binding("User:ann", "owner", PatternType.LITERAL, "x")
    yield stored.binding_key(binding).encode() + b"\0" + stored.encode(binding.as_dict())
    role = next(iter(BUILT_IN.values()))
    yield stored.role_key("mine").encode() + b"\0" + stored.encode({**role.as_dict(), "name": "mine"})
    from oncelog.core.scram import Credential

    user = stored.StoredUser("ann", Credential(bytes(16), 4_096, bytes(64), bytes(64)))
    yield stored.user_key("ann").encode() + b"\0" + stored.encode_user(user)
    yield stored.DECOY_KEY.encode() + b"\0" + bytes(32)


add(
    Target(
        "security_value",
        security_value,
        (),
        security_values,
        words=(b'"principal":"User:*"', b'"rules":[', b"PREFIXED", b"ALL"),
    )
)


# ---------------------------------------------------------------- logs of shards


def txn_record(data: bytes) -> object:
    """A record of `__transaction_state`, and the table that it is replayed into."""
    key, value = split(data)
    return decode_transaction_record(key, value)


def txn_records() -> Iterator[bytes]:
    yield from _records(TransactionTable())


def _records(table: TransactionTable) -> Iterator[bytes]:
    from oncelog_coordinator.core.transactions import commands as cmd

    def decide(command: object, now_ms: int = 1_000) -> Iterator[bytes]:
        for record in table.decide(command, now_ms).records:  # type: ignore[arg-type]
            table.apply(record)
            yield record.key.encode() + b"\0" + record.encode()

    from oncelog.types import PartitionId

    yield from decide(cmd.InitProducerId("t", 60_000, "n", 7, 0, 0))
    name = cmd.TxnName("t", 7, 1, 0)
    yield from decide(cmd.Enrol(name, (PartitionId(TOPIC_ID, 0), PartitionId(TOPIC_ID, 4)), ("g",)))
    yield from decide(cmd.End(name, True, {PartitionId(TOPIC_ID, 0): 3}))


add(Target("txn_record", txn_record, (CorruptMessageError,), txn_records, words=(*JSON_WORDS, b"id:", b"epoch:")))


def group_record(data: bytes) -> object:
    """A record of `__consumer_offsets`, and the table that it is replayed into."""
    key, value = split(data)
    return GroupShardTable().decode(key, value)


def group_records() -> Iterator[bytes]:
    from oncelog_coordinator.core.groups.group_commands import Heartbeat, Join
    from oncelog_coordinator.core.groups.group_records import Identity, Subscription
    from oncelog_coordinator.core.offsets import offset_commands as cmd
    from oncelog_coordinator.core.offsets.offset_records import OffsetValue
    from oncelog_coordinator.core.topology import SeeTopics, Topology
    from oncelog_coordinator.core.transactions.commands import TxnName

    table = GroupShardTable()
    value = OffsetValue(TOPIC_ID, "orders", 0, 5, -1, "m")
    seen = SeeTopics(Topology((0, 1), {"orders": TOPIC_ID}, {TOPIC_ID: 3}))
    for note in table.decide(seen, 1_000).notes:
        table.apply(note)
    wants = Join(Subscription(1, ("orders",), "o.*", "range"), Identity("i", "r", "c"))
    for command in (
        Heartbeat("members", "m1", 0, join=wants),
        Heartbeat("members", "m1", -1),
        cmd.CommitOffsets(cmd.Member("g"), 0, (value,)),
        cmd.SendOffsets(TxnName("t", 7, 1, 0), 3, cmd.Member("g"), 1, (value,)),
        cmd.GroupMarker("g", 7, 1, True, 3, 2),
    ):
        for record in table.decide(command, 1_000).records:
            table.apply(record)
            encoded = record.encode()
            yield record.key.encode() + b"\0" + (encoded or b"")


add(
    Target(
        "group_record",
        group_record,
        (CorruptMessageError,),
        group_records,
        words=(*JSON_WORDS, b"offset:", b"pending:", b"ended:-1:"),
    )
)


# ---------------------------------------------------------------- options of topics


def topic_options(data: bytes) -> object:
    """NAME=VALUE lines."""
    pairs = dict(line.partition("=")[::2] for line in data.decode("utf-8", "replace").split("\n"))
    checked = canonical(pairs)
    made = effective(checked, TopicConfig())
    assert canonical(checked) == checked
    assert made.min_insync_replicas >= 1
    return made


def topic_optionses() -> Iterator[bytes]:
    yield b"retention_ms=-1\nsegment.bytes=1048576\ncleanup_policy=delete"
    yield b"min_insync_replicas=2\nflush_mode=fsync\nmax_message_bytes=256"


add(
    Target(
        "topic_options",
        topic_options,
        (ConfigError,),
        topic_optionses,
        words=(b"=", b"1_0", b"retention_ms", b"\xd9\xa1"),
    )
)
