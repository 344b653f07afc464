"""A process of this machine that is known again: its pid, and when it was started.

Rule: pids are given out again, also after a restart of the machine. A signal goes only to the process that was meant: first its
handle is taken, then its start is compared, then the signal goes to the handle (to the pid, where there are no handles).
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

State = Literal["running", "paused", "dead"]
_PROC: Final = Path("/proc")
_BOOT_ID: Final = _PROC / "sys" / "kernel" / "random" / "boot_id"
_PAUSED: Final = ("T", "t")
_ENDED: Final = ("Z", "X")
_PS_TIMEOUT_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class ProcessId:
    """`started` is text that no other process with this pid has; it means nothing on another machine."""

    pid: int
    started: str

    @staticmethod
    def of(pid: int) -> ProcessId | None:
        """Returns the process that has this pid now; None = there is none, or it has ended and waits for its parent."""
        started, letter = _look(pid)
        return ProcessId(pid, started) if started and letter not in _ENDED else None

    @property
    def state(self) -> State:
        """Paused is what SIGSTOP makes of it."""
        started, letter = _look(self.pid)
        if not started or started != self.started or letter in _ENDED:
            return "dead"
        return "paused" if letter in _PAUSED else "running"

    def send(self, *numbers: signal.Signals) -> bool:
        """Sends signals, one after the other. False: this process is gone, and no process got any."""
        with contextlib.ExitStack() as stack:
            handle = -1
            try:
                if sys.platform == "linux":
                    handle = os.pidfd_open(self.pid)
                    stack.callback(os.close, handle)
                if self.state == "dead":
                    return False
                for number in numbers:
                    _send(handle, self.pid, number)
            except ProcessLookupError:
                return False
        return True


def _send(handle: int, pid: int, number: signal.Signals) -> None:
    if sys.platform == "linux":
        signal.pidfd_send_signal(handle, number)
    else:
        os.kill(pid, number)


def _look(pid: int) -> tuple[str, str]:
    """(when it was started, the letter of its state), both empty when there is none."""
    if not _BOOT_ID.exists():
        return _ask_ps(pid)
    try:
        fields = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return "", ""
    return f"{_BOOT_ID.read_text().strip()}/{fields[19]}", fields[0]  # proc(5): fields 22 and 3


def _ask_ps(pid: int) -> tuple[str, str]:
    """Where there is no /proc."""
    command = ["ps", "-o", "state=", "-o", "lstart=", "-p", str(pid)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_PS_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return "", ""
    letter, _, started = done.stdout.strip().partition(" ")
    return started.strip(), letter[:1]
