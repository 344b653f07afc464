"""Phase two: markers to partitions and groups, sent again until each of them is acknowledged.

Rule 1: a marker goes to its partition twice. First until it is committed: then it is visible, and callers that wait for
        VISIBLE are answered. Then, a moment later and together with others, until it is on disk at every in-sync
        replica: only then it is forgotten (COMPLETE). A leader that lost it with its data in a power cut appends it
        again, and reports the missing records.
Rule 2: progress is reported to the core (`MarkersCommitted`, `MarkersDone`); what is lost with this epoch of the shard,
        the next one sends again.
Rule 3: a group's marker goes to the owner of the group's shard, which is the participant there (hole 14). The log of
        that shard is synced before it answers.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable
from typing import Final

from oncelog.core.batch.hashing import shard_for
from oncelog.errors import CoordinatorNotAvailableError, OncelogError
from oncelog.ports import Transport
from oncelog.types import PartitionId
from oncelog.v1 import coordinator_pb2 as co
from oncelog.v1 import partition_pb2 as pa
from oncelog.v1 import types_pb2
from oncelog.wire import methods
from oncelog_coordinator.core.decision import Effect
from oncelog_coordinator.core.transactions.commands import BecameVisible, MarkersCommitted, MarkersDone, SendMarkers
from oncelog_coordinator.core.transactions.records import Target
from oncelog_coordinator.effects.known_topics import KnownTopics
from oncelog_coordinator.effects.marker_courier import Carried, MarkerCourier, MarkerKey, Reach, Receipt, backoff_ms
from oncelog_coordinator.effects.marker_observer import GroupKey, MarkerObserver
from oncelog_coordinator.shard.shard_runtime import ShardLife
from oncelog_runtime.metadata import cluster_keys
from oncelog_runtime.metadata.cluster_view import ClusterView
from oncelog_runtime.process.tasks import TaskOwner

_log = logging.getLogger(__name__)

_SYNCED: Final = Receipt(on_disk=True, after_ms=2_000, at_once_from=48)
"""Committed markers wait for each other before the leaders are asked whether they are on disk: no caller waits for
that, and each request costs every replica a sync. Forty-eight transactions of an id do not wait, since every record of
that id contains them until they are complete.
"""


class MarkerSender:
    """Runs the effects of one epoch of a transaction shard: sends markers, wakes callers that wait for VISIBLE."""

    def __init__(
        self,
        life: ShardLife,
        shard: int,
        transport: Transport,
        view: ClusterView,
        topics: KnownTopics,
        timeout_ms: int,
        observer: MarkerObserver | None = None,
    ) -> None:
        self._observer = observer or MarkerObserver()
        self._life = life
        self._shard = shard
        self._transport = transport
        self._view = view
        self._timeout_ms = timeout_ms
        self._visible: dict[tuple[str, int], asyncio.Future[None]] = {}
        self._tasks = TaskOwner(_broken)
        reach = Reach(shard, life.epoch, transport, view, topics, timeout_ms, self._tasks)
        self._sending = MarkerCourier(
            reach, Receipt(on_disk=False), self._committed, self._done, self._observer.calling
        )
        self._syncing = MarkerCourier(reach, _SYNCED, self._done, self._done, self._observer.calling_later)
        self._closed = False
        self.on_close: Callable[[], object] = _nothing

    # ------------------------------------------------------------ effects

    def run(self, effect: Effect) -> None:
        """See `EffectRunner.run`."""
        if self._closed:
            return
        if isinstance(effect, BecameVisible):
            self._observer.visible(effect)
            waiter = self._visible.pop((effect.transactional_id, effect.txn_no), None)
            if waiter is not None and not waiter.done():
                waiter.set_result(None)
            return
        assert isinstance(effect, SendMarkers), f"unknown effect {effect!r}"
        self._observer.sent(effect)
        for group_id in effect.groups:
            self._spawn_group(effect, group_id)
        self._sending.carry([(_key(effect, target), _marker(effect, target)) for target in effect.targets])

    async def wait_visible(self, transactional_id: str, txn_no: int) -> None:
        """Returns when every marker of n is committed, or when this epoch has ended and the caller has to look again.

        The caller has just seen that a marker is missing.
        """
        key = (transactional_id, txn_no)
        if key not in self._visible:
            self._visible[key] = asyncio.get_running_loop().create_future()
        await asyncio.shield(self._visible[key])

    async def close(self) -> None:
        """Ends all work; callers that wait for VISIBLE look again, and find the next epoch of the shard or another owner."""
        self._closed = True
        self._sending.close()
        self._syncing.close()
        self.on_close()
        waiters, self._visible = self._visible, {}
        for waiter in waiters.values():
            if not waiter.done():
                waiter.set_result(None)
        self._observer.closed()
        await self._tasks.stop()

    # ------------------------------------------------------------ partitions

    def _committed(self, markers: list[Carried]) -> None:
        """Reports committed markers, and then asks the same leaders whether they are on disk; no commit waits for that."""
        self._tell(MarkersCommitted, markers)
        self._syncing.carry(markers)

    def _done(self, markers: list[Carried]) -> None:
        self._tell(MarkersDone, markers)

    def _tell(self, kind: type[MarkersCommitted] | type[MarkersDone], markers: list[Carried]) -> None:
        grouped: dict[tuple[str, int], list[PartitionId]] = defaultdict(list)
        for key, _ in markers:
            grouped[key.transactional_id, key.txn_no].append(key.partition)
        for (transactional_id, txn_no), partitions in grouped.items():
            self._life.tell(kind(transactional_id, txn_no, tuple(partitions)))

    # ------------------------------------------------------------ groups

    def _spawn_group(self, effect: SendMarkers, group_id: str) -> None:
        self._tasks.spawn(self._send_group(effect, group_id), f"marker of {effect.txn_no} to group {group_id}")

    async def _send_group(self, effect: SendMarkers, group_id: str) -> None:
        key = GroupKey(effect.transactional_id, effect.txn_no, group_id)
        request = co.WriteGroupMarkersRequest(
            txn_shard=self._shard,
            coordinator_epoch=self._life.epoch,
            group_id=group_id,
            txn_producer_id=effect.txn_producer_id,
            txn_no=effect.txn_no,
            outcome=types_pb2.TRANSACTION_OUTCOME_COMMITTED
            if effect.committed
            else types_pb2.TRANSACTION_OUTCOME_ABORTED,
        )
        self._observer.calling((key,))
        tries = 0
        while True:
            try:
                address = group_owner_address(self._view, group_id)
                await methods.WRITE_GROUP_MARKERS.call(self._transport, address, request, self._timeout_ms)
                break
            except OncelogError as error:
                if not error.retriable:
                    _log.error("marker of %s to group %s is refused: %s", key[:2], group_id, error)
            except AssertionError:
                raise
            except Exception:
                _log.exception("a bug: the marker of %s to group %s is sent again", key[:2], group_id)
            await asyncio.sleep(backoff_ms(tries) / 1000)
            tries += 1
        self._life.tell(MarkersDone(effect.transactional_id, effect.txn_no, groups=(group_id,)))


def _nothing() -> None:
    pass


def _key(effect: SendMarkers, target: Target) -> MarkerKey:
    return MarkerKey(effect.transactional_id, effect.txn_no, PartitionId(target.topic_id, target.partition))


def _broken(error: BaseException) -> None:
    """Ends the process (`process.py`, rule 3): a marker task fails only when an invariant is broken."""
    broken = error if isinstance(error, AssertionError) else AssertionError(f"a marker task failed: {error!r}")
    asyncio.get_running_loop().call_exception_handler({"message": str(broken), "exception": broken})


def _marker(effect: SendMarkers, target: Target) -> pa.TxnMarker:
    return pa.TxnMarker(
        topic_id=target.topic_id,
        partition=target.partition,
        txn_producer_id=effect.txn_producer_id,
        txn_no=effect.txn_no,
        session_epoch=effect.session_epoch,
        outcome=types_pb2.TRANSACTION_OUTCOME_COMMITTED if effect.committed else types_pb2.TRANSACTION_OUTCOME_ABORTED,
        has_winners=effect.winners is not None,
        winners=effect.winners or (),
        expected_records=target.expected_records,
    )


def group_owner_address(view: ClusterView, group_id: str) -> str:
    """Returns the address of the coordinator that owns a group's shard. Raises `CoordinatorNotAvailableError`."""
    shards = view.cluster.group_shards if view.cluster is not None else 0
    return shard_owner_address(view, cluster_keys.KIND_GROUP, shard_for(group_id, shards) if shards else -1)


def shard_owner_address(view: ClusterView, kind: str, shard: int) -> str:
    """Returns the address of the coordinator that owns a shard. Raises `CoordinatorNotAvailableError`."""
    owner = view.owner_of(kind, shard)
    if owner is None:
        raise CoordinatorNotAvailableError("the shard has no owner at the moment", kind=kind, shard=shard)
    return owner.address
