"""The workers of one channel on one broker, over all partitions: who they are, and how much is a fair share.

Rule 1: a worker is known from its first request until it says that it leaves, or was not heard of for `worker_timeout_ms`; a
    standing request counts as being heard of.
Rule 2: a channel has at most `MAX_WORKERS` here; one more is refused and changes nothing.
"""

from __future__ import annotations

from typing import Final

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


class Workers:
    """The workers of one channel."""

    def heard(self, worker_id: str, client: str, now_ms: int) -> Worker:
        """Notes that a request of the worker has come, and returns it. Raises `ResourceExhaustedError` for one too many."""
        raise NotImplementedError

    def begin(self, worker_id: str, max_in_flight: int, now_ms: int) -> None:
        """Notes that a Receive of the worker stands from now on. The worker is known (`heard`)."""
        raise NotImplementedError

    def end(self, worker_id: str, now_ms: int) -> None:
        """Notes that a Receive has been answered or broken off. A worker that has left meanwhile is left alone."""
        raise NotImplementedError

    def left(self, worker_id: str) -> bool:
        """Forgets the worker; returns False when it was not known."""
        raise NotImplementedError

    def silent(self, now_ms: int, timeout_ms: int) -> list[str]:
        """Returns the workers that have been silent for so long, oldest first; the shell calls `left` for each."""
        raise NotImplementedError

    def next_silence_ms(self, timeout_ms: int) -> int | None:
        """Returns when the next worker will have been silent for so long, or None while all of them stand."""
        raise NotImplementedError

    def get(self, worker_id: str) -> Worker | None:
        """Returns the worker, or None."""
        raise NotImplementedError

    def all(self) -> list[Worker]:
        """Returns all workers, by id."""
        raise NotImplementedError

    def __len__(self) -> int:
        raise NotImplementedError

    @staticmethod
    def share(available: int, waiting: int) -> int:
        """Returns how many records one of `waiting` workers gets when so many are there: a fair share, at least one."""
        return max(1, -(-available // max(1, waiting)))
