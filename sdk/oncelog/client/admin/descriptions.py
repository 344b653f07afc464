"""The answers of `client.admin`: plain values, printed as they are by the command line."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from oncelog.errors import OncelogError
from oncelog.types import TopicPartition


@dataclass(frozen=True, slots=True)
class CreatedTopic:
    """`created` False: it existed already."""

    name: str
    topic_id: str
    created: bool


@dataclass(frozen=True, slots=True)
class PartitionDescription:
    """`leader` None = leaderless at the moment. Broker ids; `replicas` has the preferred one first.

    `adding`: replicas that are new and not counted on yet.
    """

    partition: int
    leader: int | None
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    adding: tuple[int, ...] = ()

    @property
    def fully_in_sync(self) -> bool:
        """Every replica but new ones is in sync."""
        return set(self.replicas) - set(self.adding) <= set(self.isr)


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """A topic; `config` holds what was set explicitly."""

    name: str
    topic_id: str
    internal: bool
    partitions: tuple[PartitionDescription, ...]
    config: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class PartitionOffsets:
    """Where a partition's log begins, how far it is stable, and how far it is replicated (all exclusive ends)."""

    log_start_offset: int
    last_stable_offset: int
    high_watermark: int


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    """The state of one transactional id. `txn_no` is the newest number; times are milliseconds since 1970."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    txn_no: int
    state: str
    start_timestamp_ms: int
    timeout_ms: int
    partitions: tuple[tuple[str, int], ...]
    groups: tuple[str, ...]
    coordinator: str
    txn_shard: int
    owner_run: str
    tokens: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class ClusterHealth:
    """`problems` is empty when nothing is wrong."""

    cluster_id: str
    controller: int | None
    brokers: tuple[tuple[int, str], ...]
    leaderless: tuple[tuple[str, int], ...]
    under_replicated: tuple[tuple[str, int], ...]
    unowned_shards: int
    problems: tuple[str, ...]
    under_min_isr: tuple[tuple[str, int], ...] = ()
    missing_brokers: tuple[int, ...] = ()
    allocators: tuple[str, ...] = ()
    troubled_shards: tuple[tuple[str, str], ...] = ()
    """Shards that have an owner and are not served, each with its last error."""

    @property
    def healthy(self) -> bool:
        """Every partition has a leader and its full ISR, every shard an owner under whom it lives; there are a controller
        and an allocator.
        """
        return not self.problems


@dataclass(frozen=True, slots=True)
class ConfigValue:
    """One option of a topic. `source` is "topic" (set explicitly) or "default" (the broker's)."""

    name: str
    value: str
    source: str
    default_value: str
    legal: str


@dataclass(frozen=True, slots=True)
class AlteredTopic:
    """A topic after a change. `changed` False: it was so already."""

    name: str
    topic_id: str
    partitions: int
    config: Mapping[str, str]
    changed: bool


@dataclass(frozen=True, slots=True)
class LaggingReplica:
    """A replica that is not in sync, and how far its log goes; -1 = the leader has not compared it yet."""

    broker_id: int
    log_end_offset: int


@dataclass(frozen=True, slots=True)
class LogDescription:
    """One partition as its leader has it. Ends are exclusive.

    `records`: how many records a read_committed reader that stands at the offset that was asked about still has before
    it: no markers, nothing aborted. Counted up to `counted_to`; below `last_stable_offset` the leader stopped there.
    """

    topic: str
    partition: int
    leader_epoch: int
    log_start_offset: int
    last_stable_offset: int
    high_watermark: int
    log_end_offset: int
    size_bytes: int
    open_transactions: int
    min_insync_replicas: int
    records: int
    counted_to: int
    lagging: tuple[LaggingReplica, ...] = ()

    def missing(self, broker_ids: Collection[int]) -> int:
        """Offsets that the furthest behind of these brokers lacks; 0 when all that have a replica are in sync."""
        ends = [replica.log_end_offset for replica in self.lagging if replica.broker_id in broker_ids]
        return max((self.log_end_offset - max(end, self.log_start_offset) for end in ends), default=0)


@dataclass(frozen=True, slots=True)
class ProducerDescription:
    """A producer on one partition. -1 = none or not known; `last_timestamp_ms` 0 = not kept."""

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int
    txn_start_offset: int
    txn_producer_id: int
    txn_no: int


@dataclass(frozen=True, slots=True)
class HangingTransaction:
    """A transaction that is open on a partition, but not at its coordinator. `reason` says what the coordinator knows."""

    topic: str
    partition: int
    txn_producer_id: int
    txn_no: int
    txn_shard: int
    first_offset: int
    open_since_ms: int
    records: int
    transactional_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class GroupListing:
    """A group. `offsets`: partitions with a committed one; `open_transactions`: those that hold offsets of it.

    `state`: EMPTY (no members), ASSIGNING (the next assignment is not computed yet), RECONCILING (partitions move), STABLE.
    """

    group_id: str
    state: str
    offsets: int
    open_transactions: int
    coordinator: str
    group_shard: int
    members: int = 0


@dataclass(frozen=True, slots=True)
class GroupOffset:
    """A committed offset. `member_id` empty: committed without being a member."""

    topic: str
    topic_id: str
    partition: int
    offset: int
    leader_epoch: int
    metadata: str
    committed_ms: int
    member_id: str


@dataclass(frozen=True, slots=True)
class PendingOffsets:
    """Offsets (topic, partition, offset) that become committed with an open transaction."""

    txn_producer_id: int
    txn_no: int
    txn_shard: int
    since_ms: int
    offsets: tuple[tuple[str, int, int], ...]


@dataclass(frozen=True, slots=True)
class GroupMemberDescription:
    """A member of a group, with what it reads. Partitions of a topic that is gone have the topic's id for a name.

    `instance_id`: empty for a member that is not static. `epoch`: of the assignment that it has come to; -2 = a static member
    that is away, for which its partitions wait. `state`: STABLE (it owns its target), UNREVOKED (it has to let `revoking` go),
    UNRELEASED (it waits for partitions of others), AWAY. `target`: what it is to own.
    """

    member_id: str
    instance_id: str
    client_id: str
    rack: str
    epoch: int
    state: str
    topics: tuple[str, ...]
    pattern: str
    assigned: tuple[TopicPartition, ...]
    revoking: tuple[TopicPartition, ...]
    target: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group in full.

    `group_epoch`: rises when members, subscriptions or topics change; 0 = the group never had members. `assignment_epoch`:
    of the assignment that is carried out. `assignor`: who computed it. `expires_ms`: the group has had members and has none,
    and is removed with its offsets at this time at the earliest, unless a commit or a member comes; None = it is kept.
    """

    listing: GroupListing
    offsets: tuple[GroupOffset, ...]
    pending: tuple[PendingOffsets, ...]
    members: tuple[GroupMemberDescription, ...] = ()
    group_epoch: int = 0
    assignment_epoch: int = 0
    assignor: str = ""
    expires_ms: int | None = None


@dataclass(frozen=True, slots=True)
class BrokerDescription:
    """A registered broker: how many partitions it leads, and of how many it has a replica."""

    broker: int
    address: str
    rack: str
    controller: bool
    leads: int
    replicas: int


@dataclass(frozen=True, slots=True)
class CoordinatorDescription:
    """A coordinator and how many shards it owns."""

    coordinator: str
    transaction_shards: int
    group_shards: int


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """The processes of a cluster, as one broker sees them."""

    cluster_id: str
    brokers: tuple[BrokerDescription, ...]
    coordinators: tuple[CoordinatorDescription, ...]
    allocators: tuple[str, ...]
    transaction_shards: int
    group_shards: int
    topics: int
    partitions: int


@dataclass(frozen=True, slots=True)
class Reassignment:
    """A move of replicas that is under way: from `original` to `target`; `replicas` and `isr` are those of now."""

    topic: str
    partition: int
    original: tuple[int, ...]
    target: tuple[int, ...]
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SurveyedReplica:
    """The part of a partition that one replica has. `standing`: of a holder, `intact`, `unclean` or `lost`; else empty.

    `holder`: it was in the last ISR or eligible, so it had every committed record. `intact`: it lost nothing since;
    `unclean`: its newest records may be gone; `lost`: its directory is new, or its log was set aside as rotten.
    Offsets are 0 while it does not answer.
    """

    broker_id: int
    answered: bool
    holder: bool
    standing: str
    last_epoch: int
    log_end_offset: int
    high_watermark: int


@dataclass(frozen=True, slots=True)
class ReplicaSurvey:
    """The replicas of a partition with what each has, and the epoch for which that holds."""

    topic: str
    partition: int
    leader_epoch: int
    has_leader: bool
    replicas: tuple[SurveyedReplica, ...]

    def missing(self, broker_id: int) -> tuple[int, tuple[int, ...]]:
        """The price of electing this broker: how many records it certainly lacks that another answer shows to be committed,
        and the holders whose records cannot be counted, because they do not answer or may have lost some.
        """
        chosen = next(replica for replica in self.replicas if replica.broker_id == broker_id)
        committed = max((replica.high_watermark for replica in self.replicas), default=0)
        unsure = tuple(
            replica.broker_id
            for replica in self.replicas
            if replica.holder and (not replica.answered or replica.standing != "intact") and replica is not chosen
        )
        return max(0, committed - chosen.log_end_offset), unsure


@dataclass(frozen=True, slots=True)
class RefusedMove:
    """A partition whose replicas do not move, and why."""

    topic: str
    partition: int
    error: OncelogError
