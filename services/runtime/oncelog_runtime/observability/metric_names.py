"""Every metric that oncelog exports: name, kind, meaning, labels, buckets, and the services that export it.

Rule 1: nothing exports a metric that is not here; docs/metrics.md is generated from this table, and the dashboard and
        the alert rules are checked against it.
Rule 2: names carry their unit (`_seconds`, `_bytes`, `_offset`); counters end in `_total`.
Rule 3: a label has few values, or as many as the cluster has topics or partitions, and of groups (`metrics_groups_max`) and
        channels (1,000 on a broker) a bounded number. What grows with the number of partitions is `per_partition` and can
        be switched off; the totals beside it stay.
Rule 4: `_lag` of a partition or group counts offsets, which costs nothing per scrape: markers and records of aborted
        transactions are offsets too. Counting records means reading the log; `oncelog group describe` does that, once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Kind = Literal["counter", "gauge", "histogram"]

BROKER: Final = ("partition_leader",)
COORDINATOR: Final = ("coordinator",)
ALLOCATOR: Final = ("pid_allocator",)
EVERY: Final = (*BROKER, *COORDINATOR, *ALLOCATOR)


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric. `buckets` are upper bounds, without +Inf."""

    name: str
    kind: Kind
    help: str
    services: tuple[str, ...]
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    per_partition: bool = False


_PARTITION: Final = ("topic", "partition")
REQUEST_BUCKETS: Final = (
    *(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5),
    *(1.0, 2.5, 5.0, 10.0, 30.0),
)
PHASE_BUCKETS: Final = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)
QUOTA_BUCKETS: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)
TXN_BUCKETS: Final = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0)


def _gauge(name: str, services: tuple[str, ...], text: str, *labels: str) -> Metric:
    return Metric(name, "gauge", text, services, labels)


def _counter(name: str, services: tuple[str, ...], text: str, *labels: str) -> Metric:
    return Metric(name, "counter", text, services, labels)


def _of_partition(name: str, text: str) -> Metric:
    return Metric(name, "gauge", f"{text} Told by the partition's leader.", BROKER, _PARTITION, per_partition=True)


# ---------------------------------------------------------------- replicas

PARTITION_UNDER_REPLICATED: Final = _of_partition(
    "oncelog_partition_under_replicated", "1 = the ISR is smaller than the set of replicas."
)
PARTITION_UNDER_MIN_ISR: Final = _of_partition(
    "oncelog_partition_under_min_isr", "1 = the ISR is below min_insync_replicas: acks=all is refused."
)
PARTITION_AT_MIN_ISR: Final = _of_partition(
    "oncelog_partition_at_min_isr", "1 = the ISR is just min_insync_replicas: the next loss stops acks=all."
)
PARTITION_ISR: Final = _of_partition("oncelog_partition_isr", "Members of the in-sync replica set, the leader too.")
PARTITION_LOG_START: Final = _of_partition("oncelog_partition_log_start_offset", "First offset that can be read.")
PARTITION_LAST_STABLE: Final = _of_partition(
    "oncelog_partition_last_stable_offset", "End of what a read_committed reader sees."
)
PARTITION_HIGH_WATERMARK: Final = _of_partition(
    "oncelog_partition_high_watermark_offset", "End of what is on every in-sync replica."
)
PARTITION_LOG_END: Final = _of_partition("oncelog_partition_log_end_offset", "Offset of the next record.")
PARTITION_LSO_LAG: Final = _of_partition(
    "oncelog_partition_lso_lag",
    "Offsets between the last stable offset and the high watermark: what open transactions hide.",
)
PARTITION_SIZE: Final = _of_partition("oncelog_partition_size_bytes", "Bytes of this partition's log on the leader.")

