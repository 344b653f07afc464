"""`import oncelog` stays light: what it loads cannot break a fork or slow a Spark worker down."""

from __future__ import annotations

import subprocess
import sys


def test_importing_oncelog_loads_no_grpc() -> None:
    code = "import oncelog, oncelog.errors, oncelog.types, oncelog.ports, sys; sys.exit('grpc' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_client_loads_no_arrow_until_it_writes_or_reads() -> None:
    """The first answer of a command line comes 100 ms sooner."""
    code = "import oncelog, sys; oncelog.SyncClient('127.0.0.1:1').admin; sys.exit('pyarrow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
