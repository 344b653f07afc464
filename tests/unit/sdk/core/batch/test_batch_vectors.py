"""The golden batches: bytes that other languages and old disks rely on decode to the same records for ever."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from oncelog.core.batch import header as hd
from oncelog.core.batch.batch import decode_batch
from oncelog.core.batch.control import control_of

VECTORS = Path(__file__).resolve().parents[4] / "vectors"
NAMES = sorted(path.stem for path in VECTORS.glob("*.bin"))


def expected(name: str) -> Any:
    return json.loads((VECTORS / f"{name}.json").read_text())


def unhex(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text)


def test_there_are_vectors_for_every_codec_schema_and_kind() -> None:
    headers = [expected(name)["header"] for name in NAMES]
    assert {h["codec"] for h in headers} == {0, 1, 2}
    assert {h["schema_id"] for h in headers} == {0, 1}
    assert {h["attributes"] for h in headers} >= {0, hd.TRANSACTIONAL, hd.TRANSACTIONAL | hd.CONTROL}


@pytest.mark.parametrize("name", NAMES)
def test_a_vector_never_changes(name: str) -> None:
    data = (VECTORS / f"{name}.bin").read_bytes()
    assert hashlib.sha256(data).hexdigest() == expected(name)["sha256"]


@pytest.mark.parametrize("name", NAMES)
def test_a_vector_decodes_to_its_records(name: str) -> None:
    data = (VECTORS / f"{name}.bin").read_bytes()
    said = expected(name)
    assert hd.read_header(data)._asdict() == said["header"]
    if "control" in said:
        hd.check_body(data, hd.read_header(data))
        assert repr(control_of(data)) == said["control"]
        return
    found = decode_batch(data)
    assert len(found) == len(said["records"])
    for record, wanted in zip(found, said["records"], strict=True):
        assert record.key == unhex(wanted["key"])
        assert record.value == unhex(wanted["value"])
        assert record.timestamp_ms == wanted["timestamp_ms"]
        assert record.offset == wanted["offset"]
        assert record.headers == tuple((n, unhex(v)) for n, v in wanted["headers"])
