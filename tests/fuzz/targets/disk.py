"""What lies on a disk: segments, indexes, snapshots, checkpoints, and whole folders as a broker opens them."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from random import Random

from crc32c import crc32c

from oncelog.core.batch.header import read_header
from oncelog.errors import CorruptMessageError, OncelogError, StorageError
from oncelog_partition_leader.core.log.aborted_index import AbortedEntry, AbortedIndex, load_entries
from oncelog_partition_leader.core.log.leader_epochs import LeaderEpochs
from oncelog_partition_leader.core.log.segment import SegmentIndex
from oncelog_partition_leader.core.producers.producer_state import ProducerStates
from oncelog_partition_leader.log.checkpoints import Identity, RecoveryPoint, numbered, pack_clean, read_clean
from oncelog_partition_leader.log.data_dir.custody import Claim, read_log
from oncelog_partition_leader.log.log_config import LogConfig
from oncelog_partition_leader.log.partition_log import PartitionLog
from oncelog_partition_leader.replication.sealing import read_seal
from oncelog_runtime.sim.disk import SimDisk
from oncelog_runtime.sim.loop import SimLoop
from tests.fuzz.target import Target, add
from tests.fuzz.targets.batches import made, mend_chunk
from tests.unit.partition_leader.log_helpers import (
    DIRECTORY,
    NOW_MS,
    TOPIC_ID,
    States,
    batch,
    contents,
    fence,
    marker,
    open_log,
    write,
)


def with_crc(at: int, over: int) -> Callable[[bytes, Random], bytes]:
    """The checksum at `at`, of all that begins at `over`, is right again."""

    def mend(data: bytes, _random: Random) -> bytes:
        if len(data) < max(at + 4, over):
            return data
        changed = bytearray(data)
        struct.pack_into("<I", changed, at, crc32c(bytes(changed[over:])))
        return bytes(changed)

    return mend


# ---------------------------------------------------------------- snapshots


def producer_snapshot(data: bytes) -> object:
    """A leader sends one to a follower whose log it replaces, so its checksum may be right and all else wrong.

    What is no contradiction in itself is believed: it comes from a service, whose certificate was seen.
    """
    states = ProducerStates.restore(data)
    assert ProducerStates.restore(states.snapshot()).end_offset == states.end_offset
    return states


def producer_snapshots() -> Iterator[bytes]:
    yield ProducerStates().snapshot()
    states = States()
    for data in (batch(1, 0, 2), batch(7, 0, txn=(7, 1)), batch(3, 0), fence(3, 5), batch(8, 0, txn=(8, 1))):
        states.apply(data)
    yield states.states.snapshot()
    states.apply(marker((8, 1)))
    for number in range(2, 70, 3):
        states.apply(batch(8, 0, txn=(8, number)))
        states.apply(marker((8, number), commit=bool(number % 2)))
    yield states.states.snapshot()


add(Target("producer_snapshot", producer_snapshot, (CorruptMessageError,), producer_snapshots, mend=with_crc(4, 8)))


# ---------------------------------------------------------------- indexes

_INDEX_HEAD = struct.Struct("<IIqqqqqqqI")


def segment_index(data: bytes) -> object:
    index = SegmentIndex.load(data, 0, 1 << 20)
    for offset in (-1, 0, 5, 1 << 40):
        base, position = index.position_below(offset)
        assert 0 <= position <= index.size
        assert base >= 0
    assert 0 <= index.position_before_time(NOW_MS) <= index.size
    assert SegmentIndex.load(index.dump(), 0, 1 << 20).dump() == index.dump()
    return index


def segment_indexes() -> Iterator[bytes]:
    index = SegmentIndex(0)
    yield index.dump()
    for number in range(12):
        header = read_header(batch(1, number, payload=bytes(64)))._replace(
            base_offset=number, append_timestamp_ms=NOW_MS + number
        )
        index.add(header, 100)
    yield index.dump()


def mend_index(data: bytes, random: Random) -> bytes:
    if len(data) < _INDEX_HEAD.size:
        return data
    magic, count, *fixed, _ = _INDEX_HEAD.unpack_from(data)
    body = data[_INDEX_HEAD.size :]
    if random.random() < 0.8:
        count = len(body) // 16
        body = body[: 16 * count]
        magic = 0x4F4C4931
    head = _INDEX_HEAD.pack(magic, count, *fixed, 0)
    return _INDEX_HEAD.pack(magic, count, *fixed, crc32c(body, crc32c(head))) + body


add(Target("segment_index", segment_index, (CorruptMessageError,), segment_indexes, mend=mend_index))


def aborted_index(data: bytes) -> object:
    index = AbortedIndex()
    for entry in load_entries(data, 0, 1_000):
        index.add(entry)
    index.check()
    index.between(0, 1_000)
    return index


def aborted_indexes() -> Iterator[bytes]:
    index = AbortedIndex()
    yield index.dump(0, 1_000)
    index.add(AbortedEntry(1, 2, 3, 10, True, (), False, 11))
    index.add(AbortedEntry(1, 3, 11, 20, False, (4, 5, 6), False, 15))
    index.add(AbortedEntry(1, 4, 21, 30, True, (), True, 31))
    yield index.dump(0, 1_000)


add(Target("aborted_index", aborted_index, (CorruptMessageError,), aborted_indexes, mend=with_crc(24, 28)))


def leader_epochs(data: bytes) -> object:
    table = LeaderEpochs.load(data, 1_000)
    table.truncate_tail(1_000)  # as recovery does
    table.check()
    for epoch in (-1, 0, 5, 1 << 30):
        _, end = table.end_offset_for(epoch)
        assert end <= 1_000
    return table


def leader_epoch_tables() -> Iterator[bytes]:
    yield LeaderEpochs(1_000).dump()
    table = LeaderEpochs()
    for epoch, start in ((0, 0), (3, 10), (4, 900)):
        table.assign(epoch, start, 1_000)
    yield table.dump()


def mend_epochs(data: bytes, _random: Random) -> bytes:
    if len(data) < 12:
        return data
    body = data[12:]
    return (
        data[:4] + struct.pack("<II", len(body) // 12 if len(body) % 12 == 0 else len(body) // 16, crc32c(body)) + body
    )


add(Target("leader_epochs", leader_epochs, (CorruptMessageError,), leader_epoch_tables, mend=mend_epochs))


# ---------------------------------------------------------------- small files


class _OneFile:
    """A disk on which every file has the same content."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def exists(self, _path: str) -> bool:
        return True

    def read_file(self, _path: str) -> bytes:
        return self._data


