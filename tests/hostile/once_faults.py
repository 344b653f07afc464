"""Kills and freezes workers, coordinators and brokers under `Once`, whose every input has to have its effect once.

    python -m tests.hostile.once_faults [--minutes 20] [--seed 1] [--workers 3] [--ids] [--flaw before|after] [--log]

It is `tests.hostile.process_faults` with other work: the effects are rows of a SQLite file (WAL), written in the transaction
that holds the position. Workers die and freeze where they are, and at three points exactly: before the work, between the work
and its commit, and between that commit and the commit of the offsets. `--ids` sends each fifth record twice, with one id.
`--flaw` breaks the promise on purpose, so that the run has to fail: the effect is committed outside of the transaction.
`--log` runs workers of `Client.once` instead, with ids: the effects are records, and two points lie within their transaction.
Prints one line of counts; exits 1 unless all is right.
"""

from __future__ import annotations

import json
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from oncelog.client.once.once import Once
from oncelog.sync import Client, Producer
from tests.hostile.once_worker import LEASE_MS
from tests.hostile.process_faults import FROM, SESSION_S, TO, Feeder, Run, Worker, new_cluster, parser_of

GROUP = "effects"
POINTS = ("begun", "wrote", "committed")
LOG_POINTS = ("begun", "written", "offsets sent", "committed")
FLAWS = ("none", "before", "after")
_ID_HEADER = "id"
_TWICE_EVERY = 5
_REACH_S = SESSION_S + 4
"""How long a worker may take to come to a point: one that was just started waits for the partitions of a dead one."""
_LONG_S = SESSION_S + LEASE_MS / 1000 + 2
_WRITER_S = 1.5
"""A worker that is frozen with the file's write lock holds up all others: less than they wait for the lock, mostly."""


class SlowFeeder(Feeder):
    """Writes no more than workers get done that commit twice for each record."""

    pause_s = 0.1


class TwiceFeeder(SlowFeeder):
    """Gives each record an id, and sends some of them a second time, as a producer without idempotence may do."""

    def send(self, producer: Producer[Any, Any], key: int) -> None:
        """See the class."""
        for _ in range(1 + (self.fed[key] % _TWICE_EVERY == 0)):
            producer.send(
                FROM,
                b"%d" % self.fed[key],
                key=b"%d" % key,
                headers=[(_ID_HEADER, b"%d/%d" % (key, self.fed[key]))],
            )


class LogFeeder(TwiceFeeder):
    """Writes no more than workers get done that make a transaction for each record."""

    pause_s = 0.5


@dataclass
class PointRun(Run):
    """Workers that heed orders."""

    points: tuple[str, ...] = POINTS

    # ------------------------------------------------------------ harm

    def kill_at(self, at: int, point: str) -> bool:
        """It dies at this point of a record's work; False: it has not come there, and is killed where it is."""
        process = self.workers[at].process
        order(process, "SIGKILL", point)
        try:
            process.wait(_REACH_S)
            is_reached = True
        except subprocess.TimeoutExpired:
            is_reached = False
        self.harms[f"killed at {point}" if is_reached else "members killed"] += 1
        self.replace(at)
        return is_reached

    def freeze_at(self, at: int, point: str, seconds: float) -> bool:
        """It stands still at this point of a record's work; False: it has not come there."""
        process = self.workers[at].process
        order(process, "SIGSTOP", point)
        is_reached = until_stopped(process.pid, _REACH_S)
        if is_reached:
            self.harms[f"frozen at {point}"] += 1
            time.sleep(seconds)
        else:
            order(process, "SIGCONT", "nowhere")
        process.send_signal(signal.SIGCONT)
        return is_reached

    def choices(self, chance: random.Random) -> tuple[Callable[[], object], ...]:
        """Points are as likely as all other harm."""
        at = chance.randrange(self.count)
        exact: tuple[Callable[[], object], ...] = (
            *(partial(self.kill_at, at, point) for point in self.points),
            *(partial(self.freeze_at, at, point, chance.choice((_WRITER_S, _LONG_S))) for point in self.points),
        )
        return (*exact, *super().choices(chance))

    def report(self) -> str:
        """How often workers that were alive in the end were refused: zombies are fenced, and say so."""
        counts: dict[str, int] = defaultdict(int)
        for said in self.said:
            for name, number in json.loads(said).items():
                counts[name] += number
        return ", ".join(f"{name} {number}" for name, number in sorted(counts.items())) or "no refusal"


@dataclass
class LogRun(PointRun):
    """Effects in the log, and workers of `Client.once`."""

    points: tuple[str, ...] = LOG_POINTS

    def new_feeder(self) -> Feeder:
        """Writes the inputs, some of them twice."""
        return LogFeeder(self.cluster.bootstrap_servers)

    def new_worker(self) -> Worker:
        """One more member."""
        return Worker("once_log_worker", self.cluster.bootstrap_servers, GROUP, FROM, TO, _ID_HEADER)


@dataclass
class OnceRun(PointRun):
    """Effects in a file."""

    file: Path = Path("effects.db")
    has_ids: bool = False
    flaw: str = "none"

    def __post_init__(self) -> None:
        super().__post_init__()
        database = sqlite3.connect(self.file)
        database.execute("PRAGMA journal_mode=WAL")
        database.execute(
            "CREATE TABLE effects"
            " (commit_no INTEGER PRIMARY KEY, key_no, number, partition_no, record_offset, fencing, process)"
        )
        Once(database, GROUP).create_table()
        database.close()

    def new_feeder(self) -> Feeder:
        """Writes the inputs, some of them twice."""
        return (TwiceFeeder if self.has_ids else SlowFeeder)(self.cluster.bootstrap_servers)

    def new_worker(self) -> Worker:
        """One more member."""
        ids = _ID_HEADER if self.has_ids else ""
        return Worker("once_worker", self.cluster.bootstrap_servers, GROUP, FROM, str(self.file), ids, self.flaw)

    def found(self, client: Client) -> dict[int, list[int]]:
        """The effects that are committed. The file has one writer at a time, so numbers of rows grow with the commits."""
        found: dict[int, list[int]] = defaultdict(list)
        database = sqlite3.connect(self.file)
        for key, number in database.execute("SELECT key_no, number FROM effects ORDER BY commit_no"):
            found[key].append(number)
        database.close()
        return found


def order(process: subprocess.Popen[str], name: str, point: str) -> None:
    """The worker is to send itself this signal when it comes to this point."""
    assert process.stdin is not None
    process.stdin.write(f"{name} {point}\n")
    process.stdin.flush()


def until_stopped(pid: int, seconds: float) -> bool:
    """Waits until the process stands still; False: it did not within this time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T":
            return True
        time.sleep(0.01)
    return False


def main() -> int:
    """See the module."""
    parser = parser_of(__doc__)
    parser.add_argument("--ids", action="store_true")
    parser.add_argument("--flaw", choices=FLAWS, default="none")
    parser.add_argument("--log", action="store_true")
    given = parser.parse_args()
    if given.log and given.flaw != "none":
        parser.error("--flaw is for Once over a database")
    with (
        tempfile.TemporaryDirectory(prefix="oncelog-once-faults-") as folder,
        new_cluster(Path(folder, "c")) as cluster,
    ):
        run: PointRun = LogRun(cluster, given.workers)
        if not given.log:
            run = OnceRun(cluster, given.workers, file=Path(folder, "effects.db"), has_ids=given.ids, flaw=given.flaw)
        status = run.judged_after(given.minutes, given.seed)
    print(f"the workers that were left were refused: {run.report()}", flush=True)
    return status


if __name__ == "__main__":
    sys.exit(main())
