"""Each kind of record in a shard's log goes some day: the newest record of its key becomes a tombstone, or nobody needs it.

The table is docs/internals/coordinator.md#keys. A kind that is not tried here fails the last tests.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pytest

from oncelog_coordinator.core.channels.channel_records import (
    ChannelHead,
    ChannelLogRecord,
    PendingAcks,
    RetriedBlock,
    Retry,
    SettledBlock,
)
from oncelog_coordinator.core.groups.group_records import GroupRecord, MemberRecord, MembershipRecord
from oncelog_coordinator.core.log_bound import LogBound, Written
from oncelog_coordinator.core.offsets.offset_commands import CommitOffsets, GroupMarker, Member, SendOffsets
from oncelog_coordinator.core.offsets.offset_records import (
    CommittedOffset,
    EndedTransactions,
    GroupLogRecord,
    OffsetValue,
    PendingOffsets,
)
from oncelog_coordinator.core.transactions import commands as cmd
from oncelog_coordinator.core.transactions.orphan_records import OrphanRecord, RemovedIds
from oncelog_coordinator.core.transactions.record_kinds import TransactionLogRecord
from oncelog_coordinator.core.transactions.records import EpochRecord, Tombstone, TransactionRecord
from tests.unit.coordinator.channel_driver import CHANNEL, Led, see_channels
from tests.unit.coordinator.driver import P0, Driver, name
from tests.unit.coordinator.group_driver import Groups, Reader, topic_id

DAY_MS = 86_400_000
PAGE = Path(__file__).parents[4] / "docs" / "internals" / "coordinator.md"
Log = list[tuple[str, bytes | None]]
Trial = tuple[Log, Log]
"""What the shard had written when the record was needed, and what it has written when that was long ago."""


def _transactions() -> Trial:
    driver = Driver()
    for tid in ("a", "b"):
        session = driver.init(tid)
        driver.do(cmd.Enrol(name(session, session.next_txn_no, tid), (P0,)))
        driver.do(cmd.End(name(session, session.next_txn_no, tid), True))
        driver.mark(session.next_txn_no, P0, tid=tid)
    return _after(driver)


def _orphan() -> Trial:
    driver = Driver()
    driver.do(cmd.Resolve(4711, 3, *P0))
    return _after(driver)


def _after(driver: Driver) -> Trial:
    before = list(driver.log)
    for _ in range(3):
        driver.tick(7 * DAY_MS)
    return before, driver.log


def _group(work: Callable[[Groups], None]) -> Trial:
    groups = Groups()
    work(groups)
    before = list(groups.log)
    groups.wait(16 * DAY_MS)
    return before, groups.log


def _member(groups: Groups) -> None:
    reader = Reader(groups, "a")
    reader.join()
    groups.do(CommitOffsets(Member("g", "a", reader.epoch), 0, (_value("t"),)))
    reader.leave()


def _offset_of_a_deleted_topic(groups: Groups) -> None:
    groups.do(CommitOffsets(Member("simple"), 0, (_value("t"),)))
    groups.see(other=1)


def _pending(groups: Groups) -> None:
    groups.do(SendOffsets(cmd.TxnName("t", 7, 1, 0), 3, Member("simple"), 1, (_value("t"),)))


def _until_its_marker() -> Trial:
    groups = Groups()
    _pending(groups)
    before = list(groups.log)
    groups.do(GroupMarker("simple", 7, 1, False, 3, 1))
    return before, groups.log


def _ended(groups: Groups) -> None:
    _pending(groups)
    groups.do(GroupMarker("simple", 7, 1, True, 3, 1))
    groups.do(GroupMarker("witness", 8, 1, True, 3, 1))


def _channel(groups: Groups) -> None:
    see_channels(groups, CHANNEL)
    here = Led(groups).begin()
    here.write(0, (5, 5), retried=(Retry(7, 1),))
    here.ack(1, (9, 9))
    see_channels(groups)


def _value(topic: str) -> OffsetValue:
    return OffsetValue(topic_id(topic), topic, 0, 7)


_CHANNEL = f"ended:{'9' * 19}:__channel.{CHANNEL}"
GO: dict[str, tuple[type, str, Callable[[], Trial]]] = {
    "a transactional id": (TransactionRecord, "txn:", _transactions),
    "an orphan": (OrphanRecord, "orphan:", _orphan),
    "a group": (GroupRecord, "ended:-1:", lambda: _group(_member)),
    "a member": (MemberRecord, "ended:-2:", lambda: _group(_member)),
    "an offset of a group that is gone": (CommittedOffset, "offset:", lambda: _group(_member)),
    "an offset of a topic that is gone": (CommittedOffset, "offset:", lambda: _group(_offset_of_a_deleted_topic)),
    "a channel": (ChannelHead, f"{_CHANNEL}:0", lambda: _group(_channel)),
    "settled offsets": (SettledBlock, f"{_CHANNEL}:0:s:", lambda: _group(_channel)),
    "retried records": (RetriedBlock, f"{_CHANNEL}:0:r:", lambda: _group(_channel)),
    "acknowledgements in a transaction": (PendingAcks, f"{_CHANNEL}:0:p:", lambda: _group(_channel)),
    "an offset in a transaction": (PendingOffsets, "pending:", _until_its_marker),
    "an ended transaction": (EndedTransactions, "ended:7:", lambda: _group(_ended)),
}
STAY = {RemovedIds: "one for each shard", EpochRecord: "needed by nobody"}


def newest(log: Log) -> dict[str, bytes]:
    """The records that a replay would find."""
    return {key: value for key, value in dict(log).items() if value is not None}


@pytest.mark.parametrize("kind", GO)
def test_a_record_of_each_kind_goes(kind: str) -> None:
    _, prefix, trial = GO[kind]
    before, after = trial()
    assert any(key.startswith(prefix) for key in newest(before)), "it was needed"
    stays = [key for key in newest(after) if key.startswith(prefix) and key != RemovedIds().key]
    assert not stays, f"{stays} would be repeated for ever"


def test_of_all_removed_ids_one_record_stays() -> None:
    _, after = _transactions()
    assert list(newest(after)) == [RemovedIds().key]


def test_of_ended_transactions_one_record_stays_for_each_transaction_shard() -> None:
    _, after = _group(_ended)
    assert set(newest(after)) == {"ended:8:witness", _offset_key()}


def _offset_key() -> str:
    return CommittedOffset("simple", _value("t"), 0).key


def test_an_epoch_is_needed_by_nobody() -> None:
    bound, record = LogBound(), EpochRecord(4)
    bound.appended([Written(record.key, record, 20)])
    assert bound.needed == 0


def test_every_kind_of_record_is_tried_and_stands_in_the_table_of_the_documentation() -> None:
    kinds = {*get_args(TransactionLogRecord), *get_args(GroupLogRecord), *get_args(MembershipRecord)}
    kinds = (kinds | {*get_args(ChannelLogRecord)}) - {Tombstone}
    assert {kind for kind, _, _ in GO.values()} | STAY.keys() == kinds
    page = PAGE.read_text()
    table = page[page.index("### Keys") : page.index("### Records and notes")]
    rows: list[Any] = [line.split("|") for line in table.splitlines() if line.startswith("| `")]
    assert {kind.__name__ for kind in kinds} == {row[2].split("`")[1] for row in rows}
    assert all(row[3].strip() and row[4].strip() for row in rows), "each says when it goes, and what bounds its number"
