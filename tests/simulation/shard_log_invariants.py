"""The coordinators' logs, which their owners shorten: nothing that is needed is deleted, and each replay finds all of it.

Rule 1: the reference is every record that was ever committed, the newest of each key. Before a replica's log begins, no record
        stands that is the newest of its key and no tombstone.
Rule 2: when a life of a shard begins to serve, its state is the one that follows from the reference up to its epoch record,
        whatever was deleted before, or while it read.
Rule 3: a shard whose log cannot be read any more (rot) is passed over from then on.
Rule 4: a transaction that has ended for a group takes no offsets later, also when its group has forgotten that it has.
Rule 5: the highest epoch of a transaction shard that a group's shard has heard of stands in its log for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from oncelog.core.batch.batch import decode_batch, iter_batches
from oncelog_coordinator.coordinator import CoordinatorNode
from oncelog_coordinator.core.channels.channel_records import is_channel_key
from oncelog_coordinator.core.group_shard.shard_table import GroupShardTable
from oncelog_coordinator.core.offsets.offset_records import EndedTransactions, PendingOffsets, parse_ended_key
from oncelog_coordinator.core.transactions.records import EPOCH_KEY, EpochRecord, parse
from oncelog_coordinator.core.transactions.transaction_table import TransactionTable
from oncelog_coordinator.shard.shard import Shard
from oncelog_coordinator.shard.shard_runtime import ShardLife
from oncelog_partition_leader.partition.partition import LocalPartition
from oncelog_runtime.metadata.cluster_keys import INTERNAL_TOPICS, KIND_TXN, OFFSETS_TOPIC, TRANSACTION_TOPIC
from tests.simulation.cluster import SimCluster
from tests.simulation.decision_invariants import peek
from tests.simulation.invariants import Sight, Watcher
from tests.unit.coordinator.durable import durable


def _is_ended(key: str) -> bool:
    """Records of channels have keys of the same form, for older versions."""
    return not is_channel_key(key) and parse_ended_key(key) is not None


@dataclass(slots=True)
class Ended:
    """What a group shard ever said of ended transactions (rules 4 and 5). `forgotten` counts the records that have gone."""

    up_to: dict[tuple[int, str], int] = field(default_factory=dict)
    """(producer id, group) -> the highest number that has ended."""
    epochs: dict[int, int] = field(default_factory=dict)
    """Transaction shard -> the highest epoch of a marker."""
    forgotten: int = 0

    def take(self, key: str, value: bytes | None, before: bytes | None) -> None:
        """One more record; `before` is the one of its key until now."""
        if key.startswith("pending:") and value is not None and before is None:
            pending = PendingOffsets.decode(parse(value))
            newest = self.up_to.get((pending.txn_producer_id, pending.group_id), 0)
            assert pending.txn_no > newest, f"{pending} of a transaction that has ended: {newest} has"
        if not _is_ended(key):
            return
        self.forgotten += value is None and before is not None
        if value is not None:
            ended = EndedTransactions.decode(parse(value))
            name = (ended.txn_producer_id, ended.group_id)
            self.up_to[name] = max(self.up_to.get(name, 0), ended.ended_up_to)
            self.epochs[ended.txn_shard] = max(self.epochs.get(ended.txn_shard, 0), ended.coordinator_epoch)

    def check(self, newest: Iterable[tuple[str, bytes | None]]) -> None:
        """Looks for a record with each of the highest epochs."""
        found: dict[int, int] = {}
        for key, value in newest:
            if _is_ended(key) and value is not None:
                ended = EndedTransactions.decode(parse(value))
                found[ended.txn_shard] = max(found.get(ended.txn_shard, 0), ended.coordinator_epoch)
        assert found == self.epochs, f"markers came from the epochs {self.epochs}, and the log says {found}"


@dataclass(slots=True)
class Reference:
    """What is committed of one shard's log: offset and value of the newest record of each key, in the order of the log."""

    end: int = 0
    newest: dict[str, tuple[int, bytes | None]] = field(default_factory=dict)
    blind: bool = False
    ended: Ended = field(default_factory=Ended)

    def take(self, offset: int, key: str, value: bytes | None) -> None:
        """One more record."""
        _, before = self.newest.pop(key, (0, None))
        self.newest[key] = (offset, value)
        self.ended.take(key, value, before)

    def first_needed(self) -> tuple[int, str]:
        """Offset and key of the oldest record that is needed."""
        needed = ((at, key) for key, (at, value) in self.newest.items() if value is not None and key != EPOCH_KEY)
        return min(needed, default=(self.end, ""))

    def epoch(self) -> int:
        """The epoch whose record is the newest of all; -1 = another record came later."""
        key = next(reversed(self.newest), "")
        value = self.newest[key][1] if key == EPOCH_KEY else None
        return -1 if value is None else EpochRecord.decode(parse(value)).epoch


