"""Finds the topics of assigned partitions that no broker showed when the partitions were assigned: a broker may be late.

Rule 1: they are looked up again each second, in the background, until they are found or the member no longer owns them. No read
        waits for that, and one that waits for records looks again when something was found.
Rule 2: a read takes what was found, so that a partition is never added while a change of the assignment is carried out.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from oncelog import errors
from oncelog.client.home.context import Context
from oncelog.core.consume.consumer import Cursor
from oncelog.core.consume.membership import Partitions
from oncelog.trace import tracing
from oncelog.types import PartitionId, TopicPartition

_log = logging.getLogger(__name__)
_AGAIN_S: Final = 1.0

LookUp = Callable[[Partitions], Awaitable[list[Cursor]]]
"""Returns a cursor for each of these partitions whose topic the brokers show."""


class LateTopics:
    """See the module. One per consumer. `owned` tells what the member owns now, `wake` has a waiting read look again."""

    def __init__(
        self, context: Context, look_up: LookUp, owned: Callable[[], Partitions], wake: Callable[[], None]
    ) -> None:
        self._context = context
        self._look_up = look_up
        self._owned = owned
        self._wake = wake
        self._missing: dict[PartitionId, TopicPartition] = {}
        self._found: list[Cursor] = []
        self._task: asyncio.Task[None] | None = None

    def expect(self, missing: Partitions) -> None:
        """The member owns these and no broker shows their topics."""
        for topic in dict.fromkeys(name.topic for name in missing.values()):
            _log.warning(
                "the group assigned partitions of topic %s that the brokers do not show: they are read when they do",
                topic,
            )
        self._missing |= missing
        if self._missing and (self._task is None or self._task.done()):
            background = tracing.background(self._context.tracer)
            self._task = asyncio.get_running_loop().create_task(
                self._look(), name="oncelog-late-topics", context=background
            )

    def take(self) -> list[Cursor]:
        """Returns what was found since the last call, and is still owned. Rule 2."""
        if not self._found:
            return []
        found, self._found = self._found, []
        owned = self._owned()
        return [cursor for cursor in found if cursor.id in owned]

    async def stop(self) -> None:
        """The member leaves: nothing is looked for any more."""
        self._missing.clear()
        self._found.clear()
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait((task,))

    async def _look(self) -> None:
        """Rule 1."""
        while self._missing:
            await asyncio.sleep(_AGAIN_S)
            owned = self._owned()
            self._missing = {id_: name for id_, name in self._missing.items() if id_ in owned}
            try:
                found = await self._look_up(dict(self._missing))
            except errors.OncelogError as error:
                _log.debug("the topics of assigned partitions are looked up again: %s", error)
                continue
            for cursor in found:
                self._missing.pop(cursor.id, None)
            self._found += found
            if found:
                self._wake()
