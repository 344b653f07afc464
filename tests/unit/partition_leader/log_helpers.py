"""Batches and logs for tests of the partition log."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from random import Random
from typing import Any, TypeVar

import pytest

from oncelog.core.batch.control import Marker, control_of, seal_fence, seal_marker
from oncelog.core.batch.header import TRANSACTIONAL, BatchHeader, partition_tag, read_header
from oncelog.errors import OncelogError
from oncelog_partition_leader.core.log.aborted_index import AbortedEntry
from oncelog_partition_leader.core.producers.decisions import BatchDecision, Origin
from oncelog_partition_leader.core.producers.producer_state import ProducerStates
from oncelog_partition_leader.core.producers.transactions import TxnSession
from oncelog_partition_leader.log.partition_log import Appended, LogConfig, PartitionLog
from oncelog_runtime.sim.disk import SimDisk
from oncelog_runtime.sim.faults import FaultPlan
from oncelog_runtime.sim.loop import SimLoop
from tests.sealing import sealed

T = TypeVar("T")
TOPIC_ID = "0123456789abcdef0123456789abcdef"
DIRECTORY = f"logs/orders-{TOPIC_ID}-3"
TAG = partition_tag(TOPIC_ID, 3)
NOW_MS = 1_700_000_000_000
SHARD = 7


def batch(
    producer_id: int = 1,
    sequence: int = 0,
    count: int = 1,
    *,
    epoch: int = 0,
    txn: tuple[int, int] | None = None,
    payload: bytes = b"payload!",
    timestamp_ms: int = NOW_MS,
    attributes: int = 0,
    tag: int = TAG,
    shard: int = SHARD,
    **changes: int,
) -> bytes:
    """A client's batch; `txn` is (txn_producer_id, txn_no)."""
    fields: dict[str, int] = {
        "codec": 0,
        "attributes": attributes | (TRANSACTIONAL if txn else 0),
        "schema_id": 0,
        "record_count": count,
        "producer_id": producer_id,
        "producer_epoch": epoch,
        "base_sequence": sequence,
        "txn_producer_id": txn[0] if txn else -1,
        "txn_no": txn[1] if txn else 0,
        "base_timestamp_ms": timestamp_ms,
        "max_timestamp_ms": timestamp_ms,
        "uncompressed_length": len(payload),
        "tag": tag,
        "txn_shard": shard if txn else 0xFFFF,
    }
    return sealed(payload, **{**fields, **changes})


def plain(payload: bytes = b"payload!", **options: Any) -> bytes:
    """A batch without a producer id."""
    return batch(-1, -1, epoch=-1, payload=payload, **options)


def marker(
    txn: tuple[int, int],
    *,
    commit: bool = True,
    coordinator_epoch: int = 1,
    session_epoch: int = 0,
    winners: tuple[int, ...] | None = None,
    expected: int = -1,
    lost: bool = False,
    shard: int = SHARD,
) -> bytes:
    """A marker's batch."""
    record = Marker(commit, coordinator_epoch, session_epoch, winners, expected, lost)
    return seal_marker(record, txn_producer_id=txn[0], txn_no=txn[1], txn_shard=shard, timestamp_ms=NOW_MS, tag=TAG)


def fence(producer_id: int, epoch: int) -> bytes:
    """A fence's batch."""
    return seal_fence(producer_id=producer_id, producer_epoch=epoch, timestamp_ms=NOW_MS, tag=TAG)


class States:
    """Producer states with a log end of their own, as a leader drives them."""

    def __init__(self, states: ProducerStates | None = None) -> None:
        self.states = states or ProducerStates()
        self.entries: list[AbortedEntry] = []
        self.log: list[tuple[BatchHeader, bytes]] = []

    def decide(self, data: bytes, *, verified: bool = True, origin: Origin = Origin.CLIENT) -> BatchDecision:
        header = read_header(data)
        session = TxnSession(header.txn_producer_id, header.txn_no, header.producer_epoch)
        return self.states.decide(header, origin, frozenset({session}) if verified else frozenset())

    def apply(self, data: bytes, *, now_ms: int = NOW_MS) -> int:
        offset = self.states.end_offset
        header = read_header(data)._replace(base_offset=offset, append_timestamp_ms=now_ms)
        self.log.append((header, data))
        entry = self.states.apply(header, offset, control_of(data) if header.is_control else None)
        if entry is not None:
            self.entries.append(entry)
        self.states.check()
        return offset

    def write(self, data: bytes, *, now_ms: int = NOW_MS) -> BatchDecision:
        """Decides, and applies what is to be appended."""
        from oncelog_partition_leader.core.producers.decisions import APPEND

        decision = self.decide(data)
        if decision is APPEND:
            self.apply(data, now_ms=now_ms)
        return decision


def refuses(log: States, data: bytes, error: type[OncelogError]) -> None:
    """Refused, and without a trace."""
    before = log.states.snapshot()
    with pytest.raises(error):
        log.decide(data)
    assert log.states.snapshot() == before


def write(log: PartitionLog, *batches: bytes, epoch: int = 1, now_ms: int = NOW_MS) -> list[Appended]:
    """Appends as leader without judging."""
    return log.append_as_leader([(read_header(data), data) for data in batches], epoch, now_ms)


def contents(log: PartitionLog, from_offset: int | None = None) -> bytes:
    """Every batch of the log."""
    offset, parts = log.log_start_offset if from_offset is None else from_offset, []
    while offset < log.log_end_offset:
        data = bytes(log.read(offset, 1 << 20, log.log_end_offset))
        parts.append(data)
        position = 0
        while position < len(data):
            header = read_header(data, position)
            offset, position = header.next_offset, position + header.batch_length
    return b"".join(parts)


def state_of(log: PartitionLog) -> tuple[object, ...]:
    """Everything that a refused call must leave as it was."""
    return (
        log.log_start_offset,
        log.log_end_offset,
        log.epochs.entries,
        log.aborted_between(0, 1 << 40),
        log.producers.snapshot(),
        contents(log),
    )


def write_scripted(log: PartitionLog) -> None:
    """Plain batches and transactions of two writers: committed by one of them, aborted, and one that stays open."""
    for n in range(4):
        write(log, batch(1, n), batch(11, 0, 2, txn=(5, n + 1)), batch(12, 0, txn=(5, n + 1)), epoch=n)
        write(log, plain(b"z" * 90), epoch=n)
        if n != 2:
            write(log, marker((5, n + 1), winners=(11,), commit=n != 1), epoch=n)


async def open_log(disk: SimDisk, config: LogConfig | None = None, directory: str = DIRECTORY) -> PartitionLog:
    """The log of these tests."""
    return await PartitionLog.open(disk, directory, config or LogConfig())


def run(test: Callable[[SimDisk], Coroutine[Any, Any, T]], seed: int = 0, plan: FaultPlan | None = None) -> T:
    """Runs a coroutine on a simulated loop with a simulated disk."""
    with SimLoop(seed) as loop:
        disk = SimDisk(loop, Random(seed), plan)
        return loop.run(test(disk))
