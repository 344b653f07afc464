"""Checks exactly-once: the answers that writers got and the records that a read_committed reader saw must fit together.

Every record names its run, its producer, the producer's transaction and its place there, and seals itself with a hash.

Rule 1: a reader may see the records of committed transactions, each once, in the writer's order, and nothing else.
Rule 2: a transaction whose outcome the writer never learnt is seen whole or not at all.
Rule 3: every anomaly has one of the names in `ANOMALIES`; the first of each pass is kept with what shows it.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from typing import Final, NamedTuple

ANOMALIES: Final[Mapping[str, str]] = {
    "corrupt": "a record's bytes are not those that were written",
    "duplicate": "a record was seen twice",
    "reordered": "a record was seen before one that was written earlier",
    "lost": "a record of a committed transaction is missing",
    "torn": "a part of a transaction is there, a part is not",
    "aborted-visible": "a record of an aborted transaction was seen",
    "open-visible": "a record of a transaction that was not ended was seen",
    "unrepeatable-read": "the same range, read again, had other records",
    "not-readable": "a reader gets nothing more, and is not at the last stable offset",
    "not-live": "a transaction stays open: the last stable offset does not reach the high watermark",
}
HASH_BYTES: Final = 16
_HEAD: Final = struct.Struct("<4sQIIII")
_MAGIC: Final = b"OLV1"
RECORD_BYTES_MIN: Final = _HEAD.size + HASH_BYTES


class Outcome(enum.Enum):
    """The outcome of a transaction, as the writer knows it."""

    OPEN = "open"
    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


class Anomaly(NamedTuple):
    """`name` is a key of `ANOMALIES`; `detail` shows where."""

    name: str
    detail: str


class Place(NamedTuple):
    """Where a record belongs: the `sequence`-th of its transaction in its partition, both from 0."""

    run: int
    producer: int
    transaction: int
    partition: int
    sequence: int


def seal_record(place: Place, size: int) -> bytes:
    """The value of a record, `size` bytes, at least `RECORD_BYTES_MIN`. Half of what fills it up compresses badly."""
    head = _HEAD.pack(_MAGIC, *place)
    fill = max(0, size - RECORD_BYTES_MIN)
    noise = blake2b(head, digest_size=32).digest()
    body = head + (noise + bytes(32)) * (fill // 64) + noise[: fill % 64].ljust(fill % 64, b"\0")
    return body + blake2b(body, digest_size=HASH_BYTES).digest()


def open_record(value: bytes | None) -> Place | None:
    """Where a record belongs; None when its bytes are not what was written."""
    if value is None or len(value) < RECORD_BYTES_MIN or value[:4] != _MAGIC:
        return None
    body = value[:-HASH_BYTES]
    if blake2b(body, digest_size=HASH_BYTES).digest() != value[-HASH_BYTES:]:
        return None
    _, run, producer, transaction, partition, sequence = _HEAD.unpack_from(body)
    return Place(run, producer, transaction, partition, sequence)


class Ledger:
    """The answers that the writers got. Keys are (producer, transaction)."""

    def __init__(self) -> None:
        self._ended: dict[tuple[int, int], tuple[Outcome, Mapping[int, int]]] = {}

    def began(self, producer: int, transaction: int) -> None:
        """A transaction whose records may come into the log."""
        self._ended[producer, transaction] = (Outcome.OPEN, {})

    def ended(self, producer: int, transaction: int, outcome: Outcome, counts: Mapping[int, int]) -> None:
        """Its outcome, and how many records went to each partition."""
        self._ended[producer, transaction] = (outcome, counts)

    def count(self, outcome: Outcome) -> int:
        """Transactions with this outcome."""
        return sum(found is outcome for found, _ in self._ended.values())

    def records(self) -> int:
        """Records of committed transactions."""
        return sum(sum(counts.values()) for found, counts in self._ended.values() if found is Outcome.COMMITTED)

    def judge(self, seen: Mapping[tuple[int, int], Mapping[int, int]]) -> Iterator[Anomaly]:
        """Returns the anomalies after a pass that saw so many records per transaction and partition."""
        for name, (outcome, counts) in self._ended.items():
            found = seen.get(name, {})
            has_all = all(found.get(partition, 0) >= count for partition, count in counts.items())
            where = (
                f"producer {name[0]}, transaction {name[1]} ({outcome.value}): wrote {dict(counts)}, seen {dict(found)}"
            )
            if outcome is Outcome.COMMITTED and not has_all:
                yield Anomaly("torn" if found else "lost", where)
            elif outcome is Outcome.ABORTED and found:
                yield Anomaly("aborted-visible", where)
            elif outcome is Outcome.UNKNOWN and found and not has_all:
                yield Anomaly("torn", where)
            elif outcome is Outcome.OPEN and found:
                yield Anomaly("open-visible", where)
        for name in seen:
            if name not in self._ended:
                yield Anomaly("open-visible", f"producer {name[0]}, transaction {name[1]} was never begun")


class Reading:
    """One pass over a topic, from the run's first offset on. `take` each record, then `finish`."""

    def __init__(self, run: int) -> None:
        self._run = run
        self._last: dict[tuple[int, int], tuple[int, int]] = {}
        self._seen: dict[tuple[int, int], dict[int, int]] = {}
        self._hashes: dict[int, bytes] = {}
        self.anomalies: list[Anomaly] = []
        self.records = 0

    def take(self, partition: int, offset: int, value: bytes | None) -> Place | None:
        """The next record of a partition; where it belongs, None when it is not of this run."""
        place = open_record(value)
        if place is None:
            self._found("corrupt", f"partition {partition}, offset {offset}")
            return None
        if place.run != self._run:
            return None
        self.records += 1
        chained = self._hashes.get(partition, b"") + offset.to_bytes(8, "little") + (value or b"")[-HASH_BYTES:]
        self._hashes[partition] = blake2b(chained, digest_size=HASH_BYTES).digest()
        if place.partition != partition:
            self._found("corrupt", f"a record of partition {place.partition} at offset {offset} of {partition}")
        self._note(place, offset)
        return place

    def _note(self, place: Place, offset: int) -> None:
        """A set of sequences is a whole number with a bit for each."""
        key, at = (place.producer, place.partition), (place.transaction, place.sequence)
        last = self._last.get(key, (-1, -1))
        self._last[key] = max(last, at)
        where = f"partition {place.partition}, offset {offset}: {at} of producer {place.producer} after {last}"
        found = self._seen.setdefault((place.producer, place.transaction), {})
        bits, bit = found.get(place.partition, 0), 1 << place.sequence
        found[place.partition] = bits | bit
        if bits & bit:
            self._found("duplicate", where)
        elif at < last:
            self._found("reordered", where)

    def _found(self, name: str, detail: str) -> None:
        if not any(known.name == name for known in self.anomalies):
            self.anomalies.append(Anomaly(name, detail))

    def finish(self, ledger: Ledger, earlier: Reading | None = None) -> list[Anomaly]:
        """All anomalies of the pass, the first of each name; `earlier` is a former pass over the same range."""
        counts = {name: {p: bits.bit_count() for p, bits in found.items()} for name, found in self._seen.items()}
        for anomaly in ledger.judge(counts):
            self._found(*anomaly)
        if earlier is not None and earlier._hashes != self._hashes:
            partitions = {**earlier._hashes, **self._hashes}
            differing = [p for p in sorted(partitions) if earlier._hashes.get(p) != self._hashes.get(p)]
            self._found("unrepeatable-read", f"partitions {differing}")
        return self.anomalies
