"""The cluster metadata in etcd: keys, values, and the process that writes each of them.

    <root>/cluster                         Cluster        written once; compare: absent
    <root>/brokers/<id>                    Broker         leased; mod revision = the broker's incarnation
    <root>/controller                      BrokerRef      leased; created by the winner of the election
    <root>/topics/<name>                   Topic          controller
    <root>/deleted_topics/<topic id>       DeletedTopic   controller; written by the commit that deletes the topic
                                           (or a channel: then with its id, and without a name)
    <root>/partitions/<topic id>/<p>       Partition      leader (ISR) and controller (election), by mod revision
    <root>/channels/<topic id>/<name>      Channel        controller; see `channel_values`
    <root>/coordinators/<address>          Coordinator    leased
    <root>/shards/<kind>/<n>/epoch         a number       no lease; grows with each take-over, same commit as owner
    <root>/shards/<kind>/<n>/owner         ShardOwner     leased
    <root>/shard_troubles/<kind>/<n>       ShardTrouble   leased; the shard keeps failing at its owner
    <root>/allocators/<address>            empty          leased
    <root>/reassignments/<topic id>/<p>    Reassignment   the target replicas of a partition; controller
    <root>/decommissions/<broker id>       empty          this broker must hold no replicas; controller
    <root>/drains/broker                   Drain          no lease; the one broker that drains, by incarnation
    <root>/drains/coordinator              Drain          leased; the one coordinator that drains
    <root>/pulse                           a number       grows while the cluster runs; smaller = restored
    <root>/restored                        a number       the pulse at the last restore; lower mod revisions predate it
    <root>/logs_told                       a number       mod revision of `restored`; after that restore all brokers have told
                                           which logs they keep; controller
    <root>/lift                            empty          written to raise the store's revision after a restore
    <root>/session_key                     SessionKey     written once by a controller; a secret
    <root>/latest_producer_id_block        JSON           pid_allocator, compare-and-swap
    <root>/security/...                    rules, quotas  see `security.stored`; controller
    <root>/internal_topics/...             -              reserved

Rule 1: an epoch is a mod revision or a number in a key without a lease, never a key's `version`.
Rule 2: leader, leader epoch, ISR and last known leader of a partition are one key with one value.
Rule 3: values are JSON with sorted keys and a `version`; unknown keys are ignored (a newer peer wrote them), but kept
        when the value is rewritten (`unknown`), so that a rolling upgrade loses nothing; and a key that an older peer
        did not write has a default: no address of a listener = see `listeners`, rule 4.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Final

from oncelog.types import BrokerRef
from oncelog_runtime.core.listeners import Addresses

ROOT: Final = "/oncelog"
_VERSION: Final = 1
CLUSTER_KEY: Final = f"{ROOT}/cluster"
BROKERS: Final = f"{ROOT}/brokers/"
CONTROLLER_KEY: Final = f"{ROOT}/controller"
TOPICS: Final = f"{ROOT}/topics/"
DELETED_TOPICS: Final = f"{ROOT}/deleted_topics/"
PARTITIONS: Final = f"{ROOT}/partitions/"
COORDINATORS: Final = f"{ROOT}/coordinators/"
SHARDS: Final = f"{ROOT}/shards/"
SHARD_TROUBLES: Final = f"{ROOT}/shard_troubles/"
ALLOCATORS: Final = f"{ROOT}/allocators/"
REASSIGNMENTS: Final = f"{ROOT}/reassignments/"
DECOMMISSIONS: Final = f"{ROOT}/decommissions/"
BROKER_DRAIN_KEY: Final = f"{ROOT}/drains/broker"
COORDINATOR_DRAIN_KEY: Final = f"{ROOT}/drains/coordinator"
PULSE_KEY: Final = f"{ROOT}/pulse"
RESTORED_KEY: Final = f"{ROOT}/restored"
LOGS_TOLD_KEY: Final = f"{ROOT}/logs_told"
LIFT_KEY: Final = f"{ROOT}/lift"
SESSION_KEY: Final = f"{ROOT}/session_key"
SECURITY: Final = f"{ROOT}/security/"
PRODUCER_ID_BLOCK_KEY: Final = f"{ROOT}/latest_producer_id_block"

SESSION_KEY_BYTES_MIN: Final = 16
SESSION_KEY_BYTES_MAX: Final = 64
TRANSACTION_TOPIC: Final = "__transaction_state"
OFFSETS_TOPIC: Final = "__consumer_offsets"
INTERNAL_TOPICS: Final = (TRANSACTION_TOPIC, OFFSETS_TOPIC)
KIND_TXN: Final = "txn"
KIND_GROUP: Final = "group"

SHARD_WRITER_BASE: Final = (1 << 63) - (1 << 34)
"""Producer ids from here on are never allocated: a shard writes its log as the ordinary idempotent producer
`shard_writer_id(kind, shard)` whose producer epoch is the shard's epoch, so ordinary producer fencing at the
leader fences a deposed coordinator's appends."""
PRODUCER_IDS_PER_SECOND: Final = 1 << 20
PRODUCER_IDS_START_MS: Final = 1_577_836_800_000
"""2020-01-01, when the floor of producer ids was 0. It grows by `PRODUCER_IDS_PER_SECOND`, and reaches
`SHARD_WRITER_BASE` after 270,000 years.
"""
PRODUCER_ID_SLACK_MS: Final = 24 * 3600 * 1000
"""How far an allocator's clock may be ahead of a broker's."""


