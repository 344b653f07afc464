"""The command line as people and scripts run it: a process, its words, its output, its exit code."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import Any


class Shell:
    """Runs `oncelog ...` against a cluster."""

    def __init__(self, servers: str) -> None:
        self._environment = {**os.environ, "ONCELOG_BOOTSTRAP_SERVERS": servers}

    def run(self, *words: str, given: str = "") -> subprocess.CompletedProcess[str]:
        """One command, to its end."""
        command = [sys.executable, "-m", "oncelog_cli", *words]
        return subprocess.run(
            command, input=given, capture_output=True, text=True, timeout=60, env=self._environment, check=False
        )

    def start(self, *words: str) -> subprocess.Popen[str]:
        """One command that goes on. It takes Ctrl-C, though the suite may run in the background, where shells ignore it."""
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        command = [sys.executable, "-m", "oncelog_cli", *words]
        return subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=self._environment
        )

    def json(self, *words: str, given: str = "", code: int = 0) -> Any:
        """What it prints with `--format json`."""
        done = self.run(*words, "--format", "json", given=given)
        assert done.returncode == code, done.stderr
        return json.loads(done.stdout)
