"""A broker's logs in small, on real files: everything that is ever done to a log, once, and what must be left after a crash.

Three logs: `orders` keeps by time and size, `table` is compacted, and `rotten` gets a turned bit, is set aside and filled
again. After each step the script notes what the log holds, so that whatever a crash leaves can be compared with it.

Rule 1: what was synced is there after a power cut, and what was written is there after a kill. More may be there, never
        part of a batch, and never a batch that no step wrote there.
Rule 2: producer state, aborted transactions and epochs are those of the log's end.
Rule 3: a log that lacks any of it does not vouch for this incarnation (`custody`), so no election counts on it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, Final, NamedTuple

from oncelog.core.batch.batch import iter_batches
from oncelog.core.batch.record import Record
from oncelog.errors import StorageError
from oncelog.types import PartitionId
from oncelog_partition_leader.core.replication.replica_state import Seal
from oncelog_partition_leader.log.data_dir.custody import Claim, Custody, read_log
from oncelog_partition_leader.log.data_dir.trash import Trash
from oncelog_partition_leader.log.log_config import LogConfig
from oncelog_partition_leader.log.partition_log import PartitionLog
from oncelog_partition_leader.log.recovery.log_folder import make_directory
from oncelog_partition_leader.replication.log_opening import LogOpener
from oncelog_partition_leader.replication.sealing import read_seal, remove_seal, write_seal
from oncelog_runtime.adapters.files.os_disk import OsDisk
from tests.unit.partition_leader.compaction_helpers import DAY_MS, LIMITS, keyed, seen, table_of
from tests.unit.partition_leader.log_helpers import NOW_MS, TOPIC_ID, batch, contents, fence, marker, plain, write

LOG_DIR: Final = "logs"
ID: Final = PartitionId(TOPIC_ID, 3)
ORDERS, TABLE, ROTTEN = "orders", "table", "rotten"
CONFIGS: Final = {
    ORDERS: LogConfig(
        segment_bytes=600, index_interval_bytes=150, checkpoint_bytes=500, tail_cache_bytes=0, retention_bytes=1_500
    ),
    TABLE: LogConfig(
        cleanup_policy="compact",
        segment_bytes=1_200,
        index_interval_bytes=300,
        min_cleanable_dirty_ratio=0.0,
        delete_retention_ms=1_000,
        tail_cache_bytes=0,
    ),
    ROTTEN: LogConfig(segment_bytes=600, tail_cache_bytes=0),
}
FIRST, SECOND = 5, 6
"""The incarnation under which the script runs, and the one of the process that opens what it left."""


def directory(name: str) -> str:
    """The folder of one of the logs."""
    return f"{LOG_DIR}/{name}-{TOPIC_ID}-3"


class Clock:
    """A time that stands still."""

    def now_ms(self) -> int:
        """The time of these tests."""
        return NOW_MS

    def monotonic_ms(self) -> int:
        """The same."""
        return NOW_MS


class View(NamedTuple):
    """What one log holds."""

    log_start: int
    synced: int
    batches: tuple[tuple[int, bytes], ...]
    end: int
    producers: bytes
    aborted: tuple[object, ...]
    epochs: tuple[tuple[int, int], ...]
    table: dict[bytes, bytes] | None
    records: frozenset[Record]

    @staticmethod
    def of(name: str, log: PartitionLog) -> View:
        """Of a log that works; every batch is read, and so checked."""
        log.check()
        found = tuple((header.base_offset, bytes(data)) for header, data in iter_batches(contents(log)))
        records = seen(log) if name == TABLE else []
        return View(
            log.log_start_offset,
            log.synced_end_offset,
            found,
            log.log_end_offset,
            log.producers.snapshot(),
            tuple(log.aborted_between(log.log_start_offset, 1 << 40)),
            tuple(log.epochs.entries),
            table_of(records) if name == TABLE else None,
            frozenset(records),
        )


EMPTY: Final = View(0, 0, (), 0, b"", (), (), None, frozenset())


class Mark(NamedTuple):
    """After so many steps of the disk the log holds this."""

    position: int
    view: View
    what: str
    is_lost: bool = False
    """The step takes the log away: from here on it may be empty, if it says so."""


@dataclass
class Script:
    """Runs the steps on a disk. `position()` counts what was done to it; `marks` are the notes, log by log."""

    disk: OsDisk
    position: Callable[[], int]
    marks: dict[str, list[Mark]] = field(default_factory=dict)
    logs: dict[str, PartitionLog] = field(default_factory=dict)
    clean_from: int | None = None
    """From this step of the disk on every log was closed cleanly, and the directory says so."""

    async def run(self) -> None:
        """The whole of it."""
        await make_directory(self.disk, LOG_DIR)
        self.custody = Custody(self.disk, LOG_DIR, Random(1))
        await self.custody.open()
        self.custody.adopted(FIRST)
        await self.custody.store()
        self.opener = opener(self.disk, self.custody, FIRST)
        await self._orders()
        await self._table()
        await self._rotten()
        for name in (ORDERS, TABLE, ROTTEN):
            await self.logs[name].close()
        await self.custody.close()
        self.clean_from = self.position()

    # ------------------------------------------------------------ notes

    async def _open(self, name: str) -> PartitionLog:
        self.marks.setdefault(name, [Mark(self.position(), EMPTY, "nothing is there")])
        log = self.logs[name] = await self.opener.open(ID, name, CONFIGS[name])
        self._note(name, "open")
        return log

    def _note(self, name: str, what: str, *, is_lost: bool = False) -> None:
        self.marks[name].append(Mark(self.position(), View.of(name, self.logs[name]), what, is_lost))

    async def _do(self, name: str, what: str, *steps: Awaitable[Any]) -> None:
        for step in steps:
            await step
        self._note(name, what)

    def _write(self, name: str, *batches: bytes, epoch: int = 1) -> None:
        for one in batches:
            write(self.logs[name], one, epoch=epoch)
            self._note(name, "append")

    # ------------------------------------------------------------ the steps

    async def _orders(self) -> None:
        log = await self._open(ORDERS)
        log.reach(1, 0)
        self._write(ORDERS, batch(1, 0), batch(1, 1), plain(b"x" * 90))
        await self._do(ORDERS, "sync", log.sync())
        await self._transactions(log)
        await self._cut_and_written_again(log)
        await self._do(ORDERS, "retention", log.apply_retention(NOW_MS, log.log_end_offset))
        await self._without_checkpoints(log)
        await self._do(ORDERS, "raise the log start", log.advance_log_start(log.log_start_offset + 3))
        await self._sealed(log)
        self._write(ORDERS, *[batch(2, n, epoch=2) for n in range(3)], epoch=3)
        await log.close(clean=False)
        log = await self._open(ORDERS)
        self._write(ORDERS, *[batch(2, n, epoch=2, payload=b"q" * 120) for n in range(3, 9)], epoch=4)
        await self._do(ORDERS, "sync", log.sync())
        await log.close()
        await self._open(ORDERS)
        self._write(ORDERS, batch(2, 9, epoch=2), epoch=4)
        await self._fetched_from_elsewhere(self.logs[ORDERS])

    async def _fetched_from_elsewhere(self, log: PartitionLog) -> None:
        """The leader's log begins above the end of this one, which is dropped."""
        await self.opener.will_be_reset(SimpleNamespace(log=log, claim=None, seal=None))  # type: ignore[arg-type]
        self._note(ORDERS, "will be dropped", is_lost=True)
        await log.reset_to(90, None)
        self._note(ORDERS, "begin where the leader does", is_lost=True)
        for number in range(2):
            write(log, plain(b"copied"), epoch=5)
            await log.sync()
            self._note(ORDERS, f"copied {number}", is_lost=True)

    async def _transactions(self, log: PartitionLog) -> None:
        for number in range(1, 4):
            txn = (5, number)
            self._write(ORDERS, batch(11, 0, 2, txn=txn), batch(12, 0, txn=txn), batch(1, number + 1))
            self._write(ORDERS, marker(txn, commit=number != 2, winners=(11,)))
            await self._do(ORDERS, "sync", log.sync())
        self._write(ORDERS, batch(13, 0, txn=(6, 1)), fence(2, 1), *[plain(bytes([n]) * 80) for n in range(5)])
        await self._do(ORDERS, "sync", log.sync())

    async def _cut_and_written_again(self, log: PartitionLog) -> None:
        self._write(ORDERS, *[plain(b"gone" * 20) for _ in range(4)])
        await self._do(ORDERS, "cut", log.truncate_to(log.log_end_offset - 6))
        self._write(ORDERS, *[plain(b"kept" * 20) for _ in range(3)], epoch=2)
        await self._do(ORDERS, "sync", log.sync())
        self._write(ORDERS, plain(b"unsynced"), epoch=2)
        await self._do(ORDERS, "cut what was not synced", log.truncate_to(log.log_end_offset - 1))
        self._write(ORDERS, marker((6, 1), commit=True), epoch=2)
        await self._do(ORDERS, "sync", log.sync())

    async def _without_checkpoints(self, log: PartitionLog) -> None:
        """There is room for the log, and none for a new file (S7)."""
        with no_new_files(self.disk):
            for number in range(8):
                self._write(ORDERS, plain(bytes([number]) * 150), epoch=2)
                await self._do(ORDERS, "sync without checkpoint", log.sync())
        await self._do(ORDERS, "sync", log.sync())

    async def _sealed(self, log: PartitionLog) -> None:
        log.reach(3, log.log_end_offset)
        await self._do(
            ORDERS,
            "seal",
            log.sync(),
            write_seal(self.disk, log.directory, Seal(FIRST, 3, log.log_end_offset)),
        )
        await self._do(ORDERS, "unseal", remove_seal(self.disk, log.directory))

    async def _table(self) -> None:
        log = await self._open(TABLE)
        for number in range(9):
            pairs = (b"a%d" % (number % 4), b"%d" % number * 20), (b"b", None)
            self._write(TABLE, keyed(*pairs, producer=(1, 0, number * 2)))
            if number % 3 == 1:
                txn = (50, number)
                self._write(TABLE, keyed((b"t", b"%d" % number), (b"a1", b"in"), producer=(50, 0, 0), txn=txn))
                self._write(TABLE, marker(txn, commit=number % 2 == 0))
        self._write(TABLE, keyed((b"a2", b"open"), producer=(51, 0, 0), txn=(51, 1)))
        self._write(TABLE, *[keyed((b"a3", b"late"), (b"b", b"x"), producer=(1, 0, 18 + 2 * n)) for n in range(4)])
        await self._do(TABLE, "sync", log.sync())
        for now_ms in (NOW_MS, NOW_MS + DAY_MS):
            end = log.log_end_offset
            await self._do(TABLE, "compact", log.compact(now_ms, end, LIMITS, held_everywhere=end))
        await log.close(clean=False)
        await self._open(TABLE)
        self._write(TABLE, keyed((b"a1", b"new"), producer=(1, 0, 26)))

    async def _rotten(self) -> None:
        log = await self._open(ROTTEN)
        self._write(ROTTEN, *[plain(bytes([n]) * 80) for n in range(6)])
        await self._do(ROTTEN, "sync", log.sync())
        before = self.marks[ROTTEN][-1].view
        await log.close(clean=False)
        self.marks[ROTTEN].append(Mark(self.position(), before, "a bit turns", is_lost=True))
        turn_bit(self.disk, f"{directory(ROTTEN)}/{0:020d}.log", 150)
        log = self.logs[ROTTEN] = await self.opener.open(ID, ROTTEN, CONFIGS[ROTTEN], rescan=True)
        self._note(ROTTEN, "set aside", is_lost=True)
        for data in [data for _, data in before.batches]:
            log.append_as_follower(data, 1)
        await log.sync()
        self._note(ROTTEN, "filled again", is_lost=True)
        await self.opener.in_sync(SimpleNamespace(id=ID, topic=ROTTEN, log=log))  # type: ignore[arg-type]
        self._note(ROTTEN, "in sync again", is_lost=True)
        self._write(ROTTEN, plain(b"more"))
        await self._do(ROTTEN, "sync", log.sync())


