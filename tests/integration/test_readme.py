"""The README's Python example does what it shows."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from oncelog.sync import Client
from oncelog_runtime.local import LocalCluster

README = Path(__file__).resolve().parents[2] / "README.md"


def test_the_sdk_example_commits_and_reads(cluster: LocalCluster) -> None:
    found = re.search(r"```python\n(import asyncio.*?)```", README.read_text(), re.DOTALL)
    assert found is not None
    program = found[1].replace("localhost:9092", cluster.bootstrap_servers)
    with Client(cluster.bootstrap_servers) as client:
        client.admin.create_topic("orders", partitions=6)
        client.admin.create_topic("audit")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "0 b'42' b'paid'\n"
