"""The memory of a coordinator for each thing that it keeps: `python -m bench.coordinator_memory [--count 100000]`.

Each kind is tried in a process of its own: records are encoded, decoded and applied as in a replay, with the bookkeeping by
which the owner keeps its log short. Reported are the resident bytes for each of `--count`, and its bytes in the log.
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

from oncelog.types import PartitionId
from oncelog_coordinator.core.decision import LogRecord
from oncelog_coordinator.core.group_shard.shard_table import GroupShardTable
from oncelog_coordinator.core.groups.group_records import GroupRecord, Identity, MemberRecord, Subscription
from oncelog_coordinator.core.groups.states import MemberState
from oncelog_coordinator.core.log_bound import LogBound, Written
from oncelog_coordinator.core.offsets.offset_records import CommittedOffset, EndedTransactions, OffsetValue
from oncelog_coordinator.core.transactions.orphan_records import OrphanRecord
from oncelog_coordinator.core.transactions.records import Expected, Session, Token, TransactionRecord
from oncelog_coordinator.core.transactions.transaction_table import TransactionTable

_NOW_MS: Final = 1_700_000_000_000
_TOPIC: Final = "a" * 32
_APPENDED_TOGETHER: Final = 50


def _used(number: int) -> Iterable[LogRecord]:
    sessions = tuple(Session(f"nonce-{number}-{epoch}-0123456789abcdef", epoch, 100 * epoch + 1) for epoch in range(3))
    expected = Expected((PartitionId(_TOPIC, number % 8),))
    yield TransactionRecord(
        f"billing-worker-{number}", number + 1, 2, 60_000, _NOW_MS, 300, outcomes="C" * 100, sessions=sessions,
        expected=expected,
    )  # fmt: skip


def _new(number: int) -> Iterable[LogRecord]:
    yield TransactionRecord(f"billing-worker-{number}", number + 1, 0, 60_000, _NOW_MS, 1, outcomes="C")


def _dead(number: int) -> Iterable[LogRecord]:
    token = Token("app", number, 1_000, expires=True)
    yield TransactionRecord(f"spark-job-{number}", number + 1, 0, 60_000, _NOW_MS, 1, dead=True, tokens=(token,))


def _orphan(number: int) -> Iterable[LogRecord]:
    yield OrphanRecord(number + 1, (3,), _NOW_MS)


def _offset(group: int, partition: int) -> CommittedOffset:
    return CommittedOffset(
        f"group-{group}", OffsetValue(_TOPIC, "orders", partition, 70), group + 1, committed_ms=_NOW_MS
    )


def _group(number: int) -> Iterable[LogRecord]:
    yield _offset(number, 0)


def _offsets(number: int) -> Iterable[LogRecord]:
    yield _offset(number // 100, number % 100)


def _ended(number: int) -> Iterable[LogRecord]:
    yield EndedTransactions("billing", number + 1, 3, number % 50, 7, _NOW_MS)


def _member(number: int) -> Iterable[LogRecord]:
    name, where = f"group-{number}", {PartitionId(_TOPIC, 0): 1}
    yield GroupRecord(name, 1, 1, "sticky", 1, {_TOPIC: 1})
    yield MemberRecord(
        name, f"member-{number}", 1, Identity(), Subscription(1, ("orders",)), MemberState.STABLE, 1, 1, 1, where,
        target=frozenset(where),
    )  # fmt: skip


KINDS: dict[str, tuple[Callable[[], Any], Callable[[int], Iterable[LogRecord]]]] = {
    "a transactional id with 100 outcomes": (TransactionTable, _used),
    "a transactional id, used once": (TransactionTable, _new),
    "a transactional id, expired": (TransactionTable, _dead),
    "an orphan": (TransactionTable, _orphan),
    "a group with one offset": (GroupShardTable, _group),
    "one more offset of a group": (GroupShardTable, _offsets),
    "an ended transaction of a producer": (GroupShardTable, _ended),
    "a group with one member": (GroupShardTable, _member),
}


def _resident() -> int:
    gc.collect()
    return int(re.findall(r"VmRSS:\s+(\d+) kB", Path("/proc/self/status").read_text())[0]) * 1024


def measure(kind: str, count: int) -> tuple[float, float]:
    """Returns the resident bytes and the bytes in the log for each of these."""
    make, records = KINDS[kind]
    table, bound, size, before = make(), LogBound(), 0, _resident()
    items: list[Written] = []
    for number in range(count):
        for made in records(number):
            value = made.encode()
            assert value is not None
            record = table.decode(made.key, value)
            table.apply(record)
            size += len(made.key) + len(value)
            items.append(Written(made.key, record, len(made.key) + len(value)))
        if len(items) >= _APPENDED_TOGETHER:
            bound.committed(bound.appended(items), bound.records)
            items = []
    table.loaded(_NOW_MS)
    return (_resident() - before) / count, size / count


def main() -> int:
    """Exit code 0: a benchmark informs, it does not gate."""
    parser = argparse.ArgumentParser(prog="python -m bench.coordinator_memory")
    parser.add_argument("--count", type=int, default=100_000)
    args = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    for kind in KINDS:
        with context.Pool(1) as pool:
            memory, log = pool.apply(measure, (kind, args.count))
        print(f"{kind:40} {memory:8.0f} bytes of memory, {log:6.0f} in the log", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
