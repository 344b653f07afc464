"""Participant without `await` (see `oncelog.sync`).

Written by scripts/gen_sync.py from the asynchronous classes; not to be edited.
"""

from __future__ import annotations

from types import TracebackType

from oncelog.client.produce.transactions.participant import ParticipantResult
from oncelog.sync.by_hand import ParticipantBase
from oncelog.value_types import Key, Value, fills_up


@fills_up
class Participant(ParticipantBase[Key, Value]):
    """A writer of a shared transaction. See `oncelog.client.produce.transactions.participant`."""

    def __enter__(self) -> Participant[Key, Value]:
        self._run(self._inner.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._run(self._inner.__aexit__(kind, error, trace))

    def close(self) -> None:
        """Stops renewing and drops what was not flushed; the transaction itself stays as it is. Idempotent."""
        self._run(self._inner.close())

    @property
    def txn_no(self) -> int:
        """Number of the transaction that was joined; 0 when its batch is committed already."""
        return self._inner.txn_no

    @property
    def session_token(self) -> bytes:
        """A secret that shows that the one who aborts has joined; empty when nothing was joined."""
        return self._inner.session_token

    @property
    def producer_id(self) -> int:
        """This participant's own producer id."""
        return self._inner.producer_id

    def flush(self) -> ParticipantResult:
        """Waits for every acknowledgement; what to hand to the driver. Raises the first failure, and `IllegalStateError` after
        `close`: its lease runs out.
        """
        return self._run(self._inner.flush())

    def renew(self) -> None:
        """Keeps the transaction alive. Raises `TxnEndedError`, `TxnAbortedError` or `ProducerFencedError` when it has ended."""
        self._run(self._inner.renew())
