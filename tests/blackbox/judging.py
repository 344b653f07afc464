"""What is asked of a healed cluster, and what is made of a round: anomalies, waits, pauses.

Rule 1: the final read is done by fresh clients from each replica: each member of the ISR leads in turn.
Rule 2: a round in which some kind of operation never succeeded is no pass.
Rule 3: replicas are compared as files: the same batches, byte for byte, from the later log start to the earlier end.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from oncelog import errors
from oncelog.core.batch.header import HEADER_BYTES, PREFIX_BYTES, read_header
from oncelog.sync import Client
from tests.blackbox.channel_judging import anomalies_of_channels
from tests.blackbox.round_topics import RoundTopics
from tests.simulation.checker import check
from tests.simulation.copier import differences
from tests.simulation.history import History, Key, Operation, Records, Status
from tests.simulation.later_load import without_cancelled

SETTLE_S: Final = 30.0
_READ_S: Final = 90.0
_TRANSFER_S: Final = 20.0
_MUST_SUCCEED: Final = ("send", "txn", "poll", "ack", "txn-ack", "later")
_SENDING: Final = ("send", "txn")
_WATCHED: Final = (*_SENDING, "ack")
"""Kinds whose pauses are told."""
_FOLLOWING: Final = ("poll", "peek")
NO_PROOF: Final = frozenset(
    ("client-hangs", "client-died", "no-success", "not-healthy", "not-live", "not-led", "not-readable")
)
"""Anomalies that a machine shows which is too slow; they say nothing about a bug that was planted."""
_NEED_FINAL: Final = frozenset({"lost-write", "torn-transaction"})
_OWN: Final = "__"
"""How the names of the cluster's own topics begin."""


@dataclass(slots=True)
class Round:
    """What a round showed."""

    number: int
    operations: Counter[str] = field(default_factory=Counter)
    succeeded: int = 0
    """Operations that succeeded while the load and its faults were on; a poll that returned nothing does not count."""
    faults: Counter[str] = field(default_factory=Counter)
    seen: Counter[str] = field(default_factory=Counter)
    """Of the faults those that the machine shows: packets that were dropped, a process that stood still (`evidence.py`)."""
    unseen: Counter[str] = field(default_factory=Counter)
    not_now: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    anomalies: list[str] = field(default_factory=list)
    seconds: float = 0.0
    stall_s: float = 0.0
    """The longest time in which the machine gave the harness itself no processor: pauses of that length are the machine's."""
    healthy_s: float = 0.0
    waited_for: str = ""
    """What was the last to be in order again."""
    settled_s: float = 0.0
    lag_s: float = 0.0
    """The longest time from the acknowledgement of a send to the first poll that returned it."""
    late_s: float = 0.0
    """The longest time from when a delayed record was due to when a worker had it."""
    pauses_s: dict[str, float] = field(default_factory=dict)
    """By kind of operation: the longest time in which none succeeded."""
    pause_after: dict[str, float] = field(default_factory=dict)
    """By kind of fault: the longest pause of sends that it was under way in, or had ended just before."""


# ---------------------------------------------------------------- after healing


def settled(servers: str, topics: Iterable[str]) -> dict[Key, int]:
    """The partitions' ends, once nothing is open on them. Raises `TimeoutError` with what is open."""
    names = list(topics)
    deadline = time.monotonic() + SETTLE_S
    while True:
        try:
            with Client(servers, default_api_timeout_ms=5_000) as client:
                offsets = {topic: client.admin.partition_offsets(topic) for topic in names}
        except errors.OncelogError as error:
            problem = str(error)
        else:
            problem = "; ".join(unsettled(offsets))
            if not problem:
                return {(t, p): o.high_watermark for t, by in offsets.items() for p, o in by.items()}
        if time.monotonic() > deadline:
            raise TimeoutError(f"not-live: after {SETTLE_S:.0f} s {problem}")
        time.sleep(0.2)


def unsettled(offsets: Mapping[str, Mapping[int, Any]]) -> Iterator[str]:
    """A sentence for each partition on which a transaction is open."""
    for topic, by_partition in offsets.items():
        for partition, ends in by_partition.items():
            if ends.last_stable_offset != ends.high_watermark:
                yield f"{topic}-{partition}: LSO {ends.last_stable_offset}, high watermark {ends.high_watermark}"


