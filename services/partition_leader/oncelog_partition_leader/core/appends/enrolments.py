"""Batches that wait until their coordinator has enrolled this partition in their transaction.

Rule 1: a waiting batch holds back only its own producer, in the order of arrival (hole 12).
Rule 2: producers of one transaction share one question to the coordinator.
Rule 3: an answer is used in the next step only. A batch that comes later asks again.
"""

from __future__ import annotations

from typing import NamedTuple

from oncelog.errors import OncelogError
from oncelog_partition_leader.core.appends.commands import AppendBatch, Command
from oncelog_partition_leader.core.appends.effects import Enrol, Fail
from oncelog_partition_leader.core.producers.decisions import NeedsEnrolment
from oncelog_partition_leader.core.producers.transactions import TxnSession


class Answered(NamedTuple):
    """The batches that an answer of the coordinator is for: some are decided again, the others are refused."""

    again: list[AppendBatch]
    refused: list[Fail]


class Enrolments:
    """The questions of one leadership to coordinators. `bytes`: of all batches that wait."""

    __slots__ = ("_asked", "_held", "bytes", "verified")

    def __init__(self) -> None:
        self.bytes = 0
        self.verified: dict[TxnSession, None] = {}
        """Enrolments that were confirmed since the last step."""
        self._held: dict[int, list[AppendBatch]] = {}
        self._asked: dict[TxnSession, list[int]] = {}

    def __len__(self) -> int:
        """Number of batches that wait."""
        return sum(map(len, self._held.values()))

    def holds_back(self, command: Command) -> bool:
        """Holds the batch back if another one of its producer waits; returns True then."""
        if not self._held or not isinstance(command, AppendBatch) or command.header.producer_id < 0:
            return False
        held = self._held.get(command.header.producer_id)
        if held is None:
            return False
        held.append(command)
        self.bytes += len(command.data)
        return True

    def hold(self, command: AppendBatch, needs: NeedsEnrolment) -> Enrol | None:
        """Holds a batch until its transaction is enrolled. Returns the question, or None when it was asked already."""
        producer_id = command.header.producer_id
        self._held[producer_id] = [command]
        self.bytes += len(command.data)
        asked = self._asked.get(needs.name)
        if asked is not None:
            asked.append(producer_id)
            return None
        self._asked[needs.name] = [producer_id]
        return Enrol(command, needs)

    def withdraw(self, enrol: Enrol) -> None:
        """Forgets a question that could not be asked, and the batch that waits for it."""
        self.bytes -= sum(len(command.data) for command in self._held.pop(enrol.command.header.producer_id))
        del self._asked[enrol.needs.name]

    def answered(self, session: TxnSession, error: OncelogError | None) -> Answered:
        """Takes the coordinator's answer; `error` None = enrolled."""
        again: list[AppendBatch] = []
        refused: list[Fail] = []
        for producer_id in self._asked.pop(session, ()):
            for command in self._held.pop(producer_id, ()):
                self.bytes -= len(command.data)
                if error is not None and _session_of(command) == session:
                    refused.append(Fail(command, error))
                else:
                    again.append(command)
        if error is None:
            self.verified[session] = None
        return Answered(again, refused)

    def drain(self) -> list[AppendBatch]:
        """Removes and returns all batches that wait."""
        held = [command for commands in self._held.values() for command in commands]
        self._held.clear()
        self.bytes = 0
        return held


def _session_of(command: AppendBatch) -> TxnSession | None:
    header = command.header
    return TxnSession(header.txn_producer_id, header.txn_no, header.producer_epoch) if header.is_transactional else None
