"""Whether a fault was really done, as the machine tells it: states of processes, counters of packet filters and queues, disks.

Rule: nothing here trusts what the harness believes to have done. A fault without evidence is counted, and the report names it.
"""

from __future__ import annotations

import errno
import re
from pathlib import Path

_STOPPED = "T"
_OVERLIMITS = re.compile(r"overlimits (\d+)")


def is_stopped(pid: int, proc: Path = Path("/proc")) -> bool:
    """The kernel runs nothing of this process: it was sent SIGSTOP."""
    try:
        status = (proc / str(pid) / "stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[:1] == [_STOPPED]  # the name before it may hold spaces and brackets


def is_gone(pid: int, proc: Path = Path("/proc")) -> bool:
    """There is no such process."""
    return not (proc / str(pid)).exists()


def packets_dropped(listing: str) -> int:
    """What the rules of a chain have dropped, of `iptables -L CHAIN -n -v -x`."""
    rows = (line.split() for line in listing.splitlines())
    return sum(int(row[0]) for row in rows if len(row) > 2 and row[0].isdigit() and row[2] == "DROP")


def packets_held(statistics: str) -> int:
    """How often a queue made packets wait, of `tc -s qdisc show dev DEVICE`."""
    return sum(int(number) for number in _OVERLIMITS.findall(statistics))


def is_full(folder: Path) -> bool:
    """A byte more does not go on this disk."""
    probe = folder / "ballast-probe"
    try:
        with open(probe, "wb", buffering=0) as file:
            file.write(bytes(4096))
    except OSError as error:
        return error.errno == errno.ENOSPC
    finally:
        probe.unlink(missing_ok=True)
    return False
