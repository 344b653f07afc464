"""One step of a leadership: decides about all commands that wait, and appends their batches together.

Rule 1: a step is synchronous, so no cancelled handler can leave log and state apart.
Rule 2: a command whose decision depends on a batch of the present group is decided after that group is written.
Rule 3: an unexpected exception refuses, by a named error, only its own command; after the append it fails the log, since
        state and log may differ then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from oncelog.core.batch.header import BatchHeader
from oncelog.errors import OncelogError, StorageError, UnknownServerError
from oncelog.ports import WallClock
from oncelog.types import Buffer
from oncelog_partition_leader.core.appends.answers import Answers
from oncelog_partition_leader.core.appends.append_group import AppendGroup
from oncelog_partition_leader.core.appends.command_queue import CommandQueue
from oncelog_partition_leader.core.appends.commands import AppendBatch, Command, SettleCommand, Written
from oncelog_partition_leader.core.appends.effects import (
    AppendFailed,
    Broken,
    Effect,
    Refuse,
    SendToFollowers,
    SyncLog,
)
from oncelog_partition_leader.core.appends.verdicts import AnswerAt, Facts, ToAppend, verdict_on
from oncelog_partition_leader.core.producers.decisions import NeedsEnrolment
from oncelog_partition_leader.core.replication.replica_set import ReplicaSet
from oncelog_partition_leader.log.partition_log import Appended, PartitionLog
from oncelog_partition_leader.log.topic_config import TopicConfig
from oncelog_partition_leader.partition.append_observer import AppendObserver
from oncelog_runtime.process.bugs import Bugs

Batches = Sequence[tuple[BatchHeader, Buffer]]


class Led(Protocol):
    """The leadership whose step it is."""

    log: PartitionLog
    epoch: int
    tag: int
    topic_config: TopicConfig
    replicas: ReplicaSet
    queue: CommandQueue
    answers: Answers
    ended: OncelogError | None


class AppendStep:
    """The steps of one leadership. `carry_out` runs effects at once: an append that failed may end the leadership."""

    __slots__ = ("_bugs", "_carry_out", "_clock", "_led", "_observer")

    def __init__(
        self,
        led: Led,
        clock: WallClock,
        bugs: Bugs,
        observer: AppendObserver,
        carry_out: Callable[[Iterable[Effect]], None],
    ) -> None:
        self._led = led
        self._clock = clock
        self._bugs = bugs
        self._observer = observer
        self._carry_out = carry_out

    def run(self, commands: Sequence[Command]) -> None:
        """Decides about these commands, appends their batches and answers them. It raises nothing."""
        try:
            self._decide_all(commands)
        except Exception as error:  # of the step itself: it is unknown how far it came, but all are answered
            self._break(commands, error)

    def _decide_all(self, commands: Sequence[Command]) -> None:
        group, facts = AppendGroup(), self._facts()
        for command in commands:
            if (ended := self._led.ended) is not None:
                self._refuse([command], ended)
                continue
            try:
                if group.touches(command):  # its decision needs the state after the group
                    self._append(group.commands, group.batches, facts.now_ms)
                    group = AppendGroup()
                found = self._decide(command, facts)
            except OncelogError as error:
                self._refuse([command], error)
                continue
            except Exception as error:  # deciding only reads: the others are not affected
                self._refuse([command], self._bugs.met("decision", error, type(command).__name__))
                continue
            if found is not None:
                group.add(command, found.header, found.data)
        self._append(group.commands, group.batches, facts.now_ms)

    def _facts(self) -> Facts:
        led = self._led
        return Facts(
            led.log.producers,
            led.replicas,
            led.queue.enrolments.verified,
            led.topic_config.min_insync_replicas,
            led.log.log_start_offset,
            led.tag,
            self._clock.now_ms(),
        )

    def _decide(self, command: Command, facts: Facts) -> ToAppend | None:
        """Returns the batch to append, or None when there is nothing to append (yet). Raises the refusal."""
        if self._led.queue.enrolments.holds_back(command):
            return None
        verdict = verdict_on(command, facts)
        if isinstance(verdict, NeedsEnrolment):
            assert isinstance(command, AppendBatch), "only a batch opens a transaction"
            self._hold(command, verdict)
            return None
        command.answer = verdict.answer
        if isinstance(command, SettleCommand):
            command.settled = verdict.settled
        if isinstance(verdict, ToAppend):
            return verdict
        self._answer(command, verdict)
        return None

    def _answer(self, command: Command, verdict: AnswerAt) -> None:
        log = self._led.log
        assert verdict.end <= log.log_end_offset, "no answer is about an offset that the log does not have"
        effect = self._led.answers.answer_at(verdict.end, command, log.synced_end_offset)
        if effect is not None:
            self._carry_out([effect])

    def _hold(self, command: AppendBatch, needs: NeedsEnrolment) -> None:
        enrolments = self._led.queue.enrolments
        question = enrolments.hold(command, needs)
        if question is None:
            return
        try:
            self._carry_out([question])
        except BaseException:  # it would never be answered
            enrolments.withdraw(question)
            raise

    def _append(self, commands: Sequence[Command], batches: Batches, now_ms: int) -> None:
        """Writes a group, in parts if the log took only a part of it, and answers it. It raises nothing."""
        led = self._led
        while commands:
            if (ended := led.ended) is not None:
                self._refuse(commands, ended)
                return
            self._observer.writing()
            start = led.log.log_end_offset
            try:
                appended = led.log.append_as_leader(batches, led.epoch, now_ms)
            except OncelogError as error:
                self._refuse(commands, error)
                if isinstance(error, StorageError):  # other errors come before the write: nothing is in doubt
                    self._carry_out([AppendFailed(error)])
                return
            except Exception as error:  # before the write too: after it all are `StorageError`
                self._append_alone(commands, batches, now_ms, error)
                return
            try:
                assert appended[0].base_offset == start, "a group begins where the log ended"
                self._carry_out(self._appended(commands[: len(appended)], appended, now_ms))
            except Exception as error:
                self._break(commands, error)
                return
            commands, batches = commands[len(appended) :], batches[len(appended) :]

    def _append_alone(self, commands: Sequence[Command], batches: Batches, now_ms: int, error: Exception) -> None:
        """Appends each batch by itself: one of the group cannot be written, and it is unknown which."""
        if len(commands) == 1:
            self._refuse(commands, self._bugs.met("append", error))
            return
        for command, batch in zip(commands, batches, strict=True):
            self._append([command], [batch], now_ms)

    def _appended(self, commands: Sequence[Command], appended: Sequence[Appended], now_ms: int) -> list[Effect]:
        """Answers batches that are in the log, at once or when followers and disk have them."""
        led, log = self._led, self._led.log
        assert appended[-1].next_offset == log.log_end_offset, "the log ends with the newest batch of the group"
        self._observer.appended(commands, appended)
        effects: list[Effect] = []
        log_start_offset, synced_end = log.log_start_offset, log.synced_end_offset
        for command, batch in zip(commands, appended, strict=True):
            if command.answer is None:
                command.answer = Written(batch.base_offset, now_ms, log_start_offset, False)
            if isinstance(command, AppendBatch):
                command.data = b""  # it is in the log: a command that waits for followers holds no bytes
            effect = led.answers.answer_at(batch.next_offset, command, synced_end)
            if effect is not None:
                effects.append(effect)
        if led.answers.needs_disk:
            effects.append(SyncLog())
        effects.append(SendToFollowers())
        effects += led.answers.grew(log.log_end_offset, synced_end, self._clock.monotonic_ms())
        return effects

    def _refuse(self, commands: Sequence[Command], error: OncelogError) -> None:
        self._carry_out([Refuse(command, error) for command in commands])

    def _break(self, commands: Sequence[Command], error: Exception) -> None:
        """Answers "unknown" and fails the log, since a step after the append went wrong."""
        self._bugs.met("append", error)
        self._refuse(commands, UnknownServerError("the leader failed after the append; the outcome is unknown"))
        self._carry_out([Broken()])
