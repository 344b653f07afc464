"""Each effect reaches the part of the broker that acts on it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast, get_args

import pytest

from oncelog.errors import NotEnoughReplicasError, NotLeaderError, OncelogError, StorageError
from oncelog.trace.trace_context import TRACEPARENT
from oncelog_partition_leader.core.appends.commands import Command, Written
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
from oncelog_partition_leader.core.producers.decisions import NeedsEnrolment
from oncelog_partition_leader.core.producers.transactions import TxnSession
from oncelog_partition_leader.partition.leadership import Leadership
from oncelog_partition_leader.partition.leadership_effects import LeadershipEffects
from tests.unit.partition_leader.core.appends.a_reply import AReply, command

FULL, ONE = StorageError("full", reason="full"), TxnSession(7, 1, 0)


class Around:
    """A leadership, its observer, its partition and its broker in one: it notes what it was told."""

    def __init__(self) -> None:
        self.told: list[object] = []
        self.sync: Any = SimpleNamespace(request=lambda: self.told.append("sync"))
        self.log = SimpleNamespace(log_end_offset=5, failed=None)
        self.observer = self
        self.effects = LeadershipEffects(self, self)

    def carry_out(self, *effects: Effect) -> list[object]:
        self.told.clear()
        self.effects.carry_out(cast(Leadership, self), effects)
        return self.told

    def failed(self, _command: Command, error: OncelogError) -> None:
        self.told.append(("counted", error))

    def committed(self, _commands: object, high_watermark: int) -> None:
        self.told.append(("observed", high_watermark))

    def context_of(self, _command: Command) -> str:
        return "the context"

    def appended(self, _leadership: Leadership) -> None:
        self.told.append("send")

    def watermark_moved(self, _leadership: Leadership) -> None:
        self.told.append("watermark")

    def isr_may_change(self, _leadership: Leadership) -> None:
        self.told.append("isr")

    def taken_out(self, _leadership: Leadership, broker_id: int) -> None:
        self.told.append(("session", broker_id))

    def enrol(self, _leadership: Leadership, session: TxnSession, txn_shard: int, transactional_id: str) -> None:
        self.told.append((TRACEPARENT.get(), session, txn_shard, transactional_id))

    def hand_over_full(self, _leadership: Leadership) -> None:
        self.told.append("hand over")

    def hand_over_nearly_full(self, _leadership: Leadership) -> None:
        self.told.append("hand over, and stay")

    def wake_watchers(self) -> None:
        self.told.append("readers")

    def fail(self, error: OncelogError) -> None:
        self.told.append(("fail", error.context["reason"]))


TOLD: dict[type, tuple[Effect, list[object]]] = {
    SyncLog: (SyncLog(), ["sync"]),
    SendToFollowers: (SendToFollowers(), ["send"]),
    LookAtIsr: (LookAtIsr(), ["isr"]),
    RestartSession: (RestartSession(2), [("session", 2)]),
    Enrol: (Enrol(command(7, txn=(7, 1)), NeedsEnrolment(ONE, 3)), [("the context", ONE, 3, "t")]),
    AppendFailed: (AppendFailed(FULL), ["hand over"]),
    LacksRoom: (LacksRoom(), ["hand over, and stay"]),
    Broken: (Broken(), [("fail", "bug")]),
    Committed: (Committed([], 5), [("observed", 5), "watermark", "readers"]),
    Finish: (Finish(command()), []),
    Fail: (Fail(command(), NotLeaderError()), []),
    Refuse: (Refuse(command(), FULL), [("counted", FULL)]),
}


@pytest.mark.parametrize("kind", get_args(Effect), ids=lambda kind: kind.__name__)
def test_an_effect_is_carried_out_by_the_part_that_it_is_for(kind: type) -> None:
    effect, told = TOLD[kind]
    if isinstance(effect, Finish):
        effect.command.answer = Written(0, 0, 0, False)
    assert Around().carry_out(effect) == told


def test_the_trace_of_an_enrolment_is_not_that_of_what_follows() -> None:
    around, seen = Around(), []
    around.appended = lambda _leadership: seen.append(TRACEPARENT.get())  # type: ignore[method-assign]
    around.carry_out(Enrol(command(7, txn=(7, 1)), NeedsEnrolment(ONE, 3)), SendToFollowers())
    assert seen == [""]


def test_commands_are_answered_in_the_order_of_the_effects() -> None:
    around, finished, failed, committed = Around(), command(), command(), command()
    finished.answer = committed.answer = Written(4, 0, 0, False)
    error = NotEnoughReplicasError()
    around.carry_out(Finish(finished), Refuse(failed, error), Committed([committed], 5))
    replies = [cast(AReply, one.done) for one in (finished, failed, committed)]
    assert [reply.result or reply.error for reply in replies] == [finished.answer, error, committed.answer]


def test_an_append_that_broke_the_log_fails_it_and_is_not_handed_over() -> None:
    around = Around()
    around.log.failed = cast(Any, FULL)
    assert around.carry_out(AppendFailed(FULL)) == [("fail", "full")]


def test_nothing_is_committed_above_the_log_end() -> None:
    with pytest.raises(AssertionError, match="only records of this log"):
        Around().carry_out(Committed([], 6))
