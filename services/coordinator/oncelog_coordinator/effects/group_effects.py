"""Runs the effects of a group shard: asks for the outcome of transactions whose offsets are pending for too long (hole
14), and brings news to members whose heartbeats wait for it.

Rule: an answer with a lower epoch than is known of that transaction shard is refused (hole 6); the core checks it
again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from oncelog.errors import CoordinatorFencedError, OncelogError
from oncelog.ports import Transport
from oncelog.v1 import coordinator_pb2 as co
from oncelog.v1 import types_pb2
from oncelog.wire import methods
from oncelog_coordinator.core.decision import Effect
from oncelog_coordinator.core.groups.group_commands import GroupNews
from oncelog_coordinator.core.offsets.offset_commands import AskOutcome, GroupMarker
from oncelog_coordinator.effects.heartbeat_waits import HeartbeatWaits
from oncelog_coordinator.effects.markers import shard_owner_address
from oncelog_coordinator.shard.shard_runtime import ShardLife
from oncelog_runtime.metadata.cluster_keys import KIND_TXN
from oncelog_runtime.metadata.cluster_view import ClusterView
from oncelog_runtime.process.tasks import TaskOwner

_log = logging.getLogger(__name__)


class GroupEffects:
    """Runs `AskOutcome` and `GroupNews` for one epoch of a group shard. `rebalanced()`: a group has another assignment."""

    def __init__(
        self,
        life: ShardLife,
        shard: int,
        transport: Transport,
        view: ClusterView,
        timeout_ms: int,
        waits: HeartbeatWaits | None = None,
        rebalanced: Callable[[], None] = lambda: None,
    ) -> None:
        self._rebalanced = rebalanced
        self._waits = HeartbeatWaits() if waits is None else waits
        self._life = life
        self._shard = shard
        self._transport = transport
        self._view = view
        self._timeout_ms = timeout_ms
        self._asking: dict[AskOutcome, None] = {}
        self._tasks = TaskOwner(lambda error: _log.error("an outcome was not asked for: a bug", exc_info=error))

    def run(self, effect: Effect) -> None:
        """See `EffectRunner.run`."""
        if isinstance(effect, GroupNews):
            self._waits.tell(effect)
            if effect.member_ids is None:
                self._rebalanced()
            return
        assert isinstance(effect, AskOutcome), f"unknown effect {effect!r}"
        if effect not in self._asking:
            self._asking[effect] = None
            self._tasks.spawn(self._ask(effect), f"outcome of {effect.txn_producer_id}/{effect.txn_no}")

    async def _ask(self, effect: AskOutcome) -> None:
        try:
            reply = await self._resolve(effect)
        except OncelogError as error:
            _log.warning("offsets of group %s wait for %s: %s", effect.group_id, effect.txn_no, error)
            return
        finally:
            del self._asking[effect]
        if reply.outcome in (types_pb2.TRANSACTION_OUTCOME_COMMITTED, types_pb2.TRANSACTION_OUTCOME_ABORTED):
            self._life.tell(
                GroupMarker(
                    group_id=effect.group_id,
                    txn_producer_id=effect.txn_producer_id,
                    txn_no=effect.txn_no,
                    committed=reply.outcome == types_pb2.TRANSACTION_OUTCOME_COMMITTED,
                    txn_shard=effect.txn_shard,
                    coordinator_epoch=reply.coordinator_epoch,
                )
            )

    async def _resolve(self, effect: AskOutcome) -> co.ResolveTransactionReply:
        known = max(effect.known_epoch, self._view.shard_epochs.get((KIND_TXN, effect.txn_shard), 0))
        request = co.ResolveTransactionRequest(
            txn_shard=effect.txn_shard,
            txn_producer_id=effect.txn_producer_id,
            txn_no=effect.txn_no,
            topic_id="",
            partition=self._shard,
            known_coordinator_epoch=known,
        )
        address = shard_owner_address(self._view, KIND_TXN, effect.txn_shard)
        reply, _ = await methods.RESOLVE_TRANSACTION.call(self._transport, address, request, self._timeout_ms)
        if reply.coordinator_epoch < known:
            raise CoordinatorFencedError("an older coordinator answered", txn_shard=effect.txn_shard)
        return reply

    async def close(self) -> None:
        """See `EffectRunner.close`."""
        self._waits.close(self._shard)
        await self._tasks.stop()
