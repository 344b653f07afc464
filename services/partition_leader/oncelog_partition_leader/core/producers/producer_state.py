"""The producer state of one partition: every decision about duplicates, gaps, fences and transactions is made here.

Theory of operation
-------------------
In: a leader (`partition/leadership.py`) asks before each append: `decide` for a client's batch, `decide_marker` for a marker,
`written` and `fence_epoch` for `GetProducerState`. Every replica calls `apply` for every batch that is in its log: the leader
after the write, a follower when it has written the leader's bytes, recovery when it replays the log.
Out: a decision (`decisions.py`) or a refusal; an entry of the aborted index for a marker that leaves data to be skipped; and
the first unstable offset, from which the log computes the last stable offset.

What can go wrong, and the check that prevents it:

- The answer to a batch is lost and the batch is sent again. Its sequences are in the window, so it is a `Duplicate` and is
  not appended. It is acknowledged when its producer's newest batch is committed, like its first copy (hole 10).
- A batch comes before its predecessor, which was lost or refused. Its sequence is not the next one: it is refused, and the
  producer sends both again in order. Sequences wrap at 2^31, so distances are taken in the ring (hole 21).
- A producer or a session was replaced, and a late batch of the old one arrives. Its epoch is below the newest that this log
  has seen in a batch, a fence or a marker: it is refused.
- A late batch of a transaction arrives after its marker. To append it would open the transaction again, with no marker to
  come, and the last stable offset would stop there. "Ended up to n" is never forgotten, so it is refused (hole 12).
- A transaction writes to a partition of which its coordinator does not know, so that no marker would ever come. Its first
  batch waits (`NeedsEnrolment`) until the coordinator has recorded the partition durably.
- A deposed coordinator sends a marker late. The highest coordinator epoch of each shard is kept: the marker is refused.
- A producer cannot learn whether a batch is written, and wants to write its records under another identity. `written` says
  whether it is; "not written" is final only after a fence has made every late copy stale (hole 22).
- Another replica becomes leader. Its state came from the same batches by the same `apply`, so it takes and refuses the same
  batches (hole 23). Of a repeat it may know less: see rule 1.
- A log has ever more producers. Idle ones expire to 24 bytes each, which still recognise a late duplicate.

Rules
-----
Rule 1: `decide` only reads; `apply` is the only writer and never refuses; replay is `apply` in a loop. So the state is a
        function of the log, equal on every replica (hole 23), but for the batches before the newest five of a producer: who
        has them only packed (`packed_entry`) knows a repeat by its sequences, without its offset and its content.
Rule 2: plain sequences are kept per (producer_id, epoch); transactional ones start at 0 in every transaction and are
        kept per (producer_id, epoch, txn_no) (hole 9).
Rule 3: a transaction is opened only on the coordinator's own answer, and never again once a marker at or above its
        number is in the log (hole 12).
Rule 4: only `Origin.CLIENT` is judged. Followers and recovery apply a leader's batches without judging them.

An expired producer that continues with its next sequence is accepted: its last sequence is still known exactly, so this
is no blind trust. (Kafka's UNKNOWN_PRODUCER_ID is for ids of which nothing is known.)
"""

from __future__ import annotations

from collections.abc import Container
from typing import Final

from oncelog.core.batch.control import NOT_COUNTED, Control, Fence, Marker
from oncelog.core.batch.header import BatchHeader
from oncelog.errors import (
    CoordinatorFencedError,
    InvalidProducerEpochError,
    InvalidRequestError,
    InvalidTxnStateError,
    OutOfOrderSequenceError,
    ResourceExhaustedError,
    TxnEndedError,
    UnknownProducerIdError,
)
from oncelog.types import Buffer
from oncelog_partition_leader.core.log.aborted_index import AbortedEntry
from oncelog_partition_leader.core.log.batch_check import check_producer_epoch
from oncelog_partition_leader.core.producers.decisions import (
    APPEND,
    AppendMarker,
    BatchDecision,
    Duplicate,
    MarkerDecision,
    MarkerWritten,
    NeedsEnrolment,
    Origin,
    Written,
)
from oncelog_partition_leader.core.producers.packed_entry import ProducerEntry
from oncelog_partition_leader.core.producers.producer_entry import ProducerEntries
from oncelog_partition_leader.core.producers.producer_snapshot import Snapshot, load
from oncelog_partition_leader.core.producers.sequence_window import KeptBatch, Older, SequenceWindow
from oncelog_partition_leader.core.producers.transactions import OpenTransaction, Transactions, TxnName, TxnSession
from oncelog_partition_leader.core.producers.txn_producer import KnownMarker
from oncelog_runtime.metadata.cluster_keys import SHARD_WRITER_BASE