def producer_id_floor(now_ms: int) -> int:
    """Returns the lowest id that a block won at this time may hold; ids are handed out far slower than this grows."""
    return max(0, now_ms - PRODUCER_IDS_START_MS) * PRODUCER_IDS_PER_SECOND // 1000


def producer_id_ceiling(now_ms: int, newest_block_end: int) -> int:
    """Returns a bound above every id handed out so far. `newest_block_end`: the end of the newest known block; -1 = none."""
    return max(producer_id_floor(now_ms), newest_block_end) + PRODUCER_ID_SLACK_MS // 1000 * PRODUCER_IDS_PER_SECOND


def shard_writer_id(kind: str, shard: int) -> int:
    """Returns the producer id under which a shard's owner writes its log."""
    return SHARD_WRITER_BASE + (0 if kind == KIND_TXN else 1 << 32) + shard


def broker_key(broker_id: int) -> str:
    """Returns the key of a broker's registration."""
    return f"{BROKERS}{broker_id}"


def topic_key(name: str) -> str:
    """Returns the key of a topic; names are checked, so no escaping is needed."""
    return f"{TOPICS}{name}"


def deleted_topic_key(topic_id: str) -> str:
    """Returns the key of a topic's tombstone."""
    return f"{DELETED_TOPICS}{topic_id}"


def partition_key(topic_id: str, partition: int) -> str:
    """Returns the key of a partition's leadership and ISR."""
    return f"{PARTITIONS}{topic_id}/{partition}"


def reassignment_key(topic_id: str, partition: int) -> str:
    """Returns the key of a partition's pending move of replicas."""
    return f"{REASSIGNMENTS}{topic_id}/{partition}"


def decommission_key(broker_id: int) -> str:
    """Returns the key that says that a broker must hold no replicas."""
    return f"{DECOMMISSIONS}{broker_id}"


def shard_epoch_key(kind: str, shard: int) -> str:
    """Returns the key of a shard's epoch, which has no lease."""
    return f"{SHARDS}{kind}/{shard}/epoch"


def shard_owner_key(kind: str, shard: int) -> str:
    """Returns the key of a shard's owner, which is leased."""
    return f"{SHARDS}{kind}/{shard}/owner"


def shard_trouble_key(kind: str, shard: int) -> str:
    """Returns the key that says why a shard keeps failing; leased by its owner."""
    return f"{SHARD_TROUBLES}{kind}/{shard}"


def encode_value(value: Any, leave_out: str = "") -> bytes:
    """Returns the JSON of a value, with what a newer version wrote into it."""
    known = asdict(value)
    known.pop(leave_out, None)
    unknown = known.pop("unknown", {})
    return json.dumps({"version": _VERSION, **known, **unknown}, sort_keys=True, separators=(",", ":")).encode()


def unknown_fields(value: type, decoded: dict[str, object]) -> dict[str, object]:
    """Returns the fields that this version does not have, with a newer version's number."""
    known = {item.name for item in fields(value)}
    return {name: item for name, item in decoded.items() if name not in known and (name, item) != ("version", _VERSION)}


def _ref(value: Sequence[int] | None) -> BrokerRef | None:
    return None if value is None else BrokerRef(int(value[0]), int(value[1]))


def _refs(values: Iterable[Sequence[int]]) -> tuple[BrokerRef, ...]:
    return tuple(BrokerRef(int(broker_id), int(incarnation)) for broker_id, incarnation in values)


