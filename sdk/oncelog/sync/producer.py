"""Producer without `await` (see `oncelog.sync`).

Written by scripts/gen_sync.py from the asynchronous classes; not to be edited.
"""

from __future__ import annotations

from types import TracebackType

from oncelog.client.produce.delivery import RecordMetadata
from oncelog.sync.by_hand import ProducerBase
from oncelog.sync.transaction import Transaction
from oncelog.value_types import NULL, Headers, Key, Value, fills_up


@fills_up
class Producer(ProducerBase[Key, Value]):
    """See `oncelog.Producer`."""

    def start(self) -> Producer[Key, Value]:
        """Gets the producer id; for a transactional producer this fences its predecessor. Idempotent.

        Raises `ProducerFencedError`, `ClusterUnreachableError`, or what refused the transactional id.
        """
        self._run(self._inner.start())
        return self

    def __enter__(self) -> Producer[Key, Value]:
        self._run(self._inner.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._run(self._inner.__aexit__(kind, error, trace))

    def close(self, timeout_ms: int | None = None) -> None:
        """Aborts an open transaction, waits for what is on its way, at most `timeout_ms` (None = `close_timeout_ms`).

        Nothing is taken from now on. Raises the first failure that no caller has seen. Idempotent: a further call waits for the
        same close. A Ctrl-C drops what is still on its way. With `timeout_ms=0` nothing is asked for or waited for: an
        open transaction is not aborted, its time-out or the next producer of its transactional id does that.
        """
        self._run(self._inner.close(timeout_ms))

    def send_and_wait(
        self,
        topic: str,
        value: Value = NULL,
        key: Key = NULL,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Headers = (),
        ttl_ms: int | None = None,
    ) -> RecordMetadata:
        """`send`, and its acknowledgement."""
        return self._run(self._inner.send_and_wait(topic, value, key, partition, timestamp_ms, headers, ttl_ms))

    def flush(self) -> None:
        """Waits until everything sent so far is acknowledged. Raises the first failure that no caller has seen."""
        self._run(self._inner.flush())

    def transaction(self) -> Transaction[Key, Value]:
        """A new transaction: `with producer.transaction() as txn:`. Raises `IllegalStateError`."""
        return Transaction(self._inner.transaction(), self._thread)

    def begin_transaction(self) -> Transaction[Key, Value]:
        """`transaction()`, begun; end it with `commit` or `abort`."""
        return Transaction(self._run(self._inner.begin_transaction()), self._thread)
