"""`oncelog produce` sends keys where it is told to."""

from __future__ import annotations

import io
import os
import sys

import pytest

from oncelog.client import defaults
from oncelog.core.batch.hashing import partition_for_key
from oncelog.types import PartitionId
from oncelog_cli.main import main
from tests.unit.sdk.client.fake_cluster import BROKERS, TOPIC, TOPIC_ID, FakeCluster


@pytest.mark.parametrize("more", [(), ("--partitioner", "murmur2")])
def test_a_key_goes_by_the_hash_that_is_asked_for(monkeypatch: pytest.MonkeyPatch, more: tuple[str, ...]) -> None:
    cluster = FakeCluster()
    monkeypatch.setattr(defaults, "LazyGrpcTransport", lambda *_: cluster)
    monkeypatch.setenv("ONCELOG_BOOTSTRAP_SERVERS", ",".join(BROKERS))
    keys = [f"key-{n}" for n in range(20)]
    typed = "".join(f"{key}=v\n" for key in keys).encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(typed)))
    assert main(["produce", TOPIC, "--key-separator", "=", *more]) == 0
    for partition in range(2):
        records = [record for _, record in cluster.logs[PartitionId(TOPIC_ID, partition)].records]
        expected = [k.encode() for k in keys if partition_for_key(k.encode(), 2, *more[1:]) == partition]
        assert [record.key for record in records] == expected


RAW = os.fsdecode(b"\xff")
"""A byte that is no text, as Python gives it to programs whose command line has it."""


def produced(
    monkeypatch: pytest.MonkeyPatch, typed: bytes, *words: str
) -> tuple[int, list[tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]]]:
    """The exit code, and the records that were written."""
    cluster = FakeCluster()
    monkeypatch.setattr(defaults, "LazyGrpcTransport", lambda *_: cluster)
    monkeypatch.setenv("ONCELOG_BOOTSTRAP_SERVERS", ",".join(BROKERS))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(typed)))
    code = main(["produce", TOPIC, *words])
    logs = (cluster.logs[where].records for where in sorted(cluster.logs))
    return code, [(record.key, record.value, record.headers) for log in logs for _, record in log]


def test_what_is_typed_is_written_byte_for_byte_also_when_it_is_no_text(monkeypatch: pytest.MonkeyPatch) -> None:
    assert produced(monkeypatch, b"v\n", "-k", RAW, "-H", f"trace:{RAW}") == (
        0,
        [(b"\xff", b"v", (("trace", b"\xff"),))],
    )
    assert produced(monkeypatch, b"k\xffv\n", "--key-separator", RAW) == (0, [(b"k", b"v", ())])
    assert produced(monkeypatch, b"trace=\xff v\n", "-f", "%h %v") == (0, [(None, b"v", (("trace", b"\xff"),))])


@pytest.mark.parametrize(
    ("typed", "fields", "code", "said"),
    [
        (b"\xff v\n", "%t %v", 1, "INVALID_TOPIC"),
        (b"9" * 5_000 + b" v\n", "%p %v", 2, "does not fit the format"),
    ],
)
def test_a_line_with_no_topic_or_partition_is_an_error_of_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], typed: bytes, fields: str, code: int, said: str
) -> None:
    assert produced(monkeypatch, typed, "-f", fields) == (code, [])
    told = capsys.readouterr().err
    assert said in told
    assert "Traceback" not in told
