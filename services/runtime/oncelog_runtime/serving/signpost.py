"""Finds the address of the process to go to instead, for calls that this one cannot serve (`OncelogError.go_to`).

Rule 1: an address is one of the listener at which the running handler was called, so the caller can use it.
Rule 2: it is what this process believes at the moment, and may be wrong: the process at that address gives the next
        one, or serves the call.
Rule 3: a caller is never sent back to this process: an empty text means that no other address is known, and that it
        should try again a little later.
"""

from __future__ import annotations

from oncelog.types import PartitionId
from oncelog_runtime.core.listeners import Addresses
from oncelog_runtime.metadata.cluster_view import ClusterView
from oncelog_runtime.serving.call_context import asked_on


class Signpost:
    """Finds addresses for one process. `client_listener`: it has a listener for clients. `broker_id` -1 = it is no broker."""

    def __init__(self, view: ClusterView, *, client_listener: bool, broker_id: int = -1) -> None:
        self._view = view
        self._client_listener = client_listener
        self._broker_id = broker_id
        self.own_address = ""
        """The internal address of this process, once it is known."""

    def broker(self, broker_id: int) -> str:
        """Returns the address of a registered broker."""
        entry = self._view.brokers.get(broker_id)
        return self._told(entry.value.addresses) if entry is not None and broker_id != self._broker_id else ""

    def controller(self) -> str:
        """Returns the address of the controller."""
        entry = self._view.controller
        return self.broker(entry.value.broker_id) if entry is not None and self._view.is_live(entry.value) else ""

    def leader(self, partition: PartitionId) -> str:
        """Returns the address of a partition's leader."""
        entry = self._view.partitions.get(partition)
        leader = entry.value.leader if entry is not None else None
        return self.broker(leader.broker_id) if leader is not None and self._view.is_live(leader) else ""

    def owner(self, kind: str, shard: int) -> str:
        """Returns the address of the coordinator that owns a shard."""
        owner = self._view.owner_of(kind, shard)
        return self._told(owner.addresses) if owner is not None else ""

    def any_coordinator(self) -> str:
        """Returns the address of the coordinator that owns the first shard with an owner."""
        owners = (self._view.owner_of(*key) for key in sorted(self._view.shard_owners))
        return next((self._told(owner.addresses) for owner in owners if owner is not None), "")

    def _told(self, addresses: Addresses) -> str:
        if addresses.internal == self.own_address:
            return ""
        return addresses.on(asked_on(client_listener=self._client_listener))
