"""The settings of one broker. Kafka's names with underscores, unit last.

Rule: checked on construction, each value and the relations between them; nothing below reads the environment.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from oncelog_runtime.config.serving_config import ServingConfig
from oncelog_runtime.config.settings import setting

_UNITS = ("_ms", "_max", "_bytes", "_shards", "_factor", "_replicas")

_MAY_BE_ZERO = ("disk_low_bytes", "disk_reserved_bytes")


@dataclass(frozen=True, kw_only=True)
class BrokerConfig(ServingConfig):
    """The settings of a broker; `node_id` is the broker's id."""

    rack: str = setting("", "where this broker stands; replicas of a partition are spread over racks")
    transaction_shards: int = setting(50, "transaction shards of a new cluster; never changes afterwards")
    group_shards: int = setting(50, "group shards of a new cluster; never changes afterwards")
    default_replication_factor: int = setting(3, "replicas of a topic that names none")
    internal_topic_replication_factor: int = setting(3, "replicas of the cluster's own topics, and brokers waited for")
    min_insync_replicas: int = setting(2, "default of the topic option; never more than the replicas of the topic")
    message_max_bytes: int = setting(8 << 20, "default of the topic option max_message_bytes")
    partitions_max: int = setting(10_000, "most partitions of one topic")
    partitions_per_broker_max: int = setting(
        10_000, "most partitions with a replica here; fewer where the limit of open files allows no more"
    )
    # liveness
    session_timeout_ms: int = setting(3_000, "life of the registration's lease without renewal, 2000 and up")
    peer_hold_ms: int = setting(750, "how long a peer holds the call that watches it")
    peer_silence_max_ms: int = setting(1_300, "silence after which a peer is a suspect")
    probe_timeout_ms: int = setting(300, "how long the controller waits for a suspect, twice")
    disk_stall_max_ms: int = setting(
        3_000, "a disk that ends no sync for so long is stalled: its broker gives leaderships away and leaves ISRs"
    )
    disk_low_bytes: int = setting(
        1 << 30, "free bytes below which no transaction begins on this broker; at most a tenth of the volume, 0 = never"
    )
    disk_reserved_bytes: int = setting(
        256 << 20,
        "free bytes kept for markers and the cluster's own logs: below, no records; at most a twentieth of the volume",
    )
    # replication
    replica_lag_time_max_ms: int = setting(10_000, "a follower not caught up for so long leaves the ISR")
    replica_silence_max_ms: int = setting(
        2_500, "a follower that answers nothing for so long leaves the ISR, if enough are left"
    )
    replicate_max_bytes: int = setting(1 << 20, "bytes gathered into one replication request")
    replicate_in_flight_max: int = setting(4, "replication requests on the way per follower and flush mode")
    replicate_timeout_ms: int = setting(5_000, "a replication request without answer for so long is lost")
    replicate_backoff_ms: int = setting(
        50, "wait before a follower is tried again; for a partition that it refuses, up to eight times as long"
    )
    watermark_push_delay_ms: int = setting(50, "how long a new high watermark waits for data to go with")
    tail_cache_bytes: int = setting(4 << 20, "newest batches kept in memory, per partition")
    tail_memory_bytes: int = setting(256 << 20, "newest batches kept in memory, of all partitions together")
    # requests
    request_timeout_max_ms: int = setting(120_000, "longest time-out of a produce request")
    inbox_bytes_max: int = setting(64 << 20, "bytes that may wait for their append, per partition")
    inbox_batches_max: int = setting(10_000, "batches that may wait for append or acknowledgement, per partition")
    check_inline_bytes: int = setting(
        1 << 20, "compressed batches that unpack to more are checked in a thread, while others are served"
    )
    fetch_reply_bytes: int = setting(
        16 << 20,
        "largest answer of a fetch, or to a worker, below max_message_bytes; nothing else is served while it is read",
    )
    fetch_records_unpacked_bytes: int = setting(
        16 << 20, "most bytes of records, unpacked, of one FetchRecords, and largest batch that it unpacks"
    )
    fetch_partitions_max: int = setting(10_000, "most partitions of one fetch")
    fetch_wait_max: int = setting(60_000, "longest long poll of a fetch, ms")
    # transactions
    transaction_max_timeout_ms: int = setting(
        900_000, "as the coordinators' setting; metrics call a transaction late 5 minutes after it"
    )
    transaction_resolve_after_ms: int = setting(60_000, "a transaction open for so long is asked about")
    transaction_resolve_interval_ms: int = setting(10_000, "how often open transactions are looked at")
    coordinator_timeout_ms: int = setting(5_000, "how long a coordinator may take to answer a broker")
    # housekeeping
    tick_ms: int = setting(100, "precision of request time-outs")
    isr_check_interval_ms: int = setting(500, "how often ISRs are looked at")
    retention_interval_ms: int = setting(60_000, "how often retention runs")
    trash_retention_ms: int = setting(
        3 * 24 * 3_600_000,
        "how long the log of a deleted topic, or of a replica that was moved away, stays in the trash",
    )
    deleted_topics_retention_ms: int = setting(
        90 * 24 * 3_600_000,
        "how long etcd remembers a deleted topic; a broker away for longer keeps the logs it has of it",
    )
    scrub_bytes_per_s: int = setting(8 << 20, "how fast logs are read again to find rot; 0 = never")
    scrub_interval_ms: int = setting(7 * 24 * 3_600_000, "a pass over all logs begins at most so often")
    compaction_bytes_per_s: int = setting(
        32 << 20, "how fast logs with cleanup_policy=compact are read and written again; 0 = never"
    )
    compaction_interval_ms: int = setting(15_000, "how often logs are looked at for compaction")
    compaction_keys_max: int = setting(2_000_000, "most keys that one pass of compaction holds in memory")
    compaction_key_bytes_max: int = setting(
        128 << 20, "most bytes of such keys; what does not fit waits for the next pass"
    )
    reassignments_max: int = setting(8, "moves of replicas under way at the same time, in the whole cluster")
    move_bytes_per_s: int = setting(
        0, "most bytes per second that this broker sends to replicas that are being moved; 0 = no bound"
    )
    replica_balance_enabled: bool = setting(True, "brokers that are new get their share of the replicas by themselves")
    replica_balance_delay_ms: int = setting(30_000, "how long the set of brokers must stand still before that")
    leader_rebalance_interval_ms: int = setting(30_000, "how often leadership goes back to preferred replicas")

    def __post_init__(self) -> None:
        ServingConfig.__post_init__(self)
        base = {field.name for field in dataclasses.fields(ServingConfig)}
        for field in dataclasses.fields(self):
            if field.name not in {*base, *_MAY_BE_ZERO} and field.name.endswith(_UNITS):
                self.check(field.name, getattr(self, field.name) > 0, "above 0")
        self.check("session_timeout_ms", self.session_timeout_ms >= 2_000, "2000 and up")
        self.check("scrub_bytes_per_s", self.scrub_bytes_per_s >= 0, "0 and up")
        self.check("disk_reserved_bytes", self.disk_reserved_bytes >= 0, "0 and up")
        self.check("disk_low_bytes", self.disk_low_bytes >= self.disk_reserved_bytes, "at least disk_reserved_bytes")
        self.check("peer_silence_max_ms", self.peer_silence_max_ms > self.peer_hold_ms, "above peer_hold_ms")
        self.check(
            "replica_silence_max_ms",
            self.replica_silence_max_ms > self.peer_silence_max_ms,
            "above peer_silence_max_ms",
        )
        self.check("move_bytes_per_s", self.move_bytes_per_s >= 0, "0 and up")
        self.check("compaction_bytes_per_s", self.compaction_bytes_per_s >= 0, "0 and up")
        self.check("compaction_key_bytes_max", self.compaction_key_bytes_max <= 1 << 30, "at most 1073741824")
        self.check("partitions_max", self.partitions_max <= 10_000, "at most 10000")
        self.check("partitions_per_broker_max", self.partitions_per_broker_max <= 1_000_000, "at most 1000000")
        self.check("transaction_shards", self.transaction_shards <= 10_000, "at most 10000")
        self.check("group_shards", self.group_shards <= 10_000, "at most 10000")
        self.check("fetch_reply_bytes", self.fetch_reply_bytes < self.max_message_bytes, "below max_message_bytes")

    @property
    def broker_id(self) -> int:
        """This broker's id."""
        return self.node_id

    @property
    def harmless_pause_ms(self) -> int:
        """The time for which this broker may stand still without another one being elected (decision 0019), less a fifth."""
        return (self.peer_silence_max_ms - self.peer_hold_ms + 2 * self.probe_timeout_ms) * 4 // 5

    @property
    def cut_off_after_ms(self) -> int:
        """The silence after which another broker counts as one that does not hear this one: longer than it holds a call."""
        return max(self.harmless_pause_ms, self.peer_hold_ms + self.probe_timeout_ms // 2)

    @property
    def log_dir(self) -> str:
        """The folder of the partition logs, below the data directory."""
        return "logs"