PARTITIONS_LED: Final = _gauge("oncelog_partitions_led", BROKER, "Partitions that this broker leads.")
REPLICAS: Final = _gauge("oncelog_replicas", BROKER, "Replicas on this broker, led ones too.")
FAILED_REPLICAS: Final = _gauge("oncelog_failed_replicas", BROKER, "Replicas whose log failed or cannot be opened.")
DISK_STALLED: Final = _gauge(
    "oncelog_disk_stalled", BROKER, "1 = this broker's disk ends no sync: others lead and acknowledge meanwhile."
)
ORPHANED_LOGS: Final = _gauge(
    "oncelog_orphaned_logs",
    BROKER,
    "Logs on this broker of topics that etcd does not know and that were not deleted; they are kept.",
)
TRASHED_LOGS: Final = _gauge(
    "oncelog_trashed_logs", BROKER, "Logs of deleted topics and moved replicas that wait for their removal."
)
UNDER_REPLICATED: Final = _gauge(
    "oncelog_under_replicated_partitions", BROKER, "Led partitions whose ISR is smaller than the set of replicas."
)
UNDER_MIN_ISR: Final = _gauge(
    "oncelog_under_min_isr_partitions", BROKER, "Led partitions whose ISR is below min_insync_replicas."
)
AT_MIN_ISR: Final = _gauge(
    "oncelog_at_min_isr_partitions", BROKER, "Led partitions whose ISR is just min_insync_replicas."
)
LEADERLESS: Final = _gauge(
    "oncelog_leaderless_partitions",
    BROKER,
    "Partitions of the cluster without a living leader; told by the controller, 0 elsewhere.",
)
ACTIVE_CONTROLLER: Final = _gauge("oncelog_active_controller", BROKER, "1 on the broker that is the controller.")
REGISTERED: Final = _gauge(
    "oncelog_registered_processes",
    BROKER,
    "Registered processes by component; told by the controller, 0 elsewhere.",
    "component",
)
OWNERLESS_SHARDS: Final = _gauge(
    "oncelog_ownerless_shards",
    BROKER,
    "Coordinator shards (kind txn or group) that no coordinator owns; told by the controller, 0 elsewhere.",
    "kind",
)
ISR_SHRINKS: Final = _counter("oncelog_isr_shrinks_total", BROKER, "Times a replica left the ISR of a led partition.")
ISR_EXPANDS: Final = _counter("oncelog_isr_expands_total", BROKER, "Times a replica joined the ISR of a led partition.")
LEADER_CHANGES: Final = _counter("oncelog_leader_changes_total", BROKER, "Leaderships that began on this broker.")

# ---------------------------------------------------------------- traffic

RECORDS_IN: Final = _counter("oncelog_records_in_total", BROKER, "Records of clients appended, by topic.", "topic")
BYTES_IN: Final = _counter("oncelog_bytes_in_total", BROKER, "Bytes of clients' batches appended, by topic.", "topic")
RECORDS_OUT: Final = _counter(
    "oncelog_records_out_total", BROKER, "Records handed to readers, control records too, by topic.", "topic"
)
BYTES_OUT: Final = _counter("oncelog_bytes_out_total", BROKER, "Bytes of batches handed to readers, by topic.", "topic")
FOLLOWER_BYTES_OUT: Final = _counter(
    "oncelog_follower_bytes_out_total",
    BROKER,
    "Those of oncelog_bytes_out_total that this broker handed out as a follower, to readers in its rack.",
    "topic",
)
APPEND_ERRORS: Final = _counter(
    "oncelog_append_errors_total",
    BROKER,
    "Batches and markers that a leader refused or could not append, by error code.",
    "code",
)
INTERNAL_ERRORS: Final = _counter(
    "oncelog_internal_errors_total",
    (*BROKER, *COORDINATOR),
    "Faults of this software that were met and contained, by where (decision, append, open, task, request): one command "
    "or task failed, the rest went on. Each is a bug: please report the traceback in the log.",
    "where",
)
REQUEST_SECONDS: Final = Metric(
    "oncelog_request_duration_seconds",
    "histogram",
    "Time from a request's start in its handler to its answer, on links and unary alike; code is OK or the error's. "
    "Fetch and Ping hold their answers (long poll), so their times are no latencies.",
    EVERY,
    ("method", "code"),
    REQUEST_BUCKETS,
)
PRODUCE_PHASE_SECONDS: Final = Metric(
    "oncelog_produce_phase_seconds",
    "histogram",
    "Where the time of a produced batch goes: queue (until it is decided), append (the write of its group), "
    "replicate (until the high watermark has passed it; acks=all).",
    BROKER,
    ("phase",),
    PHASE_BUCKETS,
)
APPEND_QUEUE: Final = _gauge(
    "oncelog_append_queue_batches", BROKER, "Batches that wait for their append, their enrolment or their followers."
)
LINKS: Final = _gauge("oncelog_links", EVERY, "Open links from clients and other services.")
REQUESTS_RUNNING: Final = _gauge("oncelog_requests_running", EVERY, "Requests whose handler runs.")
LINKS_REFUSED: Final = _counter(
    "oncelog_links_refused_total",
    EVERY,
    "Links that were not let in, by the error's code, whatever the reason.",
    "code",
)
MEMORY_TAKEN: Final = _gauge(
    "oncelog_memory_taken_bytes",
    EVERY,
    "What is taken of a budget of this process: requests (being served), answers (from before they are made or unpacked "
    "until they left), arriving (messages that are not whole yet, as of the last look).",
    "budget",
)
MEMORY_LIMIT: Final = _gauge("oncelog_memory_limit_bytes", EVERY, "What a budget of this process holds.", "budget")
MEMORY_REFUSED: Final = _counter(
    "oncelog_memory_refused_total",
    EVERY,
    "Requests, answers and waits that found no room in a budget; for arriving: connections that were ended.",
    "budget",
)

