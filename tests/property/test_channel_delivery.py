"""A channel keeps its promises whatever workers, clocks, transactions and fail-overs do.

A model of the coordinator takes the writes; a fail-over makes a new `Delivery` from what it has.
Rule 1: a record whose acknowledgement was confirmed is never delivered again, and none in an open transaction is.
Rule 2: no record is lost: when all is drained, each one was acknowledged, is dead, or was deleted.
Rule 3: no record gets a second owner before the deadline of the first.
Rule 4: with order by key, every earlier record of the key is settled, durably, when a record is delivered.
Rule 5: deliveries are counted one by one, and a count that was confirmed is never undercut.
"""

from __future__ import annotations

import random
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oncelog.errors import NotOwnerError
from oncelog_partition_leader.core.channels.delivery import Delivery
from oncelog_partition_leader.core.channels.key_order import NO_KEY
from oncelog_partition_leader.core.channels.offset_ranges import OffsetRanges
from oncelog_partition_leader.core.channels.settlement import Claim, Settlement, Taken, Verdict
from oncelog_partition_leader.core.channels.stored_state import Retried, Stored, StoredPending, Write
from oncelog_partition_leader.core.producers.transactions import TxnName
from oncelog_runtime.metadata.channel_values import ChannelOptions

WORKERS = ("ann", "bob", "cid")
YES_OR_NO = (False, True)
ANY = tuple(range(12))
"""Stands for one of several things, by its place."""
ACK_WAIT_MS = 1_000


def offsets_of(ranges: object) -> list[int]:
    """All offsets of ranges."""
    return [offset for first, last in ranges for offset in range(first, last + 1)]  # type: ignore[attr-defined]


class Coordinator:
    """What is durable of the channel."""

    def __init__(self, begin: int) -> None:
        self.settled_before = begin
        self.start = begin
        self.write_no = self.seeks = 0
        self.settled = OffsetRanges()
        self.retried: dict[int, tuple[int, int]] = {}
        self.pending: dict[TxnName, OffsetRanges] = {}

    def write(self, write: Write, now_ms: int) -> None:
        """Takes a write; a copy changes nothing."""
        if write.write_no <= self.write_no:
            return
        assert write.write_no == self.write_no + 1, "writes are numbered without a gap"
        self.write_no = write.write_no
        if write.seek:
            assert (len(write.settled), len(write.retried)) == (0, 0), "a seek is alone"
            self.seeks += 1
            self.settled.clear()
            self.retried.clear()
            self.pending.clear()
            self.settled_before = self.start = write.settled_before
        assert write.settled_before >= self.settled_before, "it goes back by a seek only"
        self.settled_before = write.settled_before
        for run in write.settled:
            assert run[0] > write.settled_before, "what is below is told by it"
            self.settled.add(*run)
        self.retried |= {offset: (deliveries, now_ms + pause_ms) for offset, deliveries, pause_ms in write.retried}

    def is_settled(self, offset: int) -> bool:
        return offset < self.settled_before or offset in self.settled

    def acknowledge(self, name: TxnName, ranges: list[tuple[int, int]]) -> None:
        mine = self.pending.setdefault(name, OffsetRanges())
        for run in ranges:
            mine.add(*run)

    def end(self, name: TxnName, commits: bool) -> list[int]:
        """Returns the records that it has settled."""
        ranges = self.pending.pop(name, OffsetRanges())
        for run in ranges if commits else ():
            self.settled.add(*run)
        return offsets_of(ranges) if commits else []

    def stored(self, now_ms: int) -> Stored:
        """What a new leader gets."""
        settled = OffsetRanges(self.settled)
        settled.remove_below(self.settled_before)
        retried = sorted((o, told) for o, told in self.retried.items() if not self.is_settled(o))
        return Stored(
            self.settled_before,
            self.write_no,
            self.seeks,
            tuple(settled),
            tuple(Retried(offset, told[0], max(0, told[1] - now_ms)) for offset, told in retried),
            tuple(StoredPending(name, tuple(ranges)) for name, ranges in self.pending.items()),
        )


class Told(NamedTuple):
    """What a worker hears when write `write_no` is confirmed: done (`ended` = 0), or so many deliveries have ended."""

    offset: int
    write_no: int
    ended: int


