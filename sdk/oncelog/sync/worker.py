"""Worker without `await` (see `oncelog.sync`).

Written by scripts/gen_sync.py from the asynchronous classes; not to be edited.
"""

from __future__ import annotations

from types import TracebackType

from oncelog.sync.by_hand import WorkerBase
from oncelog.value_types import K, V, fills_up


@fills_up
class Worker(WorkerBase[K, V]):
    """A worker of a channel. See `oncelog.Worker`."""

    def start(self) -> Worker[K, V]:
        """Finds or makes the channel, and asks for records. Idempotent; whatever reads does this by itself.

        Raises `UnknownTopicError`, `UnknownChannelError` with `create=False`, and what the controller refuses.
        """
        self._run(self._inner.start())
        return self

    def __enter__(self) -> Worker[K, V]:
        self._run(self._inner.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._run(self._inner.__aexit__(kind, error, trace))

    @property
    def in_flight(self) -> int:
        """How many records this worker holds, those included that were not handed out yet."""
        return self._inner.in_flight

    def close(self, timeout_ms: int | None = None) -> None:
        """Waits until everything that was said is confirmed, and gives back what was not handed out. Idempotent.

        What was handed out and not settled comes again too, at once, and that delivery counts. It takes at most `timeout_ms`
        (None = `close_timeout_ms`); then what is left is given back by the brokers, when they miss the worker.
        """
        self._run(self._inner.close(timeout_ms))
