"""The client processes of a round: started, killed and replaced, frozen, and ended in two steps.

Rule: a client process that ends by itself before it was asked to is a finding, with the end of its log.
"""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.blackbox.host import HarnessError
from tests.blackbox.load import ROLES

Spawn = Callable[..., "subprocess.Popen[bytes]"]
_LAST: Final = ("readers", "copiers", "workers")
"""They end when all others have ended, at the end of everything."""
_END_S: Final = 150.0
_BEGIN_S: Final = 180.0


@dataclass(slots=True)
class Clients:
    """`names`: a client each, with the roles in turn. `spawn(name, *words)` starts a program of ours where a client is."""

    servers: str
    number: str
    names: Sequence[str]
    spawn: Spawn
    folder: Path
    next_life: Callable[[], int]
    log_end: Callable[[str], str]
    seed: int = 0
    end_s: float = _END_S
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    journals: list[Path] = field(default_factory=list)
    current: dict[str, Path] = field(default_factory=dict)

    def start(self) -> None:
        """Starts all, and returns when each has begun its first operation. Raises `HarnessError`."""
        for name in self.names:
            self._start(name)
        self._await_first_operations(self.names)

    def _await_first_operations(self, names: Sequence[str]) -> None:
        """Before that they do not know what a signal means."""
        deadline = time.monotonic() + _BEGIN_S
        for name in names:
            while self.processes[name].poll() is None and not self.current[name].stat().st_size:
                if time.monotonic() > deadline:
                    raise HarnessError(self._said("client-hangs", name, f"did nothing within {_BEGIN_S:.0f} s"))
                time.sleep(0.05)

    def role_of(self, name: str) -> str:
        """What this client does."""
        return ROLES[list(self.names).index(name) % len(ROLES)]

    def _start(self, name: str) -> None:
        life = self.next_life()
        journal = self.folder / f"round-{self.number}-{name}-{life}.jsonl"
        self.journals.append(journal)
        self.current[name] = journal
        journal.touch()
        words = ["--servers", self.servers, "--role", self.role_of(name), "--name", name, "--life", str(life)]
        words += ["--round", self.number, "--journal", str(journal), "--seed", str(self.seed)]
        self.processes[name] = self.spawn(name, "tests.blackbox.load", *words)

    def kill(self, name: str) -> int:
        """SIGKILL, and another life in its place; the id of the process that was killed."""
        process = self.processes[name]
        process.kill()
        process.wait()
        self._start(name)
        return process.pid

    def signal(self, name: str, number: int) -> int:
        """Sends a signal; the id of the process."""
        self.processes[name].send_signal(number)
        return self.processes[name].pid

    def ended_alone(self) -> list[str]:
        """Clients that ended without being asked; each is replaced."""
        found = []
        for name, process in list(self.processes.items()):
            if process.poll() is not None:
                found.append(self._said("client-died", name, f"ended with {process.returncode}"))
                self._start(name)
        return found

    def end_writers(self) -> list[str]:
        """Asks those that write, and waits; what went wrong."""
        return self._end([name for name in self.names if self.role_of(name) not in _LAST])

    def end_others(self) -> list[str]:
        """Asks those that read and copy, which go on to the end of everything; what went wrong."""
        return self._end([name for name in self.names if self.role_of(name) in _LAST])

    def _end(self, names: list[str]) -> list[str]:
        for name in names:
            self.signal(name, signal.SIGCONT)
        self._await_first_operations(names)
        for name in names:
            self.signal(name, signal.SIGUSR1)
        found, deadline = [], time.monotonic() + self.end_s
        for name in names:
            process = self.processes[name]
            try:
                process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                found.append(self._said("client-hangs", name, f"did not end within {self.end_s:.0f} s"))
                continue
            if process.returncode != 0:
                found.append(self._said("client-died", name, f"ended with {process.returncode}"))
        return found

    def _said(self, anomaly: str, name: str, what: str) -> str:
        return f"{anomaly}: {name} ({self.role_of(name)}) {what}: {self.log_end(name)}"

    def kill_all(self) -> None:
        """Leaves none."""
        for process in self.processes.values():
            process.kill()
            process.wait()
