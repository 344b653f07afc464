"""Has a group enrolled in a transaction, before its shard takes anything that takes part in it.

Rule: this process asks the transaction's own shard as a partition leader does (hole 14); the answer carries the shard's epoch,
and one of an older epoch than this process has seen is refused.
"""

from __future__ import annotations

from oncelog.errors import CoordinatorFencedError
from oncelog.ports import Transport
from oncelog.v1 import coordinator_pb2 as co
from oncelog.wire import methods
from oncelog_coordinator.core.offsets.offset_commands import Enrolled
from oncelog_coordinator.effects.markers import shard_owner_address
from oncelog_runtime.metadata.cluster_keys import KIND_TXN
from oncelog_runtime.metadata.cluster_view import ClusterView


class Enrolling:
    """Asks the owners of transaction shards."""

    def __init__(self, transport: Transport, view: ClusterView, timeout_ms: int) -> None:
        self._transport = transport
        self._view = view
        self._timeout_ms = timeout_ms

    async def enrol(
        self, name: co.TransactionName, txn_shard: int, group_id: str, forgotten: int, *, is_enrolled: bool
    ) -> Enrolled:
        """Enrols the group, unless it is. `forgotten`: `EndedLedger.forgotten` of its shard, from before this call."""
        if is_enrolled:
            return Enrolled(None, forgotten)
        return Enrolled(await self._ask(name, txn_shard, group_id), forgotten)

    async def _ask(self, name: co.TransactionName, txn_shard: int, group_id: str) -> int:
        """Returns the epoch of the transaction shard that has enrolled the group."""
        known = self._view.shard_epochs.get((KIND_TXN, txn_shard), 0)
        address = shard_owner_address(self._view, KIND_TXN, txn_shard)
        request = co.EnrolPartitionsRequest(name=name, groups=[group_id])
        reply, _ = await methods.ENROL_PARTITIONS.call(self._transport, address, request, self._timeout_ms)
        if reply.coordinator_epoch < known:
            raise CoordinatorFencedError("an older coordinator answered", txn_shard=txn_shard)
        return reply.coordinator_epoch
