"""Everything that a producer has taken and not delivered yet, and what each outcome means for the rest.

Rule 1: each batch gets one outcome here, and one action that tells it. Its memory is free from then on.
Rule 2: inside a transaction the first failure is kept in `failure`, and everything that is queued fails with it. So it is
        when the producer is fenced. What was sent already keeps its own outcome.
Rule 3: actions are given out once, in order. What an exception left behind goes out with the next ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from oncelog.config import ProducerConfig
from oncelog.core.batch.identity import Identity
from oncelog.core.causes import report_this
from oncelog.core.produce import obstacles
from oncelog.core.produce.accumulator import Accumulator, Batch, Home
from oncelog.core.produce.actions import Acknowledged, Action, Facts, Failed
from oncelog.core.produce.attempt import Incident
from oncelog.core.produce.identities import Identities
from oncelog.core.produce.leader_search import LeaderSearch
from oncelog.core.produce.producer_window import ProducerWindow, Resolved
from oncelog.core.produce.unseen_failures import UnseenFailures
from oncelog.errors import (
    IllegalStateError,
    InvalidTxnStateError,
    LeaderNotAvailableError,
    OncelogError,
    ProducerFencedError,
)
from oncelog.types import PartitionId


class Deliveries:
    """See the module. One per producer or participant; `ProducerCore` and `RecoveryCore` decide on it."""

    def __init__(self, config: ProducerConfig, facts: Facts, home: Home | None, can_renew: bool) -> None:
        self.facts = facts
        self.queues = Accumulator(
            config.full_batch_bytes, config.linger_ms, config.buffer_memory, config.delivery_timeout_ms
        )
        self.windows: dict[PartitionId, ProducerWindow] = {}
        self.open: dict[Batch, None] = {}
        """Batches without an outcome, in the order in which they were begun."""
        self.identities = Identities(config.enable_idempotence, can_renew)
        self.leaders = LeaderSearch(facts)
        self.due: dict[PartitionId, None] = {}
        """Partitions at which the next tick looks."""
        self.failure: OncelogError | None = None
        """Every further record is refused with this; None while records are taken."""
        self.failures = UnseenFailures()
        """A flush of a plain producer raises the first of them that no caller awaits."""
        self.acked: dict[PartitionId, int] = {}
        """Acknowledged records per partition since the last `reset`."""
        self._home = home
        self._actions: list[Action] = []

    # ------------------------------------------------------------ actions

    def do(self, action: Action) -> None:
        """The shell shall do this."""
        self._actions.append(action)

    def taken(self) -> list[Action]:
        """All actions since the last call."""
        actions, self._actions = self._actions, []
        return actions

    def wake(self, partitions: Iterable[PartitionId]) -> None:
        """The next tick looks at these partitions."""
        self.due.update(dict.fromkeys(partitions))

    # ------------------------------------------------------------ batches

    def enter(self, batch: Batch) -> None:
        """A batch was begun."""
        batch.home = self._home
        self.open[batch] = None
        self.due[batch.partition] = None

    def settle(self, resolved: Resolved, base_offset: int = -1) -> None:
        """These batches have their outcome; `base_offset` is that of one that is written."""
        for batch, error in resolved:
            if not batch.settle(error, base_offset):
                continue
            self.open.pop(batch, None)
            self.queues.release(batch)
            if error is None:
                self.acked[batch.partition] = self.acked.get(batch.partition, 0) + batch.record_count
                self.do(Acknowledged(batch))
            else:
                self.do(Failed(batch, error))
                self.note_failure(batch, error)

    def fail(self, failed: Iterable[tuple[Batch, OncelogError]], incident: Incident = Incident.DROPPED) -> None:
        """These batches fail for a reason that is no answer of their leader."""
        pairs: Resolved = list(failed)
        for batch, _ in pairs:
            batch.attempt.move(incident)
        self.settle(pairs)

    def fail_queued(self, error: OncelogError) -> None:
        """Everything that waits for its first try fails with this."""
        self.fail([(batch, error) for batch in self.queues.drop()])

    def note_failure(self, batch: Batch, error: OncelogError) -> None:
        """Records that were accepted failed with this."""
        self.failures.add(batch)
        if self.failure is None and (self.identities.is_in_transaction or isinstance(error, ProducerFencedError)):
            self.failure = error
            self.fail_queued(error)

    def drop(self, why: Callable[[Batch], OncelogError]) -> None:
        """Every batch without an outcome fails; answers to it no longer matter."""
        failed = [(batch, why(batch)) for batch in self.open]
        for window in self.windows.values():
            window.drop()
        self.windows.clear()
        self.queues.drop()
        self.fail(failed)

    def reset(self, identity: Identity, error: OncelogError) -> None:
        """Forgets the former transaction (what is open fails with `error`), and begins as `identity`."""
        self.drop(lambda _: error)
        self.identities.current = identity
        self.failure = None
        self.acked = {}
        self.failures.forget()

    def crash(self, error: BaseException) -> None:
        """A defect of ours ends this producer, so that nothing waits for an outcome that never comes."""
        kind = InvalidTxnStateError if self.identities.is_in_transaction else IllegalStateError
        consequence = "the producer failed, and writes nothing more: close it, make a new one"
        defect = self.failure = report_this(consequence, error, kind)
        self.drop(lambda batch: obstacles.crashed(batch, defect))

    # ------------------------------------------------------------ obstacles

    def obstacle(self, batch: Batch, now_ms: int) -> OncelogError | None:
        """The reason that keeps this batch from being sent, where that is more than the answer to its last try."""
        partition = batch.partition
        if (renewal := self.identities.obstacle(partition)) is not None:
            return renewal
        address = self.facts.leader(partition)
        if address is None:
            return self.leaders.error or LeaderNotAvailableError()
        if (quota := obstacles.quota_of(self.facts, address, batch, now_ms)) is not None:
            return quota
        first = next(iter(window.unresolved()), None) if (window := self.windows.get(partition)) else None
        return first.attempt.last_error if first is not None and first is not batch else None
