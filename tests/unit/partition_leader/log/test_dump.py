"""A dump names every batch and the first damaged byte, changes nothing, and foretells what opening the folder then does."""

from __future__ import annotations

import asyncio
import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from oncelog.core.batch.batch import encode_batch
from oncelog.errors import StorageError
from oncelog_cli.main import main
from oncelog_partition_leader.log.dump import Finding, dump, partitions_in
from oncelog_partition_leader.log.log_config import LogConfig
from oncelog_partition_leader.log.partition_log import PartitionLog
from oncelog_runtime.adapters.files.os_disk import OsDisk
from tests.unit.partition_leader.log_helpers import DIRECTORY, NOW_MS, SHARD, TOPIC_ID, fence, marker, write

CONFIG = LogConfig(segment_bytes=2_000, retention_ms=-1)
PRODUCER = 7
TXN = (7, 1)


def records(count: int = 2, **producer: int) -> bytes:
    return encode_batch(
        [b"k%d" % i for i in range(count)],
        [b"v" * 200] * count,
        timestamps_ms=[NOW_MS] * count,
        headers=[(("h", b"1"),)] * count,
        topic_id=TOPIC_ID,
        partition=3,
        **producer,
    )


async def _use(root: Path, *, clean: bool, work: Callable[[PartitionLog], Any]) -> Any:
    disk = OsDisk(root)
    try:
        log = await PartitionLog.open(disk, DIRECTORY, CONFIG)
        found = work(log)
        await log.sync()
        await log.close(clean=clean)
        return found
    finally:
        disk.close()


def _fill(log: PartitionLog) -> None:
    for _ in range(8):
        write(log, records())
    names = {"txn_producer_id": TXN[0], "txn_no": TXN[1], "txn_shard": SHARD}
    sent = records(3, producer_id=PRODUCER, producer_epoch=0, base_sequence=0, **names)
    write(log, sent, marker(TXN, commit=False), fence(PRODUCER, 4))


@pytest.fixture(params=[True, False], ids=["clean", "unclean"])
def folder(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A partition's folder with several segments, a transaction that aborted, and a fence."""
    asyncio.run(_use(tmp_path, clean=request.param, work=_fill))
    return tmp_path / DIRECTORY


def of(kind: str, found: list[Finding]) -> list[dict[str, Any]]:
    return [finding.fields for finding in found if finding.kind == kind]


def content(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        digest.update(f"{path.name} {path.stat().st_mtime_ns}".encode() + path.read_bytes())
    return digest.hexdigest()


def really(folder: Path) -> dict[str, Any]:
    """What a broker does with a copy of the folder."""
    root = folder.parents[1]
    copy = root.parent / f"{root.name}-copy"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(root, copy)
    try:
        found: dict[str, Any] = asyncio.run(
            _use(copy, clean=False, work=lambda log: {"start": log.log_start_offset, "end": log.log_end_offset})
        )
        return found
    except StorageError as error:
        return {"reason": error.context["reason"]}


def foretold(found: list[Finding]) -> dict[str, Any]:
    (recovery,) = of("recovery", found)
    if recovery["outcome"] in ("quarantine", "refuse"):
        return {"reason": "rot" if recovery["outcome"] == "quarantine" else recovery["outcome"]}
    return {"start": recovery["log_start_offset"], "end": recovery["log_end_offset"]}


def segments(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.log"))


def test_every_batch_of_a_sound_folder(folder: Path) -> None:
    before = content(folder)
    found = list(dump(folder, deep=True))
    assert content(folder) == before, "nothing is written"
    assert of("damage", found) == []
    batches = of("batch", found)
    assert [b["type"] for b in batches] == ["data"] * 8 + ["txn", "abort", "fence"]
    assert [b["base_offset"] for b in batches] == [*range(0, 16, 2), 16, 19, 20]
    assert all(b["crc"] == "ok" for b in batches)
    txn = batches[8]
    assert (txn["producer_id"], txn["sequence"], txn["txn_producer_id"], txn["txn_no"]) == (PRODUCER, 0, *TXN)
    assert [record["offset"] for record in of("record", found)] == list(range(19))
    assert of("record", found)[1]["key"] == b"k1"
    assert sum(s["batches"] for s in of("segment", found)) == 11
    (recovery,) = of("recovery", found)
    assert recovery["outcome"] == "open"
    assert foretold(found) == really(folder) == {"start": 0, "end": 21}


def test_offsets_choose_batches_and_records(folder: Path) -> None:
    found = list(dump(folder, deep=True, offsets=range(3, 5)))
    assert [b["base_offset"] for b in of("batch", found)] == [2, 4]
    assert [r["offset"] for r in of("record", found)] == [3, 4]


def _flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 8
    path.write_bytes(bytes(data))


def _cut_tail(folder: Path) -> int:
    last = segments(folder)[-1]
    with last.open("rb+") as file:
        file.truncate(last.stat().st_size - 5)
    return 1


def _flip_payload(folder: Path) -> int:
    _flip(segments(folder)[1], 200)
    return 0


def _flip_header(folder: Path) -> int:
    _flip(segments(folder)[1], 3)
    return 0


def _lose_segment(folder: Path) -> int:
    segments(folder)[1].unlink()
    return 0


def _append_noise(folder: Path) -> int:
    with segments(folder)[-1].open("ab") as file:
        file.write(b"noise" * 50)
    return segments(folder)[-1].stat().st_size - 250


@pytest.mark.parametrize("harm", [_cut_tail, _flip_payload, _flip_header, _lose_segment, _append_noise])
@pytest.mark.parametrize("forget_checkpoints", [True, False])
def test_damage_is_named_and_what_follows_is_foretold(
    folder: Path, harm: Callable[[Path], int], forget_checkpoints: bool
) -> None:
    if forget_checkpoints:
        for path in (*folder.glob("*.index"), *folder.glob("recovery-point"), *folder.glob("clean-shutdown")):
            path.unlink()
    at = harm(folder)
    before = content(folder)
    found = list(dump(folder))
    assert content(folder) == before
    (damage, *_) = of("damage", found)
    if harm is _cut_tail:
        assert damage["first_damaged_byte"] > 0
    else:
        assert damage["first_damaged_byte"] == at
    assert foretold(found) == really(folder)


def test_a_damaged_payload_does_not_hide_what_stands_behind_it(folder: Path) -> None:
    _flip_payload(folder)
    batches = of("batch", list(dump(folder)))
    assert [b["crc"] for b in batches].count("bad") == 1
    assert len(batches) == 11


def test_the_command(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["log", "dump", str(folder.parent), "--deep", "--offsets", "0-3"]) == 0
    text = capsys.readouterr().out
    assert "BASE-OFFSET" in text
    assert "recovery: opens it as it is; offsets 0 to 20" in text
    assert main(["log", "dump", str(segments(folder)[0]), "--format", "json"]) == 0
    kinds = [json.loads(line)["kind"] for line in capsys.readouterr().out.splitlines()]
    assert kinds[0] == "log"
    assert "batch" in kinds
    assert kinds[-1] == "segment", "of one segment alone nothing can be foretold"
    _flip_payload(folder)
    assert main(["log", "dump", str(folder)]) == 1
    assert "DAMAGE" in capsys.readouterr().out
    assert main(["log", "dump", str(folder / "absent")]) == 1


def test_a_path_that_holds_no_partition(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="no partition's folder"):
        partitions_in(tmp_path)
    (tmp_path / "note.txt").write_text("x")
    with pytest.raises(StorageError, match="is no partition's folder"):
        partitions_in(tmp_path / "note.txt")
