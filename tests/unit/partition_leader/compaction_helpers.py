"""Keyed batches, and what a fresh reader sees of a log, for tests of compaction."""

from __future__ import annotations

from collections.abc import Sequence

from oncelog.core.batch.batch import decode_batch, encode_rows, iter_batches
from oncelog.core.batch.header import BatchHeader, BatchIdentity
from oncelog.core.batch.record import Record
from oncelog_partition_leader.core.compaction.rewriting import Tally
from oncelog_partition_leader.log.compaction.pass_job import Job, Limits, Stretch
from oncelog_partition_leader.log.log_config import LogConfig
from oncelog_partition_leader.log.partition_log import PartitionLog
from oncelog_runtime.sim.disk import SimDisk
from tests.unit.partition_leader.log_helpers import NOW_MS, SHARD, TAG, contents, open_log, write

Pair = tuple[bytes | None, bytes | None]
LIMITS = Limits(keys_max=1_000_000, key_bytes_max=64 << 20, bytes_per_s=0)
DAY_MS = 24 * 3_600_000
COMPACT = LogConfig(
    cleanup_policy="compact", segment_bytes=2_000, index_interval_bytes=300, min_cleanable_dirty_ratio=0.0
)

JOB = Job(
    directory="t-0",
    tag=2**63,
    stretches=(Stretch(0, 10, 500), Stretch(10, 2**40, 70)),
    cleaned_to=10,
    limits=Limits(5, 6, 7),
    now_ms=1_700_000_000_000,
    delete_retention_ms=0,
    index_interval_bytes=4096,
    snapshots_to=10,
    aborted_end=12,
    aborted=b'\n{"no": "json"}\n\x00\xff',
    held_everywhere=9,
)


def keyed(
    *pairs: Pair,
    producer: tuple[int, int, int] = (-1, -1, -1),
    txn: tuple[int, int] | None = None,
    codec: int = 0,
    timestamp_ms: int = NOW_MS,
    with_headers: bool = False,
) -> bytes:
    """A client's batch of (key, value); `producer` is (producer id, epoch, sequence), `txn` (txn_producer_id, txn_no)."""
    identity = BatchIdentity(TAG, *producer, *(txn or (-1, 0)), SHARD if txn else 0xFFFF)
    keys, values = [key for key, _ in pairs], [value for _, value in pairs]
    headers = [[("h", value)] for value in values] if with_headers else None
    return encode_rows(keys, values, identity, timestamps_ms=[timestamp_ms] * len(pairs), headers=headers, codec=codec)


def records_of(log: PartitionLog) -> list[Record]:
    """Every data record of a log, in order, as a read_uncommitted reader decodes it."""
    found: list[Record] = []
    for header, data in iter_batches(contents(log)):
        if not header.is_control:
            found += decode_batch(data, header)
    return found


def seen(log: PartitionLog) -> list[Record]:
    """What a read_committed reader gets."""
    aborted = log.aborted_between(0, 1 << 60)
    found: list[Record] = []
    for header, data in iter_batches(contents(log)):
        skipped = header.is_transactional and any(
            entry.skips(header.producer_id, header.txn_producer_id, header.txn_no) for entry in aborted
        )
        if not header.is_control and not skipped:
            found += decode_batch(data, header)
    return found


def table_of(records: Sequence[Record]) -> dict[bytes, bytes]:
    """The last value of each key; a tombstone removes it."""
    table: dict[bytes, bytes] = {}
    for record in records:
        if record.key is None:
            continue
        if record.value is None:
            table.pop(record.key, None)
        else:
            table[record.key] = record.value
    return table


def headers_of(log: PartitionLog) -> list[BatchHeader]:
    """The header of every batch, each of which begins where the last one ended."""
    headers = [header for header, _ in iter_batches(contents(log))]
    for one, two in zip(headers, headers[1:], strict=False):
        assert one.next_offset == two.base_offset, "a log has no gaps"
    return headers


async def filled(disk: SimDisk, rounds: int = 40, config: LogConfig = COMPACT) -> PartitionLog:
    """A log in which ten keys are written again and again."""
    log = await open_log(disk, config)
    for number in range(rounds):
        pairs = [(b"k%d" % (n % 10), b"v%d" % n) for n in range(number * 3, number * 3 + 3)]
        write(log, keyed(*pairs, producer=(7, 0, number * 3)))
    await log.sync()
    return log


async def compact(log: PartitionLog, now_ms: int = NOW_MS, high_watermark: int | None = None) -> Tally | None:
    """Runs a pass, if one is due, where every replica has the whole log."""
    await log.sync()
    end = log.log_end_offset
    return await log.compact(now_ms, end if high_watermark is None else high_watermark, LIMITS, held_everywhere=end)


def roll(log: PartitionLog) -> None:
    """Ends the active segment."""
    if log._segments[-1].index.size:
        log._roll()


async def rolled_and_compacted(log: PartitionLog, now_ms: int = NOW_MS) -> Tally | None:
    """Ends the active segment, and runs a pass."""
    roll(log)
    return await compact(log, now_ms)
