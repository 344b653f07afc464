"""The batches of one append. Each producer and each transaction occurs in it once, so all were decided by the same state."""

from __future__ import annotations

from oncelog.core.batch.header import BatchHeader
from oncelog.types import Buffer
from oncelog_partition_leader.core.appends.commands import Command


class AppendGroup:
    """Commands and their batches, in the order in which they are written."""

    __slots__ = ("_keys", "batches", "commands")

    def __init__(self) -> None:
        self.commands: list[Command] = []
        self.batches: list[tuple[BatchHeader, Buffer]] = []
        self._keys: set[int] = set()

    def touches(self, command: Command) -> bool:
        """Returns True when the decision about `command` depends on a batch of this group."""
        return bool(self._keys) and not self._keys.isdisjoint(command.keys)

    def add(self, command: Command, header: BatchHeader, data: Buffer) -> None:
        """Adds a command and its batch."""
        self.commands.append(command)
        self.batches.append((header, data))
        self._keys.update(command.keys)
