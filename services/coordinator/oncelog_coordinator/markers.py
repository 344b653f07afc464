"""Phase two: markers to partitions and groups, sent again until each of them is in.

Rule 1: markers are grouped by the leader's address, one call per address at a time; a slow leader delays nobody else.
Rule 2: a marker is given up on positive proof alone: a linearizable listing made after the enrolment that does not have the
        topic id, or has fewer partitions.  A partition that this process does not see is not proof (W13).
Rule 3: what is in is told to the core (`MarkersDone`); what this life forgets, the next one sends again.
Rule 4: a bug in one try is reported and the marker is sent again later: a transaction never stays open because of it.
        Broken invariants (assertions) are not tried again: they end the process, as everywhere.
Rule 5: a group's marker goes to the owner of the group's shard, who is the participant there (hole 14).
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

from oncelog import methods, span_names, tracing
from oncelog.core.hashing import shard_for
from oncelog.errors import CoordinatorNotAvailableError, ErrorCode, OncelogError, UnknownServerError, UnknownTopicError
from oncelog.ports import Transport
from oncelog.trace_context import TRACEPARENT
from oncelog.types import PartitionId
from oncelog.v1 import coordinator_pb2 as co
from oncelog.v1 import partition_pb2 as pa
from oncelog.v1 import types_pb2
from oncelog.wire_errors import from_detail
from oncelog_coordinator.coordinator_metrics import CoordinatorMetrics
from oncelog_coordinator.core.commands import BecameVisible, MarkersDone, SendMarkers
from oncelog_coordinator.core.records import Target
from oncelog_coordinator.shard_life import ShardLife
from oncelog_runtime import cluster
from oncelog_runtime.cluster_view import ClusterView
from oncelog_runtime.ports import MetadataStore
from oncelog_runtime.tasks import TaskOwner

_log = logging.getLogger(__name__)

_MARKERS_PER_CALL: Final = 1_000
_BACKOFF_MS: Final = (10, 20, 50, 100, 200, 500, 1_000)


class MarkerKey(NamedTuple):
    """One marker to one partition."""

    transactional_id: str
    txn_no: int
    partition: PartitionId


class GroupKey(NamedTuple):
    """One marker to one group."""

    transactional_id: str
    txn_no: int
    group_id: str


class MarkerSender:
    """The effects of one life of a transaction shard: sends markers, wakes those who wait for VISIBLE."""

    def __init__(
        self,
        life: ShardLife,
        shard: int,
        transport: Transport,
        view: ClusterView,
        metadata: MetadataStore,
        timeout_ms: int,
        tracer: tracing.Tracer | None = None,
        metrics: CoordinatorMetrics | None = None,
    ) -> None:
        self._metrics = metrics
        self._since_s: dict[tuple[str, int], float] = {}
        self._life = life
        self._shard = shard
        self._transport = transport
        self._view = view
        self._metadata = metadata
        self._timeout_ms = timeout_ms
        self._tracer = tracer
        self._spans: dict[tuple[str, int], tracing.Span] = {}
        self._waiting: dict[MarkerKey, pa.TxnMarker] = {}
        self._tries: dict[MarkerKey | GroupKey, int] = {}
        self._busy: dict[str, None] = {}
        self._proving: dict[str, list[tuple[MarkerKey, pa.TxnMarker]]] = {}
        self._visible: dict[tuple[str, int], asyncio.Future[None]] = {}
        self._tasks = TaskOwner(_broken)
        self._closed = False
        self.on_close: Callable[[], object] = _nothing

    # ------------------------------------------------------------ effects

    def run(self, effect: Any) -> None:
        """See `EffectRunner.run`."""
        if self._closed:
            return
        if isinstance(effect, BecameVisible):
            self._marked(effect)
            waiter = self._visible.pop((effect.transactional_id, effect.txn_no), None)
            if waiter is not None and not waiter.done():
                waiter.set_result(None)
            span = self._spans.pop((effect.transactional_id, effect.txn_no), None)
            if span is not None:
                span.end()
            return
        assert isinstance(effect, SendMarkers), f"unknown effect {effect!r}"
        if self._tracer is not None and tracing.is_sampled(TRACEPARENT.get()):
            self._begin_span(self._tracer, effect)
        if self._metrics is not None:
            self._since_s[effect.transactional_id, effect.txn_no] = self._metrics.now_s()
        for target in effect.targets:
            key = MarkerKey(effect.transactional_id, effect.txn_no, PartitionId(target.topic_id, target.partition))
            self._waiting[key] = _marker(effect, target)
        for group_id in effect.groups:
            self._spawn_group(effect, group_id)
        self._kick()

    def _begin_span(self, tracer: tracing.Tracer, effect: SendMarkers) -> None:
        """Until every marker is in."""
        named = {
            span_names.TXN_ID: effect.transactional_id,
            span_names.TXN_NO: str(effect.txn_no),
            span_names.PRODUCER_ID: str(effect.txn_producer_id),
            span_names.TXN_OUTCOME: "committed" if effect.committed else "aborted",
            span_names.TXN_PARTITIONS: len(effect.targets),
            span_names.TXN_GROUPS: len(effect.groups),
        }
        span = tracer.start(span_names.TXN_MARKERS, tracing.Kind.INTERNAL, TRACEPARENT.get(), named)
        self._spans[effect.transactional_id, effect.txn_no] = span

    def _work_for(self, keys: Sequence[MarkerKey | GroupKey]) -> None:
        """The next call of this task carries these markers."""
        if self._tracer is not None:
            found = [self._spans.get((key.transactional_id, key.txn_no)) for key in keys] if self._spans else []
            tracing.work_for([span.traceparent for span in found if span is not None])

    def _marked(self, effect: BecameVisible) -> None:
        since_s = self._since_s.pop((effect.transactional_id, effect.txn_no), None)
        if self._metrics is not None and since_s is not None:
            self._metrics.mark.observe(self._metrics.now_s() - since_s)

    async def wait_visible(self, transactional_id: str, txn_no: int) -> None:
        """Returns when every marker of n is in, or this life has ended: look again. The caller has seen that it is not."""
        key = (transactional_id, txn_no)
        if key not in self._visible:
            self._visible[key] = asyncio.get_running_loop().create_future()
        await asyncio.shield(self._visible[key])

    async def close(self) -> None:
        """Ends everything; those who wait for VISIBLE look again, and find another life or another owner."""
        self._closed = True
        self.on_close()
        waiters, self._visible = self._visible, {}
        for waiter in waiters.values():
            if not waiter.done():
                waiter.set_result(None)
        spans, self._spans = self._spans, {}
        for span in spans.values():
            span.end(ErrorCode.NOT_COORDINATOR.name, "this life of the shard has ended; the next one sends the rest")
        await self._tasks.stop()

    # ------------------------------------------------------------ partitions

    def _kick(self) -> None:
        """Sends what waits to every leader that is not being spoken to."""
        if self._closed:
            return
        by_address: dict[str, list[MarkerKey]] = defaultdict(list)
        for key in list(self._waiting):
            try:
                address = self._view.address_of(self._view.require_leader(key.partition).broker_id)
            except UnknownTopicError:
                self._prove(key)
                continue
            except OncelogError:
                address = None
            if address is None:
                self._later([(key, self._waiting.pop(key))])
            elif address not in self._busy and len(by_address[address]) < _MARKERS_PER_CALL:
                by_address[address].append(key)
        for address, keys in by_address.items():
            if keys:
                self._busy[address] = None
                markers = [(key, self._waiting.pop(key)) for key in keys]
                self._tasks.spawn(self._deliver(address, markers), f"markers {self._shard} to {address}")

    async def _deliver(self, address: str, markers: list[tuple[MarkerKey, pa.TxnMarker]]) -> None:
        try:
            await self._call(address, markers)
        except OncelogError as error:
            _log.debug("markers of shard %d to %s: %s", self._shard, address, error)
            self._later(markers)
        except AssertionError:
            raise
        except Exception:
            _log.exception("a bug: %d markers of shard %d to %s are sent again", len(markers), self._shard, address)
            self._later(markers)
        finally:
            self._busy.pop(address, None)
        self._kick()

    async def _call(self, address: str, markers: list[tuple[MarkerKey, pa.TxnMarker]]) -> None:
        request = pa.WriteTxnMarkersRequest(
            txn_shard=self._shard,
            coordinator_epoch=self._life.epoch,
            markers=[marker for _, marker in markers],
        )
        self._work_for([key for key, _ in markers])
        reply, _ = await methods.WRITE_TXN_MARKERS.call(self._transport, address, request, self._timeout_ms)
        if len(reply.markers) != len(markers):
            raise UnknownServerError("the leader answered for another number of markers")
        done: list[MarkerKey] = []
        for (key, marker), answer in zip(markers, reply.markers, strict=True):
            if not answer.HasField("error"):
                done.append(key)
                continue
            if answer.error.code == int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
                self._waiting[key] = marker
                self._prove(key)
                continue
            error = from_detail(answer.error)
            if not error.retriable:
                _log.error("marker of %s to %s is refused: %s", key[:2], key.partition, error)
            self._later([(key, marker)])
        self._done(done)

    def _done(self, keys: Iterable[MarkerKey]) -> None:
        grouped: dict[tuple[str, int], list[PartitionId]] = defaultdict(list)
        for key in keys:
            self._tries.pop(key, None)
            grouped[key.transactional_id, key.txn_no].append(key.partition)
        for (transactional_id, txn_no), partitions in grouped.items():
            self._life.tell(MarkersDone(transactional_id, txn_no, tuple(partitions)))

    def _later(self, markers: list[tuple[MarkerKey, pa.TxnMarker]]) -> None:
        """Sends these again after a while that grows with their tries."""
        by_delay: dict[int, list[tuple[MarkerKey, pa.TxnMarker]]] = defaultdict(list)
        for key, marker in markers:
            by_delay[self._backoff_ms(key)].append((key, marker))
        loop = asyncio.get_running_loop()
        for delay_ms, items in by_delay.items():
            loop.call_later(delay_ms / 1000, self._again, items)

    def _backoff_ms(self, key: MarkerKey | GroupKey) -> int:
        tries = self._tries.get(key, 0)
        self._tries[key] = tries + 1
        return _BACKOFF_MS[min(tries, len(_BACKOFF_MS) - 1)]

    def _again(self, markers: list[tuple[MarkerKey, pa.TxnMarker]]) -> None:
        self._waiting.update(markers)
        self._kick()

    # ------------------------------------------------------------ proof of deletion

    def _prove(self, key: MarkerKey) -> None:
        """The partition is not known: looks whether it can be shown not to exist."""
        item = (key, self._waiting.pop(key))
        topic_id = key.partition.topic_id
        if topic_id in self._proving:
            self._proving[topic_id].append(item)
            return
        self._proving[topic_id] = [item]
        self._tasks.spawn(self._prove_topic(topic_id), f"proof of {topic_id}")

    async def _prove_topic(self, topic_id: str) -> None:
        try:
            partitions = await self._partitions_of(topic_id)
        except OncelogError as error:
            _log.info("whether topic %s exists is not known: %s", topic_id, error)
            partitions = None
        except AssertionError:
            raise
        except Exception:
            _log.exception("a bug: whether topic %s exists is asked again", topic_id)
            partitions = None
        items = self._proving.pop(topic_id)
        if partitions is None:
            self._later(items)
            return
        gone = [item for item in items if item[0].partition.partition >= partitions]
        for key, _ in gone:
            _log.warning("partition %s of %s does not exist any more: no marker", key.partition, key[:2])
        self._done([key for key, _ in gone])
        self._later([item for item in items if item[0].partition.partition < partitions])

    async def _partitions_of(self, topic_id: str) -> int:
        """How many partitions a topic has now, by a linearizable read; 0 = there is no such topic."""
        listing = await self._metadata.list(cluster.TOPICS)
        for item in listing.items:
            topic = cluster.Topic.decode(item.value)
            if topic.topic_id == topic_id:
                return topic.partitions
        return 0

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
            outcome=types_pb2.COMMITTED if effect.committed else types_pb2.ABORTED,
        )
        self._work_for((key,))
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
            await asyncio.sleep(self._backoff_ms(key) / 1000)
        self._tries.pop(key, None)
        self._life.tell(MarkersDone(effect.transactional_id, effect.txn_no, groups=(group_id,)))


def _nothing() -> None:
    pass


def _broken(error: BaseException) -> None:
    """A marker task never ends by an error unless an invariant is broken: the process's life ends (`process.py`, rule 3)."""
    broken = error if isinstance(error, AssertionError) else AssertionError(f"a marker task failed: {error!r}")
    asyncio.get_running_loop().call_exception_handler({"message": str(broken), "exception": broken})


def _marker(effect: SendMarkers, target: Target) -> pa.TxnMarker:
    return pa.TxnMarker(
        topic_id=target.topic_id,
        partition=target.partition,
        txn_producer_id=effect.txn_producer_id,
        txn_no=effect.txn_no,
        session_epoch=effect.session_epoch,
        outcome=types_pb2.COMMITTED if effect.committed else types_pb2.ABORTED,
        has_winners=effect.winners is not None,
        winners=effect.winners or (),
        expected_records=target.expected_records,
    )


def group_owner_address(view: ClusterView, group_id: str) -> str:
    """The coordinator that owns a group's shard. Raises `CoordinatorNotAvailableError`."""
    shards = view.cluster.group_shards if view.cluster is not None else 0
    return shard_owner_address(view, cluster.KIND_GROUP, shard_for(group_id, shards) if shards else -1)


def shard_owner_address(view: ClusterView, kind: str, shard: int) -> str:
    """The coordinator that owns a shard. Raises `CoordinatorNotAvailableError`."""
    owner = view.owner_of(kind, shard)
    if owner is None:
        raise CoordinatorNotAvailableError("the shard has no owner at the moment", kind=kind, shard=shard)
    return owner.address