@dataclass(frozen=True, slots=True)
class Cluster:
    """The cluster's identity and sizes; written once, at the first start."""

    cluster_id: str
    transaction_shards: int = 50
    group_shards: int = 50
    unknown: dict[str, object] = field(default_factory=dict, hash=False)

    def encode(self) -> bytes:
        """Returns the value for etcd."""
        return encode_value(self)

    @staticmethod
    def decode(data: bytes) -> Cluster:
        """Reads the value from etcd."""
        d = json.loads(data)
        shards = int(d["transaction_shards"]), int(d["group_shards"])
        return Cluster(d["cluster_id"], *shards, unknown=unknown_fields(Cluster, d))


@dataclass(frozen=True, slots=True)
class SessionKey:
    """The key with which session tokens are made (`session_tokens`)."""

    key: bytes = field(repr=False)

    def encode(self) -> bytes:
        """Returns the value for etcd."""
        return json.dumps({"version": _VERSION, "key": self.key.hex()}, sort_keys=True).encode()

    @staticmethod
    def decode(data: bytes) -> SessionKey:
        """Reads the value from etcd. Raises `ValueError` for a key of an unsafe length."""
        key = bytes.fromhex(json.loads(data)["key"])
        if not SESSION_KEY_BYTES_MIN <= len(key) <= SESSION_KEY_BYTES_MAX:
            raise ValueError("a session key has 16 to 64 bytes")
        return SessionKey(key)


@dataclass(frozen=True, slots=True)
class Broker:
    """A live broker process. By `nonce` a broker recognises its own registration after a lost answer.

    `directory_id`: its data directory, for people: a new one means that the disk was replaced (KIP-858).
    `partitions_max`: how many replicas it accepts; 0 = an older broker, which does not say.
    """

    address: str
    client_address: str
    nonce: str
    rack: str = ""
    external_address: str = ""
    directory_id: str = ""
    partitions_max: int = 0

    def encode(self) -> bytes:
        """Returns the value for etcd."""
        return encode_value(self)

    @staticmethod
    def decode(data: bytes) -> Broker:
        """Reads the value from etcd."""
        d = json.loads(data)
        more = str(d.get("external_address", "")), str(d.get("directory_id", "")), int(d.get("partitions_max", 0))
        return Broker(d["address"], d["client_address"], d["nonce"], d.get("rack", ""), *more)

    @property
    def addresses(self) -> Addresses:
        """Its addresses, by listener."""
        return Addresses(self.address, self.client_address, self.external_address)


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic; `config` holds explicit values only.

    `made_after`: the restore of etcd (mod revision of `restored`) after which it was made, and had no logs; 0 = not known.
    """

    name: str
    topic_id: str
    partitions: int
    replication_factor: int
    config: dict[str, str] = field(default_factory=dict)
    made_after: int = 0
    unknown: dict[str, object] = field(default_factory=dict, hash=False)

    def encode(self) -> bytes:
        """Returns the value for etcd."""
        return encode_value(self, leave_out="" if self.made_after else "made_after")

    @staticmethod
    def decode(data: bytes) -> Topic:
        """Reads the value from etcd."""
        d = json.loads(data)
        return Topic(
            d["name"],
            d["topic_id"],
            int(d["partitions"]),
            int(d["replication_factor"]),
            dict(d["config"]),
            int(d.get("made_after", 0)),
            unknown=unknown_fields(Topic, d),
        )


@dataclass(frozen=True, slots=True)
class DeletedTopic:
    """A tombstone: brokers may remove the logs of this topic."""

    name: str
    deleted_ms: int
    unknown: dict[str, object] = field(default_factory=dict, hash=False)

    def encode(self) -> bytes:
        """Returns the value for etcd."""
        return encode_value(self)

    @staticmethod
    def decode(data: bytes) -> DeletedTopic:
        """Reads the value from etcd."""
        d = json.loads(data)
        return DeletedTopic(str(d["name"]), int(d["deleted_ms"]), unknown=unknown_fields(DeletedTopic, d))


@dataclass(frozen=True, slots=True)
class Partition:
    """Leadership and in-sync replicas, in one value. A broker in it is (broker id, incarnation).

    `eligible`: replicas that left the ISR when it fell below `min_insync_replicas`. Nothing was committed since, so
    they hold every committed record, as members of the ISR do (KIP-966, "eligible leader replicas").
    """

    topic: str
    replicas: tuple[int, ...]
    leader: BrokerRef | None
    leader_epoch: int
    isr: tuple[BrokerRef, ...]
    last_known_leader: BrokerRef | None = None
    eligible: tuple[BrokerRef, ...] = ()
    unknown: dict[str, object] = field(default_factory=dict, hash=False)

    def encode(self) -> bytes:
        """Returns the value for etcd. `eligible` names the ISR that it belongs to: an older version changes the ISR and
        keeps the rest.
        """
        if not self.eligible:
            return encode_value(self, leave_out="eligible")
        return encode_value(replace(self, unknown={**self.unknown, "eligible_isr": self.isr}))

    @staticmethod
    def decode(data: bytes) -> Partition:
        """Reads the value from etcd."""
        d = json.loads(data)
        return Partition(
            topic=d["topic"],
            replicas=tuple(int(r) for r in d["replicas"]),
            leader=_ref(d["leader"]),
            leader_epoch=int(d["leader_epoch"]),
            isr=_refs(d["isr"]),
            last_known_leader=_ref(d.get("last_known_leader")),
            eligible=_refs(d.get("eligible", ())) if d.pop("eligible_isr", None) == d["isr"] else (),
            unknown=unknown_fields(Partition, d),
        )


@dataclass(frozen=True, slots=True)
class Coordinator:
    """A live coordinator process, with or without shards; its address is in the key."""

    nonce: str
    client_address: str = ""
    external_address: str = ""

    def encode(self) -> bytes:
        """Returns the value for etcd."""
        return encode_value(self)


@dataclass(frozen=True, slots=True)
class ShardOwner:
    """The owner of a shard: its addresses, and the nonce of the process, by which it recognises its own write."""

    address: str
    nonce: str
    epoch: int
    client_address: str = ""
    external_address: str = ""

    def encode(self) -> bytes:
        """Returns the value for etcd."""
        return encode_value(self)

    @staticmethod
    def decode(data: bytes) -> ShardOwner:
        """Reads the value from etcd."""
        d = json.loads(data)
        return ShardOwner(
            d["address"],
            d["nonce"],
            int(d["epoch"]),
            str(d.get("client_address", "")),
            str(d.get("external_address", "")),
        )

    @property
    def addresses(self) -> Addresses:
        """Its addresses, by listener."""
        return Addresses(self.address, self.client_address, self.external_address)


@dataclass(frozen=True, slots=True)
class ShardTrouble:
    """A shard keeps failing at its owner: the owner's address, and the last error."""

    address: str
    error: str

    def encode(self) -> bytes:
        """Returns the value for etcd."""
        return encode_value(self)

    @staticmethod
    def decode(data: bytes) -> ShardTrouble:
        """Reads the value from etcd."""
        d = json.loads(data)
        return ShardTrouble(str(d["address"]), str(d["error"]))


