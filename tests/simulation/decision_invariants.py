"""What coordinators have decided, as it stands committed in their logs, against the markers that leaders append.

Rule 1: a decision is what a committed record of `__transaction_state` says; a marker that nobody has decided, or that says
        something else (outcome, session, winners, counts), is a violation, whoever wrote it: coordinator or healing leader.
Rule 2: a coordinator forgets a decision (COMPLETE) only when each of its partitions has the marker; and whoever is told that a
        transaction is visible can read it: each partition that it wrote to has its marker, committed.
Rule 3: a shard whose log cannot be read any more (rot) is passed over from then on.
Rule 4: of a complete transaction only the outcome is remembered. Whoever asks then has the marker, or leads no more: what it
        appends without the counts is cut off (seed 920179).
Rule 5: an id is removed when it has expired, with nothing open, with every marker in, and without a token that lasts; from then
        on nothing is recorded, and no record of data is appended, under its producer id.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from oncelog.core.batch.batch import decode_batch, iter_batches
from oncelog.core.batch.control import Marker, control_of
from oncelog.core.batch.header import BatchHeader
from oncelog.errors import OncelogError
from oncelog.types import PartitionId
from oncelog_coordinator.core.transactions.orphan_records import OrphanRecord
from oncelog_coordinator.core.transactions.record_kinds import decode_transaction_record
from oncelog_coordinator.core.transactions.records import TRANSACTION_KEY, DecidedTransaction, TransactionRecord
from oncelog_partition_leader.log.partition_log import PartitionLog
from oncelog_partition_leader.log.reader import read_batches, segment_of
from oncelog_partition_leader.partition.partition import LocalPartition
from oncelog_runtime.metadata.cluster_keys import INTERNAL_TOPICS, TRANSACTION_TOPIC
from oncelog_runtime.sim.disk import SimDisk
from oncelog_runtime.sim.faults import FaultPlan
from tests.simulation.cluster import SimCluster
from tests.simulation.history import Key
from tests.simulation.invariants import Sight, Watcher
from tests.simulation.log_invariants import batches_between

Name = tuple[int, int]
"""(txn_producer_id, txn_no)"""


@dataclass(slots=True)
class Decisions:
    """What the committed records of all shards say."""

    decided: dict[Name, DecidedTransaction] = field(default_factory=dict)
    removed: set[int] = field(default_factory=set)
    """Producer ids of ids that were removed."""
    _newest: dict[int, TransactionRecord] = field(default_factory=dict)
    _owners: dict[str, int] = field(default_factory=dict)
    """Transactional id -> the producer id that it has now."""
    _orphans: set[Name] = field(default_factory=set)
    _complete: set[Name] = field(default_factory=set)

    def take(self, key: str, value: bytes | None) -> list[Name]:
        """One more committed record; the transactions that are complete by it."""
        if value is None:
            if key.startswith(TRANSACTION_KEY):  # that of an orphan changes no outcome
                self._remove(key.removeprefix(TRANSACTION_KEY))
            return []
        record = decode_transaction_record(key, value)
        if isinstance(record, OrphanRecord):
            self._orphans.update((record.producer_id, number) for number in record.aborted)
        if not isinstance(record, TransactionRecord):
            return []
        producer_id, before = record.producer_id, self._newest.get(record.producer_id, record)
        assert producer_id not in self.removed, f"recorded under the producer id of a removed id: {record}"
        if self._owners.setdefault(record.transactional_id, producer_id) != producer_id:
            self._remove(record.transactional_id)  # and made again in one append, where only the newer record stands
            self._owners[record.transactional_id] = producer_id
        is_new_session = record.session_epoch > before.session_epoch
        assert not (is_new_session and record.expected), f"a new session begins with what another expected: {record}"
        self._newest[producer_id] = record
        self.decided.update(((producer_id, item.txn_no), item) for item in record.decided)
        left = {item.txn_no for item in record.decided}
        complete = [(producer_id, item.txn_no) for item in before.decided if item.txn_no not in left]
        self._complete.update(complete)
        return complete

    def _remove(self, transactional_id: str) -> None:
        producer_id = self._owners.pop(transactional_id)
        record = self._newest[producer_id]
        assert record.dead, f"removed before it had expired: {record}"
        assert record.open is None, f"removed while it is open: {record}"
        assert not record.decided, f"removed while markers are missing: {record}"
        assert all(token.expires for token in record.tokens), f"a token was forgotten that lasts: {record}"
        self.removed.add(producer_id)

    def problem(self, name: Name, where: PartitionId, marker: Marker) -> str:
        """Why this marker may not be; empty when it may."""
        decided = self.decided.get(name)
        if decided is None:
            return "" if not marker.committed and self._is_aborted(name) else "nobody has decided it"
        expected = decided.expected_on(where.topic_id, where.partition)
        said = (marker.committed, marker.session_epoch, marker.winners)
        if said != (decided.outcome.is_commit, decided.session_epoch, decided.winners):
            return f"the decision was {decided}"
        if marker.expected_records < 0 and name in self._complete:
            return ""  # asked for when only the outcome was remembered, by a leader that is none any more (rule 4)
        if marker.committed and marker.expected_records != expected:
            return f"the decision expects {expected} records here"
        return ""

    def _is_aborted(self, name: Name) -> bool:
        """Without a decision of its own: nobody knew of it, so it is recorded as aborted."""
        record = self._newest.get(name[0])
        if name in self._orphans or record is None:
            return name in self._orphans
        outcome = record.outcome_of(name[1])
        return outcome is not None and not outcome.is_commit


class MarkersFollowDecisions:
    """`leading()`: the partitions that living brokers lead now."""

    def __init__(self, leading: Callable[[], Iterable[LocalPartition]]) -> None:
        self.decisions = Decisions()
        self.checked = 0
        self._leading = leading
        self._read: dict[int, int | None] = {}
        """By shard: up to where its log was read; None = it could not be read."""
        self._marked: dict[PartitionId, dict[Name, int]] = {}
        self._reached: dict[PartitionId, int] = {}

    @property
    def removed(self) -> int:
        """How many ids were removed."""
        return len(self.decisions.removed)

    def see(self, before: Sight | None, now: Sight) -> None:
        """Reads what is committed of the decisions, and judges what is appended of the markers."""
        if now.partition.topic == TRANSACTION_TOPIC:
            self._read_on(now.partition, now.high_watermark)
        where = now.partition.id
        if now.leadership is not None or (before is not None and before.leadership is not None):  # or until this step
            self._reached[where] = max(self._reached.get(where, 0), now.high_watermark)
        if now.leadership is None:
            return
        if now.partition.topic not in INTERNAL_TOPICS:
            is_same = before is not None and before.leadership is now.leadership
            self._judge_all(before.log_end if before and is_same else now.leadership.replicas.epoch_start, now)

    # ------------------------------------------------------------ decisions

    def _read_on(self, partition: LocalPartition, high_watermark: int) -> None:
        shard = partition.id.partition
        start = self._read.get(shard, 0)
        if start is None or start >= high_watermark:
            return
        found = peek(partition.log, start, high_watermark)
        if found is None:
            self._read[shard] = None
            return
        for header, data in iter_batches(found):
            if not header.is_control:
                for record in decode_batch(data, header):
                    if record.key is not None:
                        self._take(record.key.decode(), record.value)
        self._read[shard] = high_watermark

    def _take(self, key: str, value: bytes | None) -> None:
        for name in self.decisions.take(key, value):
            for target in self.decisions.decided[name].targets:
                where = PartitionId(target.topic_id, target.partition)
                assert self._has_marker(where, name), f"{name} is complete, and {where} has no marker of it"

    # ------------------------------------------------------------ markers

    def _judge_all(self, start: int, now: Sight) -> None:
        partition = now.partition
        if start >= now.log_end or not partition.log.is_cached(start):
            return
        for header, data in batches_between(partition, start, now.log_end):
            if header.is_control and isinstance(marker := control_of(data), Marker):
                name = (header.txn_producer_id, header.txn_no)
                self._marked.setdefault(partition.id, {})[name] = header.base_offset
                self._judge(header, name, marker, now)
            elif not header.is_control:
                assert header.txn_producer_id not in self.decisions.removed, (
                    f"written for a removed id: {header}, {now}"
                )

    def _judge(self, header: BatchHeader, name: Name, marker: Marker, now: Sight) -> None:
        problem = self.decisions.problem(name, now.partition.id, marker)
        if problem:
            for partition in self._leading():  # the shard's leader may not have been looked at since
                if partition.topic == TRANSACTION_TOPIC:
                    self._read_on(partition, partition.high_watermark)
            problem = self.decisions.problem(name, now.partition.id, marker)
        is_blind = self._read.get(header.txn_shard, 0) is None
        assert not problem or is_blind, f"{marker} of {name}, and {problem}: {now}"
        self.checked += not is_blind

    def _has_marker(self, where: PartitionId, name: Name) -> bool:
        """Also true when nobody leads the partition who could say."""
        if name in self._marked.get(where, {}):
            return True
        known = [
            leader.log.producers.transactions.ended.get(name[0]) for leader in self._leading() if leader.id == where
        ]
        return not known or any(producer is not None and producer.marker(name[1]) for producer in known)

    def became_visible(self, name: Name, partitions: Iterable[PartitionId]) -> None:
        """A client was told so, of a transaction that wrote to these."""
        for where in partitions:
            assert self._has_marker(where, name), f"{name} is visible, and {where} has no marker of it"
            offset, reached = self._marked.get(where, {}).get(name, -1), self._reached.get(where, 0)
            assert offset < reached, f"{name} is visible, and its marker at {offset} of {where} is above {reached}"


def peek(log: PartitionLog, start: int, end: int) -> bytes | None:
    """These batches, from the platter if need be: no fault is drawn for it. None: they cannot be read."""
    disk, data = log._disk, b""
    assert isinstance(disk, SimDisk)
    plan, disk.plan = disk.plan, FaultPlan()
    try:
        while start < end:
            data += read_batches(segment_of(log._segments, start), start, 1 << 30, end, log._tag)
            start = max(header.next_offset for header, _ in iter_batches(data))
    except OncelogError:
        return None
    finally:
        disk.plan = plan
    return data


def watch_decisions(
    watcher: Watcher, cluster: SimCluster
) -> tuple[MarkersFollowDecisions, Callable[[int, int, set[Key]], None]]:
    """Hooks this in; returns it, and what is to be told of each visible transaction: its producer id, number and partitions."""

    def leading() -> Iterator[LocalPartition]:
        for _, broker in cluster.brokers():
            for partition in broker.replicas.partitions.values():
                if partition.leadership is not None and partition.failed is None:
                    yield partition

    def became_visible(producer_id: int, txn_no: int, keys: set[Key]) -> None:
        invariant.became_visible((producer_id, txn_no), [watcher.partition(key) for key in sorted(keys)])

    invariant = MarkersFollowDecisions(leading)
    watcher.add(invariant)
    return invariant, became_visible
