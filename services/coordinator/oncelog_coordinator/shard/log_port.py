"""The port of a shard to its log. `shard_log.py` implements it; tests have a fake."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import NamedTuple, Protocol

LogItem = tuple[str, bytes | None]
"""Key and value; None is a tombstone."""


class LogBatch(NamedTuple):
    """Records that were appended together, and the offset of the first one.

    `is_first`: the log begins with them. What was read before, if anything, has been deleted, and is superseded.
    """

    offset: int
    items: list[LogItem]
    is_first: bool = False


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

    @property
    def free_below(self) -> int:
        """After the replay: the highest offset that an owner has announced to be free."""
        ...

    def append(self, items: Sequence[LogItem]) -> asyncio.Future[int]:
        """Appends all items as one batch, after everything appended before.

        The future ends when the batch is committed, with its offset (-1: its leader does not know it any more), or with
        `LogLostError` when that is not known: then this epoch ends.
        """
        ...

    def replay(self) -> AsyncIterator[list[LogBatch]]:
        """Yields everything from the start of the log up to this epoch's own epoch record, which must be committed already."""
        ...

    def delete_before(self, offset: int) -> None:
        """Has the records below an offset deleted, some time. The offset must have been announced, in a committed record."""
        ...

    async def close(self) -> None:
        """Abandons appends in flight."""
        ...
