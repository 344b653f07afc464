"""Consumer without `await` (see `oncelog.sync`).

Written by scripts/gen_sync.py from the asynchronous classes; not to be edited.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING

from oncelog.client.consume.fetched_records import ConsumerRecord, Records
from oncelog.client.consume.offsets import OffsetAndMetadata
from oncelog.client.routing.offset_lookup import FoundOffset
from oncelog.sync.by_hand import ConsumerBase
from oncelog.types import TopicPartition
from oncelog.value_types import K, V, fills_up

if TYPE_CHECKING:
    import pyarrow as pa


@fills_up
class Consumer(ConsumerBase[K, V]):
    """See `oncelog.Consumer`."""

    def start(self) -> Consumer[K, V]:
        """Assigns all partitions of topics that were given without a group. Idempotent.

        Whatever reads does this by itself. Raises `UnknownTopicError`, `InvalidTopicError`.
        """
        self._run(self._inner.start())
        return self

    def __enter__(self) -> Consumer[K, V]:
        self._run(self._inner.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._run(self._inner.__aexit__(kind, error, trace))

    def close(self, timeout_ms: int | None = None) -> None:
        """Stops reading, and leaves the group if this consumer subscribed to one. Idempotent.

        Commits nothing, unless `enable_auto_commit` is on; with `delivery="at_least_once"` not what the last read returned:
        call `commit()` before, if that is processed. A static member (`group_instance_id`) keeps its partitions until
        its session ends, so that it may come back to them. Raises what `on_revoked` raises, when all is closed.

        It takes at most `timeout_ms` (None = `close_timeout_ms`). When the coordinator is away or `on_revoked` takes longer,
        it gives up with a warning in the log: what was not committed is read again, and the session time-out ends the
        membership. With `timeout_ms=0` nothing is waited for.
        """
        self._run(self._inner.close(timeout_ms))

    def unsubscribe(self) -> None:
        """Leaves the group; the other members share what this one read. Raises what `on_revoked` raises. Idempotent."""
        self._run(self._inner.unsubscribe())

    def assign(self, partitions: Iterable[tuple[str, int]]) -> None:
        """Reads exactly these (topic, partition) pairs from now on; positions of kept ones stay.

        Raises `UnknownTopicError`.
        """
        self._run(self._inner.assign(list(partitions)))

    def assign_topics(self, *topics: str) -> None:
        """Reads all partitions of these topics, also those that are added later. Raises `UnknownTopicError`.

        With a `group_id`, which must be given no topics then, this is how one consumer reads everything and the group only
        keeps its offsets.
        """
        self._run(self._inner.assign_topics(*topics))

    def assignment(self) -> list[TopicPartition]:
        """The partitions that are read."""
        return self._inner.assignment()

    def pause(self, *partitions: tuple[str, int]) -> None:
        """Returns nothing of these partitions until `resume`."""
        self._call(self._inner.pause, *partitions)

    def resume(self, *partitions: tuple[str, int]) -> None:
        """Ends a pause."""
        self._call(self._inner.resume, *partitions)

    def rewind(self, records: Records[K, V]) -> None:
        """Goes back to where these records began: the next read returns them again. For after an aborted transaction.

        A partition whose offset was committed after all is left where it is, so this is also right when the outcome of a
        commit is not known: it waits until that transaction is decided. So is a partition that is no longer this consumer's.
        """
        self._run(self._inner.rewind(records))

    def getmany(self, timeout_ms: int | None = None, max_records: int | None = None) -> Records[K, V]:
        """Up to `max_records` (None = `max_poll_records`) records; waits for the first one, at most `timeout_ms`.

        The list is empty when none came (None = waits without a limit). It knows its `offsets` and `group`, for
        `Transaction.send_offsets`. Raises what makes a partition unreadable, once per try; others are unharmed; and
        `IllegalStateError` when nothing is assigned, after `close`, and, with `delivery="at_least_once"` or "exactly_once",
        while another task reads from this consumer.
        """
        return self._run(self._inner.getmany(timeout_ms, max_records))

    def getone(self, timeout_ms: int | None = None) -> ConsumerRecord[K, V] | None:
        """The next record; None when none came within `timeout_ms`."""
        return self._run(self._inner.getone(timeout_ms))

    def processing(self, record: ConsumerRecord) -> contextlib.AbstractContextManager[None]:
        """`with consumer.processing(record):` gives the work on a record a span, linked to where the record was created.

        With `trace_consumer_parent="message"` it becomes a part of the trace of the record instead: for handlers of
        single messages, and demos. Without tracing it does nothing.
        """
        return self._inner.processing(record)

    def commit(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int]
        | Mapping[tuple[str, int], OffsetAndMetadata | int]
        | None = None,
    ) -> None:
        """Commits offsets (None = the positions of all partitions) for the group. Raises the first refusal.

        Offsets of a topic that was created again since they were read are left out, with a warning: they mean nothing in
        the new one. An offset that you wrote down yourself has no topic id, and is taken for one of the topic of today.
        With `delivery="exactly_once"` it raises `IllegalStateError`: transactions commit the offsets. It raises
        `UnknownMemberError` when partitions were lost since the last read, and in the callback for them.
        """
        self._run(self._inner.commit(offsets))

    def committed(self, *partitions: tuple[str, int]) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """The group's committed offsets; None = none yet. Waits for open transactions that hold one.

        Without arguments all of them, except those of topics that were created again since.
        """
        return self._run(self._inner.committed(*partitions))

    def position(self, partition: tuple[str, int]) -> int:
        """The next offset to return. Looks it up first where none is known."""
        return self._run(self._inner.position(partition))

    def seek(self, partition: tuple[str, int], offset: int) -> None:
        """Goes on from this offset. Raises `OffsetOutOfRangeError` for a negative one."""
        self._call(self._inner.seek, partition, offset)

    def seek_to_beginning(self, *partitions: tuple[str, int]) -> None:
        """Goes to the first record that is kept; without arguments in all partitions."""
        self._run(self._inner.seek_to_beginning(*partitions))

    def seek_to_end(self, *partitions: tuple[str, int]) -> None:
        """Goes to the end of what may be read now; without arguments in all partitions."""
        self._run(self._inner.seek_to_end(*partitions))

    def offsets_for_times(
        self, times: Mapping[TopicPartition, int] | Mapping[tuple[str, int], int]
    ) -> dict[TopicPartition, FoundOffset | None]:
        """Per partition where the first record at or after this time (ms since 1970) is; None = there is none.

        Precise to the batch: the offset is that of the first record of its batch, so some before the time may come first.
        Raises `ConfigError` for a time below 0.
        """
        return self._run(self._inner.offsets_for_times(times))

    def beginning_offsets(self, partitions: Iterable[tuple[str, int]]) -> dict[TopicPartition, int]:
        """First offset that is kept."""
        return self._run(self._inner.beginning_offsets(list(partitions)))

    def end_offsets(self, partitions: Iterable[tuple[str, int]]) -> dict[TopicPartition, int]:
        """End of what may be read: last stable offset under read_committed, else high watermark."""
        return self._run(self._inner.end_offsets(list(partitions)))

    def read_arrow(self, timeout_ms: int | None = None, include_headers: bool = False) -> pa.RecordBatch | None:
        """The next rows of one partition as a `pyarrow.RecordBatch`, or None when none came within `timeout_ms`.

        Columns: key, value, timestamp (us, UTC), partition, offset, topic, and on request headers.
        """
        return self._run(self._inner.read_arrow(timeout_ms, include_headers))

    def arrow_batches(self, include_headers: bool = False) -> Iterator[pa.RecordBatch]:
        """`read_arrow` without an end. The fast path: no work per row."""
        return self._each(self._inner.arrow_batches(include_headers))

    def read_range(
        self,
        partition: tuple[str, int],
        start: int,
        end: int,
        include_headers: bool = False,
        timeout_ms: int | None = None,
        topic_id: str = "",
    ) -> Iterator[pa.RecordBatch]:
        """The rows with `start` <= offset < `end` of one partition, as `read_arrow` gives them, expired or not.

        Replaces the assignment. Raises `RequestTimedOutError` when nothing comes for `timeout_ms`, and `UnknownTopicError`
        when the topic was created again: while it is read, or since the caller learned `topic_id`.
        """
        return self._each(self._inner.read_range(partition, start, end, include_headers, timeout_ms, topic_id))

    @property
    def expired_count(self) -> int:
        """How many records were skipped, since their time to live had passed."""
        return self._inner.expired_count
