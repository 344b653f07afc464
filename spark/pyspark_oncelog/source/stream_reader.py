"""The streaming source: a position per partition in Spark's checkpoint, and ranges that read identically each time.

One object lives in a process of its own for the whole run and answers Spark's questions; `read` runs on executors, on
another object.  An error here ends the query, so every call is tried again until `requestTimeoutMs`.
Rule 1: an end is never above the last stable offset (read_committed): below it every transaction is decided, so a
        micro-batch that runs again after a crash reads the same rows.  Where the first one began stands in its end.
Rule 2: offsets are committed to a group for lag tools only (option commitGroup); the source never reads them back, and
        a failure of that is a line in the log. So is a group that has members (`NON_EMPTY_GROUP`): theirs stay.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from oncelog.core.malformed import JsonObject
from oncelog.errors import ConfigError, NonEmptyGroupError, OncelogError, UnknownTopicError
from pyspark_oncelog.options.offsets import Position
from pyspark_oncelog.options.read_write_options import SourceOptions
from pyspark_oncelog.preflight import no_longer_found
from pyspark_oncelog.source import positions

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyspark.sql.types import StructType

_GROUP_PAUSE_MS: Final = 30_000
_GROUP_IN_USE: Final = (
    ". The query goes on. Consumers share this group's partitions, and what a query has read is none of their offsets: name a "
    "group of its own in option commitGroup, one for each query"
)
_log = logging.getLogger(__name__)


class OncelogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """See the module."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._initial: Position | None = None
        self._target: Position | None = None
        self._reported: Position | None = None
        self._group_at: Position | None = None
        self._group_again_ms = 0
        self._triggered_ms: int | None = None
        self._missing: frozenset[str] = frozenset()
        self._planned: tuple[JsonObject, positions.View] | None = None

    # ------------------------------------------------------------ where to read

    def initialOffset(self) -> JsonObject:
        """Where a new query begins; the same answer however often Spark asks."""
        if self._initial is None:
            from pyspark_oncelog.source.cluster_view import start_of
            from pyspark_oncelog.source.data_loss import report_beyond

            start, beyond = start_of(self._options, self._first_view())
            report_beyond(self._options, "starting", beyond)
            self._initial = start.as_origin()
        return self._initial.to_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        """maxOffsetsPerTrigger, or everything."""
        if self._options.max_offsets_per_trigger:
            return ReadMaxRows(self._options.max_offsets_per_trigger)
        return ReadAllAvailable()

    def latestOffset(self, start: JsonObject, limit: ReadLimit) -> JsonObject:
        """The end of the next micro-batch. `start` is the end of a batch that Spark has committed."""
        begin = Position.from_json(start)
        self._commit_group(begin)
        view = self._view_from(begin)
        self._reported = positions.latest(view)
        available = self._available(begin, view)
        if self._waits_for_more(begin, available, view):
            return start
        max_rows = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        end = positions.next_end(begin, available, view, max_rows)
        found = start if end == begin else end.to_json()
        self._planned = (found, view)
        return found

    def _available(self, begin: Position, view: positions.View) -> Position:
        """How far this run may read now, which is never back, unless a log was cut."""
        latest = positions.latest(view)
        available = latest if self._target is None else positions.capped(latest, self._target)
        fallen = positions.fallen(begin, available)
        return positions.held(begin, available, view, self._epoch_ends(fallen, view), self._missing)

    def _waits_for_more(self, begin: Position, available: Position, view: positions.View) -> bool:
        """minOffsetsPerTrigger, bounded by maxTriggerDelay; a run that ends by itself never waits."""
        now_ms, options = _now_ms(), self._options
        is_due = self._triggered_ms is None or now_ms - self._triggered_ms >= options.max_trigger_delay_ms
        if options.min_offsets_per_trigger and self._target is None and not is_due:
            if positions.size(begin, available, view) < options.min_offsets_per_trigger:
                return True
        self._triggered_ms = now_ms
        return False

    def prepareForTriggerAvailableNow(self) -> None:
        """Fixes where this run ends."""
        self._target = positions.latest(self._view())

    def reportLatestOffset(self) -> JsonObject | None:
        """For progress reports: the end of the log when it was last looked at."""
        return None if self._reported is None else self._reported.to_json()

    # ------------------------------------------------------------ a micro-batch

    def partitions(self, start: JsonObject, end: JsonObject) -> Sequence[InputPartition]:
        """Tasks of a micro-batch. Raises `OffsetOutOfRangeError` for lost data unless failOnDataLoss is false."""
        from pyspark_oncelog.source.data_loss import report_losses
        from pyspark_oncelog.source.planning import plan_tasks

        options, until = self._options, Position.from_json(end)
        view = self._view_of_plan(end, until)
        begin = positions.begin_of(Position.from_json(start), until)
        ends = self._epoch_ends(positions.to_check(begin, until, view), view)
        ranges, losses = positions.ranges(begin, until, view, ends)
        report_losses(options, losses)
        tasks = plan_tasks(ranges, options.min_partitions, options.min_rows_per_task, options.max_rows_per_task)
        return [InputPartition(tuple(task)) for task in tasks]

    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        """The rows of one task, as Arrow batches of exactly Spark's types."""
        from pyspark_oncelog.source.task_reader import read_task

        return read_task(self._options, self._schema, partition.value or ())

    def commit(self, end: JsonObject) -> None:
        """Spark is done with everything below `end`. Not called for the last batch of a run; `latestOffset` covers that."""
        self._commit_group(Position.from_json(end))

    # ------------------------------------------------------------ the cluster

    def _first_view(self) -> positions.View:
        """Before the first end: a topic may have been deleted since the query was started, but not all of them."""
        try:
            return self._view(missing_topics=False)
        except UnknownTopicError:
            if self._options.fail_on_data_loss or not (view := self._view()):
                raise
            return view

    def _view_from(self, begin: Position) -> positions.View:
        """Raises `UnknownTopicError` where a topic is missing and nothing may be lost: its place would be forgotten."""
        view = self._view(read=begin.topics)
        if self._missing and self._options.fail_on_data_loss:
            view = self._view(read=begin.topics)  # a broker may hear of a topic late
        if self._missing and self._options.fail_on_data_loss:
            raise no_longer_found(sorted(self._missing))
        return view

    def _view(self, missing_topics: bool | None = None, read: Collection[str] = ()) -> positions.View:
        """Also of a query that may lose data, and whose topic was deleted: of the others then. `read`: topics known so far."""
        from pyspark_oncelog.source.cluster_view import load_view

        may_miss = not self._options.fail_on_data_loss if missing_topics is None else missing_topics
        view = load_view(self._options, may_miss)
        missing = self._options.subscription.expected(read).difference(view)
        if not self._options.fail_on_data_loss and missing - self._missing:
            _log.warning(
                "failOnDataLoss=false: no such topic: %s; what was not read of it is lost, and others are read",
                ", ".join(sorted(missing)),
            )
        self._missing = missing
        return view

    def _view_of_plan(self, end: JsonObject, until: Position) -> positions.View:
        """Returns the view in which `end` was found; for a micro-batch that runs again, it asks where the logs begin."""
        from pyspark_oncelog.source.cluster_view import load_view

        if self._planned is not None and self._planned[0] == end:
            return self._planned[1]
        view = load_view(self._options, missing_topics=True, with_ends=False)
        if not positions.has_topics(view, until):  # a broker may hear of a topic late
            view = load_view(self._options, missing_topics=True, with_ends=False)
        return view

    def _epoch_ends(self, epochs: Mapping[tuple[str, int], int], view: positions.View) -> positions.EpochEnds:
        from pyspark_oncelog.source.cluster_view import epoch_ends

        return epoch_ends(self._options, epochs, view) if epochs else {}

    def _commit_group(self, at: Position) -> None:
        """Once for each position. After a failure the next tries are left out for a while: each one holds a micro-batch up."""
        if not self._options.commit_group or at == self._group_at or _now_ms() < self._group_again_ms:
            return
        from pyspark_oncelog.source.cluster_view import commit_group

        there = Position({name: topic for name, topic in at.topics.items() if name not in self._missing})
        try:
            commit_group(self._options, there)
            self._group_at = at
        except OncelogError as error:
            self._group_again_ms = _now_ms() + _GROUP_PAUSE_MS
            _log.warning(
                "offsets of group %s were not committed, and are not for %d s: %s: %s%s",
                self._options.commit_group,
                _GROUP_PAUSE_MS // 1000,
                error.code.name,
                error,
                _GROUP_IN_USE if isinstance(error, NonEmptyGroupError) else "",
            )


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000


class RefusedStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Raises the error at the first question of Spark's about a read that cannot be.

    What `streamReader` itself raises is followed by an UnboundLocalError of Spark 4.3's own, and the cause is lost above it.
    """

    def __init__(self, error: ConfigError) -> None:
        self._error = error

    def initialOffset(self) -> JsonObject:
        """Raises the error, as all others."""
        raise self._error

    def getDefaultReadLimit(self) -> ReadLimit:
        """Raises the error."""
        raise self._error

    def latestOffset(self, start: JsonObject, limit: ReadLimit) -> JsonObject:
        """Raises the error."""
        raise self._error

    def prepareForTriggerAvailableNow(self) -> None:
        """Raises the error."""
        raise self._error

    def partitions(self, start: JsonObject, end: JsonObject) -> Sequence[InputPartition]:
        """Raises the error."""
        raise self._error

    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        """Raises the error."""
        raise self._error
