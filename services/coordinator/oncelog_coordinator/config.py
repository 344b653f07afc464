"""The settings of the coordinator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from oncelog.errors import ConfigError
from oncelog_coordinator.core.limits import Limits
from oncelog_runtime.config.serving_config import ServingConfig
from oncelog_runtime.config.settings import setting


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardConfig:
    """Settings of one shard's log and command queue. All times are in milliseconds."""

    append_timeout_ms: int = 2_000
    """Time-out of one attempt of an append or a read."""
    append_deadline_ms: int = 20_000
    """An append that is not committed within this time ends the life of the shard; the next one replays the log."""
    load_stall_ms: int = 20_000
    """A replay that receives nothing for this long fails."""
    load_bytes: int = 1 << 20
    retry_backoff_ms: int = 10
    retry_backoff_max_ms: int = 500
    appends_in_flight: int = 4
    inbox_max: int = 10_000
    """Commands that may wait; one more is refused with ResourceExhaustedError."""
    commands_per_append: int = 500
    append_bytes: int = 512 << 10
    """An append takes no further commands once its records are this large."""
    slack_records: int = 1_000
    """So many superseded records may stand in the log beside twice the needed ones; then the owner shortens it."""
    slack_bytes: int = 1 << 20
    """So many bytes of superseded records may; a replay reads little more than this."""
    lazy_flush_ms: int = 200
    """Lazy records wait this long for another append to carry them, then get one of their own."""
    life_backoff_ms: int = 50
    """Pause before the next life of the shard; doubled for each failed life in a row."""
    life_backoff_max_ms: int = 5_000
    life_stable_ms: int = 5_000
    """A life that has served for this long counts as successful and resets the back-off."""
    check_invariants: bool = False
    """Runs `check` of the core after each step; for tests and simulations."""


@dataclass(frozen=True, kw_only=True)
class CoordinatorConfig(ServingConfig):
    """The settings of a coordinator process."""

    component: ClassVar[str] = "coordinator"

    lease_ttl_ms: int = setting(3_000, "time to live of registration and shard ownership in etcd, 2000 and up")
    handover_delay_ms: int = setting(1_000, "how long the set of coordinators must stand before shards are handed over")
    tick_ms: int = setting(100, "how often time-outs are looked for")
    transaction_max_timeout_ms: int = setting(900_000, "largest transaction time-out that a client may ask for")
    transactional_id_expiration_ms: int = setting(7 * 86_400_000, "idle ids forget outcomes and nonces after this")
    transactional_id_retention_ms: int = setting(
        7 * 86_400_000, "expired ids are removed after this, unless they hold a commit token that must last"
    )
    kept_outcomes: int = setting(100, "outcomes kept per transactional id after completion")
    group_resolve_after_ms: int = setting(15_000, "pending transactional offsets older than this are asked about")
    group_session_timeout_ms: int = setting(45_000, "a group member that is not heard of for this long has left")
    group_heartbeat_interval_ms: int = setting(3_000, "how often group members are asked to send a heartbeat")
    group_max_size: int = setting(1_000, "members of one group; one more is refused")
    group_retention_ms: int = setting(
        7 * 86_400_000,
        "a group that had members and has none is removed after this, with its offsets; so are offsets of a deleted topic",
    )
    ended_retention_ms: int = setting(
        3_600_000, "a group remembers for this long that a producer's transactions with its offsets have ended"
    )
    producer_ids_prefetch: int = setting(100, "producer ids kept in stock, 1 to 1000")
    marker_timeout_ms: int = setting(5_000, "one try to write markers")
    visible_wait_max_ms: int = setting(30_000, "longest wait of a call with wait=VISIBLE")
    lag_refresh_ms: int = setting(
        15_000, "how often leaders are asked for the lag of groups (metrics only), 1000 and up"
    )
    metrics_groups_max: int = setting(
        100,
        "pairs of group and topic with lag metrics of their own, 0 to 10000: the worst ones; the others are together",
    )
    shard_log_slack_records: int = setting(
        1_000, "superseded records that a shard's log may hold beside twice the needed ones; a replay reads them too"
    )
    append_timeout_ms: int = setting(2_000, "one try of an append to a shard's log")
    append_deadline_ms: int = setting(20_000, "a shard that cannot append for this long is restarted")
    check_invariants: bool = setting(False, "assert every invariant after each step (tests)")

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in (
            *("tick_ms", "handover_delay_ms", "marker_timeout_ms", "append_timeout_ms", "visible_wait_max_ms"),
            "shard_log_slack_records",
        ):
            if getattr(self, name) <= 0:
                raise ConfigError(f"{name} must be above 0", name=name)
        self.check("lag_refresh_ms", self.lag_refresh_ms >= 1_000, "1000 and up")
        self.check("metrics_groups_max", 0 <= self.metrics_groups_max <= 10_000, "0 to 10000")
        if self.lease_ttl_ms < 2_000:
            raise ConfigError("lease_ttl_ms must be at least 2000: etcd knows no shorter lease", name="lease_ttl_ms")
        if not 1 <= self.producer_ids_prefetch <= 1_000:
            raise ConfigError("producer_ids_prefetch must be 1 to 1000", name="producer_ids_prefetch")
        if self.append_deadline_ms < self.append_timeout_ms:
            raise ConfigError("append_deadline_ms must not be below append_timeout_ms", name="append_deadline_ms")
        self._check_groups()
        self.limits()

    def _check_groups(self) -> None:
        self.check("group_max_size", self.group_max_size <= 1_000, "1000 at most: one append holds all members")
        self.check(
            "group_session_timeout_ms",
            self.group_session_timeout_ms >= max(2 * self.group_heartbeat_interval_ms, 6_000),
            "two heartbeat intervals and 6000 at least: a deposed owner may answer members for 2000",
        )

    def limits(self) -> Limits:
        """Builds the bounds of the cores. Raises `ConfigError`."""
        try:
            return Limits(
                transaction_max_timeout_ms=self.transaction_max_timeout_ms,
                transactional_id_expiration_ms=self.transactional_id_expiration_ms,
                transactional_id_retention_ms=self.transactional_id_retention_ms,
                kept_outcomes=self.kept_outcomes,
                group_resolve_after_ms=self.group_resolve_after_ms,
                group_session_timeout_ms=self.group_session_timeout_ms,
                group_heartbeat_interval_ms=self.group_heartbeat_interval_ms,
                group_max_size=self.group_max_size,
                group_retention_ms=self.group_retention_ms,
                ended_retention_ms=self.ended_retention_ms,
            )
        except ValueError as error:
            raise ConfigError(str(error)) from error

    def shard(self) -> ShardConfig:
        """Builds the settings of one shard."""
        return ShardConfig(
            append_timeout_ms=self.append_timeout_ms,
            append_deadline_ms=self.append_deadline_ms,
            slack_records=self.shard_log_slack_records,
            check_invariants=self.check_invariants,
        )