@contextmanager
def no_new_files(disk: OsDisk) -> Iterator[None]:
    """Refuses small files, as a disk without a free inode does."""

    async def refused(path: str, _data: bytes) -> None:
        raise StorageError("there is no room for a new file", reason="full", path=path)

    disk.write_atomic = refused  # type: ignore[method-assign]
    try:
        yield
    finally:
        del disk.write_atomic  # type: ignore[attr-defined]


def turn_bit(disk: OsDisk, path: str, position: int) -> None:
    """The disk returns another byte than it was given."""
    fd = os.open(disk._full(path), os.O_RDWR)
    try:
        turned = os.pread(fd, 1, position)[0] ^ 1
        os.pwrite(fd, bytes([turned]), position)
        os.fsync(fd)
    finally:
        os.close(fd)


def opener(disk: OsDisk, custody: Custody, incarnation: int) -> LogOpener:
    """As a broker of this incarnation opens its logs."""
    return LogOpener(disk, LOG_DIR, Trash(disk, LOG_DIR, DAY_MS), Clock(), custody, lambda: incarnation)


# ---------------------------------------------------------------- what is left


class Found(NamedTuple):
    """One log as the next process finds it."""

    view: View
    claim: Claim
    seal: Seal | None
    is_quarantined: bool

    @property
    def vouches(self) -> bool:
        """True when an election would count on it for what the script's incarnation wrote."""
        return self.claim.intact_since <= FIRST and not self.is_quarantined


