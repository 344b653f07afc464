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
    group_resolve_after_ms: int = 15_000
    """When transactional offsets are pending for longer, the group shard asks the transaction shard for the outcome."""

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be above zero")
