"""The state that `oncelog up` keeps in its data directory, for `status`, `down`, `kill`, `pause`, `resume`, `start`.

    up.json             the supervisor, its processes, where they listen: replaced at once, for the owner alone
    up.requests/NAME    a command asks the supervisor to start the process NAME

Rule 1: only the supervisor writes up.json, and it holds the lock `up.lock` as long as it lives.
Rule 2: a pid alone is not believed: processes are known by pid and start (`process_id`).
Rule 3: only the supervisor starts processes, because they end with the process that started them. It is asked by a file.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from oncelog.core.malformed import MALFORMED, JsonObject
from oncelog.errors import StorageError
from oncelog_cli.laptop.process_id import ProcessId, State

DATA_DIR: Final = "oncelog-data"
FILE: Final = "up.json"
LOG: Final = "up.log"
_REQUESTS: Final = "up.requests"
_VERSION: Final = 1
_PRIVATE_FILE: Final = 0o600
_PRIVATE_FOLDER: Final = 0o700
_LOOK_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class Member:
    """One process of the cluster. `ended` says how it ended ("SIGKILL", "exit code 1"), and is empty while it lives."""

    name: str
    address: str
    process: ProcessId | None = None
    since_ms: int = 0
    """Wall clock of its last start."""
    ended: str = ""
    last_words: str = ""
    metrics_url: str = ""

    @property
    def state(self) -> State:
        """Returns the state of the process on this machine now."""
        return "dead" if self.process is None else self.process.state


@dataclass(frozen=True, slots=True)
class UpState:
    """A cluster of `oncelog up`. `ready`: it has answered."""

    data_dir: str
    supervisor: ProcessId
    bootstrap_servers: str = ""
    ready: bool = False
    detached: bool = False
    members: tuple[Member, ...] = ()

    @property
    def is_running(self) -> bool:
        """The supervisor lives."""
        return self.supervisor.state != "dead"

    def is_running_in(self, folder: Path) -> bool:
        """It lives, and runs on this very folder: a copy of a data directory has no cluster of its own."""
        return self.is_running and self.belongs_to(folder)

    def belongs_to(self, folder: Path) -> bool:
        """It was written here, and not where this folder was copied from."""
        return Path(self.data_dir).resolve() == folder.resolve()

    def member(self, name: str) -> Member | None:
        """By name."""
        return next((member for member in self.members if member.name == name), None)

    # ------------------------------------------------------------ the file

    @staticmethod
    def read(data_dir: Path) -> UpState | None:
        """None: `oncelog up` has not run here. Raises `StorageError` for a file that cannot be understood."""
        path = data_dir / FILE
        try:
            data = json.loads(path.read_text())
            members = tuple(_member(item) for item in data.pop("members"))
            supervisor = ProcessId(**data.pop("supervisor"))
            if data.pop("version") != _VERSION:
                raise ValueError("another version wrote it")
            return UpState(**data, supervisor=supervisor, members=members)
        except FileNotFoundError:
            return None
        except (OSError, *MALFORMED) as error:
            raise StorageError(
                f"{path} cannot be read: {error!r}; remove it when no `oncelog up` runs there"
            ) from error

    def write(self) -> None:
        """Replaces the file. The supervisor alone does it (rule 1)."""
        path = Path(self.data_dir) / FILE
        temporary = path.with_suffix(".tmp")
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _PRIVATE_FILE)
        with os.fdopen(handle, "w") as out:
            json.dump({"version": _VERSION, **asdict(self)}, out, indent=1)
        temporary.replace(path)


def _member(data: JsonObject) -> Member:
    process = data.pop("process")
    return Member(**data, process=ProcessId(**process) if process is not None else None)


# ---------------------------------------------------------------- asking the supervisor


def request_start(data_dir: Path, name: str) -> None:
    """Asks for the start of a process; the supervisor looks several times a second."""
    folder = data_dir / _REQUESTS
    folder.mkdir(_PRIVATE_FOLDER, exist_ok=True)
    os.close(os.open(folder / name, os.O_WRONLY | os.O_CREAT, _PRIVATE_FILE))


def withdraw(data_dir: Path, name: str) -> None:
    """Withdraws the request for this start."""
    (data_dir / _REQUESTS / name).unlink(missing_ok=True)


def take_requests(data_dir: Path) -> list[str]:
    """Names of processes to be started, by the supervisor; each is given once."""
    folder = data_dir / _REQUESTS
    names = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    for name in names:
        withdraw(data_dir, name)
    return names


# ---------------------------------------------------------------- ending


def end_all(processes: Iterable[ProcessId], grace_s: float) -> int:
    """SIGTERM, also to paused ones; SIGKILL to what is left after `grace_s`. How many there were."""
    left = [process for process in processes if process.send(signal.SIGTERM, signal.SIGCONT)]
    found = len(left)
    deadline = time.monotonic() + grace_s
    while left and time.monotonic() < deadline:
        time.sleep(_LOOK_S)
        left = [process for process in left if process.state != "dead"]
    for process in left:
        process.send(signal.SIGKILL)
    return found


def leftovers(state: UpState) -> list[ProcessId]:
    """Processes of a supervisor that was killed and that have outlived it (one that is paused does not hear of its death)."""
    if state.is_running:
        return []
    return [m.process for m in state.members if m.process is not None and m.state != "dead"]
