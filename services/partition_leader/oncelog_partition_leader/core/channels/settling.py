"""The words of workers: about records that they hold, and for records that they want to hold.

Rule 1: only the owner of a delivery settles it; what is refused changes nothing. A late word, after the deadline and before the
    record was given back, still counts: it has no other owner.
Rule 2: an acknowledgement that is repeated by the same worker for the same delivery succeeds.
Rule 3: a claim is a new delivery, also of the worker's own record, and never one beyond `max_deliveries`. It takes no record of
    which another worker is sure (`sure_ms`): that one may hand it out without asking, also when the claimer has
    acknowledged it by then (docs/decisions/0078).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from oncelog.core.work.deadlines import SURE_MS
from oncelog_partition_leader.core.channels.offset_ranges import OffsetRange, OffsetRanges
from oncelog_partition_leader.core.channels.record.burial import EXHAUSTED
from oncelog_partition_leader.core.channels.record.entry import Entry
from oncelog_partition_leader.core.channels.record.fates import Fates
from oncelog_partition_leader.core.channels.record.record_states import RecordState
from oncelog_partition_leader.core.channels.record.records import Records
from oncelog_partition_leader.core.channels.settled_lately import SettledLately
from oncelog_partition_leader.core.channels.settlement import CHANNEL_PAUSE, Claim, Refused, Settlement, Taken, Verdict
from oncelog_partition_leader.core.channels.window import Window
from oncelog_partition_leader.core.channels.writing import WriteQueue

_S: Final = RecordState
_REPEATABLE: Final = {Verdict.ACK: _S.SETTLING, Verdict.REJECT: _S.BURYING}
"""The state of a record that tells that this was said about it before."""


_SURE_MAX_MS: Final = 1_000
"""After a slow answer the SDK is sure for twice its round trip, which no broker knows: there is room for half a second."""


def sure_ms(ack_wait_ms: int) -> int:
    """Returns for how long after a delivery or a touch a worker may be sure of a record."""
    return min(_SURE_MAX_MS, max(SURE_MS, ack_wait_ms // 2))


class Settling:
    """The words of workers."""

    def __init__(self, records: Records, window: Window, writes: WriteQueue, fates: Fates) -> None:
        self.lately = SettledLately()
        self._records = records
        self._window = window
        self._writes = writes
        self._fates = fates

    # ------------------------------------------------------------ settling

    def settle(self, worker_id: str, settlement: Settlement, now_ms: int) -> list[Refused]:
        """See `Delivery.settle`."""
        settlement.check()
        mine, refused = self._sorted_out(worker_id, settlement)
        match settlement.verdict:
            case Verdict.ACK:
                self._acknowledge(mine, worker_id, settlement.delivery)
            case Verdict.NACK:
                for entry in mine:
                    self._give_back(entry, settlement.delay_ms, now_ms)
            case Verdict.TOUCH:
                self._touch(mine, worker_id, now_ms)
            case Verdict.REJECT:
                for entry in mine:
                    self._fates.die(entry, settlement.reason)
            case Verdict.RELEASE:
                for entry in mine:
                    self._fates.release(entry)
        return refused

    def _sorted_out(self, worker_id: str, settlement: Settlement) -> tuple[list[Entry], list[Refused]]:
        """Returns the records that the worker holds in this delivery, and what it does not."""
        mine = []
        refused: list[Refused] = []
        entries, delivery = self._records.entries, settlement.delivery
        for offset in range(settlement.first, settlement.last + 1):
            entry = entries.get(offset)
            if entry is not None and entry.is_held(worker_id, delivery):
                mine.append(entry)
            elif not self._is_repeated(entry, worker_id, settlement, offset):
                _refuse(refused, offset, self._is_settled(entry, offset))
        return mine, refused

    def _is_repeated(self, entry: Entry | None, worker_id: str, settlement: Settlement, offset: int) -> bool:
        verdict, delivery = settlement.verdict, settlement.delivery
        if entry is not None:
            return entry.state is _REPEATABLE.get(verdict) and entry.was_given(worker_id, delivery)
        return verdict is Verdict.ACK and self.lately.has(worker_id, delivery, offset)

    def _is_settled(self, entry: Entry | None, offset: int) -> bool:
        return self._window.is_settled(offset) if entry is None else entry.state is _S.SETTLING

    def _acknowledge(self, mine: list[Entry], worker_id: str, delivery: int) -> None:
        for neighbours in _neighbours(mine):
            self._fates.acknowledge(neighbours)
            self.lately.add(worker_id, delivery, neighbours[0].offset, neighbours[-1].offset)

    def _give_back(self, entry: Entry, delay_ms: int, now_ms: int) -> None:
        if delay_ms == CHANNEL_PAUSE:
            self._fates.fail(entry, now_ms)
        else:
            self._fates.give_back(entry, delay_ms, now_ms)

    def _touch(self, mine: list[Entry], worker_id: str, now_ms: int) -> None:
        for neighbours in _neighbours(mine):
            for ack_wait_ms, run in groupby(neighbours, lambda entry: entry.ack_wait_ms):
                due_ms, some = now_ms + ack_wait_ms, [*run]
                for entry in some:
                    self._records.move(entry, _S.IN_FLIGHT, worker_id, due_ms)
                self._records.deadlines.add(due_ms, some[0].offset, some[-1].offset)

    # ------------------------------------------------------------ taking

    def take(self, worker_id: str, most: int, from_ready: int, now_ms: int) -> list[Taken]:
        """Delivers up to `most` records, `from_ready` of those again that came back; more if there are not enough others."""
        due_ms = now_ms + self._fates.options.ack_wait_ms
        offsets = self._take_ready(worker_id, min(most, from_ready), due_ms, now_ms)
        for first, last in self._records.take_fresh(most - len(offsets), worker_id, due_ms, now_ms):
            offsets.extend(range(first, last + 1))
        offsets += self._take_ready(worker_id, most - len(offsets), due_ms, now_ms)
        return self._taken(offsets, due_ms)

    def _take_ready(self, worker_id: str, most: int, due_ms: int, now_ms: int) -> list[int]:
        offsets: list[int] = []
        while len(offsets) < most and self._records.ready:
            entry = self._records.entries[next(iter(self._records.ready))]
            if self._fates.is_exhausted(entry):
                self._fates.die(entry, EXHAUSTED)
                continue
            self._records.deliver(entry, worker_id, due_ms, now_ms)
            offsets.append(entry.offset)
        return offsets

    def _taken(self, offsets: list[int], due_ms: int) -> list[Taken]:
        entries, ack_wait_ms = self._records.entries, self._fates.options.ack_wait_ms
        taken: list[Taken] = []
        for neighbours in _neighbours([entries[offset] for offset in sorted(offsets)]):
            run = Taken(neighbours[0].offset, neighbours[-1].offset, neighbours[0].deliveries)
            taken.append(run)
            self._fates.redelivered += len(neighbours) if run.delivery > 1 else 0
            for entry in neighbours:
                entry.ack_wait_ms = ack_wait_ms
            self._records.deadlines.add(due_ms, run.first, run.last)
        self._fates.delivered += len(offsets)
        return taken

    # ------------------------------------------------------------ claiming

    def claim(self, worker_id: str, claim: Claim, now_ms: int) -> list[Taken]:
        """See `Delivery.claim`."""
        due_ms = now_ms + self._fates.options.ack_wait_ms
        offsets = []
        for entry in self._claimable(worker_id, claim, now_ms):
            self._records.deliver(entry, worker_id, due_ms, now_ms)
            self._writes.give_back(entry.offset)
            offsets.append(entry.offset)
        return self._taken(offsets, due_ms)

    def claimable(self, worker_id: str, claim: Claim, now_ms: int) -> list[OffsetRange]:
        """See `Delivery.claimable`."""
        return list(OffsetRanges((entry.offset, entry.offset) for entry in self._claimable(worker_id, claim, now_ms)))

    def _claimable(self, worker_id: str, claim: Claim, now_ms: int) -> list[Entry]:
        entries = self._records.entries
        if claim.offsets:
            named = sorted(set(claim.offsets))
            found = [
                entries[offset] for offset in named if offset in entries and self._can_change_hands(entries[offset])
            ]
        else:
            held = sorted(offset for offsets in self._records.held.values() for offset in offsets)
            found = [entries[offset] for offset in held if offset >= claim.from_offset]
        idle = (e for e in found if e.since_ms is None or now_ms - e.since_ms >= claim.min_idle_ms)
        free = (entry for entry in idle if not _is_sure_of_it(entry, worker_id, now_ms))
        return [entry for entry in free if not self._fates.is_exhausted(entry)][: claim.most]

    def _can_change_hands(self, entry: Entry) -> bool:
        if entry.state is _S.AVAILABLE:
            return entry.deliveries > 0 and self._records.is_head(entry)
        return entry.state is _S.IN_FLIGHT


def _is_sure_of_it(entry: Entry, claimer: str, now_ms: int) -> bool:
    """Returns True for a record that another worker may hand out without asking. Rule 3."""
    if entry.state is not _S.IN_FLIGHT or entry.worker == claimer:
        return False
    return now_ms - entry.confirmed_ms < sure_ms(entry.ack_wait_ms)


def _refuse(refused: list[Refused], offset: int, settled: bool) -> None:
    last = refused[-1] if refused else None
    if last is not None and last.last + 1 == offset and last.settled == settled:
        refused[-1] = last._replace(last=offset)
    else:
        refused.append(Refused(offset, offset, settled))


def _neighbours(entries: Sequence[Entry]) -> Iterator[Sequence[Entry]]:
    """Cuts entries, in ascending order of offset, into runs: a run has no gap, and one count of deliveries."""
    begin = 0
    for end in range(1, len(entries) + 1):
        last = entries[end - 1]
        if end == len(entries) or entries[end].offset != last.offset + 1 or entries[end].deliveries != last.deliveries:
            yield entries[begin:end]
            begin = end
