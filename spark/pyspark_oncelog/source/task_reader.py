"""One task of a read: its ranges, one after the other, as Arrow batches.

Rule 1: a range ends where the plan says, also when its last records are markers or were aborted: fewer rows than
        offsets is normal.
Rule 2: a topic that was created again since the plan is not read in place of the old one: records are asked for by its id.
Rule 3: with failOnDataLoss=false what retention deleted is passed over, and what is left of the range is read.
"""

from __future__ import annotations

import dataclasses
import logging
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from oncelog.errors import OffsetOutOfRangeError, OncelogError, UnknownTopicError
from pyspark_oncelog import preflight
from pyspark_oncelog.options.read_write_options import SourceOptions
from pyspark_oncelog.source.planning import OffsetRange
from pyspark_oncelog.worker.worker_memory import freeze_modules

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyspark.sql.types import StructType

    from oncelog.option_types import ConsumerOptions
    from oncelog.sync import Client

_log = logging.getLogger(__name__)
_RACK: Final = "ONCELOG_CLIENT_RACK"
"""Executors of one job may stand in several racks, and each knows its own."""


def read_task(options: SourceOptions, schema: StructType, ranges: Sequence[OffsetRange]) -> Iterator[RecordBatch]:
    """The rows of these ranges, with exactly the columns and types of `schema`. Raises what the log refuses."""
    if not ranges:
        return
    preflight.require_python()
    from pyspark.sql.pandas.types import to_arrow_schema

    from pyspark_oncelog.source.arrow_rows import to_spark
    from pyspark_oncelog.worker.worker_client import client_for, forgetting_wrong_cluster

    arrow_schema = to_arrow_schema(schema, timezone="UTC")
    with forgetting_wrong_cluster():
        client = client_for(options.connection)
        for part in ranges:
            for rows in _read_range(client, options, part, "headers" in arrow_schema.names):
                yield to_spark(rows, part.topic, arrow_schema)
    freeze_modules()


def _read_range(client: Client, options: SourceOptions, part: OffsetRange, with_headers: bool) -> Iterator[RecordBatch]:
    """The rows of a range. What was lost since the plan raises, or is passed over (failOnDataLoss=false)."""
    left: OffsetRange | None = part
    while left is not None:
        try:
            for rows in _begin(client, options, left, with_headers):
                yield rows
                left = dataclasses.replace(left, start=rows.column("offset")[-1].as_py() + 1)
            return
        except (OffsetOutOfRangeError, UnknownTopicError) as error:
            if options.fail_on_data_loss:
                raise
            left = _after_loss(client, left, error)


def _after_loss(client: Client, left: OffsetRange, error: OncelogError) -> OffsetRange | None:
    """Returns the rest of a range whose first records were deleted; None when nothing of it is left."""
    if not left.size:
        return None
    try:
        earliest = _earliest(client, left)
    except UnknownTopicError:
        earliest = -1
    if not left.start < earliest < left.end:
        _log.warning(
            "failOnDataLoss=false: offsets %d to %d of partition %d of %s are lost: %s",
            left.start,
            left.end - 1,
            left.partition,
            left.topic,
            error,
        )
        return None
    _log.warning(
        "failOnDataLoss=false: %d offsets, from %d on, of partition %d of %s are lost, and reading goes on at %d: %s",
        earliest - left.start,
        left.start,
        left.partition,
        left.topic,
        earliest,
        error,
    )
    return dataclasses.replace(left, start=earliest)


def _earliest(client: Client, part: OffsetRange) -> int:
    from oncelog.client.routing.offset_lookup import EARLIEST

    found = client.admin.offsets_of_topic(part.topic, part.topic_id, {part.partition: EARLIEST})
    return found[part.partition].offset


def _begin(client: Client, options: SourceOptions, part: OffsetRange, with_headers: bool) -> Iterator[RecordBatch]:
    """The rows, the first of which is asked for twice.

    This process may remember a topic that was since created again: then its first try finds nothing, and learns.
    """
    rows = _rows(client, options, part, with_headers)
    try:
        first = next(rows, None)
    except UnknownTopicError:
        _require_same_topic(client, part)
        rows = _rows(client, options, part, with_headers)
        first = next(rows, None)
    if first is not None:
        yield first
        yield from rows


def _rows(client: Client, options: SourceOptions, part: OffsetRange, with_headers: bool) -> Iterator[RecordBatch]:
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


def _consumer_options(options: SourceOptions) -> ConsumerOptions:
    return {
        "isolation_level": "read_committed" if options.read_committed else "read_uncommitted",
        "auto_offset_reset": "none",
        "skip_lost_transactions": not options.fail_on_data_loss,
        "client_rack": options.client_rack or os.environ.get(_RACK, ""),
    }
