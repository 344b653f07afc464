"""Decides what a worker has to learn and to write before it begins a record's work, where the log remembers what was done.

The group's coordinator keeps, for each partition, the offset below which all is done, and in the note beside it the fencing
number of the worker that took the partition last. Ids of records are in a topic. A worker that meets a partition takes three
steps, and none of them again as long as nothing fails and its membership stays the same:

1. It looks at what the coordinator keeps. That is answered when no transaction is open which holds an offset of the partition.
2. It claims: it commits the same offset with a larger number, in the name of its membership. The coordinator refuses that when
   the partition is another member's by now.
3. It reads back the ids, up to the end that the topic has then.

Rule 1: the work of a record, its id and the next offset are committed in one transaction, in the name of the membership under
        which the record was read. So nothing of a worker that lost the partition counts, however late it comes.
Rule 2: when a step or a commit has failed nothing is believed any more: the worker begins again with step 1. So it does not
        matter whether a commit that was not answered has come about.
Rule 3: when the membership has changed, what is known stays right if the coordinator keeps this worker's own number and
        offset: another worker would have claimed first.
Rule 4: the number grows with each claim, and is at least the time in ms: so it also grows where an operator has moved or
        removed the offsets, as long as clocks agree roughly.
Rule 5: ids are read back after the claim. Every transaction of a worker before was decided by then, and is below the end; what
        such a worker begins later is refused.
Rule 6: a disaster may take records that were done, and their offsets are given out again. So a `Done` that rests on what was
        known before is no answer yet: look once more, at the coordinator and at the log. `looked` takes the offset no higher
        than where the leader epoch ends in which those records were read.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Final

from oncelog.core.malformed import MALFORMED
from oncelog.core.once.remembered import RememberedIds

_NOTE: Final = "oncelog.once"


@dataclass(frozen=True, slots=True)
class Kept:
    """The group's coordinator keeps this of a partition."""

    next_offset: int
    """All records below were done."""
    fencing: int = 0
    """The number of the worker that took the partition last; 0: a commit that was not made here."""
    leader_epoch: int = -1
    """In which the records below were read; -1: not known."""

    def note(self) -> str:
        """The note that stands beside the offset."""
        return json.dumps({_NOTE: self.fencing})


def fencing_of(note: str) -> int:
    """The number in a note; 0 when something else wrote it."""
    try:
        found = json.loads(note or "null")
    except MALFORMED:
        return 0
    number = found.get(_NOTE) if isinstance(found, dict) else 0
    return number if type(number) is int and number > 0 else 0


@dataclass(frozen=True, slots=True)
class Membership:
    """The membership under which a record was read."""

    member_id: str
    epoch: int


@dataclass(frozen=True, slots=True)
class Met:
    """A record that was read, and when the worker meets it."""

    offset: int
    record_id: str
    """Empty: it has none."""
    membership: Membership
    now_ms: int


@dataclass(frozen=True, slots=True)
class Look:
    """Ask the coordinator what it keeps, and tell `looked`."""


@dataclass(frozen=True, slots=True)
class Claim:
    """Commit this in the name of the record's membership, and tell `claimed`."""

    kept: Kept


@dataclass(frozen=True, slots=True)
class ReadBack:
    """Read the ids that were written since then, and tell `read_back`."""

    since_ms: int


@dataclass(frozen=True, slots=True)
class Begin:
    """The work may begin, with this fencing number."""

    fencing: int


@dataclass(frozen=True, slots=True)
class Copy:
    """A record with this id was done at another offset: commit the next offset, and do nothing."""


@dataclass(frozen=True, slots=True)
class Done:
    """The record was done, and so were all below this offset."""

    next_offset: int


Step = Look | Claim | ReadBack | Begin | Copy | Done


class Holding:
    """A worker knows this of one partition. `step` says what comes next; the other methods tell what has happened."""

    def __init__(self, remember_ids_ms: int) -> None:
        self._remember_ids_ms = remember_ids_ms
        self.lost()

    def lost(self) -> None:
        """A step or a commit has failed, or its outcome is not known. Rule 2."""
        self._membership: Membership | None = None
        self._kept: Kept | None = None
        self._is_claimed = False
        self._ids: RememberedIds | None = None

    @property
    def kept(self) -> Kept:
        """The coordinator keeps this, as the last step or commit left it."""
        assert self._kept is not None
        return self._kept

    def step(self, met: Met) -> Step:
        """Decides what comes next for this record."""
        if self._membership != met.membership:
            return Look()
        if self._kept is not None and met.offset < self._kept.next_offset:
            return Done(self._kept.next_offset)
        if not self._is_claimed:
            before = self._kept or Kept(met.offset)
            return Claim(replace(before, fencing=max(before.fencing + 1, met.now_ms)))
        if self._ids is None:
            if met.record_id:
                return ReadBack(max(0, met.now_ms - self._remember_ids_ms))
        elif met.record_id and self._ids.has(met.record_id, met.now_ms):
            return Copy()
        return Begin(self.kept.fencing)

    def looked(self, kept: Kept | None, membership: Membership) -> None:
        """The coordinator keeps this; None: nothing yet. Rule 3."""
        is_mine = self._is_claimed and kept is not None and kept == self._kept
        if not is_mine:
            self.lost()
        self._kept, self._membership = kept, membership

    def claimed(self, kept: Kept) -> None:
        """The claim was committed."""
        self._kept, self._is_claimed = kept, True

    def read_back(self, ids: RememberedIds) -> None:
        """These ids were written before."""
        assert self._is_claimed, "rule 5"
        self._ids = ids

    def committed(self, met: Met, next_offset: int, leader_epoch: int) -> None:
        """The work of the record was committed, or that it is a copy, with its id and this offset."""
        self._kept = Kept(next_offset, self.kept.fencing, leader_epoch)
        if self._ids is not None:
            self._ids.forget_old(met.now_ms)
            if met.record_id and not self._ids.has(met.record_id, met.now_ms):
                self._ids.add(met.record_id, met.now_ms)