class World:
    """One channel on one partition, its workers, and what was promised to them."""

    def __init__(
        self, order_by_key: bool, max_deliveries: int, letters: bool, backoff_ms: int, max_unsettled: int, begin: int
    ) -> None:
        self.options = ChannelOptions(
            ACK_WAIT_MS,
            max_deliveries,
            "dead" if letters else "",
            backoff_ms,
            1_000,
            order_by_key,
            False,
            max_unsettled,
        )
        self.now_ms = 1_000
        self.log: list[int | None] = [NO_KEY] * begin
        """By offset: the hash of the key; None = no record that may be delivered."""
        self.log_begin = 0
        self.coordinator = Coordinator(begin)
        self.acknowledged: set[int] = set()
        self.done: set[int] = set()
        """Acknowledged, and the worker has got the answer (or its transaction has committed)."""
        self.dead: set[int] = set()
        self.lettered: set[int] = set()
        """Records whose dead letter was written."""
        self.last_chances: set[int] = set()
        """Records that were delivered `max_deliveries` times."""
        self.next_txn_no = 1
        self.elect()

    def elect(self) -> None:
        """A new leader begins."""
        self.delivery = Delivery(self.options, self.coordinator.stored(self.now_ms), self.now_ms)
        self.start = self.coordinator.start
        self.write: Write | None = None
        self.told: list[Told] = []
        self.letters: list[int] = []
        self.unsent: dict[TxnName, list[tuple[int, int]]] = {}
        self.owners: dict[int, tuple[str, int]] = {}
        self.counts = {offset: told[0] for offset, told in self.coordinator.retried.items()}
        self.counts |= {
            o: self.counts.get(o, 0) + 1 for ranges in self.coordinator.pending.values() for o in offsets_of(ranges)
        }
        self.given: list[tuple[str, Taken]] = []
        self.paused = False
        self.delivery.log_begins_at(self.log_begin)

    # ------------------------------------------------------------ the log

    def append(self, keys: tuple[int | None, ...]) -> None:
        self.log += keys

    def supply(self, most: int, overlap: int) -> None:
        first = max(0, self.delivery.next_offset - overlap)
        end = min(len(self.log), first + overlap + most)
        visible = [(offset, offset) for offset in range(first, end) if self.log[offset] is not None]
        keys = [key for key in self.log[first:end] if key is not None] if self.options.order_by_key else None
        self.delivery.supply(first, end, visible, keys)
        assert self.delivery.next_offset <= max(end, self.delivery.settled_before + self.options.max_unsettled)

    def retention(self, step: int) -> None:
        self.log_begin = min(self.log_begin + step, len(self.log))
        self.delivery.log_begins_at(self.log_begin)

    # ------------------------------------------------------------ workers

    def take(self, worker: str, most: int) -> None:
        there = self.delivery.available(self.now_ms)
        taken = self.delivery.take(worker, most, self.now_ms)
        got = sum(run.last - run.first + 1 for run in taken)
        assert got <= min(most, there)
        assert not (self.paused and taken)
        assert got == min(most, there) or self.options.max_deliveries, "what is available is delivered"
        for run in taken:
            self.note_taken(worker, run, is_claim=False)

    def note_taken(self, worker: str, run: Taken, is_claim: bool) -> None:
        self.given.append((worker, run))
        in_txn = {offset for ranges in self.coordinator.pending.values() for offset in offsets_of(ranges)}
        for offset in range(run.first, run.last + 1):
            assert self.log[offset] is not None, "there is such a record"
            assert offset >= max(self.start, self.log_begin), "it was not deleted, nor left out by a seek"
            assert offset not in self.done, "an acknowledged record comes again"
            assert offset not in in_txn, "its transaction has not ended"
            assert is_claim or self.owners.get(offset, ("", -1))[1] <= self.now_ms, "it has an owner"
            assert run.delivery == self.counts.get(offset, 0) + 1, "deliveries are counted one by one"
            self.counts[offset] = run.delivery
            self.owners[offset] = (worker, self.now_ms + ACK_WAIT_MS)
            self.check_order(offset)
        most = self.options.max_deliveries
        assert not most or run.delivery <= most, "it is dead"
        if run.delivery == most:
            self.last_chances.update(range(run.first, run.last + 1))

    def check_order(self, offset: int) -> None:
        key = self.log[offset]
        if not self.options.order_by_key or key == NO_KEY:
            return
        for earlier in range(max(self.start, self.log_begin), offset):
            assert self.log[earlier] != key or self.coordinator.is_settled(earlier), f"{offset} overtakes {earlier}"

    def settle(self, which: int, stranger: str, verdict: Verdict, delay_ms: int, is_part: bool) -> None:
        if not self.given:
            return
        worker, run = self.given[-8:][which % len(self.given[-8:])]
        worker = stranger or worker
        first = run.last if is_part else run.first
        settlement = Settlement(first, run.last, run.delivery, verdict, delay_ms, "")
        held = [o for o in range(first, run.last + 1) if self.holds(worker, o, run.delivery)]
        refused = self.delivery.settle(worker, settlement, self.now_ms)
        no = offsets_of((r.first, r.last) for r in refused)
        assert not set(no) & set(held), "an owner is not refused"
        if verdict is not Verdict.ACK and verdict is not Verdict.REJECT:
            assert set(no) | set(held) == set(range(first, run.last + 1)), "others are"
        for offset in held:
            self.note_settled(offset, worker, verdict)

    def holds(self, worker: str, offset: int, delivery: int) -> bool:
        """By the model; a deadline that has passed counts when the core has noticed it: it has after `tick`."""
        self.delivery.tick(self.now_ms)
        owner, deadline_ms = self.owners.get(offset, ("", -1))
        is_kept = offset >= self.log_begin and self.counts.get(offset) == delivery
        return owner == worker and deadline_ms > self.now_ms and is_kept

    def note_settled(self, offset: int, worker: str, verdict: Verdict) -> None:
        if verdict is Verdict.TOUCH:
            self.owners[offset] = (worker, self.now_ms + ACK_WAIT_MS)
            return
        del self.owners[offset]
        with_write = self.delivery.written_with
        if verdict is Verdict.ACK:
            self.told.append(Told(offset, with_write, 0))
            self.acknowledged.add(offset)
        elif verdict is Verdict.RELEASE:
            self.counts[offset] -= 1
        elif verdict is Verdict.NACK:
            self.told.append(Told(offset, with_write, self.counts[offset]))
        else:
            self.dead.add(offset)

    def acknowledge_again(self, which: int) -> None:
        """A copy of an acknowledgement that has come to this leader is no error."""
        if not self.told:
            return
        offset = self.told[which % len(self.told)].offset
        known = [(worker, run) for worker, run in self.given if run.first <= offset <= run.last]
        if any(told.offset == offset and not told.ended for told in self.told) and offset >= self.log_begin:
            results = [
                self.delivery.settle(w, Settlement(offset, offset, run.delivery), self.now_ms)
                for w, run in known
                if run.delivery == self.counts[offset]
            ]
            assert [] in results

    def leave(self, worker: str, released: bool) -> None:
        self.delivery.tick(self.now_ms)
        self.delivery.worker_left(worker, self.now_ms, released=released)
        assert self.delivery.in_flight_of(worker) == 0
        for offset, (owner, deadline_ms) in list(self.owners.items()):
            if owner == worker:
                del self.owners[offset]
                if deadline_ms > self.now_ms and offset >= self.log_begin:
                    self.counts[offset] -= released

    def claim(self, worker: str, which: int, min_idle_ms: int) -> None:
        offsets = sorted({run.first for _, run in self.given[-which:]}) if which % 2 else []
        claim = Claim(tuple(offsets), 0, min_idle_ms, 2)
        before = dict(self.owners)
        wanted = offsets_of(self.delivery.claimable(worker, claim, self.now_ms))
        claimed = self.delivery.claim(worker, claim, self.now_ms)
        assert wanted == [offset for run in claimed for offset in range(run.first, run.last + 1)]
        for run in claimed:
            assert not offsets or set(range(run.first, run.last + 1)) <= set(offsets)
            assert offsets or all(before[o][1] > self.now_ms for o in range(run.first, run.last + 1))
            for owner, deadline_ms in (before[o] for o in range(run.first, run.last + 1) if o in before):
                is_free = owner == worker or deadline_ms <= self.now_ms
                assert is_free or self.now_ms >= deadline_ms - ACK_WAIT_MS // 2, "its owner is sure of it"
            self.note_taken(worker, run, is_claim=True)

    # ------------------------------------------------------------ transactions

    def acknowledge_in_txn(self, which: int, outcome: str, back: int) -> None:
        if not self.given:
            return
        worker, run = self.given[-4:][which % len(self.given[-4:])]
        name = TxnName(7, max(1, self.next_txn_no - back))
        held = all(self.holds(worker, offset, run.delivery) for offset in range(run.first, run.last + 1))
        try:
            ranges = self.delivery.enter_transaction(
                worker, name, [Settlement(run.first, run.last, run.delivery)], self.now_ms
            )
        except NotOwnerError:
            assert not held
            return
        if not held:
            return  # a repetition
        for offset in range(run.first, run.last + 1):
            del self.owners[offset]
        is_open = name.txn_no == self.next_txn_no and self.coordinator.seeks == self.delivery.seeks
        if outcome == "refused" or not is_open:
            self.delivery.left_transaction(name, ranges, self.now_ms)
            self.owners |= dict.fromkeys(offsets_of(ranges), (worker, self.now_ms + ACK_WAIT_MS))
            return
        if outcome != "unknown, lost":
            self.coordinator.acknowledge(name, ranges)
        if outcome != "taken":
            self.unsent.setdefault(name, []).extend(ranges)

    def send_again(self) -> None:
        """What was unknown is sent once more. A refusal then tells nothing: the state of the coordinator does (`learn`)."""
        for name, ranges in self.unsent.items():
            if name.txn_no == self.next_txn_no and self.coordinator.seeks == self.delivery.seeks:
                self.coordinator.acknowledge(name, ranges)
        self.unsent.clear()

    def end_transaction(self, commits: bool) -> None:
        name = TxnName(7, self.next_txn_no)
        self.done |= set(self.coordinator.end(name, commits))
        self.next_txn_no += 1

    def learn(self) -> None:
        """The leader looks which transactions are pending no more."""
        for name, ranges in self.delivery.open_transactions():
            if name in self.unsent or name in self.coordinator.pending:
                continue
            settled = [(o, o) for o in offsets_of(ranges) if self.coordinator.is_settled(o)]
            self.delivery.ended_transaction(name, settled, self.now_ms)

    # ------------------------------------------------------------ writing and fail-over

    def send_write(self, arrives: bool, answered: bool) -> None:
        self.write = self.delivery.next_write(self.now_ms) or self.write
        if self.write is None:
            return
        assert self.delivery.next_write(self.now_ms) is None, "one at a time"
        if arrives:
            self.coordinator.write(self.write, self.now_ms)
        self.delivery.written(self.write.write_no - 1)  # a late answer to the write before
        if arrives and answered:
            self.delivery.written(self.write.write_no)
            self.write = None
            self.hear()

    def hear(self) -> None:
        """Workers get the answers that waited for the write."""
        for told in self.told:
            if told.write_no > self.delivery.confirmed_write_no or told.offset < self.start:
                continue
            if not told.ended:
                assert self.coordinator.is_settled(told.offset), "the answer was true"
                self.done.add(told.offset)
            elif not self.coordinator.is_settled(told.offset):
                assert self.coordinator.retried.get(told.offset, (0, 0))[0] >= told.ended, "the answer was true"
        self.told = [told for told in self.told if told.write_no > self.delivery.confirmed_write_no]

    def fail_over(self, arrived: bool) -> None:
        if arrived and self.write is not None:
            self.coordinator.write(self.write, self.now_ms)
        self.elect()

    def time(self, step_ms: int, ticks: bool) -> None:
        self.now_ms += step_ms
        if ticks:
            due_ms = self.delivery.next_deadline_ms()
            assert due_ms is not None or not [d for _, d in self.owners.values() if d > self.now_ms - step_ms]
            self.delivery.tick(self.now_ms)

    # ------------------------------------------------------------ dead letters, operators

    def bury(self, ok: bool) -> None:
        letters = self.delivery.to_bury()
        assert not letters or self.options.dead_letter_topic
        self.dead |= {dead.offset for dead in letters}
        for dead in letters:
            if ok:
                self.lettered.add(dead.offset)
                self.delivery.buried(dead.offset)
            else:
                self.delivery.bury_later(dead.offset, 40, self.now_ms, "no")

    def pause(self, paused: bool) -> None:
        self.paused = paused
        self.delivery.pause(paused)

    def seek(self, which: int) -> None:
        self.start = max(self.log_begin, len(self.log) - which)
        self.delivery.seek(self.start)
        self.done.clear()
        self.dead.clear()
        self.last_chances.clear()
        self.told.clear()
        self.given.clear()
        self.owners.clear()
        self.counts.clear()
        self.unsent.clear()
        self.send_write(arrives=True, answered=True)  # one that was under way
        self.send_write(arrives=True, answered=True)
        assert self.coordinator.start == self.start
        assert self.coordinator.seeks == self.delivery.seeks

    # ------------------------------------------------------------ always, and in the end

    def check(self) -> None:
        self.delivery.check()
        assert self.delivery.settled_before >= self.coordinator.settled_before or self.write is not None

    def drain(self) -> None:
        """Works until nothing is left."""
        self.pause(False)
        self.end_transaction(commits=False)
        self.unsent.clear()
        for _ in range(30 * len(self.log) + 100):
            if self.delivery.settled_before >= len(self.log):
                break
            self.supply(20, 0)
            self.learn()
            self.time(200, ticks=True)
            taken = self.delivery.take("ann", 100, self.now_ms)
            for run in taken:
                self.note_taken("ann", run, is_claim=False)
                for offset in range(run.first, run.last + 1):
                    assert self.delivery.settle("ann", Settlement(offset, offset, run.delivery), self.now_ms) == []
                    self.note_settled(offset, "ann", Verdict.ACK)
            self.bury(ok=True)
            self.send_write(arrives=True, answered=True)
        self.check_drained()

    def check_drained(self) -> None:
        self.send_write(arrives=True, answered=True)
        assert self.delivery.settled_before >= len(self.log), "something is never delivered"
        for offset in range(max(self.start, self.log_begin), len(self.log)):
            is_dead = offset in (self.lettered if self.options.dead_letter_topic else self.dead | self.last_chances)
            is_done = offset in self.done or (offset in self.acknowledged and self.coordinator.is_settled(offset))
            assert self.log[offset] is None or is_done or is_dead, f"{offset} is lost"


