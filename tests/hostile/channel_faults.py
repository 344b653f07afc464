"""Kills and freezes workers, coordinators and brokers under a channel, whose records all have to be done, none after it was.

    python -m tests.hostile.channel_faults [--minutes 20] [--seed 1] [--workers 3] [--txn]

It is `tests.hostile.process_faults` with workers of a channel. Each notes in a file when a record was handed out to it, and
when an acknowledgement was confirmed, by the machine's own clock. In the end

    missing     records that were written and never acknowledged, and those that the channel still holds: 0
    repeated    deliveries after an acknowledgement of the same record was confirmed, to anybody: 0
    redelivered deliveries beyond the first one: what was in flight when something died, and what was given back
    unconfirmed acknowledgements that were sent by a worker which died before it had the answer

With `--txn` workers copy each record and acknowledge it in the transaction of the copy: each is in the output once. Prints one
line of counts; exits 1 unless all is right.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from oncelog.sync import Client, Producer
from tests.hostile.channel_worker import ACK_WAIT_MS
from tests.hostile.process_faults import FROM, KEYS, TO, Feeder, Run, Verdict, Worker, new_cluster, parser_of

CHANNEL = "work"
_PATIENCE_S = 60.0


class Unhurried(Feeder):
    """Writes no more than workers can do that handle a few records at a time, so they are at its heels when harm is done."""

    pause_s = 0.05


class Numbers(Unhurried):
    """Writes records whose values are numbers of their own, whichever key they have."""

    def send(self, producer: Producer[Any, Any], key: int) -> None:
        """Sends the next number of the key."""
        producer.send(FROM, b"%d" % (self.fed[key] * KEYS + key), key=b"%d" % key)


@dataclass
class Found:
    """What the journals say."""

    delivered: Counter[int] = field(default_factory=Counter)
    said: set[int] = field(default_factory=set)
    """Acknowledgements that were sent; their worker may have died before it had the answer."""
    acknowledged_s: dict[int, float] = field(default_factory=dict)
    came_again: set[int] = field(default_factory=set)
    stories: dict[int, list[str]] = field(default_factory=lambda: defaultdict(list))
    """Every event of a number, in the order of time."""

    @staticmethod
    def of(folder: Path) -> Found:
        """Reads all journals, in the order of time."""
        found, events = Found(), []
        for path in folder.glob("*.journal"):
            for line in path.read_text().splitlines():
                kind, value, at_s, told = line.split(maxsplit=3)
                events.append((float(at_s), kind, int(value), f"{kind} {at_s} {told} {path.stem}"))
        for at_s, kind, number, told in sorted(events):
            found.stories[number].append(told)
            if kind == "A":
                found.acknowledged_s.setdefault(number, at_s)
            elif kind == "S":
                found.said.add(number)
            else:
                found.delivered[number] += 1
                if number in found.acknowledged_s:
                    found.came_again.add(number)
        return found


class Said:
    """The numbers whose acknowledgement was sent. Journals grow to a gigabyte, so each look reads what is new."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: Counter[Path] = Counter()
        self.numbers: set[int] = set()

    def look(self) -> set[int]:
        """Reads the lines that have been added."""
        for path in self._folder.glob("*.journal"):
            with path.open("rb") as journal:
                journal.seek(self._read[path])
                added = journal.read()
            whole = added[: added.rfind(b"\n") + 1]
            self._read[path] += len(whole)
            self.numbers.update(int(line.split()[1]) for line in whole.splitlines() if line.startswith(b"S"))
        return self.numbers


@dataclass
class ChannelRun(Run):
    """A run whose workers share a channel."""

    journals: Path = Path()

    def new_feeder(self) -> Feeder:
        """See `Run`."""
        return Numbers(self.cluster.bootstrap_servers)

    def new_worker(self) -> Worker:
        """See `Run`. Each has a journal of its own."""
        journal = self.journals / f"{random.getrandbits(64):016x}.journal"
        return Worker("channel_worker", self.cluster.bootstrap_servers, FROM, CHANNEL, str(journal))

    def numbers(self) -> set[int]:
        """What was written for certain."""
        return {number * KEYS + key for key, count in self.feeder.fed.items() for number in range(count)}

    def verdict(self) -> Verdict:
        """Stops the feeding, waits until everything is acknowledged, and compares."""
        self.feeder.stop()
        wanted, done, deadline = self.numbers(), -1, 0.0
        journals = Said(self.journals)
        while not wanted <= (said := journals.look()):
            if len(said) > done:
                done, deadline = len(said), time.monotonic() + _PATIENCE_S
            if time.monotonic() > deadline:
                break
            time.sleep(1)
        time.sleep(ACK_WAIT_MS / 1000 + 2)  # what comes again would do so within this time
        for worker in self.workers:
            worker.stop()
        found = Found.of(self.journals)
        self.harms["redelivered"] = sum(found.delivered.values()) - len(found.delivered)
        self.harms["unconfirmed"] = len(found.said - set(found.acknowledged_s))
        with Client(self.cluster.bootstrap_servers) as client:
            stuck = sum(one.depth for one in client.admin.describe_channel(FROM, CHANNEL).partitions)
        missing = len(wanted - found.said) + stuck
        for number in sorted(found.came_again):
            print(f"came after it was acknowledged: {number}", *found.stories[number], sep="\n    ")
        return Verdict(len(wanted), len(found.said & wanted), missing, repeated=len(found.came_again))


@dataclass
class TransactionRun(Run):
    """A run whose workers copy, and acknowledge in the transactions of the copies. Order is not promised between workers."""

    journals: Path = Path()

    def new_feeder(self) -> Feeder:
        """See `Run`."""
        return Unhurried(self.cluster.bootstrap_servers)

    def new_worker(self) -> Worker:
        """See `Run`."""
        return Worker("channel_worker", self.cluster.bootstrap_servers, FROM, CHANNEL, "/dev/null", TO)

    def found(self, client: Client) -> dict[int, list[int]]:
        """See `Run`."""
        return {key: sorted(numbers) for key, numbers in super().found(client).items()}


def main() -> int:
    """See the module."""
    parser = parser_of(__doc__)
    parser.add_argument("--txn", action="store_true", help="acknowledge in transactions")
    given = parser.parse_args()
    kind = TransactionRun if given.txn else ChannelRun
    with (
        tempfile.TemporaryDirectory(prefix="oncelog-channel-faults-") as folder,
        tempfile.TemporaryDirectory(prefix="oncelog-channel-journals-") as journals,
        new_cluster(Path(folder)) as cluster,
    ):
        return kind(cluster, given.workers, journals=Path(journals)).judged_after(given.minutes, given.seed)


if __name__ == "__main__":
    sys.exit(main())
