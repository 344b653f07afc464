"""Administration of brokers: what each holds, and taking them out of use. A part of `client.admin`.

Rule: what is asked for is durable when the call returns, and happens afterwards: `broker_loads` shows how far it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from oncelog.client.admin.admin_base import AdminBase
from oncelog.v1 import placement_pb2 as pl
from oncelog.wire import methods


@dataclass(frozen=True, slots=True)
class BrokerLoad:
    """Returns what a broker holds. Decommissioned with no replicas: it may be stopped for good."""

    broker_id: int
    registered: bool
    decommissioned: bool
    replicas: int
    leaderships: int
    moving: int


class OperationsAdmin(AdminBase):
    """See the module."""

    async def broker_loads(self) -> list[BrokerLoad]:
        """Every broker that is registered, holds something, or is out of use."""
        return await self._decommission(pl.DECOMMISSION_ACTION_STATUS, ())

    async def decommission(self, broker_ids: Sequence[int]) -> list[BrokerLoad]:
        """These brokers shall hold nothing: their replicas move away. Safe to repeat.

        Raises `InvalidReplicaAssignmentError` when too few brokers would be left for the replicas of some topic.
        """
        return await self._decommission(pl.DECOMMISSION_ACTION_START, broker_ids)

    async def recommission(self, broker_ids: Sequence[int]) -> list[BrokerLoad]:
        """These brokers take part again. Moves that are under way are not undone."""
        return await self._decommission(pl.DECOMMISSION_ACTION_CANCEL, broker_ids)

    async def _decommission(self, action: pl.DecommissionAction, broker_ids: Sequence[int]) -> list[BrokerLoad]:
        request = pl.DecommissionBrokersRequest(action=action, broker_ids=broker_ids)
        changes = action != pl.DECOMMISSION_ACTION_STATUS
        reply = await self._caller.to_controller(methods.DECOMMISSION_BROKERS, request, once=changes)
        return [
            BrokerLoad(b.broker_id, b.registered, b.decommissioned, b.replicas, b.leaderships, b.moving)
            for b in reply.brokers
        ]
