"""OnceInLog without `await` (see `oncelog.sync`).

Written by scripts/gen_sync.py from the asynchronous classes; not to be edited.
"""

from __future__ import annotations

from types import TracebackType

from oncelog.sync.by_hand import OnceInLogBase


class OnceInLog(OnceInLogBase):
    """See `oncelog.OnceInLog`."""

    def create_topic(self) -> None:
        """Creates the topic that remembers ids, unless it is there. Raises `UnknownTopicError` for a topic that is not."""
        self._run(self._inner.create_topic())

    def __enter__(self) -> OnceInLog:
        self._run(self._inner.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._run(self._inner.__aexit__(kind, error, trace))

    def close(self) -> None:
        """Leaves the group; a work that is open cannot be committed any more. Idempotent."""
        self._run(self._inner.close())