# ---------------------------------------------------------------- channels

_OF_CHANNEL: Final = ("topic", "channel")
CHANNEL_DELIVERED: Final = _counter(
    "oncelog_channel_delivered_total", BROKER, "Records handed to workers, repeated deliveries too.", *_OF_CHANNEL
)
CHANNEL_REDELIVERED: Final = _counter(
    "oncelog_channel_redelivered_total", BROKER, "Those that had been delivered before.", *_OF_CHANNEL
)
CHANNEL_ACKNOWLEDGED: Final = _counter(
    "oncelog_channel_acknowledged_total", BROKER, "Records that were acknowledged, for good.", *_OF_CHANNEL
)
CHANNEL_DEAD: Final = _counter(
    "oncelog_channel_dead_total", BROKER, "Records that were rejected, or delivered too often.", *_OF_CHANNEL
)
CHANNEL_DEPTH: Final = _gauge(
    "oncelog_channel_depth_records",
    BROKER,
    "Records that are not settled, on the partitions led here; offsets that nobody has looked at yet count as records.",
    *_OF_CHANNEL,
)
CHANNEL_IN_FLIGHT: Final = _gauge(
    "oncelog_channel_in_flight_records", BROKER, "Records that workers hold, on the partitions led here.", *_OF_CHANNEL
)
CHANNEL_WORKERS: Final = _gauge(
    "oncelog_channel_workers", BROKER, "Workers that this broker hears of, each once.", *_OF_CHANNEL
)
CHANNEL_STATE_CHANNELS: Final = _gauge(
    "oncelog_channel_state_channels", COORDINATOR, "Channels of which the shards owned here remember something."
)
CHANNEL_STATE_PARTITIONS: Final = _gauge(
    "oncelog_channel_state_partitions",
    COORDINATOR,
    "Partitions of these channels; a shard takes up to 1,000,000, and then refuses new channels.",
)
CHANNEL_STATE_RECORDS: Final = _gauge(
    "oncelog_channel_state_records",
    COORDINATOR,
    "What is remembered of them, by kind: settled (blocks of 1,024 offsets with settled ones above the oldest that is not), "
    "retried (blocks with records that were given back), pending (open transactions with acknowledgements), outdated (to be "
    "removed). Many settled ones: some record is held, or refused, while later ones are done.",
    "kind",
)
CHANNEL_STATE_BYTES: Final = _gauge(
    "oncelog_channel_state_bytes", COORDINATOR, "Bytes of these blocks and acknowledgements, without keys."
)

