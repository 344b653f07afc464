"""The programs of the chart's jobs work against a real cluster: topics, and what `helm test` runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from oncelog.sync import Client
from oncelog_cli.laptop.local_cluster import LocalCluster

SCRIPTS = Path(__file__).resolve().parents[3] / "helm" / "oncelog" / "files" / "scripts"


def run(cluster: LocalCluster, script: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, SCRIPTS / script, *arguments],
        env={**os.environ, "ONCELOG_BOOTSTRAP_SERVERS": cluster.bootstrap_servers},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_helm_test_sees_what_was_committed_and_no_more(cluster: LocalCluster) -> None:
    said = run(cluster, "check_transactions.py")
    assert "60 records read with read_committed" in said
    assert said.endswith("ok\n")
    with Client(cluster.bootstrap_servers) as client:
        assert not [topic for topic in client.admin.list_topics() if topic.name.startswith("helm-test-")]


def test_topics_are_made_once_and_left_as_they_are(cluster: LocalCluster, tmp_path: Path) -> None:
    wanted = [
        {"name": "chart-a", "partitions": 2, "config": {"retention_ms": 1000000}},
        {"name": "chart-b", "replicationFactor": 2},
    ]
    path = tmp_path / "topics.json"
    path.write_text(json.dumps(wanted), encoding="utf-8")
    assert "chart-a created" in run(cluster, "create_topics.py", str(path))
    path.write_text(json.dumps([{**wanted[0], "partitions": 7}, wanted[1]]), encoding="utf-8")
    assert "chart-a existed already" in run(cluster, "create_topics.py", str(path))
    with Client(cluster.bootstrap_servers) as client:
        found = {topic.name: topic for topic in client.admin.list_topics()}
    assert (len(found["chart-a"].partitions), len(found["chart-b"].partitions[0].replicas)) == (2, 2)
