"""Describes a partition's folder, batch by batch: its content, damaged places, and the outcome of opening it.

Rule 1: it only reads, locks nothing, and may look at the folder of a running broker; a batch that is just being written may
        then look like a torn tail.
Rule 2: nothing is taken for granted: each batch says whether its checksums hold, and a damaged one does not hide those
        behind it, as long as its length can be trusted.
Rule 3: the outcome of recovery is found out by running recovery itself, over a disk that keeps every change in memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from oncelog.core.batch.batch import decode_batch
from oncelog.core.batch.control import Fence, control_of
from oncelog.core.batch.header import CODECS, HEADER_BYTES, BatchHeader, check_body, partition_tag, read_header
from oncelog.errors import OncelogError, StorageError
from oncelog_partition_leader.core.log.aborted_index import load_entries
from oncelog_partition_leader.core.log.leader_epochs import LeaderEpochs
from oncelog_partition_leader.core.log.segment import SegmentIndex
from oncelog_partition_leader.core.producers.producer_state import ProducerStates
from oncelog_partition_leader.log.checkpoints import (
    CLEAN_SHUTDOWN,
    IDENTITY,
    LEADER_EPOCHS,
    Identity,
    RecoveryPoint,
    numbered,
    read_clean,
    snapshot_offsets,
    snapshot_path,
)
from oncelog_partition_leader.log.log_config import LogConfig
from oncelog_partition_leader.log.recovery.recovery import recover
from oncelog_partition_leader.log.segment_file import INDEX_SUFFIX, LOG_SUFFIX, OFFSET_DIGITS, TXN_INDEX_SUFFIX
from oncelog_runtime.adapters.files.overlay_disk import OverlayDisk

T = TypeVar("T")
_CODEC_NAMES: Final = {number: name for name, number in CODECS.items()}
_OFFSET_MAX: Final = 1 << 63
_NEVER_MS: Final = 1 << 62


class Finding(NamedTuple):
    """`kind`: log, segment, batch, record, damage or recovery; `fields` are printed."""

    kind: str
    fields: dict[str, Any]


def partitions_in(path: Path) -> list[tuple[Path, int | None]]:
    """Finds the partition folders that a path means, and the base offset of the one segment when it names a file.

    A path is a partition's folder, a file in it, or a folder of such folders. Raises `StorageError`.
    """
    path = path.resolve()
    if path.is_file() and _is_partition(path.parent):
        stem = path.name.partition(".")[0]
        is_segment = path.suffix == LOG_SUFFIX and len(stem) == OFFSET_DIGITS and stem.isdigit()
        return [(path.parent, int(stem) if is_segment else None)]
    if _is_partition(path):
        return [(path, None)]
    found = [inner for inner in sorted(path.glob("**/")) if _is_partition(inner)] if path.is_dir() else []
    if not found:
        raise StorageError(f"{path} is no partition's folder, and holds none", reason="absent")
    return [(inner, None) for inner in found]


def _is_partition(path: Path) -> bool:
    return path.is_dir() and any(
        item.suffix == LOG_SUFFIX or item.name == IDENTITY for item in path.iterdir() if item.is_file()
    )


def dump(
    folder: Path, *, segment: int | None = None, deep: bool = False, offsets: range | None = None
) -> Iterator[Finding]:
    """Yields all findings about one partition's folder. `segment`: only this one; `offsets`: only batches that overlap them."""
    yield from _Dump(folder, deep, offsets or range(_OFFSET_MAX)).findings(segment)


