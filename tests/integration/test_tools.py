"""The tools of every day against a cluster of real processes: verify, bench, debug bundle."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from oncelog.client.client import Client
from oncelog_cli.laptop.local_cluster import LocalCluster
from oncelog_cli.main import main


def run(cluster: LocalCluster, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, Any]:
    """Exit code and JSON of one command."""
    capsys.readouterr()
    code = main([*words, "--bootstrap-servers", cluster.bootstrap_servers, "--format", "json"])
    return code, json.loads(capsys.readouterr().out)


def topics(cluster: LocalCluster, capsys: pytest.CaptureFixture[str]) -> list[str]:
    return [row["topic"] for row in run(cluster, capsys, "topic", "list")[1]]


def test_verify_finds_exactly_once_and_leaves_nothing(
    cluster: LocalCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("verify", "--duration", "2", "--producers", "2", "--txn-size", "10", "--abort-rate", "0.3", "--strict")
    code, result = run(cluster, capsys, *words)
    assert code == 0, result
    assert result["exactly_once"]
    assert result["records"] == 10 * result["committed"] > 0
    assert result["aborted"] > 0
    assert result["end_to_end_ms"]["p99"] > 0
    assert not [name for name in topics(cluster, capsys) if name.startswith("oncelog-verify")]


def test_verify_names_what_a_reader_should_not_see(
    cluster: LocalCluster, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The planted bug: a reader that shows aborted records."""
    consumer = Client.consumer
    monkeypatch.setattr(
        Client,
        "consumer",
        lambda self, *given, **options: consumer(self, *given, **options, isolation_level="read_uncommitted"),
    )
    code, result = run(cluster, capsys, "verify", "--duration", "2", "--abort-rate", "0.5")
    assert code == 1
    assert [anomaly["name"] for anomaly in result["anomalies"]] == ["aborted-visible"]


@pytest.mark.parametrize(
    "words",
    [
        ("produce", "--records", "3000", "--producers", "2"),
        ("produce", "--records", "3000", "--acks", "0"),  # it ended in BUFFER_EXHAUSTED
        ("consume", "--records", "3000", "--consumers", "2"),
        ("txn", "--records", "300", "--abort-rate", "0.2"),
    ],
)
def test_bench_measures_and_leaves_nothing(
    words: tuple[str, ...], cluster: LocalCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    code, result = run(cluster, capsys, "bench", *words)
    assert code == 0
    assert result["records"] == int(words[2])
    assert result["errors"] == {}
    assert 0 < result["p50_ms"] <= result["p99_ms"] <= result["max_ms"]
    assert result["records_per_s"] > 0
    assert not [name for name in topics(cluster, capsys) if name.startswith("oncelog-bench")]


def test_a_bundle_holds_the_state_of_the_cluster(
    cluster: LocalCluster, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    target = tmp_path / "b.tar.gz"
    code, result = run(
        cluster, capsys, "debug", "bundle", "--output", str(target), "--logs", f"{cluster.data_dir}/logs"
    )
    assert code == 0
    assert result["missing"] == {}
    with tarfile.open(target) as archive:
        parts = {m.name.partition("/")[2]: archive.extractfile(m).read() for m in archive}  # type: ignore[union-attr]
    assert json.loads(parts["health.json"])["cluster_id"]
    assert "__transaction_state" in parts["offsets.json"].decode()
    assert parts["logs/broker-0.log"]
