"""Carries out the effects of a leadership: answers its commands, and passes its news on to partition and broker.

Rule 1: effects are carried out at once, in their order, in the step that returned them.
Rule 2: nothing is decided here, except who does it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, assert_never

from oncelog.errors import OncelogError, StorageError
from oncelog.trace.transaction_span import inside_of
from oncelog_partition_leader.core.appends.effects import (
    AppendFailed,
    Broken,
    Committed,
    Effect,
    Enrol,
    Fail,
    Finish,
    LacksRoom,
    LookAtIsr,
    Refuse,
    RestartSession,
    SendToFollowers,
    SyncLog,
)
from oncelog_partition_leader.core.producers.transactions import TxnSession
from oncelog_partition_leader.log.group_commit import GroupSync
from oncelog_partition_leader.partition.leadership import Leadership


class EffectHost(Protocol):
    """The services of the broker for a leadership. Nothing of it comes back in the same step."""

    def appended(self, leadership: Leadership) -> None:
        """Sends new data, or a question, to the followers."""

    def watermark_moved(self, leadership: Leadership) -> None:
        """Sends the new high watermark to the followers."""

    def isr_may_change(self, leadership: Leadership) -> None:
        """Looks whether a follower may join the ISR, or has to leave it."""

    def taken_out(self, leadership: Leadership, broker_id: int) -> None:
        """Begins a new session with a follower that is not in the ISR any more."""

    def enrol(self, leadership: Leadership, session: TxnSession, txn_shard: int, transactional_id: str) -> None:
        """Asks the coordinator, and calls `leadership.enrolled(session, error)` with the outcome."""

    def hand_over_full(self, leadership: Leadership) -> None:
        """Lets another replica lead: this disk takes no more, and has lost nothing."""

    def hand_over_nearly_full(self, leadership: Leadership) -> None:
        """Lets another replica lead: this disk takes no records any more, and everything else."""


class LedPartition(Protocol):
    """The partition that is led."""

    sync: GroupSync

    def wake_watchers(self) -> None:
        """Wakes the readers that wait for a change."""

    def fail(self, error: OncelogError) -> None:
        """Fails the log, which may have lost records."""


class LeadershipEffects:
    """Carries out the effects of the leaderships of one partition."""

    __slots__ = ("_host", "_partition")

    def __init__(self, host: EffectHost, partition: LedPartition) -> None:
        self._host = host
        self._partition = partition

    def carry_out(self, leadership: Leadership, effects: Iterable[Effect]) -> None:
        """Carries out effects, in their order."""
        for effect in effects:
            match effect:
                case SendToFollowers():
                    self._host.appended(leadership)
                case Committed():
                    self._committed(leadership, effect)
                case Finish(command):
                    command.finish()
                case Fail(command, error):
                    command.fail(error)
                case Refuse(command, error):
                    leadership.observer.failed(command, error)
                    command.fail(error)
                case _:
                    self._tell(leadership, effect)

    def _committed(self, leadership: Leadership, effect: Committed) -> None:
        assert effect.high_watermark <= leadership.log.log_end_offset, "only records of this log are committed"
        leadership.observer.committed(effect.commands, effect.high_watermark)
        for command in effect.commands:
            command.finish()
        self._host.watermark_moved(leadership)
        self._partition.wake_watchers()

    def _tell(
        self,
        leadership: Leadership,
        effect: SyncLog | LookAtIsr | RestartSession | Enrol | AppendFailed | LacksRoom | Broken,
    ) -> None:
        match effect:
            case SyncLog():
                self._partition.sync.request()
            case LookAtIsr():
                self._host.isr_may_change(leadership)
            case RestartSession(broker_id):
                self._host.taken_out(leadership, broker_id)
            case Enrol(command, needs):
                with inside_of(leadership.observer.context_of(command)):  # the trace that enrols
                    self._host.enrol(leadership, needs.name, needs.txn_shard, command.transactional_id)
            case AppendFailed(error):
                if leadership.log.failed is not None:
                    self._partition.fail(error)
                else:
                    self._host.hand_over_full(leadership)
            case LacksRoom():
                self._host.hand_over_nearly_full(leadership)
            case Broken():
                self._partition.fail(StorageError("the leader's state may contradict its log", reason="bug"))
            case _:
                assert_never(effect)
