"""Where a consumer stands, and which of the fetched batches it may see.

Rule 1: a batch of a transaction is judged by its name (txn_producer_id, txn_no) and the winners, never by producer and
        offset range: transactions of one producer overlap when they are pipelined (hole 7).
Rule 2: the leader sends nothing above the last stable offset, so a name that it does not list is committed.
Rule 3: markers are never shown, but the position passes them.
Rule 4: an assignment has a generation; what was fetched for an older position is dropped.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from oncelog.core.batch.header import BatchHeader, partition_tag
from oncelog.core.consume.fetch_answer import Bounds
from oncelog.core.consume.near_replica import Source
from oncelog.errors import TransactionDataLossError
from oncelog.types import PartitionId, TopicPartition


class Aborted(NamedTuple):
    """A transaction of which a reader must skip all, or all but the winners' batches."""

    txn_producer_id: int
    txn_no: int
    all: bool = True
    winners: frozenset[int] = frozenset()
    data_loss: bool = False


AbortedByName = dict[tuple[int, int], Aborted]


def by_name(aborted: Iterable[Aborted]) -> AbortedByName:
    """For `committed`."""
    return {(item.txn_producer_id, item.txn_no): item for item in aborted}


def committed(header: BatchHeader, aborted: AbortedByName, skip_lost: bool = False) -> bool:
    """True when a read_committed reader may see this data batch.

    Raises `TransactionDataLossError` for a committed transaction that lost records, unless `skip_lost`.
    """
    if not header.is_transactional:
        return True
    found = aborted.get((header.txn_producer_id, header.txn_no))
    if found is None:
        return True
    if found.data_loss and not skip_lost:
        raise TransactionDataLossError(
            "a committed transaction lost records in a power cut; skip_lost_transactions=True reads on without it",
            txn_producer_id=header.txn_producer_id,
            txn_no=header.txn_no,
            offset=header.base_offset,
        )
    return not (found.all or found.data_loss) and header.producer_id in found.winners


class Cursor:
    """One assigned partition. Offsets are the next to return (`position`) and the next to fetch.

    It has some 20 fields: the reader's position, the fetch under way, and what the last answer said.
    """

    __slots__ = (
        "begins_at_first",
        "buffered_bytes",
        "failing_since_ms",
        "failures",
        "fetch_epoch",
        "fetch_offset",
        "generation",
        "high_watermark",
        "id",
        "is_fetching",
        "is_paused",
        "last_leader_epoch",
        "last_stable_offset",
        "leader_epoch",
        "log_start_offset",
        "lost_from",
        "partition",
        "position",
        "retry_at_ms",
        "source",
        "tag",
    )

    def __init__(self, partition: TopicPartition, partition_id: PartitionId) -> None:
        self.partition = partition
        self.id = partition_id
        self.position = -1  # -1 = not known yet
        self.begins_at_first = False  # without a committed offset: it was found by a running consumer
        self.fetch_offset = -1
        self.fetch_epoch = -1  # in which what lies before `fetch_offset` was read; -1 = not known
        self.generation = 0
        self.is_fetching = False
        self.is_paused = False
        self.buffered_bytes = 0
        self.leader_epoch = -1  # highest seen in an answer
        self.last_leader_epoch = -1  # as `fetch_epoch`, of what lies before `position`
        self.retry_at_ms = 0
        self.failures = 0
        self.failing_since_ms = -1  # -1 = the last answer was a good one
        self.tag = partition_tag(partition_id.topic_id, partition_id.partition)
        self.high_watermark = -1
        self.last_stable_offset = -1
        self.log_start_offset = -1
        self.lost_from = -1  # the log has lost what was read from here on; -1 = nothing, since the position was set
        self.source = Source()

    @property
    def bounds(self) -> Bounds:
        """The offsets of the last answer."""
        return Bounds(self.leader_epoch, self.high_watermark, self.last_stable_offset)

    def forget_bounds(self) -> None:
        """Forgets the last answer, which was false or another replica's, so that the next one is not measured by it."""
        self.high_watermark = self.last_stable_offset = -1

    def seek(self, offset: int) -> None:
        """Goes on from there; what is on its way or buffered for the old position no longer counts.

        What lies before an earlier offset was there in the same epoch; of a later one nothing is known.
        """
        if not 0 <= offset <= self.position:
            self.last_leader_epoch = -1
        self.fetch_epoch = self.last_leader_epoch
        self.position = self.fetch_offset = offset
        self.begins_at_first = self.begins_at_first and offset < 0
        self.generation += 1
        self.buffered_bytes = 0
        self.is_fetching = False

    def sought(self, offset: int) -> None:
        """The caller goes on from there, whatever was read before."""
        self.seek(offset)
        self.last_leader_epoch = self.fetch_epoch = self.lost_from = -1

    def unset(self) -> None:
        """The position must be looked up again."""
        self.seek(-1)

    def lacks_position(self, now_ms: int) -> bool:
        """True when its position may be looked up now; False also while a reader is to be told why that failed."""
        return self.position < 0 and not self.is_fetching and self.retry_at_ms <= now_ms

    def found(self, offset: int, leader_epoch: int = -1) -> None:
        """The position was looked up; `leader_epoch`: in which what lies before it was read, as a commit says."""
        self.seek(offset)
        self.last_leader_epoch = self.fetch_epoch = leader_epoch
        self.failures, self.failing_since_ms = 0, -1

    def may_fetch(self, now_ms: int, buffer_limit: int) -> bool:
        """True when a fetch from `fetch_offset` may begin now."""
        return (
            self.position >= 0
            and not self.is_fetching
            and not self.is_paused
            and self.buffered_bytes < buffer_limit
            and self.retry_at_ms <= now_ms
        )

    def fetched(self, size: int, next_offset: int, leader_epoch: int) -> None:
        """An answer arrived and is buffered."""
        assert next_offset >= self.fetch_offset
        self.buffered_bytes += size
        self.fetch_offset = next_offset
        self.fetch_epoch = max(self.fetch_epoch, leader_epoch)

    def returned(self, position: int, leader_epoch: int) -> None:
        """Records below `position` are the caller's now."""
        assert position >= self.position
        self.position = position
        self.last_leader_epoch = max(self.last_leader_epoch, leader_epoch)

    def check(self) -> None:
        """All invariants."""
        assert -1 <= self.position <= self.fetch_offset or self.position == self.fetch_offset == -1
        assert self.buffered_bytes >= 0
