"""The history checker: which anomalies does a history show? Names are Jepsen's (kafka workload), plus `torn-transaction`.

`final` is a read of every key from the beginning by a fresh read_committed client after all faults were healed.
Rule: a checker that cannot fail is decoration; `test_checker.py` and the planted bugs show each check failing.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from tests.simulation.history import NEVER, History, Key, Operation, Status, Value

Final = dict[Key, list[tuple[int, Value]]]
DIRTY = ("peek", "look")
"""Kinds of reads that see what is not committed: following along, and from the beginning to the end as it is then."""
ATOMIC = ("txn", "batch")
"""Kinds that are all or nothing; a `batch` has many writers, so its writes have no order among themselves."""


@dataclass(frozen=True, slots=True)
class Anomaly:
    """One violation: its name and a sentence with the evidence."""

    name: str
    evidence: str

    def __str__(self) -> str:
        return f"{self.name}: {self.evidence}"


class _Tables:
    """Derived once per history: who wrote what, and what lies at which offset.

    Of several that tried to write a value, each after the one before had surely failed, `writer` is the last.
    """

    def __init__(self, history: History, final: Final) -> None:
        self.operations = history.operations
        self.final = final
        self.writer: dict[tuple[Key, Value], Operation] = {}
        self.at: dict[Key, dict[int, set[Value]]] = defaultdict(lambda: defaultdict(set))
        self.read_ok: dict[Key, set[Value]] = defaultdict(set)
        self.peeked: dict[Key, dict[int, set[Value]]] = defaultdict(lambda: defaultdict(set))
        """What read_uncommitted readers saw: it may be aborted and then written again, but it stays where it is."""
        for operation in history.operations:
            for write in operation.writes:
                self.writer[write] = operation
        for key, records in final.items():
            self._see(key, records)
        for operation in history.operations:
            for key, records in operation.reads.items():
                if operation.kind not in DIRTY:
                    self._see(key, records)
                else:
                    for offset, value in records:
                        self.peeked[key][offset].add(value)
        for operation in history.operations:
            if self.must_have_committed(operation):
                for (key, value), offset in operation.write_offsets.items():
                    self.at[key][offset].add(value)

    def _see(self, key: Key, records: list[tuple[int, Value]]) -> None:
        for offset, value in records:
            self.at[key][offset].add(value)
            self.read_ok[key].add(value)

    def must_have_committed(self, operation: Operation) -> bool:
        """OK, or INFO with one visible value (one visible value proves a whole transaction)."""
        if operation.status is Status.OK:
            return True
        return operation.status is Status.INFO and any(v in self.read_ok[k] for k, v in operation.writes)


def check(history: History, final: Final) -> list[Anomaly]:
    """All anomalies of a history, in the order of the checks."""
    tables = _Tables(history, final)
    found: list[Anomaly] = []
    for step in (
        _inconsistent_offsets,
        _duplicates,
        _aborted_reads,
        _unattempted,
        _lost_writes,
        _torn_transactions,
        _poll_order,
        _order_within_reads,
        _uncommitted_order,
        _unseen,
        _send_order,
        _circular_information,
        _own_writes_read,
        _stale_snapshots,
        _fenced_sessions_act,
        _producer_ids_given_twice,
    ):
        found.extend(step(tables))
    return found


def _inconsistent_offsets(tables: _Tables) -> Iterator[Anomaly]:
    """A read_uncommitted reader counts here too: below the high watermark nothing ever changes."""
    for key in sorted(set(tables.at) | set(tables.peeked)):
        for offset in sorted(set(tables.at[key]) | set(tables.peeked[key])):
            values = tables.at[key].get(offset, set()) | tables.peeked[key].get(offset, set())
            if len(values) > 1:
                yield Anomaly("inconsistent-offsets", f"{key} offset {offset} held {sorted(values)}")


def _duplicates(tables: _Tables) -> Iterator[Anomaly]:
    for key, offsets in sorted(tables.at.items()):
        places: dict[Value, list[int]] = defaultdict(list)
        for offset, values in sorted(offsets.items()):
            for value in values:
                places[value].append(offset)
        for value, where in sorted(places.items()):
            if len(where) > 1:
                yield Anomaly("duplicate", f"{key} value {value} at offsets {where}")


def _aborted_reads(tables: _Tables) -> Iterator[Anomaly]:
    for key, values in sorted(tables.read_ok.items()):
        for value in sorted(values):
            writer = tables.writer.get((key, value))
            if writer is not None and writer.status is Status.FAIL:
                yield Anomaly("G1a-aborted-read", f"{key} value {value} was read; its writer {writer} failed")


def _unattempted(tables: _Tables) -> Iterator[Anomaly]:
    for key, values in sorted(tables.read_ok.items()):
        for value in sorted(values):
            if (key, value) not in tables.writer:
                yield Anomaly("unexpected-read", f"{key} value {value} was read but never written there")


def _lost_writes(tables: _Tables) -> Iterator[Anomaly]:
    in_final = {(key, value) for key, records in tables.final.items() for _, value in records}
    for operation in tables.operations:
        if not tables.must_have_committed(operation):
            continue
        for key, value in operation.writes:
            if (key, value) not in in_final:
                yield Anomaly("lost-write", f"{key} value {value} of {operation} is not in the final read")


def _torn_transactions(tables: _Tables) -> Iterator[Anomaly]:
    in_final = {(key, value) for key, records in tables.final.items() for _, value in records}
    for operation in tables.operations:
        if operation.kind in ATOMIC and operation.writes:
            seen = [write in in_final for write in operation.writes]
            if any(seen) and not all(seen):
                missing = [w for w, s in zip(operation.writes, seen, strict=True) if not s]
                yield Anomaly("torn-transaction", f"{operation} is visible in part; missing {missing}")


def _order(tables: _Tables) -> dict[Key, dict[Value, int]]:
    """Dense positions of values: holes in offsets (markers, aborted data) are legal."""
    order: dict[Key, dict[Value, int]] = {}
    for key, offsets in tables.at.items():
        visible = [min(offsets[o] & tables.read_ok[key]) for o in sorted(offsets) if offsets[o] & tables.read_ok[key]]
        order[key] = {value: index for index, value in enumerate(visible)}
    return order


def _poll_order(tables: _Tables) -> Iterator[Anomaly]:
    """Readers follow one assignment from its beginning: each value follows its predecessor, over all polls."""
    order = _order(tables)
    last: dict[tuple[str, Key], int] = {}
    for operation in tables.operations:
        if operation.kind != "poll" or operation.status is not Status.OK:
            continue
        for key, records in operation.reads.items():
            for offset, value in records:
                index = order[key].get(value, -1)
                before = last.get((operation.process, key), -1)
                if index > before + 1:
                    yield Anomaly("poll-skip", f"{operation} skipped {index - before - 1} of {key} before {offset}")
                elif index <= before:
                    yield Anomaly("nonmonotonic-poll", f"{operation} went back to {key} offset {offset}")
                last[(operation.process, key)] = max(index, before)


def _order_within_reads(tables: _Tables) -> Iterator[Anomaly]:
    """Within one read neighbours follow each other, whoever read: a member of a group, too, whose assignments change."""
    order = _order(tables)
    for operation in tables.operations:
        if operation.kind in DIRTY or operation.status is not Status.OK:
            continue
        for key, records in operation.reads.items():
            places = [order.get(key, {}).get(value) for _, value in records]
            for before, after, (offset, _) in zip(places, places[1:], records[1:], strict=False):
                if before is None or after is None or after == before + 1:
                    continue
                name = "int-poll-skip" if after > before else "int-nonmonotonic-poll"
                yield Anomaly(
                    name, f"{operation} read {key} offset {offset} {after - before} places after the one before"
                )


def _uncommitted_order(tables: _Tables) -> Iterator[Anomaly]:
    """Who follows with read_uncommitted sees every record of the log: two readers agree about the successor of an offset."""
    known = {
        key: sorted(set(tables.at.get(key, ())) | set(tables.peeked.get(key, ())))
        for key in set(tables.at) | set(tables.peeked)
    }
    last: dict[tuple[str, Key], int] = {}
    for operation in tables.operations:
        if operation.kind != "peek" or operation.status is not Status.OK:
            continue
        for key, records in operation.reads.items():
            for offset, _ in records:
                before = last.get((operation.process, key), -1)
                following = known[key][bisect_right(known[key], before)] if before < offset else before
                if offset <= before:
                    yield Anomaly("nonmonotonic-peek", f"{operation} went back to {key} offset {offset} after {before}")
                elif following != offset:
                    yield Anomaly(
                        "peek-skip", f"{operation} read {key} offset {offset} after {before}; {following} is between"
                    )
                last[operation.process, key] = max(before, offset)


def _unseen(tables: _Tables) -> Iterator[Anomaly]:
    """A reader that says `drained` has seen everything that is there below the ends that it names."""
    seen: dict[tuple[str, Key], set[Value]] = defaultdict(set)
    for operation in tables.operations:
        if operation.kind in ("poll", "peek"):
            for key, records in operation.reads.items():
                seen[operation.process, key].update(value for _, value in records)
        for key, end in operation.read_ends.items() if operation.kind == "drained" else ():
            missed = [v for o, v in tables.final.get(key, ()) if o < end and v not in seen[operation.process, key]]
            if missed:
                yield Anomaly("unseen", f"{operation} never saw {len(missed)} values of {key}, for example {missed[0]}")


def _send_order(tables: _Tables) -> Iterator[Anomaly]:
    """Within a transaction, and from one operation of a process to a later one, sends to a key keep their order.

    Plain sends that overlap have none, nor has one of unknown outcome: its last copy may still arrive.
    """
    order = _order(tables)
    last: dict[tuple[str, Key], tuple[int, Value, Operation]] = {}
    for operation in tables.operations:
        if operation.kind not in ("send", "txn") or operation.status is Status.FAIL:
            continue
        for key, value in operation.writes:
            index = order.get(key, {}).get(value)
            if index is None:
                continue
            before = last.get((operation.process, key))
            if before is not None and index < before[0] and _is_before(before[2], operation):
                yield Anomaly("nonmonotonic-send", f"{operation} {key} value {value} lies before {before[1]}")
            last[(operation.process, key)] = (index, value, operation)


def _is_before(one: Operation, other: Operation) -> bool:
    if one is other or one.kind == "txn":  # a process runs its transactions one after the other, and each is fenced
        return True
    return one.status is Status.OK and one.ended < other.began


def _circular_information(tables: _Tables) -> Iterator[Anomaly]:
    """G1c without write-write edges: writer -> reader edges among transactions must not form a cycle."""
    edges: dict[int, set[int]] = defaultdict(set)
    for operation in tables.operations:
        if operation.kind in DIRTY or operation.status is Status.FAIL:
            continue
        for key, records in operation.reads.items():
            for _, value in records:
                writer = tables.writer.get((key, value))
                if writer is not None and writer.index != operation.index:
                    edges[writer.index].add(operation.index)
    done: set[int] = set()
    for start in sorted(edges):
        cycle = _cycle_from(start, edges, done)
        if cycle:
            yield Anomaly("G1c-circular-information", f"operations {cycle} read each other's writes")


def _cycle_from(start: int, edges: dict[int, set[int]], done: set[int]) -> list[int]:
    path: list[int] = []
    on_path: set[int] = set()
    stack: list[tuple[int, Iterator[int]]] = []

    def enter(node: int) -> None:
        path.append(node)
        on_path.add(node)
        stack.append((node, iter(sorted(edges.get(node, ())))))

    if start not in done:
        enter(start)
    while stack:
        node, following = stack[-1]
        step = next((n for n in following if n not in done), None)
        if step is None:
            stack.pop()
            path.pop()
            on_path.discard(node)
            done.add(node)
        elif step in on_path:
            return path[path.index(step) :]
        else:
            enter(step)
    return []


def _own_writes_read(tables: _Tables) -> Iterator[Anomaly]:
    """What a transaction reads is committed, and it is not itself."""
    for operation in tables.operations:
        if operation.kind == "txn":
            for key, records in operation.reads.items():
                for offset, value in records:
                    if (key, value) in operation.writes:
                        yield Anomaly("dirty-read", f"{operation} read its own {key} offset {offset} before its commit")


# ------------------------------------------------------------ real time


def _stale_snapshots(tables: _Tables) -> Iterator[Anomaly]:
    """A snapshot shows everything that was answered before it began, and below its end everything that is committed."""
    by_key: dict[Key, list[tuple[Value, Operation]]] = defaultdict(list)
    for operation in tables.operations:
        for key, value in operation.writes:
            by_key[key].append((value, operation))
    for snapshot in tables.operations:
        for key, end in snapshot.read_ends.items() if snapshot.kind != "drained" else ():
            seen = {value for _, value in snapshot.reads.get(key, [])}
            not_seen = [(value, writer) for value, writer in by_key[key] if value not in seen]
            open_ones = _open_offsets(snapshot, key, by_key[key]) if not_seen else {}
            for value, writer in not_seen:
                if _is_missing(tables, snapshot, key, end, value, writer, open_ones):
                    yield Anomaly("stale-read", f"{snapshot} of {key} to {end} misses value {value} of {writer}")


def _is_missing(
    tables: _Tables,
    snapshot: Operation,
    key: Key,
    end: int,
    value: Value,
    writer: Operation,
    open_ones: dict[int, int],
) -> bool:
    """Whether a value that a snapshot has not seen had to be there. `open_ones`: see `_open_offsets`."""
    if writer.status is not Status.OK or writer.ended > snapshot.began:
        return False
    offset = writer.write_offsets.get((key, value), NEVER)
    if offset < end or snapshot.kind in DIRTY:
        return True  # below its end nothing is undecided, and its end is above everything that was acknowledged
    if writer.kind != "send" and not writer.is_visible:
        return False
    return not any(first < offset for other, first in open_ones.items() if other != id(writer))


def _open_offsets(snapshot: Operation, key: Key, writes: list[tuple[Value, Operation]]) -> dict[int, int]:
    """The first offset of each transaction (by `id`) that may be open while the snapshot looks; -1 = not known."""
    found: dict[int, int] = {}
    for value, other in writes:
        if _may_be_open(other, snapshot):
            offset = other.write_offsets.get((key, value), -1)
            found[id(other)] = min(found.get(id(other), offset), offset)
    return found


def _may_be_open(other: Operation, snapshot: Operation) -> bool:
    """A transaction without its markers while a read_committed snapshot looks for the end."""
    if other.kind not in ATOMIC or other.began > snapshot.ended:
        return False
    return not (other.is_visible and other.ended < snapshot.began)


def _fenced_sessions_act(tables: _Tables) -> Iterator[Anomaly]:
    """Nothing of an older session is committed after a newer one of the same transactional id has begun."""
    begun = [o for o in tables.operations if o.kind == "init" and o.status is Status.OK and o.session is not None]
    for operation in tables.operations:
        if operation.kind != "txn" or operation.session is None or not operation.writes:
            continue
        if operation.status is not Status.OK:
            continue
        own = next((init for init in begun if init.session == operation.session), None)
        for init in begun:
            if init.ended < operation.asked and _is_newer(init, operation, own):
                yield Anomaly("fenced-session-acted", f"{operation} was committed after {init} of {init.session}")


def _producer_ids_given_twice(tables: _Tables) -> Iterator[Anomaly]:
    """A producer id belongs to one transactional id, and each beginning of a session has an epoch of its own."""
    owners: dict[int, Operation] = {}
    sessions: dict[tuple[str, int, int], Operation] = {}
    for init in tables.operations:
        if init.kind != "init" or init.status is not Status.OK or init.session is None:
            continue
        owner = owners.setdefault(init.session[1], init)
        if owner.session is not None and owner.session[0] != init.session[0]:
            yield Anomaly("id-given-twice", f"producer id {init.session[1]} was given to {owner} and to {init}")
        elif (first := sessions.setdefault(init.session, init)) is not init:
            yield Anomaly("session-given-twice", f"{init.session} was given to {first} and to {init}")


def _is_newer(init: Operation, operation: Operation, own: Operation | None) -> bool:
    """Whether this is a session after the one of the operation, which `own` has begun."""
    assert init.session is not None
    assert operation.session is not None
    id_, producer_id, epoch = init.session
    if id_ != operation.session[0]:
        return False
    if producer_id == operation.session[1]:
        return epoch > operation.session[2]
    return own is not None and init.began > own.ended  # the id was removed between the two