# ---------------------------------------------------------------- delayed records

DELAYED_WAITING: Final = _gauge(
    "oncelog_delayed_waiting_records", BROKER, "Delayed records that wait, on the partitions led here.", "topic"
)
DELAYED_REFUSED: Final = _gauge(
    "oncelog_delayed_refused_records",
    BROKER,
    "Those of them that were due and that their topic refuses; they are tried again.",
    "topic",
)
DELAYED_OVERDUE: Final = _gauge(
    "oncelog_delayed_overdue_seconds",
    BROKER,
    "How long ago the first delayed record that still waits was due; 0 = none was.",
    "topic",
)
DELAYED_FAILURES: Final = _counter(
    "oncelog_delayed_failures_total",
    BROKER,
    "Moves of due records that failed or were refused, and schedulers that had to begin again; they are repeated.",
)

# ---------------------------------------------------------------- storage

STORAGE: Final = _gauge(
    "oncelog_storage_bytes",
    BROKER,
    "The data directory: log (bytes of all partition logs), free and total (of its volume).",
    "state",
)

# ---------------------------------------------------------------- compaction

COMPACTION_PASSES: Final = _counter(
    "oncelog_compaction_passes_total", BROKER, "Passes of compaction over a log of this broker that came to their end."
)
COMPACTION_FAILURES: Final = _counter(
    "oncelog_compaction_failures_total", BROKER, "Passes that ended with an error; the log of the broker names it."
)
COMPACTION_BYTES_READ: Final = _counter(
    "oncelog_compaction_read_bytes_total", BROKER, "Bytes of the segments that passes have looked at."
)
COMPACTION_BYTES_REMOVED: Final = _counter(
    "oncelog_compaction_removed_bytes_total", BROKER, "Bytes by which passes have made logs shorter."
)
COMPACTION_DIRTY: Final = _gauge(
    "oncelog_compaction_dirty_bytes",
    BROKER,
    "Bytes in compacted topics' logs here that no pass has looked at, with those that may not be compacted yet.",
)

# ---------------------------------------------------------------- transactions

TXN_OPEN: Final = _gauge("oncelog_txn_open", COORDINATOR, "Open transactions of the shards owned here.")
TXN_COMPLETING: Final = _gauge(
    "oncelog_txn_completing", COORDINATOR, "Decided transactions of which not every marker is on disk yet."
)
TXN_IDS: Final = _gauge("oncelog_transactional_ids", COORDINATOR, "Transactional ids known to the shards owned here.")
TXN_OLDEST: Final = _gauge(
    "oncelog_txn_oldest_open_seconds",
    (*BROKER, *COORDINATOR),
    "Age of the oldest open transaction: by its first record on the partitions led here, or by its start in the "
    "shards owned here; 0 = none is open.",
)
TXN_TOTAL: Final = _counter(
    "oncelog_txn_total", COORDINATOR, "Transactions decided, by outcome: committed, aborted, timed_out.", "outcome"
)
TXN_SECONDS: Final = Metric(
    "oncelog_txn_duration_seconds",
    "histogram",
    "Time from the start of a transaction (its first enrolment or join) to its decision.",
    COORDINATOR,
    (),
    TXN_BUCKETS,
)
TXN_PHASE_SECONDS: Final = Metric(
    "oncelog_txn_commit_phase_seconds",
    "histogram",
    "The two phases of ending a transaction: decide (until the decision is replicated) and mark (from there until "
    "every marker is written).",
    COORDINATOR,
    ("phase",),
    REQUEST_BUCKETS,
)
LATE: Final = _gauge(
    "oncelog_partitions_with_late_transactions",
    BROKER,
    "Led partitions with a transaction open for longer than transaction_max_timeout_ms and 5 minutes (KIP-664).",
)
LSO_LAG_MAX: Final = _gauge(
    "oncelog_partition_lso_lag_max", BROKER, "The largest oncelog_partition_lso_lag of the partitions led here."
)
FENCED: Final = _counter(
    "oncelog_producer_fenced_total",
    (*BROKER, *COORDINATOR),
    "Requests of producers refused because a newer session or run exists.",
)
SHARDS: Final = _gauge(
    "oncelog_shards",
    COORDINATOR,
    "Shards of this process, by kind (txn, group) and state (owned; serving = replayed and answering; troubled = its lives "
    "come to nothing).",
    "kind",
    "state",
)
SHARD_FAILED_LIVES: Final = _counter(
    "oncelog_shard_failed_lives_total",
    COORDINATOR,
    "Lives of shards of this process that ended before they had served for a few seconds, by kind. A fail-over is one; "
    "many are a shard that cannot live, see `oncelog cluster health`.",
    "kind",
)
SHARD_QUEUE: Final = _gauge("oncelog_shard_queue_commands", COORDINATOR, "Commands that wait for their shard.")

