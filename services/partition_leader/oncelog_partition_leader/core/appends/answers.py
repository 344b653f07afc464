"""When a command is answered: at the high watermark, at the synced end, or at once, as `acks` asks for.

Rule 1: `acks=all` is answered only when the high watermark has passed the end of the command's batch.
Rule 2: after the append an error means *unknown*: the producer repeats the batch with the same sequence, and is answered by
        what the log says then.
"""

from __future__ import annotations

from collections.abc import Iterable

from oncelog.errors import NotEnoughReplicasAfterAppendError, OncelogError, RequestTimedOutError
from oncelog_partition_leader.core.appends.commands import ACKS_ALL, Command
from oncelog_partition_leader.core.appends.effects import Committed, Effect, Fail, Finish
from oncelog_partition_leader.core.replication.replica_set import ReplicaSet
from oncelog_partition_leader.core.replication.waiters import Waiters


class Answers:
    """The commands of one leadership that are in its log and wait for `replicas`, or for the disk."""

    __slots__ = ("_for_commit", "_for_disk", "_replicas", "needs_disk")

    def __init__(self, replicas: ReplicaSet, *, needs_disk: bool) -> None:
        self.needs_disk = needs_disk
        """True while acknowledgements wait for this broker's own disk (`flush_mode=fsync`)."""
        self._replicas = replicas
        self._for_commit: Waiters[Command] = Waiters()
        self._for_disk: Waiters[Command] = Waiters()

    def __len__(self) -> int:
        """Number of commands that wait for followers."""
        return len(self._for_commit)

    @property
    def is_waiting(self) -> bool:
        """True while commands wait, for followers or for the disk."""
        return bool(len(self._for_commit) or len(self._for_disk))

    def answer_at(self, end: int, command: Command, synced_end: int) -> Effect | None:
        """Returns the command's answer, or None when it waits until `end` is committed, or synced, as `acks` asks for."""
        if command.acks == ACKS_ALL:
            if self._replicas.high_watermark >= end:
                return Finish(command)
            if not self._replicas.enough_in_sync:
                return Fail(command, NotEnoughReplicasAfterAppendError())
            self._for_commit.add(end, command.deadline_ms, command)
            return None
        if command.acks == 1 and self.needs_disk and synced_end < end:
            self._for_disk.add(end, command.deadline_ms, command)
            return None
        return Finish(command)

    def grew(self, log_end: int, synced_end: int, now_ms: int) -> list[Effect]:
        """Takes over the log's ends, after an append or a sync."""
        # After a change to fsync the unsynced records that counted before still count: an end never goes back.
        own_end = max(synced_end, self._replicas.own_end) if self.needs_disk else log_end
        effects = self.committed() if self._replicas.wrote(log_end, own_end, now_ms) else []
        effects += map(Finish, self._for_disk.advance(synced_end))
        return effects

    def committed(self) -> list[Effect]:
        """Answers what a move of the high watermark has committed."""
        high_watermark = self._replicas.high_watermark
        return [Committed(self._for_commit.advance(high_watermark), high_watermark)]

    def isr_changed(self, has_moved: bool) -> list[Effect]:
        """Answers what a change of the ISR, or of its minimum, has committed, or has made unknown."""
        effects = self.committed() if has_moved else []
        if not self._replicas.enough_in_sync:
            isr = len(self._replicas.committed)
            effects += (
                Fail(command, NotEnoughReplicasAfterAppendError(isr=isr)) for command in self._for_commit.drain()
            )
        return effects

    def need_disk(self, needs_disk: bool) -> list[Effect]:
        """Changes whether acknowledgements wait for the disk; what waits for it no longer has to, is answered."""
        self.needs_disk = needs_disk
        return [] if needs_disk else [Finish(command) for command in self._for_disk.drain()]

    def expired(self, now_ms: int) -> list[Effect]:
        """Fails the commands that have waited too long."""
        late = (*self._for_commit.expire(now_ms), *self._for_disk.expire(now_ms))
        return _time_out(late, "not enough followers acknowledged in time")

    def end(self, why: OncelogError) -> list[Effect]:
        """Fails all commands, since the leadership has ended: a producer must not take them for unwritten."""
        appended = (*self._for_commit.drain(), *self._for_disk.drain())
        return _time_out(appended, f"appended, but the outcome is unknown: {why.message}")


def _time_out(commands: Iterable[Command], message: str) -> list[Effect]:
    """Each command gets an error of its own: a traceback grows with every `raise` of one."""
    return [Fail(command, RequestTimedOutError(message)) for command in commands]
