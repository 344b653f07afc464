"""`oncelog debug bundle`: secrets stay at home, and a cluster that is down stops nothing."""

from __future__ import annotations

import json
import socket
import tarfile
from pathlib import Path

import pytest

from oncelog_cli.main import main


def test_a_bundle_of_a_cluster_that_is_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        nobody = f"127.0.0.1:{probe.getsockname()[1]}"
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("ONCELOG_SASL_PASSWORD", "hunter2")
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "broker-0.log").write_text("started with secret=hunter2\n" + "x" * 100)
    target = tmp_path / "bundle.tar.gz"
    words = ["debug", "bundle", "--bootstrap-servers", nobody, "--timeout-ms", "500", "--output", str(target)]
    assert main([*words, "--logs", str(logs), "--metrics", "ftp://x", "--format", "json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert {"health", "topics", "metrics/0.txt"} <= set(result["missing"])
    with tarfile.open(target) as archive:
        parts = {member.name: archive.extractfile(member).read().decode() for member in archive}  # type: ignore[union-attr]
    assert {"bundle/versions.json", "bundle/settings.json", "bundle/logs/broker-0.log"} <= set(parts)
    assert "hunter2" not in "".join(parts.values())
    assert "health" in json.loads(parts["bundle/manifest.json"])["missing"]
    assert target.stat().st_mode & 0o077 == 0
    assert main([*words, "--format", "json"]) != 0, "an existing file is not overwritten"