class NothingNeededIsDeleted:
    """Rules 1 and 2. `leading()`: the partitions that living brokers lead now."""

    def __init__(self, cluster: SimCluster, leading: Callable[[], Iterable[LocalPartition]]) -> None:
        self._cluster = cluster
        self._leading = leading
        self._references: dict[tuple[str, int], Reference] = {}
        self._begun: dict[ShardLife, None] = {}
        self.deleted = 0
        """How often a log begins later than before, on any replica."""
        self.replayed = 0
        """Lives whose state was compared."""
        self.shortened = 0
        """Those of them that read a log without its beginning."""

    @property
    def forgotten(self) -> int:
        """Records of ended transactions that have gone."""
        return sum(reference.ended.forgotten for reference in self._references.values())

    # ------------------------------------------------------------ rule 1

    def see(self, before: Sight | None, now: Sight) -> None:
        """Reads what is committed, and looks where the log begins."""
        partition = now.partition
        if partition.topic not in INTERNAL_TOPICS:
            return
        reference = self._read_on(partition, now.high_watermark)
        start = partition.log.log_start_offset
        if reference.blind or start == 0 or (before is not None and before.on_disk[2] == start):
            return
        self.deleted += 1
        if reference.first_needed()[0] < start:
            self._read_leader(partition)
        offset, key = reference.first_needed()
        assert reference.blind or offset >= start, f"{key} at {offset} is needed, and the log begins at {start}: {now}"

    def _read_leader(self, partition: LocalPartition) -> None:
        """The leader may not have been looked at since it committed more."""
        for leader in self._leading():
            if leader.id == partition.id:
                self._read_on(leader, leader.high_watermark)

    def _read_on(self, partition: LocalPartition, end: int) -> Reference:
        reference = self._references.setdefault((partition.topic, partition.id.partition), Reference())
        if reference.blind or reference.end >= end:
            return reference
        found = peek(partition.log, reference.end, end)
        if found is None:
            reference.blind = True
            return reference
        for header, data in iter_batches(found):
            if not header.is_control:
                for record in decode_batch(data, header):
                    if record.key is not None and record.offset >= reference.end:
                        reference.take(record.offset, record.key.decode(), record.value)
        reference.end = end
        return reference

    # ------------------------------------------------------------ rule 2

    def look_at_lives(self) -> None:
        """Called after each step: a life that has just begun to serve has decided nothing yet."""
        life = self._cluster.world.loop.ran
        service = None if life is None or life.dead else self._cluster.services.get(life.name.partition("#")[0])
        if not isinstance(service, CoordinatorNode):
            return
        for shard in service._owned.values():
            if shard.is_serving and shard.life not in self._begun:
                self._begun[shard.life] = None
                self._compare(shard)

    def _compare(self, shard: Shard) -> None:
        topic = TRANSACTION_TOPIC if shard.kind == KIND_TXN else OFFSETS_TOPIC
        for leader in self._leading():
            if (leader.topic, leader.id.partition) == (topic, shard.number):
                self._read_on(leader, leader.high_watermark)
                self._compare_with(shard, leader)

    def _compare_with(self, shard: Shard, leader: LocalPartition) -> None:
        reference = self._references[leader.topic, leader.id.partition]
        if reference.blind or reference.epoch() != shard.life.epoch:
            return
        reference.ended.check((key, value) for key, (_, value) in reference.newest.items())
        table: Any = TransactionTable() if shard.kind == KIND_TXN else GroupShardTable()
        for key, (_, value) in reference.newest.items():
            record = table.decode(key, value)
            assert record is not None
            table.apply(record)
        expected, found = durable(table), durable(shard.life.table)
        assert found == expected, f"{shard.name} has replayed {found}, and its log says {expected}"
        self.replayed += 1
        self.shortened += leader.log.log_start_offset > 0


def watch_shard_logs(watcher: Watcher, cluster: SimCluster) -> NothingNeededIsDeleted:
    """Hooks this in."""

    def leading() -> Iterable[LocalPartition]:
        for _, broker in cluster.brokers():
            for partition in broker.replicas.partitions.values():
                if partition.leadership is not None and partition.failed is None:
                    yield partition

    invariant = NothingNeededIsDeleted(cluster, leading)
    watcher.add(invariant)
    cluster.world.loop.add_step_hook(invariant.look_at_lives)
    return invariant
