"""A torture on a cluster that is there already: the load and the checks are ours, faults are commands of the user's.

Rule 1: nothing of the cluster is touched but topics of ours and, for the final read, who leads them.
Rule 2: a fault is `BEGIN ::: END`, two shell commands. END is always run, also when the torture is interrupted.
"""

from __future__ import annotations

import itertools
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Final

from oncelog.errors import OncelogError
from oncelog.sync import Client
from oncelog_runtime.adapters.child import dying_with_parent
from tests.blackbox.clients import Clients
from tests.blackbox.host import HarnessError, Healthy, NotHealthy
from tests.blackbox.plan import Fault
from tests.blackbox.torture import Heal

_HEALTHY_S: Final = 180.0
_COMMAND_S: Final = 120.0
_FIRST_S: Final = 5.0
_SEPARATOR: Final = ":::"


def parsed_fault(text: str) -> tuple[str, str]:
    """The two commands. Raises `HarnessError`."""
    begin, separator, end = (part.strip() for part in text.partition(_SEPARATOR))
    if not begin or not separator or not end:
        raise HarnessError(f"a fault is 'BEGIN ::: END', two commands, not {text!r}; END may be `true`")
    return begin, end


class ForeignGround:
    """`commands`: faults, each lasting `fault_s`. See `torture.Ground`."""

    def __init__(
        self, servers: str, seed: int, commands: Sequence[tuple[str, str]], fault_s: float, clients: int
    ) -> None:
        self.servers = servers
        self._random = Random(f"{seed}:commands")
        self._commands = commands
        self._fault_s = fault_s
        self._names = [f"client-{number}" for number in range(clients)]
        self._lives = itertools.count(1)
        self._run = f"{time.time_ns() // 1_000_000:x}"
        self._folder = Path(tempfile.mkdtemp(prefix="oncelog-torture-load-"))
        self._to_end: dict[int, Heal] = {}
        with Client(servers) as client:
            self.brokers = [broker_id for broker_id, _ in client.admin.cluster_health().brokers]

    def round_name(self, number: int) -> str:
        """An earlier torture may have been here."""
        return f"{self._run}-{number}"

    def clients(self, number: int) -> Clients:
        """The clients of a round."""
        lives = self._lives
        return Clients(
            self.servers, self.round_name(number), self._names, self._spawn, self._folder, lives.__next__, self._log_end
        )

    def _spawn(self, name: str, *words: str) -> subprocess.Popen[bytes]:
        with open(self._folder / f"{name}.log", "ab") as log:
            command = dying_with_parent([sys.executable, "-m", *words])
            return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)

    def _log_end(self, name: str) -> str:
        lines = (self._folder / f"{name}.log").read_text(errors="replace").strip().splitlines()
        return " | ".join(lines[-3:])

    def schedule(self, number: int, seconds: float) -> list[Fault]:
        """One command after the other, with as much quiet between two."""
        found, at_s = [], _FIRST_S
        while self._commands and at_s + self._fault_s < seconds - 2:
            at = self._random.randrange(len(self._commands))
            found.append(Fault(at_s, f"command-{at}", (), self._fault_s, at))
            at_s += self._fault_s * (1 + 2 * self._random.random())
        return found

    def before_round(self, clients: Clients) -> None:
        """Nothing."""

    def begin(self, fault: Fault) -> Heal:
        """Runs the first command; what it returns runs the second one."""
        begin, end = self._commands[fault.chance]
        _shell(begin)
        number = len(self._to_end)

        def heal() -> None:
            if self._to_end.pop(number, None) is not None:
                _shell(end)

        self._to_end[number] = heal
        return heal

    def heal_all(self) -> None:
        """Runs the second commands that were not run yet."""
        for heal in list(self._to_end.values()):
            heal()

    def wait_healthy(self) -> Healthy:
        """As the cluster itself says."""
        began, problem, waited_for = time.monotonic(), "no broker answers", ""
        while time.monotonic() - began < _HEALTHY_S:
            try:
                with Client(self.servers, default_api_timeout_ms=5_000) as client:
                    problem = "; ".join(client.admin.cluster_health().problems)
            except OncelogError as error:
                problem = str(error)
            if not problem:
                return Healthy(time.monotonic() - began, waited_for)
            waited_for = problem
            time.sleep(0.5)
        raise NotHealthy(f"the cluster is not healthy after {_HEALTHY_S:.0f} s: {problem}")

    def left_over(self) -> list[str]:
        """Its disks cannot be seen."""
        return []

    def restarted(self) -> list[str]:
        """Nobody looks at its processes."""
        return []

    def effects(self) -> tuple[Counter[str], Counter[str]]:
        """What a command does nobody knows here."""
        return Counter(), Counter()

    def logs(self) -> list[Path]:
        """Its files cannot be seen."""
        return []

    def remove_files(self) -> None:
        """Journals and logs of the clients."""
        shutil.rmtree(self._folder)


def _shell(command: str) -> None:
    done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=_COMMAND_S, check=False)
    if done.returncode != 0:
        raise HarnessError(f"{command} ended with {done.returncode}: {done.stderr.strip()[-500:]}")
