"""What a partition knows of its producers: duplicates, gaps, fences, transactions. Every such decision is made here.

Rule 1: `decide` only reads; `apply` is the only writer and never refuses; replay is `apply` in a loop. So the state is a
        function of the log, equal on every replica (hole 23).
Rule 2: plain sequences are kept per (producer_id, epoch); transactional ones start at 0 in every transaction and are
        kept per (producer_id, epoch, txn_no) (hole 9).
Rule 3: a transaction is opened only on the coordinator's own answer, and never again once a marker at or above its
        number is in the log (hole 12).
Rule 4: only `Origin.CLIENT` is judged. What a leader wrote is taken as it is, by followers and by recovery.

An expired producer that goes on with its next sequence is accepted: what it wrote last is still known exactly, so this
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
from oncelog_partition_leader.core.producers.producer_entry import ProducerEntries, ProducerEntry
from oncelog_partition_leader.core.producers.producer_snapshot import Snapshot, load
from oncelog_partition_leader.core.producers.sequence_window import KeptBatch, Older, SequenceWindow
from oncelog_partition_leader.core.producers.transactions import (
    KnownMarker,
    OpenTransaction,
    Transactions,
    TxnName,
    TxnSession,
)
from oncelog_runtime.metadata.cluster_keys import SHARD_WRITER_BASE

DEFAULT_EXPIRATION_MS: Final = 24 * 3600 * 1000
OPEN_TRANSACTIONS_MAX: Final = 10_000
EPOCHS_AHEAD_MAX: Final = 100
"""A plain producer begins at epoch 0, and each settled batch raises it by one, on that partition. So its epoch is never far
above what is known of it, and who claims such a one would shut it out for ever."""


class ProducerStates:
    """All producers and transactions of one partition. `end_offset`: everything below it has been applied."""

    __slots__ = ("_open_max", "data_end_offset", "end_offset", "log_start_offset", "producers", "transactions")

    def __init__(
        self, expiration_ms: int = DEFAULT_EXPIRATION_MS, open_transactions_max: int = OPEN_TRANSACTIONS_MAX
    ) -> None:
        self._open_max = open_transactions_max
        self.producers = ProducerEntries(expiration_ms)
        self.transactions = Transactions()
        self.end_offset = 0
        self.data_end_offset = 0
        """End of the newest data batch; after a restart, and until the next one comes, what the snapshot covers."""
        self.log_start_offset = 0
        """Told to a producer of which nothing is known, so that it can tell deletion from loss."""

    # ------------------------------------------------------------ batches

    def decide(
        self, header: BatchHeader, origin: Origin, verified: Container[TxnSession] = frozenset()
    ) -> BatchDecision:
        """What to do with a data batch. `verified`: enrolments that the coordinator has confirmed.

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
        """The first batch here of a transaction."""
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
        """What to do with a coordinator's marker: append it, ended something or not (hole 12).

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
        """The epoch that a fence must carry so that nothing of `producer_epoch` and below is taken any more.

        Raises `InvalidRequestError` when there is none.
        """
        check_producer_epoch(producer_epoch)
        entry = self.producers.find(producer_id, self.end_offset)
        _refuse_far_epoch(producer_epoch, entry)
        newest = max(self.transactions.session_epoch(producer_id), entry.producer_epoch if entry else -1)
        return max(newest, producer_epoch + 1)

    # ------------------------------------------------------------ the only writer

    def apply(self, header: BatchHeader, base_offset: int, control: Control | None) -> AbortedEntry | None:
        """Takes a batch that is in the log; `control` is the record of a control batch.

        Returns what the aborted index must remember, for a marker that leaves something to skip.
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
        """First offset that a read_committed reader may not see yet; None = all below the high watermark is stable."""
        return self.transactions.first_unstable_offset(high_watermark)

    @property
    def open_transactions(self) -> list[OpenTransaction]:
        """Open transactions, oldest first; whoever heals looks at `open_since_ms`."""
        return list(self.transactions.open.values())

    @property
    def oldest_open_since_ms(self) -> int | None:
        """When the open transaction with the first offset began here, by its leader's clock; None = none is open."""
        return next((opened.open_since_ms for opened in self.transactions.open.values()), None)

    def producer(self, producer_id: int) -> ProducerEntry | None:
        """What is known of a producer outside of transactions, also when it has expired; not to be changed."""
        return self.producers.find(producer_id, self.end_offset)

    def written(self, producer_id: int, producer_epoch: int, base_sequence: int, last: int) -> Written:
        """Whether a plain batch in doubt, with just these sequences of this session, is in the log.

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
        """Everything, with a checksum."""
        return self.begin_snapshot().whole()

    def begin_snapshot(self) -> Snapshot:
        """The state as it is now, to be encoded a slice at a time while batches go on being applied."""
        return Snapshot(self.producers, self.transactions, self.end_offset)

    @classmethod
    def restore(cls, data: Buffer, expiration_ms: int = DEFAULT_EXPIRATION_MS) -> ProducerStates:
        """From `snapshot`. Raises `CorruptMessageError`."""
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