# ---------------------------------------------------------------- producer ids

PID_ALLOCATIONS: Final = _counter("oncelog_pid_allocations_total", ALLOCATOR, "Producer ids handed out.")
PID_STOCK: Final = _gauge(
    "oncelog_producer_ids_in_stock", (*ALLOCATOR, *COORDINATOR), "Producer ids that can be handed out at once."
)
PID_SPACE_USED: Final = _gauge(
    "oncelog_producer_id_space_used_ratio", ALLOCATOR, "How much of the space of producer ids is used, 0 to 1."
)

# ---------------------------------------------------------------- consumer groups

GROUP_COMMITTED: Final = Metric(
    "oncelog_consumer_group_committed_offset",
    "gauge",
    "Committed offset of a group. Only of the worst pairs of group and topic (metrics_groups_max).",
    COORDINATOR,
    ("group", *_PARTITION),
    per_partition=True,
)
GROUP_LAG: Final = Metric(
    "oncelog_consumer_group_lag_offsets",
    "gauge",
    "Offsets, not records, from a group's committed offset to the last stable offset: markers and aborted records in "
    "between count, markers at the very end do not. `oncelog group describe` shows records as LAG, offsets as lag_offsets. "
    "Only of the worst pairs of group and topic (metrics_groups_max).",
    COORDINATOR,
    ("group", *_PARTITION),
    per_partition=True,
)
_OTHERS: Final = (
    "The worst pairs of group and topic have a series each (metrics_groups_max); "
    'group="(others)" is all others together.'
)
GROUP_LAG_SECONDS: Final = _gauge(
    "oncelog_consumer_group_lag_seconds",
    COORDINATOR,
    "How long ago something became readable that the group has not committed, on its worst partition of the topic; "
    "0 = all is committed. Counted from when the coordinator saw it (lag_refresh_ms), so it begins at 0 after a hand-over. "
    + _OTHERS,
    "group",
    "topic",
)
GROUP_LAG_MAX: Final = _gauge(
    "oncelog_consumer_group_lag_max",
    COORDINATOR,
    "The largest oncelog_consumer_group_lag_offsets of a group on one partition of the topic: offsets, not records. "
    + _OTHERS,
    "group",
    "topic",
)
GROUP_LAG_SUM: Final = _gauge(
    "oncelog_consumer_group_lag_sum_offsets",
    COORDINATOR,
    "The sum of oncelog_consumer_group_lag_offsets of a group over the topic's partitions: offsets, not records. "
    + _OTHERS,
    "group",
    "topic",
)

GROUP_LAG_PAIRS: Final = _gauge(
    "oncelog_consumer_group_topics",
    COORDINATOR,
    "Pairs of a group and a topic with committed offsets in the shards owned here; metrics_groups_max of them have series.",
)
GROUPS: Final = _gauge(
    "oncelog_consumer_groups",
    COORDINATOR,
    "Groups of the shards owned here, by state: EMPTY (no members), ASSIGNING, RECONCILING (partitions move), STABLE.",
    "state",
)
GROUP_MEMBERS: Final = _gauge(
    "oncelog_consumer_group_members",
    COORDINATOR,
    "Members of all groups of the shards owned here, by state: STABLE, UNREVOKED (has to let partitions go), UNRELEASED "
    "(waits for partitions of others), AWAY (a static member that may come back).",
    "state",
)
GROUP_REBALANCES: Final = _counter(
    "oncelog_consumer_group_rebalances_total",
    COORDINATOR,
    "Assignments of groups that took the place of another one: members, subscriptions or topics had changed.",
)
GROUP_FENCED: Final = _counter(
    "oncelog_consumer_group_fenced_total",
    COORDINATOR,
    "Heartbeats and commits refused because the membership has ended: the member was silent for too long, was removed, or "
    "another process has its instance id. It joins again by itself, but for the last.",
)