STEPS: dict[str, tuple[int, tuple[tuple[Any, ...], ...]]] = {
    "append": (4, (((1,), (1, 2, 1), (NO_KEY, NO_KEY), (None,), (1, None, 2, 2, NO_KEY)),)),
    "supply": (4, ((1, 4, 20), (0, 3))),
    "retention": (1, ((1, 2),)),
    "take": (6, (WORKERS, (1, 2, 5))),
    "settle": (8, (ANY, ("", "", "", *WORKERS), (*Verdict, Verdict.ACK, Verdict.ACK), (-1, 0, 20, 200), YES_OR_NO)),
    "acknowledge_again": (1, (ANY,)),
    "leave": (1, (WORKERS, YES_OR_NO)),
    "claim": (1, (WORKERS, ANY, (0, 500))),
    "acknowledge_in_txn": (4, (ANY, ("taken", "taken", "refused", "unknown, taken", "unknown, lost"), (0, 0, 1))),
    "send_again": (1, ()),
    "end_transaction": (1, (YES_OR_NO,)),
    "learn": (2, ()),
    "send_write": (4, ((True, True, False), (True, True, False))),
    "fail_over": (1, (YES_OR_NO,)),
    "time": (3, ((1, 10, 500, 999, 1_000, 10_000), YES_OR_NO)),
    "bury": (2, (YES_OR_NO,)),
    "pause": (1, ((True, False, False),)),
    "seek": (0, (ANY,)),
}
"""Step -> how often it is taken, and from what each of its arguments is chosen."""
OPTIONS: tuple[tuple[Any, ...], ...] = (YES_OR_NO, (0, 0, 2, 3), YES_OR_NO, (0, 30), (1, 5, 100), (0, 3))