def read_from_each(servers: str, ends: Mapping[Key, int], brokers: Iterable[int]) -> dict[int, dict[Key, Records]]:
    """What a fresh read_committed client reads of every partition while this broker leads it: by broker."""
    found: dict[int, dict[Key, Records]] = {}
    for broker in brokers:
        with Client(servers, default_api_timeout_ms=10_000) as client:
            led = {key: ends[key] for key in ends if _leads(client, key, broker)}
            with client.consumer(auto_offset_reset="earliest", max_poll_records=5_000) as consumer:
                consumer.assign(list(led))
                found[broker] = _read_to(consumer, led)
    return found


def _read_to(consumer: Any, ends: Mapping[Key, int]) -> dict[Key, Records]:
    """All below the ends. Raises `TimeoutError`."""
    found: dict[Key, Records] = {key: [] for key in ends}
    deadline = time.monotonic() + _READ_S
    while any(consumer.position(key) < end for key, end in ends.items()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"not-readable: the final read is not at the end after {_READ_S:.0f} s")
        for record in consumer.getmany(timeout_ms=500):
            found[record.topic, record.partition].append((record.offset, int(record.value)))
    return found


def _leads(client: Client, key: Key, broker: int) -> bool:
    """Makes a broker the leader of a partition. False: it has no replica of it. Raises `TimeoutError`."""
    deadline, problem = time.monotonic() + _TRANSFER_S, ""
    while time.monotonic() < deadline:
        (described,) = [p for p in client.admin.describe_topic(key[0]).partitions if p.partition == key[1]]
        if described.leader == broker:
            return True
        if broker not in described.replicas:
            return False
        try:
            client.admin.transfer_leadership(*key, broker)
        except errors.OncelogError as error:
            problem = str(error)
            time.sleep(0.2)
        time.sleep(0.02)
    raise TimeoutError(f"not-led: broker {broker} does not lead {key} after {_TRANSFER_S:.0f} s: {problem}")


def replicas_that_differ(reads: Mapping[int, dict[Key, Records]]) -> Iterator[str]:
    """A sentence for each partition of which two replicas show different records."""
    merged: dict[Key, dict[int, Records]] = defaultdict(dict)
    for broker, found in reads.items():
        for key, records in found.items():
            merged[key][broker] = records
    for key, by_broker in sorted(merged.items()):
        (first, one), *others = by_broker.items()
        for broker, other in others:
            if one != other:
                only = sorted(set(one) ^ set(other))[:3]
                yield f"lost-on-node: {key} has {len(one)} records on broker {first}, {len(other)} on {broker}: {only}"


# ---------------------------------------------------------------- files


def batches_of(folder: Path) -> dict[int, bytes]:
    """The batches of a partition's log by base offset, as they lie in its files."""
    found: dict[int, bytes] = {}
    for path in sorted(folder.glob("*.log")):
        data, position, offset = path.read_bytes(), 0, int(path.stem)
        while position + HEADER_BYTES <= len(data):
            try:
                header = read_header(data, position)
            except errors.OncelogError:
                found[offset] = data[position:]  # rot: the other replicas have a batch here
                break
            if header.batch_length < HEADER_BYTES:
                break
            found[header.base_offset] = data[position : position + header.batch_length]
            position += header.batch_length
            offset = header.next_offset
    return found


def files_that_differ(logs: Iterable[Path], prefixes: tuple[str, ...], replicas: int = 1) -> Iterator[str]:
    """A sentence for each partition whose replicas are not the same bytes, or fewer than `replicas`.

    `logs`: each broker's folder of partitions. The cluster's own topics are never at rest, and each replica deletes by itself
    what is not needed any more: of these, all between the later beginning and the earlier end is compared, without the last
    batch.
    """
    folders: dict[str, list[Path]] = defaultdict(list)
    for place in logs:
        for folder in sorted(place.iterdir()) if place.exists() else ():
            if folder.name.startswith((*prefixes, _OWN)):
                folders[folder.name].append(folder)
    for name, places in sorted(folders.items()):
        compare = _own_difference if name.startswith(_OWN) else _difference
        if len(places) < replicas:
            yield f"replica-missing: {name} lies in {len(places)} folders: {[str(place.parent) for place in places]}"
        (one, *others) = places
        mine = batches_of(one)
        for other in others:
            if text := compare(mine, batches_of(other)):
                yield f"replica-differs: {name} in {one.parent} and {other.parent}: {text}"


def _difference(one: dict[int, bytes], other: dict[int, bytes]) -> str:
    if not one or not other:
        return "" if one == other else f"{len(one)} and {len(other)} batches"
    begin, end = max(min(one), min(other)), min(max(one), max(other))
    for offset in sorted(o for o in {*one, *other} if begin <= o <= end):
        if one.get(offset) != other.get(offset):
            sizes = [len(found.get(offset, b"")) for found in (one, other)]
            return f"at offset {offset}: {sizes[0]} and {sizes[1]} bytes"
    return "" if max(one) == max(other) else f"the last batches begin at {max(one)} and {max(other)}"


