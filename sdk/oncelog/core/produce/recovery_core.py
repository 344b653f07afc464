"""Decides what follows a failed call beside another try: the answers about a batch in doubt, and topics that are gone.

Rule 1: until the leader has answered for a batch in doubt, or refused to for good, nothing is written behind it.
Rule 2: what was certainly never written to a topic that was deleted goes to the topic that has its name now; the rest fails.
Rule 3: while a partition has no leader, the metadata is asked for again after a pause that grows.
"""

from __future__ import annotations

from oncelog.core.produce.accumulator import Batch
from oncelog.core.produce.actions import Action
from oncelog.core.produce.attempt import AttemptState
from oncelog.core.produce.deliveries import Deliveries
from oncelog.core.produce.producer_window import ProducerWindow
from oncelog.errors import OncelogError, UnknownTopicError
from oncelog.types import PartitionId

_MAY_MOVE = frozenset({AttemptState.QUEUED, AttemptState.RETRY})
"""In these states a batch is certainly not written, and no try is under way."""


class RecoveryCore:
    """See the module. One per producer or participant."""

    def __init__(self, deliveries: Deliveries) -> None:
        self._deliveries = deliveries

    # ------------------------------------------------------------ doubt

    def awaits_state(self, batch: Batch) -> bool:
        """The leader's word on this batch is still needed: its window has not been dropped, nor its topic deleted."""
        return self._window_of(batch) is not None

    def _window_of(self, batch: Batch) -> ProducerWindow | None:
        window = self._deliveries.windows.get(batch.partition)
        return window if window is not None and batch in window.unresolved() else None

    def state_known(self, batch: Batch, is_written: bool, base_offset: int) -> list[Action]:
        """The leader says whether it has the batch."""
        window = self._window_of(batch)
        if window is not None:
            self._deliveries.settle(window.settled(batch, is_written), base_offset)
        return self._deliveries.taken()

    def state_unanswered(self, batch: Batch, error: OncelogError) -> list[Action]:
        """No answer to the question: the caller learns that the outcome is unknown, and the leader is asked again, unless it
        refused for good or the topic is gone.
        """
        window = self._window_of(batch)
        if window is None:
            return self._deliveries.taken()
        is_unknown = isinstance(error, UnknownTopicError)
        if not error.retriable and not is_unknown:
            self._deliveries.settle(window.unanswerable(batch, error))
        else:
            self._deliveries.settle(window.give_up(batch))
            if is_unknown and self._deliveries.facts.is_gone(batch.partition.topic_id):
                self._fail_partition(batch.partition)
        return self._deliveries.taken()

    # ------------------------------------------------------------ metadata

    def refreshed(self, error: OncelogError | None, is_fresh: bool, now_ms: int) -> list[Action]:
        """A request for metadata ended; `is_fresh`: with an answer. `error`: why there is none, where that is known."""
        self._deliveries.leaders.error = error
        for partition in list(self._deliveries.windows) if is_fresh else ():
            if self._deliveries.facts.is_gone(partition.topic_id) and not self._may_move_soon(partition):
                self._fail_partition(partition)
        found, later = self._deliveries.leaders.look_again(now_ms)
        self._deliveries.wake(found)
        for alarm in later:
            self._deliveries.do(alarm)
        return self._deliveries.taken()

    def _may_move_soon(self, partition: PartitionId) -> bool:
        """The name belongs to a new topic, and the old one's leader is about to refuse what is in flight to it."""
        sent = [b for b in self._deliveries.windows[partition].unresolved() if b.attempt.state is AttemptState.SENT]
        return any(self._deliveries.facts.newer_topic(batch.topic, partition.topic_id) for batch in sent)

    def _fail_partition(self, partition: PartitionId) -> None:
        """The topic was deleted. What was certainly never written goes to the topic that has its name now, if any does: the
        caller named a name, and only our knowledge of it was old. The rest fails.
        """
        gone = [batch for batch in self._deliveries.open if batch.partition == partition]
        self._deliveries.windows.pop(partition).drop()
        self._deliveries.queues.drop(partition)
        self._deliveries.leaders.forget(partition)
        moved = self._move(gone, partition)
        failed = [batch for batch in gone if batch not in moved]
        self._deliveries.fail([(batch, UnknownTopicError.named(batch.topic)) for batch in failed])

    def _move(self, gone: list[Batch], partition: PartitionId) -> list[Batch]:
        """Queues again what may go to the topic that has the name now; returns it."""
        now = self._deliveries.facts.newer_topic(gone[0].topic, partition.topic_id) if gone else None
        if now is None or partition.partition >= now.partitions:
            return []
        moved = [batch for batch in gone if batch.attempt.state in _MAY_MOVE]
        for batch in moved:
            batch.move_to(PartitionId(now.topic_id, partition.partition))
        if moved:
            self._deliveries.queues.put_first(moved)
            self._deliveries.wake((moved[0].partition,))
        return moved