DEFAULT_EXPIRATION_MS: Final = 24 * 3600 * 1000
OPEN_TRANSACTIONS_MAX: Final = 10_000
EPOCHS_AHEAD_MAX: Final = 100
"""A plain producer begins at epoch 0, and each fence of `GetProducerState` raises it by one, on that partition. So its epoch
is never far above the known one. A caller that could raise it to the maximum would lock the producer out for good."""


class ProducerStates:
    """All producers and transactions of one partition. `end_offset`: everything below it has been applied.

    It has a few methods more than other classes, since every decision about a batch or a marker is made here; what they decide
    by is kept by `ProducerEntries` and `Transactions`.
    """

    __slots__ = ("_open_max", "data_end_offset", "end_offset", "log_start_offset", "producers", "transactions")

    def __init__(
        self, expiration_ms: int = DEFAULT_EXPIRATION_MS, open_transactions_max: int = OPEN_TRANSACTIONS_MAX
    ) -> None:
        self._open_max = open_transactions_max
        self.producers = ProducerEntries(expiration_ms)
        self.transactions = Transactions()
        self.end_offset = 0
        self.data_end_offset = 0
        """End of the newest data batch; after a restart, until the next data batch, the end offset of the snapshot or later."""
        self.log_start_offset = 0
        """Is sent with `UnknownProducerIdError`, so that a producer can tell deletion by retention from loss."""

    # ------------------------------------------------------------ batches

    def decide(
        self, header: BatchHeader, origin: Origin, verified: Container[TxnSession] = frozenset()
    ) -> BatchDecision:
        """Decides about a data batch. `verified`: enrolments that the coordinator has confirmed.

        Raises `InvalidProducerEpochError`, `InvalidTxnStateError`, `TxnEndedError`, `OutOfOrderSequenceError`,
        `DuplicateSequenceError`, `UnknownProducerIdError` (context log_start_offset) or `ResourceExhaustedError`.
        """
        if origin is not Origin.CLIENT or header.producer_id < 0:
            return APPEND
        if header.is_transactional:
            return self._decide_transactional(header, verified)
        return self._decide_plain(header)

    def _decide_plain(self, header: BatchHeader) -> BatchDecision:
        producer_id = header.producer_id
        entry = self.producers.find(producer_id, self.end_offset)
        self._refuse_older_epoch(header, entry)
        if producer_id in self.transactions.busy:
            raise InvalidTxnStateError("a plain batch while this producer's transaction is open", producer=producer_id)
        if producer_id < SHARD_WRITER_BASE:
            _refuse_far_epoch(header.producer_epoch, entry)
        if entry is None:
            return self._first_batch(header)
        if header.producer_epoch > entry.producer_epoch:
            if header.base_sequence != 0:
                raise OutOfOrderSequenceError("a new epoch begins at sequence 0", base_sequence=header.base_sequence)
            return APPEND
        return _judge(entry.window, header)

    def _decide_transactional(self, header: BatchHeader, verified: Container[TxnSession]) -> BatchDecision:
        name = TxnName(header.txn_producer_id, header.txn_no)
        self._refuse_older_epoch(header, self.producers.find(header.producer_id, self.end_offset))
        self._refuse_older_session(header)
        known = self.transactions.ended.get(name.txn_producer_id)
        if known is not None and name.txn_no <= known.ended_up_to:
            raise TxnEndedError(txn_no=name.txn_no, ended_up_to=known.ended_up_to)
        opened = self.transactions.open.get(name)
        if opened is None:
            return self._open(header, verified)
        self._check_belongs(header, opened)
        writer = opened.writers.get(header.producer_id)
        return self._first_batch(header) if writer is None else _judge(writer.window, header)

    def _open(self, header: BatchHeader, verified: Container[TxnSession]) -> BatchDecision:
        """Decides about the first batch that a transaction writes to this partition."""
        session = TxnSession(header.txn_producer_id, header.txn_no, header.producer_epoch)
        if session not in verified:
            return NeedsEnrolment(session, header.txn_shard)
        if len(self.transactions.open) >= self._open_max:
            raise ResourceExhaustedError("too many open transactions on this partition", limit=self._open_max)
        return self._first_batch(header)

    def _first_batch(self, header: BatchHeader) -> BatchDecision:
        if header.base_sequence == 0:
            return APPEND
        raise UnknownProducerIdError(
            "nothing is known of this producer here, so its sequence must be 0",
            base_sequence=header.base_sequence,
            log_start_offset=self.log_start_offset,
        )

    def _refuse_older_epoch(self, header: BatchHeader, entry: ProducerEntry | None) -> None:
        newest = self.transactions.session_epoch(header.producer_id)
        if entry is not None and entry.producer_epoch > newest:
            newest = entry.producer_epoch
        if header.producer_epoch < newest:
            raise InvalidProducerEpochError(producer_epoch=header.producer_epoch, newest=newest)

    def _refuse_older_session(self, header: BatchHeader) -> None:
        newest = self.transactions.session_epoch(header.txn_producer_id)
        if header.producer_epoch < newest:
            raise InvalidProducerEpochError(producer_epoch=header.producer_epoch, newest=newest)

    def _check_belongs(self, header: BatchHeader, opened: OpenTransaction) -> None:
        if header.producer_epoch != opened.session_epoch:
            raise InvalidProducerEpochError(
                "the transaction was opened by another session",
                producer_epoch=header.producer_epoch,
                session_epoch=opened.session_epoch,
            )
        if header.txn_shard != opened.txn_shard:
            raise InvalidTxnStateError("the transaction belongs to another shard", txn_shard=opened.txn_shard)

    # ------------------------------------------------------------ markers

    def decide_marker(self, name: TxnName, txn_shard: int, marker: Marker) -> MarkerDecision:
        """Decides about a coordinator's marker: it is appended, whether it ends an open transaction or not (hole 12).

        A repeat of a marker that is in the log is recognised: "ended up to" is durable, so it is answered with that
        marker's offset as soon as the high watermark is above it. Appending it again would be harmless too.

        Raises `CoordinatorFencedError` when a newer coordinator has spoken for the shard (also for a repeat), and
        `InvalidTxnStateError` when the transaction has ended here with the other outcome.
        """
        newest = self.transactions.shard_epochs.get(txn_shard, -1)
        if marker.coordinator_epoch < newest:
            raise CoordinatorFencedError(coordinator_epoch=marker.coordinator_epoch, newest=newest)
        producer = self.transactions.ended.get(name.txn_producer_id)
        known = producer.marker(name.txn_no) if producer is not None else None
        if known is not None and name not in self.transactions.open:
            if known.txn_no == name.txn_no and known.committed != marker.committed:
                raise InvalidTxnStateError("the transaction has ended with the other outcome", txn_no=name.txn_no)
            return MarkerWritten(known.offset)
        opened = self.transactions.open.get(name)
        records = opened.records_of(marker.winners) if opened is not None else 0
        return AppendMarker(marker.committed and records < marker.expected_records != NOT_COUNTED, records)

    def fence_epoch(self, producer_id: int, producer_epoch: int) -> int:
        """Returns the epoch of a fence after which no batch of `producer_epoch` or below is accepted any more.

        Raises `InvalidRequestError` when there is none.
        """
        check_producer_epoch(producer_epoch)
        entry = self.producers.find(producer_id, self.end_offset)
        _refuse_far_epoch(producer_epoch, entry)
        newest = max(self.transactions.session_epoch(producer_id), entry.producer_epoch if entry else -1)
        return max(newest, producer_epoch + 1)

    # ------------------------------------------------------------ the only writer

    def apply(self, header: BatchHeader, base_offset: int, control: Control | None) -> AbortedEntry | None:
        """Applies a batch that is in the log; `control` is the record of a control batch.

        Returns the entry for the aborted index when a marker leaves data that readers must skip.
        """
        self.producers.advance(header.append_timestamp_ms, self.transactions.busy)
        entry: AbortedEntry | None = None
        if control is None:
            if header.producer_id >= 0:
                self._apply_data(header, base_offset)
        elif isinstance(control, Fence):
            self.producers.fence(header.producer_id, control.producer_epoch, self.end_offset)
        else:
            entry = self._apply_marker(header, base_offset, control)
        self.end_offset = base_offset + header.last_offset_delta + 1
        if control is None:
            self.data_end_offset = self.end_offset
        return entry

    def _apply_data(self, header: BatchHeader, base_offset: int) -> None:
        if not header.is_transactional:
            window = self.producers.touch(header.producer_id, header.producer_epoch, self.end_offset).window
        else:
            opened = self._opened(header, base_offset)
            writer = self.transactions.writer(opened, header.producer_id)
            writer.records += header.record_count
            window = writer.window
        if header.is_compacted:
            window.pass_over(header.base_sequence, header.last_offset_delta + 1, base_offset)
            return
        window.push(header.base_sequence, header.record_count, base_offset, header.body_crc, header.append_timestamp_ms)

    def _opened(self, header: BatchHeader, base_offset: int) -> OpenTransaction:
        name = TxnName(header.txn_producer_id, header.txn_no)
        opened = self.transactions.open.get(name)
        if opened is None:
            opened = OpenTransaction(
                name, base_offset, header.producer_epoch, header.txn_shard, header.append_timestamp_ms
            )
            self.transactions.begin(opened)
        return opened

    def _apply_marker(self, header: BatchHeader, offset: int, marker: Marker) -> AbortedEntry | None:
        name = TxnName(header.txn_producer_id, header.txn_no)
        transactions = self.transactions
        newest = transactions.shard_epochs.get(header.txn_shard, -1)
        transactions.shard_epochs[header.txn_shard] = max(newest, marker.coordinator_epoch)
        closed = transactions.end(name, KnownMarker(name.txn_no, offset, marker.committed), marker.session_epoch)
        skipped = closed is not None and _something_to_skip(closed, marker)
        if not skipped and not marker.lost:
            return None
        first_open = transactions.first_open_offset()
        return AbortedEntry(
            name.txn_producer_id,
            name.txn_no,
            first_offset=closed.first_offset if closed is not None else offset,
            marker_offset=offset,
            all=not marker.committed or marker.lost or not marker.winners,
            winners=marker.winners or (),
            lost=marker.lost,
            unstable_from=offset + 1 if first_open is None else first_open,
        )

    # ------------------------------------------------------------ reading

    def first_unstable_offset(self, high_watermark: int) -> int | None:
        """Returns the first offset that read_committed may not see yet; None = all below the high watermark is stable."""
        return self.transactions.first_unstable_offset(high_watermark)

    def forget_stable(self, high_watermark: int) -> None:
        """Forgets what only readers below the high watermark would ask for; without readers nothing else does it."""
        self.transactions.forget_stable(high_watermark)

    @property
    def open_transactions(self) -> list[OpenTransaction]:
        """Open transactions, oldest first; those open for too long are found by `open_since_ms` (`hanging_transactions`)."""
        return list(self.transactions.open.values())

    @property
    def oldest_open_since_ms(self) -> int | None:
        """The append time of the first batch of the oldest open transaction, by its leader's clock; None = none is open."""
        return next((opened.open_since_ms for opened in self.transactions.open.values()), None)

    def producer(self, producer_id: int) -> ProducerEntry | None:
        """Returns a producer's state outside of transactions, also when it has expired; callers must not change it."""
        return self.producers.find(producer_id, self.end_offset)

    def written(self, producer_id: int, producer_epoch: int, base_sequence: int, last: int) -> Written:
        """Finds out whether a plain batch in doubt, with exactly these sequences of this session, is in the log.

        Raises `InvalidProducerEpochError` when the session is so old that this can no longer be known.
        """
        entry = self.producer(producer_id)
        if entry is None or producer_epoch > entry.producer_epoch:
            return Written(False, -1, self.end_offset)
        window = entry.window_of(producer_epoch)
        if window is None:
            raise InvalidProducerEpochError(producer_epoch=producer_epoch, newest=entry.producer_epoch)
        found = window.find(base_sequence, last)
        if isinstance(found, KeptBatch):
            return Written(True, found.base_offset, window.end_offset)
        return Written(found is not None, -1, window.end_offset)

    # ------------------------------------------------------------ state as bytes

    def snapshot(self) -> bytes:
        """Encodes the whole state, with a checksum."""
        return self.begin_snapshot().whole()

    def begin_snapshot(self) -> Snapshot:
        """Begins a snapshot of the state as it is now, which another thread may encode while more batches are applied."""
        return Snapshot(self.producers, self.transactions, self.end_offset)

    @classmethod
    def restore(cls, data: Buffer, expiration_ms: int = DEFAULT_EXPIRATION_MS) -> ProducerStates:
        """Decodes a `snapshot`. Raises `CorruptMessageError`."""
        states = cls(expiration_ms)
        states.producers, states.transactions, states.end_offset = load(data, expiration_ms)
        states.data_end_offset = states.end_offset
        return states

    def check(self) -> None:
        """Asserts every invariant."""
        self.producers.check()
        self.transactions.check()
        assert self.data_end_offset <= self.end_offset
        for opened in self.transactions.open.values():
            assert opened.first_offset < self.end_offset
        assert all(marker < self.end_offset for marker, _ in self.transactions.decided)


def _something_to_skip(closed: OpenTransaction, marker: Marker) -> bool:
    if not marker.committed:
        return True
    return marker.winners is not None and any(writer not in marker.winners for writer in closed.writers)


def _refuse_far_epoch(producer_epoch: int, entry: ProducerEntry | None) -> None:
    known = entry.producer_epoch if entry is not None else 0
    if producer_epoch > known + EPOCHS_AHEAD_MAX:
        raise InvalidRequestError(
            "the producer epoch is further ahead than this producer can be: use the one that InitProducerId answered",
            producer_epoch=producer_epoch,
            known_epoch=known,
        )


def _judge(window: SequenceWindow, header: BatchHeader) -> BatchDecision:
    found = window.judge(header.base_sequence, header.record_count, header.body_crc)
    if found is None:
        return APPEND
    if isinstance(found, KeptBatch):
        return Duplicate(found.base_offset, found.append_timestamp_ms, window.end_offset)
    assert isinstance(found, Older)
    return Duplicate(-1, -1, window.end_offset)
