"""Computes the lag of the groups whose shards are owned here: asks the leaders periodically for the ends of their
partitions.

Rule 1: one call per leader and round, for all partitions on which any of these groups has committed; rounds are
        `lag_refresh_ms` apart, so the cost does not grow with scrapes, groups or consumers.
Rule 2: a scrape makes no call: it reads committed offsets from the cores and ends from the last round.
Rule 3: the series are bounded: `groups_max` pairs of group and topic have their own (`core/offsets/lag_series.py`).
Rule 4: nothing depends on it. When a leader does not answer, the last known end stays.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Iterator
from itertools import islice
from typing import Final

from oncelog.errors import OncelogError
from oncelog.ports import Transport
from oncelog.types import PartitionId
from oncelog.v1 import partition_pb2 as pa
from oncelog.v1 import types_pb2
from oncelog.wire import methods
from oncelog_coordinator.core.group_shard.shard_table import GroupShardTable
from oncelog_coordinator.core.offsets.lag import LagTable
from oncelog_coordinator.core.offsets.lag_series import OTHERS, Pair, PairLag, chosen, others
from oncelog_coordinator.shard.monotonic_wall_clock import SteadyClock
from oncelog_coordinator.shard.shard import Shard
from oncelog_runtime.metadata.cluster_view import ClusterView, ShardKey
from oncelog_runtime.observability import metric_names as names
from oncelog_runtime.observability.metrics import SLICE, Family, Row, labels_of, one

_log = logging.getLogger(__name__)
_PARTITIONS_PER_CALL: Final = 1_000
_TIMEOUT_MS: Final = 5_000
_LATEST: Final = -1
_Committed = tuple[str, str, PartitionId, int]
"""(group, topic, partition, committed offset)."""


class LagWatch:
    """Samples the ends and exports the lag: `run` is its task, `collect` a `metrics.Collector`. `shards` is the dict
    that the ownership maintains.
    """

    def __init__(
        self,
        transport: Transport,
        view: ClusterView,
        clock: SteadyClock,
        shards: dict[ShardKey, Shard],
        refresh_ms: int,
        *,
        per_partition: bool,
        groups_max: int,
    ) -> None:
        self._transport = transport
        self._view = view
        self._clock = clock
        self._shards = shards
        self._refresh_ms = refresh_ms
        self._per_partition = per_partition
        self._groups_max = groups_max
        self.table = LagTable()

    # ------------------------------------------------------------ looking

    async def run(self) -> None:
        """Asks all leaders every `lag_refresh_ms`, until it is cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(self._refresh_ms / 1000)

    async def look(self) -> None:
        """Asks every leader once."""
        watched = {partition for _, _, partition, _ in self._committed()}
        self.table.keep(watched)
        by_address: dict[str, list[PartitionId]] = defaultdict(list)
        for partition in sorted(watched):
            try:
                address = self._view.address_of(self._view.require_leader(partition).broker_id)
            except OncelogError:
                continue
            if address is not None:
                by_address[address].append(partition)
        await asyncio.gather(*(self._ask(address, partitions) for address, partitions in by_address.items()))

    async def _ask(self, address: str, partitions: list[PartitionId]) -> None:
        rest = iter(partitions)
        while chunk := list(islice(rest, _PARTITIONS_PER_CALL)):
            request = pa.ListOffsetsRequest(
                isolation_level=types_pb2.ISOLATION_LEVEL_READ_COMMITTED,
                partitions=[
                    pa.ListOffsetsPartition(topic_id=topic_id, partition=number, timestamp_ms=_LATEST)
                    for topic_id, number in chunk
                ],
            )
            try:
                reply, _ = await methods.LIST_OFFSETS.call(self._transport, address, request, _TIMEOUT_MS)
            except OncelogError as error:
                _log.debug("the ends of partitions at %s are not known: %s", address, error)
                return
            now_ms = self._clock.now_ms()
            for answer in reply.partitions:
                if not answer.HasField("error") and answer.offset >= 0:
                    end = min(answer.offset, answer.data_end_offset or answer.offset)
                    self.table.saw(PartitionId(answer.topic_id, answer.partition), end, now_ms)

    def _committed(self) -> Iterator[_Committed]:
        """Yields every committed offset of the groups here whose topic still exists."""
        for shard in list(self._shards.values()):
            if not shard.is_serving or not isinstance(shard.life.table, GroupShardTable):
                continue
            for group_id, group in shard.life.table.offsets.groups.items():
                for partition, committed in group.offsets.items():
                    topic = self._view.topic_by_id(partition.topic_id)
                    if topic is not None:
                        yield group_id, topic.name, partition, committed.value.offset

    # ------------------------------------------------------------ telling

    def collect(self) -> Iterator[Family | None]:
        """Yields the metrics of the groups owned here: the worst ones by name, all others together."""
        now_ms = self._clock.now_ms()
        entries = list(self._committed())
        lags: dict[Pair, PairLag] = {}
        for count, (group, topic, partition, offset) in enumerate(entries, 1):
            if count % SLICE == 0:
                yield None
            known = lags.setdefault(Pair(group, topic), PairLag())
            lag = self.table.lag(partition, offset)
            if lag is not None:
                known.add(lag, lag, self.table.behind_ms(partition, offset, now_ms))
        kept = chosen(lags, self._groups_max)
        yield from self._of_partitions(entries, kept)
        yield from _of_pairs(lags, kept)

    def _of_partitions(self, entries: list[_Committed], kept: set[Pair]) -> Iterator[Family | None]:
        committed: list[Row] = []
        lags: list[Row] = []
        for count, (group, topic, partition, offset) in enumerate(entries if self._per_partition else (), 1):
            if count % SLICE == 0:
                yield None
            if (group, topic) not in kept:
                continue
            labels = labels_of(names.GROUP_LAG, group, topic, str(partition.partition))
            committed.append((labels, offset))
            if (lag := self.table.lag(partition, offset)) is not None:
                lags.append((labels, lag))
        yield Family(names.GROUP_COMMITTED, committed)
        yield Family(names.GROUP_LAG, lags)


def _of_pairs(lags: dict[Pair, PairLag], kept: set[Pair]) -> Iterator[Family]:
    shown = [(pair, lag) for pair, lag in lags.items() if pair in kept and lag.is_known]
    rest = others(lags, kept)
    if rest.is_known:
        shown.append((Pair(*OTHERS), rest))
    labelled = [(labels_of(names.GROUP_LAG_MAX, *pair), lag) for pair, lag in shown]
    yield Family(names.GROUP_LAG_MAX, [(labels, lag.worst) for labels, lag in labelled])
    yield Family(names.GROUP_LAG_SUM, [(labels, lag.total) for labels, lag in labelled])
    yield Family(names.GROUP_LAG_SECONDS, [(labels, lag.behind_ms / 1000) for labels, lag in labelled])
    yield one(names.GROUP_LAG_PAIRS, len(lags))