async def found_in(root: Path, name: str, boot_id: str | None) -> Found:
    """Opens one log of the folder as a broker does after a crash, uses it, and opens it again. `boot_id`: of a new boot."""
    disk = OsDisk(root)
    try:
        if boot_id is not None:
            disk._boot_id = boot_id
        await make_directory(disk, LOG_DIR)
        custody = Custody(disk, LOG_DIR, Random(2))
        await custody.open()
        custody.adopted(SECOND)
        opening = opener(disk, custody, SECOND)
        log, view = await _read_whole(opening, name)
        claim = custody.claim.and_also(read_log(disk, directory(name), SECOND))
        found = Found(view, claim, read_seal(disk, directory(name)), opening.owes(ID))
        try:
            await _still_works(disk, name, log)
        except StorageError as error:
            raise AssertionError(f"it was opened and written, and failed then: {error}") from error
        return found
    finally:
        disk.close()


async def _read_whole(opening: LogOpener, name: str) -> tuple[PartitionLog, View]:
    """Opens a log and reads all of it; rot that the reading meets has the log opened again, and checked, as in a broker."""
    log = await opening.open(ID, name, CONFIGS[name])
    try:
        return log, View.of(name, log)
    except StorageError as error:
        if error.context["reason"] != "rot":
            raise
        await log.close(clean=False)
        opening.failed(ID)
        log = await opening.open(ID, name, CONFIGS[name], rescan=True)
        return log, View.of(name, log)


