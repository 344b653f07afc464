"""Starting and killing what the demo runs, and leaving nothing behind.

Every process of a run carries one environment variable, so that the last act of the demo can find and end whatever
is left, also workers that Spark moved into process groups of their own.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Final

MARK: Final = "ONCELOG_DEMO_RUN"


def marked(mark: str) -> list[int]:
    """Processes that carry the mark, this one excepted."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            variables = (entry / "environ").read_bytes().split(b"\0")
        except OSError:  # it ended meanwhile, or is not ours
            continue
        if wanted in variables:
            found.append(int(entry.name))
    return found


def kill_all(pids: list[int], with_signal: int = signal.SIGKILL) -> None:
    """Signals each process that still lives."""
    for pid in pids:
        try:
            os.kill(pid, with_signal)
        except ProcessLookupError:
            continue


def end_marked(mark: str, grace_s: float = 5.0) -> int:
    """Ends every marked process: SIGTERM, then SIGKILL after `grace_s`. Returns how many had to be told."""
    told = marked(mark)
    kill_all(told, signal.SIGTERM)
    deadline = time.monotonic() + grace_s
    while marked(mark) and time.monotonic() < deadline:
        time.sleep(0.05)
    kill_all(marked(mark))
    return len(told)
