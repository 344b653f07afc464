"""Every bound of the coordinator's cores, in one place. Defaults are Kafka's where Kafka has the setting."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one shard's state. All are above zero; each field says what happens beyond it."""

    transaction_max_timeout_ms: int = 900_000
    """Largest time-out that InitProducerId accepts; above: InvalidTransactionTimeoutError."""
    max_pending_transactions: int = 5
    """Transactions of one id that are open, or decided and not yet visible; at the bound the next one is refused for
    now
    (ConcurrentTransactions).
    """
    max_unsynced_transactions: int = 128
    """Transactions of one id that are open, or decided with markers not all on disk; at the bound the next one is
    refused for now.
    """
    max_number_span: int = 1_000
    """Largest distance of a new number from the oldest one whose markers are not all on disk; beyond it the client has
    to retry
    (ConcurrentTransactions). Leaders remember 1,024 numbers, so a leader never has to guess whether a number has a
    marker.
    """
    max_partitions: int = 10_000
    """Partitions and groups of one transaction; above: ResourceExhaustedError."""
    max_enrolled_bytes: int = 768 << 10
    """Bytes of the names of one transaction's partitions and groups in a record; above: PolicyViolationError."""
    max_pending_bytes: int = 3 << 20
    """Bytes of all transactions of one id whose markers are not on disk; above, the next one is refused for now
    (ConcurrentTransactions).
    """
    max_participants: int = 100_000
    """Participants of one transaction; above: ResourceExhaustedError."""
    max_winners: int = 20_000
    """Winners of one commit (one record holds them all); above: InvalidRequestError."""
    max_apps: int = 1_000
    """App ids with a committed token under one transactional id; above: PolicyViolationError."""
    kept_outcomes: int = 100
    """Outcomes kept after COMPLETE; an older number is answered with OutcomeForgottenError."""
    kept_nonces: int = 5
    """Sessions whose InitProducerId can be repeated and is then answered as the first time."""
    fenced_runs: int = 32
    """Older runs remembered by name; runs before them are fenced by a watermark of write attempts."""
    ended_attempts: int = 16
    """Ended (app, batch, attempt) of the owner run remembered by name; attempts before them are covered by a watermark."""
    aborted_ahead: int = 16
    """Unknown numbers above the last one that healing may record as aborted."""
    expected_partitions: int = 32
    """Partitions, and groups, of a client's recent transactions that are enrolled in its next one in advance."""
    default_lease_ms: int = 60_000
    max_lease_ms: int = 86_400_000
    default_max_duration_ms: int = 3_600_000
    max_max_duration_ms: int = 7 * 86_400_000
    transactional_id_expiration_ms: int = 7 * 86_400_000
    """An id idle for this long forgets outcomes and nonces; its producer id, last number and tokens stay."""
    transactional_id_retention_ms: int = 7 * 86_400_000
    """An expired id is removed after this, unless it must last (`TransactionRecord.is_lasting`)."""
    max_ids: int = 1_000_000
    """Transactional ids of one shard, including expired ones; above: ResourceExhaustedError."""
    force_abort_repeat_ms: int = 600_000
    """A ForceAbort without a number counts as a retry of an earlier one within this time."""
    expire_per_tick: int = 200
    """Time-outs and expiries that one Tick decides, so that a burst cannot block the shard."""
    offset_metadata_max_bytes: int = 4096
    max_offsets_per_commit: int = 10_000
    max_offsets_bytes: int = 4 << 20
    """Log bytes of one commit's offsets, or of one group's offsets in a transaction; above: InvalidRequestError."""
    member_id_max_bytes: int = 256
    group_max_size: int = 1_000
    """Members of one group; one more is refused with GroupMaxSizeReachedError."""
    max_groups: int = 100_000
    """Groups of one shard with members, or with members that left within `group_forget_member_ms`; one more group is refused
    with ResourceExhaustedError. Groups with nothing but committed offsets do not count.
    """
    max_subscribed_topics: int = 1_000
    """Topics by name in one subscription; above: PolicyViolationError, as for the next three."""
    max_group_bytes: int = 2 << 20
    """Bytes of the subscriptions of a group's members."""
    max_group_patterns: int = 10
    """Different patterns of a group's members: each is matched with every topic."""
    group_max_partitions: int = 20_000
    """Partitions that the members of one group read, when a member joins or changes its subscription."""
    group_session_timeout_ms: int = 45_000
    """A member that is not heard of for this long has left."""
    group_heartbeat_interval_ms: int = 3_000
    """How often members are asked to send a heartbeat; below half of the session."""
    default_rebalance_timeout_ms: int = 300_000
    max_rebalance_timeout_ms: int = 3_600_000
    """Longest time that a member may take to let partitions go; above: InvalidRequestError."""
    group_assignment_interval_ms: int = 200
    """An assignment is computed at most this often, so that many joins at once cost a few."""
    metadata_lag_max_ms: int = 10_000
    """For this long after a replay, topics that are older than those of an assignment are not believed."""
    group_confirm_ms: int = 2_000
    """A shard whose members only say that they are there appends a record this often, to learn that it is still owned."""
    group_forget_member_ms: int = 600_000
    """The id of an ended membership is refused for this long, so that a late copy of its join cannot revive it."""
    max_left_members: int = 1_000
    """Ids of ended memberships that a group keeps; beyond it the oldest go early."""
    group_retention_ms: int = 7 * 86_400_000
    """A group that had members and has none is removed after this, with its offsets, unless offsets were committed since."""
    ended_retention_ms: int = 3_600_000
    """A group shard remembers for this long that transactions of a producer id with offsets of a group have ended."""
    gone_topic_ms: int = 86_400_000
    """A topic that a shard has not seen for this long is gone, and its offsets go when they are older than
    `group_retention_ms`.
    """
    group_resolve_after_ms: int = 15_000
    """When transactional offsets are pending for longer, the group shard asks the transaction shard for the outcome."""
    max_channel_ranges: int = 10_000
    """Ranges of offsets, and retried records, in one request about a channel, and ranges of one transaction on a partition;
    above: InvalidRequestError, as for the next one and `max_channel_txn_bytes`.
    """
    max_channel_window: int = 1_000_000
    """How far above `settled_before` a record may be settled; acknowledged in a transaction: twice as far."""
    max_channel_retried: int = 100_000
    """Retried records that are remembered for a channel on a partition; others are not, so their deliveries begin at zero
    after a fail-over.
    """
    max_channel_pending: int = 1_000
    """Open transactions with acknowledgements of a channel on one partition; above: ResourceExhaustedError, as for the next
    two.
    """
    max_channel_pending_ranges: int = 50_000
    max_channel_partitions: int = 1_000_000
    """Partitions of all channels of one shard."""
    max_channel_txn_bytes: int = 4 << 20
    """Log bytes that the marker of one transaction writes for one channel."""

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be above zero")
