"""The workers of one channel on one broker, over all partitions: who they are, and how much is a fair share.

Rule 1: a worker is known from its first request until it says that it leaves, or was not heard of for the time-out; a standing
    request counts as being heard of.
Rule 2: a channel has at most `MAX_WORKERS` here; one more is refused and changes nothing.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from oncelog.errors import ResourceExhaustedError
from oncelog_runtime.metadata.channel_values import ChannelOptions

MAX_WORKERS: Final = 10_000
LONGEST_SILENCE_MS: Final = 10_000


def worker_timeout_ms(options: ChannelOptions) -> int:
    """Returns after how long a worker that is not heard of has left."""
    return min(options.ack_wait_ms, LONGEST_SILENCE_MS)


class Worker:
    """One worker."""

    __slots__ = ("client", "heard_ms", "max_in_flight", "standing", "worker_id")

    def __init__(self, worker_id: str, client: str, now_ms: int) -> None:
        self.worker_id = worker_id
        self.client = client
        """The address that it calls from."""
        self.max_in_flight = 0
        """How many records it holds at this broker at most, as its last Receive said."""
        self.heard_ms = now_ms
        self.standing = 0
        """How many of its requests are being answered; while there is one it is heard of."""

    def idle_ms(self, now_ms: int) -> int:
        """Returns how long it has not been heard of."""
        return 0 if self.standing else max(0, now_ms - self.heard_ms)


class Workers:
    """The workers of one channel."""

    def __init__(self) -> None:
        self._workers: OrderedDict[str, Worker] = OrderedDict()
        """By `heard_ms`: the one that has been silent longest comes first. Those with a standing request may be anywhere."""

    def heard(self, worker_id: str, client: str, now_ms: int) -> Worker:
        """Notes that a request of the worker has come, and returns it. Raises `ResourceExhaustedError` for one too many."""
        worker = self._workers.get(worker_id)
        if worker is None:
            if len(self._workers) >= MAX_WORKERS:
                raise ResourceExhaustedError(f"a channel has at most {MAX_WORKERS} workers at a broker")
            worker = self._workers[worker_id] = Worker(worker_id, client, now_ms)
        worker.client = client
        self._touch(worker, now_ms)
        return worker

    def begin(self, worker_id: str, max_in_flight: int, now_ms: int) -> None:
        """Notes that a Receive of the worker stands from now on. The worker is known (`heard`)."""
        worker = self._workers[worker_id]
        worker.max_in_flight = max_in_flight
        worker.standing += 1
        self._touch(worker, now_ms)

    def end(self, worker_id: str, now_ms: int) -> None:
        """Notes that a Receive has been answered or broken off. A worker that has left meanwhile is left alone."""
        worker = self._workers.get(worker_id)
        if worker is not None and worker.standing > 0:
            worker.standing -= 1
            self._touch(worker, now_ms)

    def left(self, worker_id: str) -> bool:
        """Forgets the worker; returns False when it was not known."""
        return self._workers.pop(worker_id, None) is not None

    def silent(self, now_ms: int, timeout_ms: int) -> list[str]:
        """Returns the workers that have been silent for so long, oldest first; the shell calls `left` for each."""
        found = []
        for worker in self._workers.values():
            if worker.standing:
                continue
            if worker.heard_ms + timeout_ms > now_ms:
                break
            found.append(worker.worker_id)
        return found

    def spare(self, now_ms: int) -> None:
        """Counts the silence of all of them from now on: it was this process that stood still."""
        for worker in self._workers.values():
            worker.heard_ms = max(worker.heard_ms, now_ms)

    def next_silence_ms(self, timeout_ms: int) -> int | None:
        """Returns when the next worker will have been silent for so long, or None while all of them stand."""
        oldest = next((worker for worker in self._workers.values() if not worker.standing), None)
        return None if oldest is None else oldest.heard_ms + timeout_ms

    def get(self, worker_id: str) -> Worker | None:
        """Returns the worker, or None."""
        return self._workers.get(worker_id)

    def all(self) -> list[Worker]:
        """Returns all workers, by id."""
        return sorted(self._workers.values(), key=lambda worker: worker.worker_id)

    def __len__(self) -> int:
        return len(self._workers)

    @staticmethod
    def share(available: int, waiting: int) -> int:
        """Returns how many records one of `waiting` workers gets when so many are there: a fair share, at least one."""
        return max(1, -(-available // max(1, waiting)))

    def _touch(self, worker: Worker, now_ms: int) -> None:
        worker.heard_ms = max(worker.heard_ms, now_ms)
        self._workers.move_to_end(worker.worker_id)
