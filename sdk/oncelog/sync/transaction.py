"""Transaction without `await` (see `oncelog.sync`).

Written by scripts/gen_sync.py from the asynchronous classes; not to be edited.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType

from oncelog.client.consume.offsets import GroupMetadata, OffsetAndMetadata
from oncelog.client.produce.transactions.transaction import HasOffsets
from oncelog.sync.by_hand import TransactionBase
from oncelog.types import TopicPartition
from oncelog.value_types import Key, Value, fills_up


@fills_up
class Transaction(TransactionBase[Key, Value]):
    """`with producer.transaction() as txn:` commits on exit, aborts on error. See `oncelog.Transaction`."""

    @property
    def txn_no(self) -> int:
        """Number of this transaction under its transactional id. Raises `IllegalStateError` before `begin`.

        A caller that looks at it may note it down, so from then on it is this transaction's, also if nothing is ever sent.
        """
        return self._inner.txn_no

    @property
    def outcome(self) -> str:
        """ "committed", "aborted", or the state's name while neither is known."""
        return self._inner.outcome

    def begin(self) -> Transaction[Key, Value]:
        """Begins: ends what the producer's last transaction left behind, and takes the next number.

        Raises `IllegalStateError` while another transaction of the producer is open, `ProducerFencedError`.
        """
        self._run(self._inner.begin())
        return self

    def __enter__(self) -> Transaction[Key, Value]:
        self._run(self._inner.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._run(self._inner.__aexit__(kind, error, trace))

    def send_offsets(
        self, read: HasOffsets | Mapping[TopicPartition, OffsetAndMetadata | int], group: GroupMetadata | None = None
    ) -> None:
        """Commits offsets with this transaction: those of a consumer's batch, or a mapping and the group's metadata.

        Raises `IllegalStateError` without a group, `UnknownTopicError` when a topic was created again since its offset was
        read (then abort), and what fences a stale member (`FencedMemberEpochError`, ...).
        """
        self._run(self._inner.send_offsets(read, group))

    def flush(self) -> None:
        """Waits until every send of this transaction is acknowledged. Raises the first failure."""
        self._run(self._inner.flush())

    def commit(self, wait: str = "decided") -> None:
        """Commits. `wait` "decided": the decision is durable; "visible": every partition has its marker as well.

        A partition without a leader gets no marker. So after half of the time the decision is waited for alone.

        Raises the first failed send (then abort), `TxnAbortedError` when the coordinator had aborted it,
        `CommitOutcomeUnknownError` when no answer came in time (then call `commit` again), `ProducerFencedError`. A commit that
        was interrupted goes on: calling it again waits for it, and returns once it is committed.
        """
        self._run(self._inner.commit(wait))

    def abort(self) -> None:
        """Aborts; once it is aborted this does nothing. Raises `IllegalStateError` once a commit was asked for."""
        self._run(self._inner.abort())