def run(options: tuple[Any, ...], steps: list[tuple[Any, ...]]) -> None:
    """Takes the steps, looks after each whether all is well, and drains what is left."""
    world = World(*options)
    world.append((1, 2, NO_KEY, 1, None, 2, 1))
    for name, *arguments in steps:
        getattr(world, name)(*arguments)
        world.check()
    world.drain()


def _steps(with_seeks: bool) -> st.SearchStrategy[list[tuple[Any, ...]]]:
    kinds = [
        st.tuples(st.just(name), *(st.sampled_from(values) for values in choices))
        for name, (weight, choices) in STEPS.items()
        for _ in range(weight + (with_seeks and name == "seek"))
    ]
    return st.lists(st.one_of(kinds), min_size=20, max_size=60)


@settings(max_examples=200, deadline=None)
@given(st.tuples(*(st.sampled_from(values) for values in OPTIONS)), st.one_of(_steps(False), _steps(True)))
def test_a_channel_keeps_its_promises(options: tuple[Any, ...], steps: list[tuple[Any, ...]]) -> None:
    run(options, steps)


@pytest.mark.parametrize("seed", range(60))
def test_a_long_walk_keeps_them_too(seed: int) -> None:
    """Longer than what hypothesis likes to draw, and always the same."""
    rng = random.Random(seed)
    weights = [weight + (seed % 2 and name == "seek") for name, (weight, _) in STEPS.items()]
    names = rng.choices(list(STEPS), weights, k=400)
    run(
        tuple(rng.choice(values) for values in OPTIONS),
        [(name, *(rng.choice(values) for values in STEPS[name][1])) for name in names],
    )