async def _still_works(disk: OsDisk, name: str, log: PartitionLog) -> None:
    before = View.of(name, log)
    write(log, plain(b"after the crash") if name != TABLE else keyed((b"z", b"1")), epoch=log.last_epoch + 1)
    await log.sync()
    after = View.of(name, log)
    assert after.batches[:-1] == before.batches
    await log.close()
    again = await PartitionLog.open(disk, directory(name), CONFIGS[name])
    differs = [field for field, one, two in zip(View._fields, View.of(name, again), after, strict=True) if one != two]
    if name == TABLE and "aborted" in differs:  # it may remember an aborted transaction of which nothing is left
        differs.remove("aborted")
    assert not differs, f"what a clean stop leaves is there, but for {differs}"
    await again.close()


def judged(name: str, found: Found, before: Mark, after: Mark, is_power_cut: bool) -> None:
    """Asserts the three rules; the crash came after the mark `before` and not after the mark `after`."""
    view, ends = found.view, (before.view, after.view)
    synced = min(before.view.synced, after.view.synced)
    written = min(before.view.end, after.view.end)
    if before.is_lost and not found.vouches:
        assert not view.batches or any(_is_part_of(view, whole) for whole in ends), "a batch is there that nobody wrote"
        return
    assert view.end >= (synced if is_power_cut else written), f"the log ends at {view.end}, and {synced} was synced"
    assert view.end >= written or not found.vouches, "a log that lost something does not vouch for it"
    assert before.view.log_start <= view.log_start <= after.view.log_start, f"the log begins at {view.log_start}"
    assert any(_is_part_of(view, whole) for whole in ends), "a batch is there that no step wrote, or not there"
    is_shorter = view.end < written  # then a transaction may be open that was aborted later
    assert is_shorter or view.records <= before.view.records | after.view.records, (
        "a record is there that no step wrote"
    )
    for whole in (whole for whole in ends if whole is not EMPTY):
        if view.end == whole.end and view.log_start == whole.log_start and view.batches == whole.batches:
            assert view.producers == whole.producers, "the producers' state is that of the log's end"
            # A compacted log may remember an aborted transaction of which nothing is left.
            assert name == TABLE or view.aborted == whole.aborted, f"aborted {view.aborted} instead of {whole.aborted}"
            assert view.epochs == whole.epochs, f"epochs {view.epochs} instead of {whole.epochs}"


def _is_part_of(view: View, whole: View) -> bool:
    if view.table is not None and view.end == whole.end:
        return view.table == whole.table
    kept = [row for row in whole.batches if row[0] < view.end]
    first = view.batches[0][0] if view.batches else view.end
    return list(view.batches) == [row for row in kept if row[0] >= first] and (first <= view.log_start or not kept)


def around(marks: list[Mark], position: int) -> tuple[Mark, Mark]:
    """The notes before and after a crash at this step."""
    earlier = [mark for mark in marks if mark.position <= position]
    later = [mark for mark in marks if mark.position > position]
    before = earlier[-1] if earlier else marks[0]
    return before, later[0] if later else before


def recorded_script(root: Path, position: Callable[[], int]) -> Script:
    """Runs the script below `root`."""

    async def run() -> Script:
        disk = OsDisk(root)
        script = Script(disk, position)
        try:
            await script.run()
        finally:
            disk.close()
        return script

    return asyncio.run(run())
