"""Which partitions have no known leader, and when the producer looks again.

Rule: each look that finds no leader makes the pause before the next one longer; a leader that is found ends the count.
"""

from __future__ import annotations

from collections.abc import Iterable

from oncelog.core.produce.accumulator import Batch
from oncelog.core.produce.actions import Facts, WakeAt
from oncelog.errors import ErrorAction, NetworkError, OncelogError, RequestTimedOutError, UnknownTopicError
from oncelog.types import PartitionId


class LeaderSearch:
    """See the module. One per producer."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._missing: dict[PartitionId, int] = {}
        self.error: OncelogError | None = None
        """Why the last refresh of the metadata failed; None when it did not."""

    def address_of(self, partition: PartitionId) -> str | None:
        """Address of the leader. None: there is none, so the metadata has to be asked for."""
        address = self._facts.leader(partition)
        if address is None:
            self._missing[partition] = self._missing.get(partition, 0) + 1
        else:
            self._missing.pop(partition, None)
        return address

    def forget(self, partition: PartitionId) -> None:
        """The partition is gone."""
        self._missing.pop(partition, None)

    def look_again(self, now_ms: int) -> tuple[list[PartitionId], list[WakeAt]]:
        """After a refresh: the partitions that have a leader by now, and when to look again for the others."""
        found: list[PartitionId] = []
        later: list[WakeAt] = []
        for partition, looks in self._missing.items():
            if self._facts.leader(partition) is not None:
                found.append(partition)
            else:
                later.append(WakeAt(partition, now_ms + self._facts.delay_ms(looks)))
        return found, later

    def is_deposed(self, address: str, batches: Iterable[Batch]) -> bool:
        """Each of these batches, sent to this broker, has another leader by now."""
        leaders = [self._facts.leader(batch.partition) for batch in batches]
        return all(leader is not None and leader != address for leader in leaders)


def may_have_moved(error: OncelogError) -> bool:
    """After this answer the partition may have another leader."""
    lost = isinstance(error, NetworkError | RequestTimedOutError | UnknownTopicError)
    return lost or error.action is ErrorAction.REFRESH