@dataclass(frozen=True, slots=True)
class Reassignment:
    """A pending move of replicas. It is a key beside the partition's value, whose fields never change for it."""

    original: tuple[int, ...]
    target: tuple[int, ...]

    def encode(self) -> bytes:
        """Returns the value for etcd."""
        return encode_value(self)

    @staticmethod
    def decode(data: bytes) -> Reassignment:
        """Reads the value from etcd."""
        d = json.loads(data)
        return Reassignment(tuple(int(b) for b in d["original"]), tuple(int(b) for b in d["target"]))

    @property
    def adding(self) -> tuple[int, ...]:
        """Brokers that get a new replica."""
        return tuple(broker_id for broker_id in self.target if broker_id not in self.original)


@dataclass(frozen=True, slots=True)
class Drain:
    """The draining node: a broker id and its incarnation, or a coordinator's address and 0.

    A broker's drain ends when that incarnation is no longer registered, even if the key is still there.
    """

    node: str
    incarnation: int
    since_ms: int

    def encode(self) -> bytes:
        """Returns the value for etcd."""
        return encode_value(self)

    @staticmethod
    def decode(data: bytes) -> Drain:
        """Reads the value from etcd."""
        d = json.loads(data)
        return Drain(str(d["node"]), int(d["incarnation"]), int(d["since_ms"]))

    @property
    def broker(self) -> BrokerRef:
        """Returns the draining broker. Raises `ValueError` for a coordinator's drain."""
        return BrokerRef(int(self.node), self.incarnation)


def encode_ref(ref: BrokerRef) -> bytes:
    """Returns the value of the controller key."""
    return json.dumps([ref.broker_id, ref.incarnation]).encode()


def decode_ref(data: bytes) -> BrokerRef:
    """Reads the value of the controller key."""
    broker_id, incarnation = json.loads(data)
    return BrokerRef(int(broker_id), int(incarnation))
