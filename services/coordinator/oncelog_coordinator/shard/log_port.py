"""What a shard needs of its log. `shard_log.py` is the real one; tests have a fake."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Protocol

LogItem = tuple[str, bytes | None]
"""Key and value; None is a tombstone."""


class LogLostError(Exception):
    """The log takes nothing more from this life. `fenced`: a newer epoch was seen there: `newest_epoch`, 0 = not told."""

    def __init__(self, message: str, *, fenced: bool = False, newest_epoch: int = 0) -> None:
        super().__init__(message)
        self.fenced = fenced
        self.newest_epoch = newest_epoch


class LogPort(Protocol):
    """The log of one life of one shard, written by one writer in one epoch."""

    trouble: str
    """Why what was appended, or is to be replayed, is not there yet; empty while all is well."""

    def append(self, items: Sequence[LogItem]) -> asyncio.Future[None]:
        """Appends all items as one batch, after everything appended before.

        The future ends when the batch is committed, or with `LogLostError` when that is not known: then the life ends.
        """
        ...

    def replay(self) -> AsyncIterator[list[LogItem]]:
        """Everything from the start of the log up to this life's own epoch record, which must be committed already."""
        ...

    async def close(self) -> None:
        """Gives up what is in flight."""
        ...