def _own_difference(one: dict[int, bytes], other: dict[int, bytes]) -> str:
    if not one or not other:
        return ""
    begin, end = max(min(one), min(other)), min(max(one), max(other))
    for offset in sorted(o for o in {*one, *other} if begin <= o < end):
        mine, theirs = one.get(offset, b""), other.get(offset, b"")
        if mine[PREFIX_BYTES:] != theirs[PREFIX_BYTES:]:
            return f"at offset {offset}: {len(mine)} and {len(theirs)} bytes"
    return ""


# ---------------------------------------------------------------- the history


def anomalies(history: History, final: Mapping[Key, Records], topics: RoundTopics) -> list[str]:
    """Everything that the checkers find, and a copy that is not its source."""
    own = {topics.later, *(topic.name for topic in topics.written)}
    judged = {key: records for key, records in final.items() if key[0] in own}
    found = [str(anomaly) for anomaly in check(without_cancelled(history), judged)]
    found += [f"copy-differs: {text}" for text in differences(dict(final), dict(final), (topics.work, topics.copy))]
    found += anomalies_of_channels(history, final, topics)
    did = {operation.kind for operation in history.operations if operation.status is Status.OK}
    found += [f"no-success: no {kind} succeeded" for kind in _MUST_SUCCEED if kind not in did]
    return found


def anomalies_of_reads(history: History, topics: RoundTopics) -> list[str]:
    """What a round shows whose final read was never done: all but what needs it to be known."""
    found = [str(anomaly) for anomaly in check(without_cancelled(history), {}) if anomaly.name not in _NEED_FINAL]
    return found + anomalies_of_channels(history, {}, topics)


def proofs(anomalies: Iterable[str]) -> list[str]:
    """Those that no slow machine explains."""
    return [text for text in anomalies if text.partition(":")[0] not in NO_PROOF]


def succeeded(history: History, begin_ms: int, end_ms: int) -> int:
    """How many operations succeeded in this time, but for polls that returned nothing."""
    return sum(
        operation.status is Status.OK
        and begin_ms <= operation.completed_ms <= end_ms
        and (operation.kind not in _FOLLOWING or bool(operation.reads))
        for operation in history.operations
    )


def counted(history: History) -> Counter[str]:
    """Operations by kind and end."""
    return Counter(f"{operation.kind} {operation.status.value}" for operation in history.operations)


def pauses(history: History, begin_ms: int, end_ms: int) -> dict[str, float]:
    """By kind: the longest time between two successes, in seconds, beginning and end of the load included."""
    return {
        kind: max((b - a for a, b in _gaps(history, (kind,), begin_ms, end_ms)), default=0) / 1000 for kind in _WATCHED
    }


def pauses_by_fault(
    history: History, begin_ms: int, end_ms: int, faults: Iterable[tuple[str, int, int]]
) -> dict[str, float]:
    """By kind of fault: the longest time without a successful send or transaction that overlaps one of its times."""
    gaps = list(_gaps(history, _SENDING, begin_ms, end_ms))
    found: dict[str, float] = {}
    for kind, began_ms, healed_ms in faults:
        overlapping = [b - a for a, b in gaps if a <= healed_ms and b >= began_ms]
        found[kind] = max(found.get(kind, 0.0), max(overlapping, default=0) / 1000)
    return found


def _gaps(history: History, kinds: tuple[str, ...], begin_ms: int, end_ms: int) -> list[tuple[int, int]]:
    moments = sorted(o.completed_ms for o in _succeeded(history, kinds) if begin_ms <= o.completed_ms <= end_ms)
    marks = [begin_ms, *moments, end_ms]
    return list(zip(marks, marks[1:], strict=False))


def _succeeded(history: History, kinds: tuple[str, ...]) -> Iterator[Operation]:
    return (o for o in history.operations if o.kind in kinds and o.status is Status.OK)


def worst_lag_s(history: History) -> float:
    """How long after a send was acknowledged a following reader first saw it, at the worst."""
    acknowledged: dict[Any, int] = {}
    for operation in _succeeded(history, ("send",)):
        for write in operation.writes:
            acknowledged[write] = operation.completed_ms
    first: dict[Any, int] = {}
    for operation in _succeeded(history, ("poll",)):
        for key, records in operation.reads.items():
            for _, value in records:
                first.setdefault((key, value), operation.completed_ms)
    return max((seen - acknowledged[write] for write, seen in first.items() if write in acknowledged), default=0) / 1000
