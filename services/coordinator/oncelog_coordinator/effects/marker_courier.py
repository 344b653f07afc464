"""Delivers markers to the leaders of their partitions; retries until each is acknowledged or its partition is proven
deleted.

Rule 1: markers are grouped by the leader's address, one call per address at a time; a slow leader delays no other.
        Markers that arrive during a call go with the next one.
Rule 2: a marker is dropped on positive proof only: a linearizable listing made after the enrolment that does not have
        the topic id, or has fewer partitions.  A partition that this process does not see is not proof (W13).  One
        listing serves everything that waits for proof, so the names that a transaction holds cost no reads of their
        own.
Rule 3: a bug in one attempt is reported and the marker is sent again later: a transaction never stays open because of
        it. A failed assertion is not retried: it ends the process, as everywhere.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from oncelog.errors import ErrorCode, OncelogError, UnknownServerError, UnknownTopicError
from oncelog.ports import Transport
from oncelog.types import PartitionId
from oncelog.v1 import partition_pb2 as pa
from oncelog.wire import methods
from oncelog.wire.wire_errors import from_detail
from oncelog_coordinator.effects.known_topics import KnownTopics
from oncelog_runtime.metadata.cluster_view import ClusterView
from oncelog_runtime.process.tasks import TaskOwner

_log = logging.getLogger(__name__)

_MARKERS_PER_CALL: Final = 1_000
_NAMED_IN_LOG: Final = 10
"""At most this many dropped partitions are named in the log for one round of proof."""
_BACKOFF_MS: Final = (10, 20, 50, 100, 200, 500, 1_000)


class MarkerKey(NamedTuple):
    """Identifies the marker of one transaction on one partition."""

    transactional_id: str
    txn_no: int
    partition: PartitionId


Carried = tuple[MarkerKey, pa.TxnMarker]


@dataclass(frozen=True, slots=True)
class Receipt:
    """The meaning of an acknowledgement. `on_disk` False: the marker is committed; True: no power cut can remove it."""

    on_disk: bool
    after_ms: int = 0
    """How long the first marker waits so that others can join its call ..."""
    at_once_from: int = 1
    """... unless this many transactions of one id wait, each of which is part of every record of that id ..."""
    at_once_from_markers: int = 256
    """... or this many markers in total."""


def backoff_ms(tries: int) -> int:
    """Returns the wait before the next attempt."""
    return _BACKOFF_MS[min(tries, len(_BACKOFF_MS) - 1)]


class Reach(NamedTuple):
    """The shard whose markers are sent, and what sending needs."""

    shard: int
    epoch: int
    """The coordinator epoch in which they are sent."""
    transport: Transport
    view: ClusterView
    topics: KnownTopics
    timeout_ms: int
    """Time-out of one call."""
    tasks: TaskOwner


class MarkerCourier:
    """Delivers the markers of one epoch of a shard for one kind of receipt. `on_done` gets acknowledged markers,
    `on_gone` those whose partition was deleted.
    """

    def __init__(
        self,
        reach: Reach,
        receipt: Receipt,
        on_done: Callable[[list[Carried]], None],
        on_gone: Callable[[list[Carried]], None],
        before_call: Callable[[Sequence[MarkerKey]], None],
    ) -> None:
        self._reach = reach
        self._receipt = receipt
        self._on_done = on_done
        self._on_gone = on_gone
        self._before_call = before_call
        self._waiting: dict[MarkerKey, pa.TxnMarker] = {}
        self._numbers: dict[str, set[int]] = defaultdict(set)
        """The transactions of each id that were added since markers were last sent."""
        self._taken = 0
        """The number of markers added since then."""
        self._left: set[str] = set()
        """Leaders with a call in progress and more markers to get: they are called again as soon as they have answered."""
        self._kicks_soon = False
        self._tries: dict[MarkerKey, int] = {}
        self._busy: dict[str, None] = {}
        self._unproven: list[Carried] = []
        self._is_proving = False
        self._gathering: asyncio.TimerHandle | None = None
        self._closed = False

    def carry(self, markers: Iterable[Carried]) -> None:
        """Queues these markers and delivers them soon."""
        for key, marker in markers:
            self._waiting[key] = marker
            self._numbers[key.transactional_id].add(key.txn_no)
            self._taken += 1
        if not self._receipt.after_ms or self._is_urgent():
            self._kick_soon()
        elif self._gathering is None:
            self._gathering = asyncio.get_running_loop().call_later(self._receipt.after_ms / 1000, self._kick)

    def _is_urgent(self) -> bool:
        if self._taken >= self._receipt.at_once_from_markers:
            return True
        return any(len(numbers) >= self._receipt.at_once_from for numbers in self._numbers.values())

    def close(self) -> None:
        """Starts no further calls; calls in progress belong to the owner of the tasks."""
        self._closed = True
        if self._gathering is not None:
            self._gathering.cancel()

    def _kick_soon(self) -> None:
        """Schedules one send for all markers queued in this turn of the loop: after a replay there are thousands."""
        if not self._kicks_soon:
            self._kicks_soon = True
            asyncio.get_running_loop().call_soon(self._kick)

    def _kick(self) -> None:
        """Sends the queued markers to every leader that has no call in progress."""
        self._kicks_soon = False
        if self._closed:
            return
        if self._gathering is not None:
            self._gathering.cancel()
            self._gathering = None
        self._numbers.clear()
        self._left.clear()
        self._taken = 0
        by_address: dict[str, list[MarkerKey]] = defaultdict(list)
        for key in list(self._waiting):
            try:
                address = self._reach.view.address_of(self._reach.view.require_leader(key.partition).broker_id)
            except UnknownTopicError:
                self._prove(key)
                continue
            except OncelogError:
                address = None
            if address is None:
                self._later([(key, self._waiting.pop(key))])
            elif address not in self._busy and len(by_address[address]) < _MARKERS_PER_CALL:
                by_address[address].append(key)
            else:
                self._left.add(address)
        for address, keys in by_address.items():
            if keys:
                self._busy[address] = None
                markers = [(key, self._waiting.pop(key)) for key in keys]
                self._reach.tasks.spawn(self._deliver(address, markers), f"markers {self._reach.shard} to {address}")

    async def _deliver(self, address: str, markers: list[Carried]) -> None:
        try:
            await self._call(address, markers)
        except OncelogError as error:
            _log.debug("markers of shard %d to %s: %s", self._reach.shard, address, error)
            self._later(markers)
        except AssertionError:
            raise
        except Exception:
            _log.exception(
                "a bug: %d markers of shard %d to %s are sent again", len(markers), self._reach.shard, address
            )
            self._later(markers)
        finally:
            self._busy.pop(address, None)
        if address in self._left or self._gathering is None:
            self._kick()

    async def _call(self, address: str, markers: list[Carried]) -> None:
        request = pa.WriteTxnMarkersRequest(
            txn_shard=self._reach.shard,
            coordinator_epoch=self._reach.epoch,
            markers=[marker for _, marker in markers],
            on_disk=self._receipt.on_disk,
        )
        self._before_call([key for key, _ in markers])
        reply, _ = await methods.WRITE_TXN_MARKERS.call(self._reach.transport, address, request, self._reach.timeout_ms)
        if len(reply.markers) != len(markers):
            raise UnknownServerError("the leader answered for another number of markers")
        done: list[Carried] = []
        for (key, marker), answer in zip(markers, reply.markers, strict=True):
            if not answer.HasField("error"):
                done.append((key, marker))
                continue
            if answer.error.code == int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
                self._waiting[key] = marker
                self._prove(key)
                continue
            error = from_detail(answer.error)
            if not error.retriable:
                _log.error("marker of %s to %s is refused: %s", key[:2], key.partition, error)
            self._later([(key, marker)])
        self._finish(done, self._on_done)

    def _finish(self, markers: list[Carried], tell: Callable[[list[Carried]], None]) -> None:
        for key, _ in markers:
            self._tries.pop(key, None)
        tell(markers)

    def _later(self, markers: list[Carried]) -> None:
        """Queues these markers again after a delay that grows with their attempts."""
        by_delay: dict[int, list[Carried]] = defaultdict(list)
        for key, marker in markers:
            tries = self._tries.get(key, 0)
            self._tries[key] = tries + 1
            by_delay[backoff_ms(tries)].append((key, marker))
        loop = asyncio.get_running_loop()
        for delay_ms, items in by_delay.items():
            loop.call_later(delay_ms / 1000, self._again, items)

    def _again(self, markers: list[Carried]) -> None:
        self._waiting.update(markers)
        self._kick()

    # ------------------------------------------------------------ proof of deletion

    def _prove(self, key: MarkerKey) -> None:
        """Queues a marker of an unknown partition for the check whether the partition was deleted."""
        self._unproven.append((key, self._waiting.pop(key)))
        if not self._is_proving:
            self._is_proving = True
            self._reach.tasks.spawn(self._prove_all(), f"proof that partitions are gone, shard {self._reach.shard}")

    async def _prove_all(self) -> None:
        """Checks in rounds until no marker waits; markers that are queued during a read belong to the next round."""
        try:
            while self._unproven and not self._closed:
                items, self._unproven = self._unproven, []
                self._judge(items, await self._look_for(items))
        finally:
            self._is_proving = False

    async def _look_for(self, items: list[Carried]) -> dict[str, int]:
        """Returns how many partitions their topics have, as far as that can be proven."""
        try:
            return await self._reach.topics.partitions_of(key.partition.topic_id for key, _ in items)
        except OncelogError as error:
            _log.info("whether %d partitions exist is not known: %s", len(items), error)
        except AssertionError:
            raise
        except Exception:
            _log.exception("a bug: whether %d partitions exist is asked again", len(items))
        return {}

    def _judge(self, items: list[Carried], found: dict[str, int]) -> None:
        """Drops the markers whose partitions are proven deleted; the others are sent again."""
        gone: list[Carried] = []
        stay: list[Carried] = []
        for item in items:
            partition = item[0].partition
            is_gone = partition.topic_id in found and partition.partition >= found[partition.topic_id]
            (gone if is_gone else stay).append(item)
        for key, _ in gone[:_NAMED_IN_LOG]:
            _log.warning("partition %s of %s does not exist any more: no marker", key.partition, key[:2])
        if len(gone) > _NAMED_IN_LOG:
            _log.warning("nor do %d other partitions that transactions named", len(gone) - _NAMED_IN_LOG)
        self._finish(gone, self._on_gone)
        self._later(stay)
