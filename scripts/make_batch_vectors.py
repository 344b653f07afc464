"""Writes the golden batches of tests/vectors, and what each of them must decode to.

The vectors are the format's promise to other languages and to old disks: they never change. So this script only adds
files that are missing; it never writes over one. Run it after adding a case.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from oncelog.core.batch import header as hd
from oncelog.core.batch.batch import decode_batch, encode_batch
from oncelog.core.batch.control import Marker, control_of, seal_fence, seal_marker
from oncelog.core.batch.header import CODECS

HOME = Path(__file__).resolve().parents[1] / "tests" / "vectors"
TOPIC_ID = "00112233445566778899aabbccddeeff"
TIME_MS = 1_700_000_000_000
MAX_SEQUENCE = 2**31 - 1


def cases() -> dict[str, dict[str, Any]]:
    """Name -> arguments of `encode_batch`."""
    one: dict[str, Any] = {"keys": [b"key"], "values": [b"value"], "timestamps_ms": [TIME_MS]}
    many: dict[str, Any] = {
        "keys": [None if i % 5 == 0 else f"key-{i}".encode() for i in range(50)],
        "values": [None if i % 7 == 0 else f"value-{i}".encode() * 3 for i in range(50)],
        "timestamps_ms": [TIME_MS + (i * 37) % 101 for i in range(50)],
    }
    headers = [((f"h{i}", f"v{i}".encode()), ("null", None), ("h0", b"")) if i % 2 else () for i in range(50)]
    transaction = {
        "producer_id": 1001,
        "producer_epoch": 3,
        "base_sequence": 0,
        "txn_producer_id": 1000,
        "txn_no": 7,
        "txn_shard": 49,
    }
    return {
        "one_plain": one,
        "one_nulls": {"keys": [None], "values": [None], "timestamps_ms": [0]},
        "one_empty": {"keys": [b""], "values": [b""], "timestamps_ms": [TIME_MS]},
        "many_none": many,
        "many_lz4": many | {"codec": CODECS["lz4"]},
        "many_zstd": many | {"codec": CODECS["zstd"]},
        "headers_none": many | {"headers": headers},
        "headers_zstd": many | {"headers": headers, "codec": CODECS["zstd"]},
        "idempotent_wrap": many | {"producer_id": 42, "producer_epoch": 0, "base_sequence": MAX_SEQUENCE - 10},
        "transactional": one | transaction,
    }


def controls() -> dict[str, bytes]:
    """Name -> whole control batch."""
    where: dict[str, Any] = {"timestamp_ms": TIME_MS, "tag": hd.partition_tag(TOPIC_ID, 3)}
    name: dict[str, Any] = {"txn_producer_id": 1000, "txn_no": 7, "txn_shard": 49}
    winners = Marker(True, coordinator_epoch=12, session_epoch=3, winners=(1001, 1003), expected_records=50)
    return {
        "marker_commit": seal_marker(Marker(True, coordinator_epoch=12, session_epoch=3), **name, **where),
        "marker_abort": seal_marker(Marker(False, coordinator_epoch=12, session_epoch=3), **name, **where),
        "marker_winners": seal_marker(winners, **name, **where),
        "fence": seal_fence(producer_id=42, producer_epoch=1, **where),
    }


def describe(data: bytes) -> dict[str, Any]:
    """Header fields and records, as JSON values."""
    header = hd.read_header(data)
    said: dict[str, Any] = {"sha256": hashlib.sha256(data).hexdigest(), "header": header._asdict()}
    if header.is_control:
        return said | {"control": repr(control_of(data))}
    records = [
        {
            "key": None if r.key is None else r.key.hex(),
            "value": None if r.value is None else r.value.hex(),
            "timestamp_ms": r.timestamp_ms,
            "offset": r.offset,
            "headers": [[name, None if value is None else value.hex()] for name, value in r.headers],
        }
        for r in decode_batch(data)
    ]
    return said | {"records": records}


def main() -> None:
    """Adds what is missing."""
    HOME.mkdir(parents=True, exist_ok=True)
    data_batches = {
        name: encode_batch(**arguments, topic_id=TOPIC_ID, partition=3) for name, arguments in cases().items()
    }
    for name, data in (data_batches | controls()).items():
        path = HOME / f"{name}.bin"
        if not path.exists():
            path.write_bytes(data)
            print(f"added {path.name}")
        if not path.with_suffix(".json").exists():
            path.with_suffix(".json").write_text(json.dumps(describe(path.read_bytes()), indent=None) + "\n")


if __name__ == "__main__":
    main()