def checkpoints(data: bytes) -> object:
    """Each of the small files. None of them is ever an error: what is not whole does not count."""
    disk = _OneFile(data)
    point = RecoveryPoint(disk, "log")  # type: ignore[arg-type]
    found = point.read()
    clean = read_clean(data)
    assert clean is None or len(data) == 20
    identity = Identity.decode(data)
    assert identity is None or Identity.decode(identity[0].encode()) == (identity[0], True)
    seal = read_seal(disk, "log")  # type: ignore[arg-type]
    claim = read_log(disk, "log", 5)  # type: ignore[arg-type]
    assert isinstance(claim, Claim)
    names = data.decode("utf-8", "replace").split("\n")
    assert all(number >= 0 for number in numbered(names, ".snapshot"))
    return f"{found} {clean is None} {identity is None} {seal is None} {claim.intact_since}"


def small_files() -> Iterator[bytes]:
    yield pack_clean(1_000, 5_000)
    yield struct.pack("<qqI4x", 5, 1, crc32c(struct.pack("<qq", 5, 1))) * 2
    yield Identity(TOPIC_ID, 3).encode()
    yield b'{"version": 1, "incarnation": 7, "leader_epoch": 3, "end_offset": 1000}'
    yield b'{"intact_since": 3, "known_since": 1, "version": 1}'
    yield b"00000000000000000007.snapshot\nx.snapshot"


