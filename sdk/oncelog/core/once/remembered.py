"""Keeps the ids of records whose work was done, each until its time to live ends, and writes them as keys of a topic.

Rule 1: an id is known within its group, topic and partition. One partition has one worker at a time, so no other worker may add
        to what was read back.
Rule 2: the time to live begins at the time that was written with the id, by the clock of the worker that wrote it.
"""

from __future__ import annotations

import json
from typing import NamedTuple

from oncelog.core.malformed import MALFORMED


class IdKey(NamedTuple):
    """The key of a record in the topic of ids."""

    group_id: str
    topic: str
    partition: int
    record_id: str

    def encode(self) -> bytes:
        """As it is written."""
        return json.dumps(list(self), ensure_ascii=False, separators=(",", ":")).encode(errors="surrogatepass")


def decode_id_key(key: bytes | None) -> IdKey | None:
    """Reads what `encode` wrote; None for a key that something else wrote."""
    try:
        found = json.loads(key or b"")
    except MALFORMED:
        return None
    if not isinstance(found, list) or [type(item) for item in found] != [str, str, int, str]:
        return None
    return IdKey(*found)


class RememberedIds:
    """The ids of one partition."""

    def __init__(self, remember_ids_ms: int) -> None:
        self._remember_ids_ms = remember_ids_ms
        self._until_ms: dict[str, int] = {}

    def add(self, record_id: str, done_ms: int) -> None:
        """The work of the record with this id was committed at this time."""
        until_ms = max(done_ms + self._remember_ids_ms, self._until_ms.pop(record_id, 0))
        self._until_ms[record_id] = until_ms  # at the end: the first one is the oldest, give or take the clocks

    def has(self, record_id: str, now_ms: int) -> bool:
        """True: a record with this id was done, and its time to live has not ended."""
        return self._until_ms.get(record_id, 0) > now_ms

    def forget_old(self, now_ms: int) -> None:
        """Drops the oldest ids whose time has ended."""
        while self._until_ms and self._until_ms[first := next(iter(self._until_ms))] <= now_ms:
            del self._until_ms[first]

    def __len__(self) -> int:
        return len(self._until_ms)
