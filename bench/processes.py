"""The CPU time and the memory of processes of this machine, from /proc.

Rule: both count all threads of a process and nothing of its children. CPU time does not depend on what else the machine
      does, but for caches that others empty: it may be compared on a busy machine, where elapsed time may not.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")


def cpu_s_of(stat: str) -> float:
    """Seconds of CPU time, user and system, from the text of /proc/PID/stat. The command's name may hold anything."""
    fields = stat.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S


def rss_bytes_of(status: str) -> int:
    """Bytes of resident memory from the text of /proc/PID/status; 0 for a process that has ended."""
    for line in status.splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) << 10
    return 0


def cpu_s(pid: int) -> float:
    """Seconds of CPU time that a process has taken so far."""
    return cpu_s_of(Path(f"/proc/{pid}/stat").read_text())


def rss_bytes(pid: int) -> int:
    """Resident bytes of a process."""
    return rss_bytes_of(Path(f"/proc/{pid}/status").read_text())


@dataclass(slots=True)
class CpuMeter:
    """Measures processes from its creation on. `pids`: a name for each."""

    pids: Mapping[str, int]
    _began_s: float = field(default_factory=time.monotonic)
    _before: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._before = {name: cpu_s(pid) for name, pid in self.pids.items()}

    def percent(self) -> dict[str, float]:
        """Percent of one core since the creation, by name."""
        elapsed_s = time.monotonic() - self._began_s
        return {name: 100 * (cpu_s(pid) - self._before[name]) / elapsed_s for name, pid in self.pids.items()}


def percent_over(pids: Mapping[str, int], seconds: float) -> dict[str, float]:
    """Percent of one core that each process takes in the next `seconds`."""
    meter = CpuMeter(pids)
    time.sleep(seconds)
    return meter.percent()
