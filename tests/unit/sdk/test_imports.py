"""`import oncelog` stays light: what it loads cannot break a fork or slow a Spark worker down."""

from __future__ import annotations

import subprocess
import sys


def test_importing_oncelog_loads_no_grpc() -> None:
    code = "import oncelog, oncelog.errors, oncelog.types, oncelog.ports, sys; sys.exit('grpc' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