class _Dump:
    def __init__(self, folder: Path, deep: bool, offsets: range) -> None:
        self._disk = OverlayDisk(folder.parent)
        self._name = folder.name
        self._folder = folder
        self._deep = deep
        self._offsets = offsets
        self._tag: int | None = None

    def findings(self, segment: int | None) -> Iterator[Finding]:
        yield self._log()
        bases = numbered(self._disk.list(self._name), LOG_SUFFIX)
        following: int | None = None
        for base in bases:
            if segment is not None and base != segment:
                continue
            if following is not None and base != following:
                yield self._damage(
                    base, 0, "the segments before this one do not reach to it", expected_offset=following
                )
            last = base
            for finding in self._segment(base):
                if finding.kind == "segment":
                    last = int(finding.fields["next_offset"])
                yield finding
            following = last
        if segment is None:
            yield self._recovery(bases)

    # ------------------------------------------------------------ small files

    def _log(self) -> Finding:
        fields: dict[str, object] = {"folder": str(self._folder)}
        try:
            identity = Identity.of_directory(self._name)
            self._tag = partition_tag(identity.topic_id, identity.partition)
            fields |= {"topic_id": identity.topic_id, "partition": identity.partition}
        except StorageError:
            fields |= {"topic_id": None, "partition": None}
        point = RecoveryPoint(self._disk, self._name)
        known = point.read()
        fields["recovery_point"] = point.end_offset if known else None
        fields["log_start_offset"] = point.log_start_offset if known else None
        fields["clean_shutdown"] = self._look(CLEAN_SHUTDOWN, read_clean) not in (None, "damaged")
        fields["leader_epochs"] = self._look(
            LEADER_EPOCHS, lambda data: LeaderEpochs.load(data, _OFFSET_MAX - 1).entries
        )
        fields["snapshots"] = [self._snapshot(offset) for offset in snapshot_offsets(self._disk, self._name)]
        return Finding("log", fields)

    def _look(self, name: str, load: Callable[[bytes], T]) -> T | str | None:
        """Loads a small file; None = it does not exist, `damaged` = it cannot be read."""
        if not self._disk.exists(f"{self._name}/{name}"):
            return None
        try:
            return load(self._disk.read_file(f"{self._name}/{name}"))
        except OncelogError:
            return "damaged"

    def _snapshot(self, offset: int) -> dict[str, object]:
        try:
            data = self._disk.read_file(snapshot_path(self._name, offset))
            states = ProducerStates.restore(data, _NEVER_MS)
        except OncelogError as error:
            return {"offset": offset, "ok": False, "error": error.message}
        producers, opened = len(states.producers.live), len(list(states.open_transactions))
        return {"offset": offset, "ok": True, "producers": producers, "open_transactions": opened}

    # ------------------------------------------------------------ one segment

    def _segment(self, base: int) -> Iterator[Finding]:
        path = f"{self._name}/{base:0{OFFSET_DIGITS}d}"
        file = self._disk.open(path + LOG_SUFFIX)
        position, offset, batches, records, damaged = 0, base, 0, 0, 0
        while position < file.size:
            data = file.read(position, HEADER_BYTES)
            try:
                header = read_header(data, 0, file.size - position)
            except OncelogError as error:
                damaged += 1
                yield self._damage(base, position, error.message, bytes_behind=file.size - position)
                break
            whole = file.read(position, header.batch_length)
            problem = self._problem(whole, header, offset)
            if header.next_offset > self._offsets.start and header.base_offset < self._offsets.stop:
                yield self._batch(base, position, header, whole, problem)
                if self._deep and problem is None and not header.is_control:
                    yield from self._records(base, position, header, whole)
            if problem is not None:
                damaged += 1
                yield self._damage(base, position, problem, base_offset=header.base_offset)
            batches, records = batches + 1, records + (0 if header.is_control else header.record_count)
            offset, position = header.next_offset, position + header.batch_length
        fields = {"segment": base, "next_offset": offset, "bytes": file.size, "batches": batches, "records": records}
        yield Finding("segment", fields | {"damaged": damaged, **self._indexes(path, base, file.size)})

    def _problem(self, whole: bytes, header: BatchHeader, offset: int) -> str | None:
        try:
            check_body(whole, header)
        except OncelogError as error:
            return error.message
        if self._tag is not None and header.partition_tag != self._tag:
            return "a batch of another partition lies here"
        if header.base_offset < offset:
            return f"the batch begins at offset {header.base_offset}, below {offset}"
        return None

    def _indexes(self, path: str, base: int, size: int) -> dict[str, object]:
        name = path.partition("/")[2]
        found = self._look(name + INDEX_SUFFIX, lambda data: SegmentIndex.load(data, base, size))
        if not isinstance(found, SegmentIndex):
            return {"index": found, "aborted": None}
        end = found.next_offset
        aborted = self._look(name + TXN_INDEX_SUFFIX, lambda data: [e._asdict() for e in load_entries(data, base, end)])
        covers = "covers the file" if found.size == size else f"covers {found.size} bytes"
        return {"index": covers, "aborted": aborted}

    def _batch(self, base: int, position: int, header: BatchHeader, whole: bytes, problem: str | None) -> Finding:
        return Finding(
            "batch",
            {
                "segment": base,
                "position": position,
                "base_offset": header.base_offset,
                "last_offset": header.last_offset,
                "records": header.record_count,
                "bytes": header.batch_length,
                "leader_epoch": header.leader_epoch,
                "producer_id": _or_none(header.producer_id),
                "producer_epoch": _or_none(header.producer_epoch),
                "sequence": _or_none(header.base_sequence),
                "txn_producer_id": _or_none(header.txn_producer_id),
                "txn_no": header.txn_no or None,
                "type": _kind(header, whole, problem),
                "codec": _CODEC_NAMES.get(header.codec, str(header.codec)),
                "crc": "ok" if problem is None else "bad",
                "append_timestamp_ms": header.append_timestamp_ms,
                "max_timestamp_ms": header.max_timestamp_ms,
                "txn_shard": header.txn_shard if header.is_transactional else None,
                "schema_id": header.schema_id,
            },
        )

    def _records(self, base: int, position: int, header: BatchHeader, whole: bytes) -> Iterator[Finding]:
        try:
            rows = decode_batch(whole, header)
        except OncelogError as error:
            yield self._damage(
                base, position, f"the payload cannot be decoded: {error.message}", base_offset=header.base_offset
            )
            return
        for row in rows:
            if row.offset in self._offsets:
                fields = {"offset": row.offset, "timestamp_ms": row.timestamp_ms, "key": row.key, "value": row.value}
                yield Finding("record", fields | {"headers": [list(pair) for pair in row.headers]})

    def _damage(self, base: int, position: int, why: str, **more: object) -> Finding:
        file = f"{base:0{OFFSET_DIGITS}d}{LOG_SUFFIX}"
        return Finding("damage", {"segment": base, "file": file, "first_damaged_byte": position, "why": why, **more})

    # ------------------------------------------------------------ what would happen

    def _recovery(self, bases: list[int]) -> Finding:
        before = sum(self._disk.open(f"{self._name}/{base:0{OFFSET_DIGITS}d}{LOG_SUFFIX}").size for base in bases)
        try:
            found = asyncio.run(recover(OverlayDisk(self._folder.parent), self._name, LogConfig()))
        except OncelogError as error:
            reason = error.context.get("reason", "")
            does = (
                "sets this folder aside as rotten, and fetches the partition again from its leader"
                if reason == "rot"
                else "refuses to open it"
            )
            return Finding(
                "recovery", {"outcome": "quarantine" if reason == "rot" else "refuse", "does": does, "why": str(error)}
            )
        cut = before - sum(segment.file.size for segment in found.segments)
        fields = {
            "outcome": "cut" if cut else "open",
            "does": f"cuts a torn tail of {cut} bytes" if cut else "opens it as it is",
            "why": "the tail was not synced" if cut else "",
            "log_start_offset": found.point.log_start_offset,
            "log_end_offset": found.log_end_offset,
            "scanned": found.scanned,
        }
        return Finding("recovery", fields)


def _or_none(number: int) -> int | None:
    return number if number >= 0 else None


def _kind(header: BatchHeader, whole: bytes, problem: str | None) -> str:
    if not header.is_control:
        return "txn" if header.is_transactional else "data"
    if problem is not None:
        return "control"
    control = control_of(whole)
    return "fence" if isinstance(control, Fence) else "commit" if control.committed else "abort"