# ---------------------------------------------------------------- process

AUTHORIZATION_DENIED: Final = _counter(
    "oncelog_authorization_denied_total",
    (*BROKER, *COORDINATOR),
    "Requests, or items of them, that access rules refused, by operation and type of resource.",
    "operation",
    "resource_type",
)
AUTHENTICATION_FAILURES: Final = _counter(
    "oncelog_authentication_failures_total",
    (*BROKER, *COORDINATOR),
    "Links and unary calls that were refused because the caller's token, password or certificate was not good, by code.",
    "code",
)
AUDIT_LEFT_OUT: Final = _counter(
    "oncelog_audit_lines_left_out_total",
    (*BROKER, *COORDINATOR),
    "Lines of the audit log that its limits left out; the line after them says how many.",
)
QUOTA_DELAY_SECONDS: Final = Metric(
    "oncelog_quota_delay_seconds",
    "histogram",
    "How long requests waited before they were started because their caller was above a quota, by the quota's kind.",
    (*BROKER, *COORDINATOR),
    ("quota",),
    QUOTA_BUCKETS,
)
QUOTA_REFUSED: Final = _counter(
    "oncelog_quota_refused_total",
    (*BROKER, *COORDINATOR),
    "Requests, connections, topics and sessions refused with THROTTLING_QUOTA_EXCEEDED, by the quota's kind.",
    "quota",
)
CERTIFICATE_EXPIRY: Final = _gauge(
    "oncelog_tls_certificate_expiry_timestamp_seconds",
    EVERY,
    "When the certificate in use ends, as unix time; file is the setting that names it.",
    "file",
)
BUILD: Final = _gauge("oncelog_build_info", EVERY, "Always 1; the labels say what runs.", "component", "version")
SERVING: Final = _gauge(
    "oncelog_probe_serving", EVERY, "1 = the health probe of this name (startup, liveness, readiness) serves.", "probe"
)

_PROMETHEUS_CLIENT: Final = (
    _gauge("process_virtual_memory_bytes", EVERY, "Virtual memory size in bytes."),
    _gauge("process_resident_memory_bytes", EVERY, "Resident memory size in bytes."),
    _gauge("process_start_time_seconds", EVERY, "Start time of the process since unix epoch in seconds."),
    _counter("process_cpu_seconds_total", EVERY, "Total user and system CPU time spent in seconds."),
    _gauge("process_open_fds", EVERY, "Number of open file descriptors."),
    _gauge("process_max_fds", EVERY, "Maximum number of open file descriptors."),
    _counter("python_gc_objects_collected_total", EVERY, "Objects collected during gc.", "generation"),
    _counter("python_gc_objects_uncollectable_total", EVERY, "Uncollectable objects found during gc.", "generation"),
    _counter("python_gc_collections_total", EVERY, "Number of times this generation was collected.", "generation"),
)
"""The metrics that the prometheus-client library exports for any process."""

ALL: Final[dict[str, Metric]] = {
    metric.name: metric
    for metric in (*(m for m in list(globals().values()) if isinstance(m, Metric)), *_PROMETHEUS_CLIENT)
}


def series_of(metric: Metric) -> tuple[str, ...]:
    """Returns the names under which a metric can occur in a query."""
    if metric.kind == "histogram":
        return (f"{metric.name}_bucket", f"{metric.name}_count", f"{metric.name}_sum")
    return (metric.name,)
