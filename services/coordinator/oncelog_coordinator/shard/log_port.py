"""The port of a shard to its log. `shard_log.py` implements it; tests have a fake."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Protocol

LogItem = tuple[str, bytes | None]
"""Key and value; None is a tombstone."""


class LogLostError(Exception):
    """The log takes no more appends in this epoch. `fenced`: a newer epoch was found there: `newest_epoch`, 0 = not known."""

    def __init__(self, message: str, *, fenced: bool = False, newest_epoch: int = 0) -> None:
        super().__init__(message)
        self.fenced = fenced
        self.newest_epoch = newest_epoch


class LogPort(Protocol):
    """The log of a shard in one epoch, written by one writer."""

    trouble: str
    """Why pending appends, or the replay, do not make progress; empty while all is well."""

    def append(self, items: Sequence[LogItem]) -> asyncio.Future[None]:
        """Appends all items as one batch, after everything appended before.

        The future ends when the batch is committed, or with `LogLostError` when that is not known: then this epoch
        ends.
        """
        ...

    def replay(self) -> AsyncIterator[list[LogItem]]:
        """Yields everything from the start of the log up to this epoch's own epoch record, which must be committed already."""
        ...

    async def close(self) -> None:
        """Abandons appends in flight."""
        ...
