"""Decides whether a worker may begin the work of a record, from the row that the database keeps.

Rule 1: a record below `next_offset` was done. The row moves forward only, in the transaction of the work itself.
Rule 2: a lease only saves two workers from doing the same work at once. It is time, and clocks disagree, so nothing
        else rests on it: whether work counts is decided by the fencing number, in the transaction that commits the work.
Rule 3: the fencing number grows each time another worker takes the row, so the number of the worker before is stale for good.
Rule 4: the same row, under the id of a record, keeps that the record was done, until its time to live ends.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

ID_DONE = 1
"""`next_offset` of an id whose work was done: an id is claimed as if it were the record at offset 0."""


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the table: how far the work is, and which worker has it."""

    next_offset: int = 0
    """All records below were done; under the id of a record: `ID_DONE`, or 0."""
    fencing: int = 0
    """It grows with each worker that takes the row; 0: no worker has taken it yet."""
    owner: str = ""
    """The worker that took it last."""
    until_ms: int = 0
    """The end of the lease; under the id of a record that was done, the end of its time to live."""


@dataclass(frozen=True, slots=True)
class Worker:
    """The worker that asks, and when it does so."""

    owner: str
    lease_ms: int
    now_ms: int


@dataclass(frozen=True, slots=True)
class Done:
    """The work of this record was committed before."""

    row: Row


@dataclass(frozen=True, slots=True)
class Wait:
    """Another worker has the lease."""

    owner: str
    wait_ms: int
    """The lease ends after this time; it is given back earlier when the work ends."""


@dataclass(frozen=True, slots=True)
class Take:
    """The work may begin when `row` was stored in place of the row that was read."""

    row: Row


Claim = Done | Wait | Take


def claim_position(row: Row | None, offset: int, worker: Worker) -> Claim:
    """Decides about the record at this offset. None: the table has no row of the partition, which therefore begins here."""
    return _claim(row or Row(next_offset=offset), offset, worker)


def claim_id(row: Row | None, worker: Worker) -> Claim:
    """Decides about the record with this id. After its time to live an id is as good as new."""
    row = row or Row()
    if row.next_offset == ID_DONE and row.until_ms <= worker.now_ms:
        row = Row(fencing=row.fencing)
    return _claim(row, 0, worker)


def _claim(row: Row, offset: int, worker: Worker) -> Claim:
    if offset < row.next_offset:
        return Done(row)
    is_mine = row.owner == worker.owner
    if not is_mine and row.until_ms > worker.now_ms:
        return Wait(row.owner, row.until_ms - worker.now_ms)
    taken = replace(row, owner=worker.owner, until_ms=worker.now_ms + worker.lease_ms)
    return Take(taken if is_mine else replace(taken, fencing=row.fencing + 1))
