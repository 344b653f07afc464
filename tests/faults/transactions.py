"""A transactional load that remembers what it was told, and the verdict about what is there afterwards.

Each transaction writes its number into every partition. Rule: a transaction that was acknowledged is whole; any other is
whole or absent; nothing is there twice, and nothing that nobody wrote.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from dataclasses import dataclass, field

from oncelog import errors
from oncelog.sync import Client

TOPIC = "whole-cluster"
PARTITIONS = 6
_PAUSE_S = 0.02
_READ_S = 60.0


@dataclass
class Load:
    """One writer. `stop` joins it; `acknowledged` holds numbers, `begun` how many were tried."""

    servers: str
    acknowledged: set[int] = field(default_factory=set)
    begun: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    _stopping: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Writes until `stop`."""
        self._thread = threading.Thread(target=self._run, name="load")
        self._thread.start()

    def stop(self) -> None:
        """Ends after the transaction that is under way."""
        self._stopping.set()
        assert self._thread is not None
        self._thread.join()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                with Client(self.servers) as client, client.producer(transactional_id="whole") as producer:
                    while not self._stopping.is_set():
                        self._write(producer)
                        time.sleep(_PAUSE_S)
            except errors.OncelogError as error:
                self.refused[type(error).__name__] += 1
                time.sleep(0.2)

    def _write(self, producer: object) -> None:
        number, self.begun = self.begun, self.begun + 1
        with producer.transaction() as txn:  # type: ignore[attr-defined]
            for partition in range(PARTITIONS):
                txn.send(TOPIC, value=str(number).encode(), partition=partition)
        self.acknowledged.add(number)


def read_all(servers: str) -> dict[int, list[int]]:
    """The numbers in each partition up to its end as it is now, as a committed reader sees them."""
    found: dict[int, list[int]] = {partition: [] for partition in range(PARTITIONS)}
    with Client(servers) as client:
        ends = {q: o.last_stable_offset for q, o in client.admin.partition_offsets(TOPIC).items()}
        consumer = client.consumer(TOPIC, auto_offset_reset="earliest")
        consumer.start()
        deadline = time.monotonic() + _READ_S
        while any(consumer.position((TOPIC, q)) < end for q, end in ends.items()):
            assert time.monotonic() < deadline, "the topic cannot be read to its end"
            for record in consumer.getmany(timeout_ms=500):
                found[record.partition].append(int(record.value or b"-1"))
        consumer.close()
    return found


def anomalies(load: Load, found: dict[int, list[int]]) -> list[str]:
    """What must not be, in sentences."""
    problems: list[str] = []
    for partition, numbers in found.items():
        twice = [number for number, count in Counter(numbers).items() if count > 1]
        if twice:
            problems.append(f"partition {partition} has {len(twice)} numbers twice, for example {twice[0]}")
        if numbers != sorted(numbers):
            problems.append(f"partition {partition} is out of order")
    seen = Counter(number for numbers in found.values() for number in set(numbers))
    lost = sorted(load.acknowledged - set(seen))
    torn = sorted(number for number, count in seen.items() if count != PARTITIONS)
    foreign = sorted(number for number in seen if not 0 <= number < load.begun)
    for name, numbers in (("acknowledged and lost", lost), ("torn", torn), ("never written", foreign)):
        if numbers:
            problems.append(f"{len(numbers)} {name}, for example {numbers[0]}")
    return problems