add(Target("checkpoints", checkpoints, (), small_files))


def folder_name(data: bytes) -> object:
    return Identity.of_directory(data.decode("utf-8", "replace"))


add(
    Target(
        "folder_name",
        folder_name,
        (StorageError,),
        lambda: [DIRECTORY.encode(), b"a-b-c-1", b"logs/x"],
        words=(b"-", b"/"),
    )
)


# ---------------------------------------------------------------- whole folders

_NAMES = (
    *("00000000000000000000.log", "00000000000000000000.index", "00000000000000000000.txnindex", "recovery-point"),
    *("leader-epochs", "clean-shutdown", "partition.json", "seal.json", "custody.json", "snapshot", "second.log"),
)
_FILE = struct.Struct("<BI")
_EPOCH_MAX = (1 << 31) - 1


def packed_folder(files: dict[str, bytes]) -> bytes:
    """A folder as one input; names that are not in `_NAMES` by their endings."""
    out = b""
    for name, data in sorted(files.items()):
        kind = name if name in _NAMES else "snapshot" if name.endswith(".snapshot") else "second.log"
        if kind != "second.log" or name.endswith(".log"):
            out += _FILE.pack(_NAMES.index(kind), len(data)) + data
    return out


def _unpacked(data: bytes) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    position = 0
    while position + _FILE.size <= len(data) and len(files) < 16:
        number, length = _FILE.unpack_from(data, position)
        position += _FILE.size
        name = _NAMES[number % len(_NAMES)]
        if name == "snapshot":
            name = f"{number // len(_NAMES) % 8:020d}.snapshot"
        if name == "second.log":
            name = f"{number // len(_NAMES) % 8:020d}.log"
        files[name] = data[position : position + length]
        position += length
    return files


def log_folder(data: bytes) -> object:
    """Opened as a broker does: what can be served is sound, the rest is a named error."""
    with SimLoop(0) as loop:
        disk = SimDisk(loop, Random(0))

        async def test() -> object:
            disk.make_dirs(DIRECTORY)
            for name, content in _unpacked(data).items():
                disk.open(f"{DIRECTORY}/{name}", create=True).append([content])
            log = await PartitionLog.open(disk, DIRECTORY, LogConfig())
            log.check()
            found = contents(log)
            epoch = max(log.epochs.epoch_of(log.log_end_offset - 1), 0)
            if epoch < _EPOCH_MAX:  # else there is no next leader
                write(log, made(), epoch=epoch + 1)
                log.check()
            return found

        return loop.run(test())


def folders() -> Iterator[bytes]:
    for stop in (False, True):
        with SimLoop(0) as loop:
            disk = SimDisk(loop, Random(0))

            async def test(disk: SimDisk = disk, stop: bool = stop) -> None:
                log = await open_log(disk)
                write(log, made(), batch(7, 0, txn=(7, 1), payload=bytes(64)))
                write(log, marker((7, 1), commit=False), fence(1, 2), made(headers=True))
                if stop:
                    await log.close(clean=True)

            loop.run(test())
            yield packed_folder({name: disk.in_cache(f"{DIRECTORY}/{name}") for name in disk.list(DIRECTORY)})


def mend_folder(data: bytes, random: Random) -> bytes:
    """Lengths, and the checksums of the batches in the log."""
    out = b""
    position = 0
    while position + _FILE.size <= len(data):
        number, length = _FILE.unpack_from(data, position)
        position += _FILE.size
        length = min(length, len(data) - position)
        content = data[position : position + length]
        if _NAMES[number % len(_NAMES)].endswith(".log") and random.random() < 0.7:
            content = mend_chunk(content, random)
        out += _FILE.pack(number, len(content)) + content
        position += length
    return out


add(Target("log_folder", log_folder, (OncelogError,), folders, mend=mend_folder, limit_ms=5_000))
