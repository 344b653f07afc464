"""One core for members and offsets: what is deleted, and in one log."""

from __future__ import annotations

import pytest

from oncelog import errors
from oncelog_coordinator.core.offsets.offset_commands import (
    AskOutcome,
    CommitOffsets,
    DeleteOffsets,
    Member,
    SendOffsets,
)
from oncelog_coordinator.core.offsets.offset_records import OffsetValue
from oncelog_coordinator.core.transactions.commands import Tick, TxnName
from tests.unit.coordinator.group_driver import GROUP, Groups, Reader, part, topic_id

OFFSET = OffsetValue(topic_id("t"), "t", 0, 5)


def test_offsets_are_not_deleted_under_the_members_that_read_them() -> None:
    groups = Groups(t=2, u=1)
    groups.do(CommitOffsets(Member(GROUP), 0, (OFFSET, OffsetValue(topic_id("u"), "u", 0, 7))))
    a = Reader(groups, "a")
    a.join()
    with pytest.raises(errors.NonEmptyGroupError):
        groups.do(DeleteOffsets(GROUP))
    with pytest.raises(errors.GroupSubscribedToTopicError):
        groups.do(DeleteOffsets(GROUP, (part("u", 0), part("t", 0))))
    assert groups.do(DeleteOffsets(GROUP, (part("u", 0),))) == 1
    a.leave()
    assert groups.do(DeleteOffsets(GROUP)) == 1


def test_a_tick_looks_at_offsets_and_at_members() -> None:
    groups = Groups()
    groups.do(SendOffsets(TxnName("x", 1, 1, 0), 0, Member("g2"), 1, (OFFSET,)))
    Reader(groups, "a").join()
    groups.effects.clear()
    groups.now_ms += 50_000
    groups.do(Tick())
    assert any(isinstance(effect, AskOutcome) for effect in groups.effects)
    assert not groups.table.groups.has_members(GROUP)


def test_both_are_replayed_from_one_log() -> None:
    groups = Groups()
    a = Reader(groups, "a")
    a.join()
    groups.do(CommitOffsets(Member(GROUP, "a", a.epoch), 1, (OFFSET,)))
    groups.fail_over()
    assert groups.table.offsets.groups[GROUP].offsets[part("t", 0)].value.offset == 5
    assert len(groups.owned()["a"]) == 4
    assert groups.table.pending(0) == ()
