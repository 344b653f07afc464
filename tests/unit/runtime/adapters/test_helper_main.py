"""A helper process gives way to all others, and does nothing for a parent that is gone already."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

MODULE = "oncelog_runtime.adapters.helper_main"


def test_it_does_nothing_for_a_parent_that_is_gone(tmp_path: Path) -> None:
    command = [sys.executable, "-m", MODULE, "1", str(tmp_path), "no.such:thing", "n"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


def test_it_takes_the_lowest_priority_and_is_the_first_to_go_when_memory_runs_out() -> None:
    program = f"import os; from {MODULE} import step_back; step_back(); print(os.getpriority(os.PRIO_PROCESS, 0))"
    program += "; print(open('/proc/self/oom_score_adj').read())"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == ["19", "1000"]
    assert os.getpriority(os.PRIO_PROCESS, 0) <= 19


def test_a_bug_of_its_reading_is_reported_and_ends_the_process() -> None:
    """Nobody awaits the task that reads: without an end the parent would wait for answers until its time-out."""
    program = f"""
import asyncio
from {MODULE} import _Inbox

class Channel:
    async def receive(self) -> bytes:
        raise ValueError("a bug")

async def main() -> None:
    await _Inbox(Channel()).receive()

asyncio.run(asyncio.wait_for(main(), 30))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert done.stderr.endswith("ValueError: a bug\n")
