"""One task of a read: its ranges, one after the other, as Arrow batches.

Rule 1: a range ends where the plan says, also when its last records are markers or were aborted: fewer rows than
        offsets is normal.
Rule 2: a topic that was created again since the plan is not read in place of the old one.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from oncelog.errors import OffsetOutOfRangeError, UnknownTopicError
from pyspark_oncelog import checks
from pyspark_oncelog.options import SourceOptions
from pyspark_oncelog.planning import OffsetRange
from pyspark_oncelog.worker_memory import freeze_modules

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyspark.sql.types import StructType

    from oncelog.sync import Client

_log = logging.getLogger(__name__)


def read_task(options: SourceOptions, schema: StructType, ranges: Sequence[OffsetRange]) -> Iterator[RecordBatch]:
    """The rows of these ranges, with exactly the columns and types of `schema`. Raises what the log refuses."""
    if not ranges:
        return
    checks.require_python()
    from pyspark.sql.pandas.types import to_arrow_schema

    from pyspark_oncelog.rows import to_spark
    from pyspark_oncelog.worker_client import client_for

    arrow_schema = to_arrow_schema(schema, timezone="UTC")
    client = client_for(options.connection)
    for part in ranges:
        for rows in _read_range(client, options, part, "headers" in arrow_schema.names):
            yield to_spark(rows, part.topic, arrow_schema)
    freeze_modules()


def _read_range(client: Client, options: SourceOptions, part: OffsetRange, with_headers: bool) -> Iterator[Any]:
    """The rows of a range. What was lost since the plan raises, or ends the range here (failOnDataLoss=false)."""
    try:
        rows = _begin(client, options, part, with_headers)
        if rows is not None:
            yield rows[0]
            yield from rows[1]
    except (OffsetOutOfRangeError, UnknownTopicError) as error:
        if options.fail_on_data_loss:
            raise
        _log.warning(
            "failOnDataLoss=false: the rest of partition %d of %s is lost: %s", part.partition, part.topic, error
        )


def _begin(
    client: Client, options: SourceOptions, part: OffsetRange, with_headers: bool
) -> tuple[Any, Iterator[Any]] | None:
    """The first rows and the others; None for a range without rows.

    This process may remember a topic that was since created again: then its first try finds nothing, and learns.
    """
    for is_last_try in (False, True):
        _require_same_topic(client, part)
        rows = _rows(client, options, part, with_headers)
        try:
            first = next(rows, None)
        except UnknownTopicError:
            if is_last_try:
                raise
        else:
            return None if first is None else (first, rows)
    raise AssertionError("unreachable")


def _rows(client: Client, options: SourceOptions, part: OffsetRange, with_headers: bool) -> Iterator[Any]:
    with client.consumer(**_consumer_options(options)) as consumer:
        where = (part.topic, part.partition)
        yield from consumer.read_range(
            where, part.start, part.end, include_headers=with_headers, topic_id=part.topic_id
        )


def _require_same_topic(client: Client, part: OffsetRange) -> None:
    found = client.admin.describe_topic(part.topic).topic_id
    if found != part.topic_id:
        raise UnknownTopicError(
            f"topic {part.topic} was deleted and created again since the query was planned",
            planned_id=part.topic_id,
            topic_id=found,
        )


def _consumer_options(options: SourceOptions) -> dict[str, Any]:
    return {
        "isolation_level": "read_committed" if options.read_committed else "read_uncommitted",
        "auto_offset_reset": "none",
        "skip_lost_transactions": not options.fail_on_data_loss,
    }
