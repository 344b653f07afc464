"""Whether this broker is in the ISR of all its replicas, as its readiness says.

Rule: all partitions are looked at again only after etcd has changed one of them, or this broker has another incarnation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from oncelog.types import BrokerRef
from oncelog_partition_leader.core.cluster.draining import out_of_sync
from oncelog_runtime.metadata import cluster_keys
from oncelog_runtime.metadata.cluster_view import ClusterView

_CONCERNED: Final = (cluster_keys.PARTITIONS, cluster_keys.REASSIGNMENTS)


class InSyncWatch:
    """Remembers the answer until a key changes on which it depends."""

    def __init__(self, view: ClusterView, me: Callable[[], BrokerRef]) -> None:
        self._view = view
        self._me = me
        self._known: tuple[BrokerRef, bool] | None = None
        view.listen(self._saw)

    def is_in_sync(self) -> bool:
        """Returns True when no replica of this broker is outside of its ISR, except those that are being added."""
        me = self._me()
        if self._known is None or self._known[0] != me:
            partitions = ((partition_id, entry.value) for partition_id, entry in self._view.partitions.items())
            self._known = me, out_of_sync(me, partitions, self._view.adding) == 0
        return self._known[1]

    def _saw(self, keys: list[str]) -> None:
        if any(key.startswith(_CONCERNED) for key in keys):
            self._known = None
