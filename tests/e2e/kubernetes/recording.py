"""How a load's history travels from its pod to the checker: one JSON document, compressed.

Rule: nothing is left out or judged here; what comes out of `unpack` is what went into `pack`.
"""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass, field
from typing import Any

from tests.simulation.history import History, Key, Operation, Records, Status


@dataclass(slots=True)
class Recording:
    """A history, the final read of every key, and the errors that callers saw (process, kind, name, retriable, ...)."""

    history: History = field(default_factory=History)
    final: dict[Key, Records] = field(default_factory=dict)
    errors: list[dict[str, Any]] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)


def pack(recording: Recording) -> bytes:
    """The bytes of a recording."""
    document = {
        "operations": [pack_operation(operation) for operation in recording.history.operations],
        "final": pack_records(recording.final),
        "errors": recording.errors,
        "counts": recording.counts,
    }
    return gzip.compress(json.dumps(document, separators=(",", ":")).encode(), 5)


def unpack(data: bytes) -> Recording:
    """The recording again."""
    document = json.loads(gzip.decompress(data))
    recording = Recording(final=unpack_records(document["final"]), errors=document["errors"], counts=document["counts"])
    recording.history.operations = [unpack_operation(row, index) for index, row in enumerate(document["operations"])]
    return recording


def pack_records(records: dict[Key, Records]) -> list[list[Any]]:
    """Records by partition, as JSON takes them."""
    return [[topic, partition, found] for (topic, partition), found in records.items()]


def unpack_records(rows: list[list[Any]]) -> dict[Key, Records]:
    """Records by partition again."""
    return {(topic, partition): [(offset, value) for offset, value in found] for topic, partition, found in rows}


def pack_operation(operation: Operation) -> list[Any]:
    """An operation, as JSON takes it."""
    return [
        operation.process,
        operation.kind,
        [operation.invoked_ms, operation.completed_ms, operation.began, operation.ended],
        operation.status.value,
        operation.cause,
        [[topic, partition, value] for (topic, partition), value in operation.writes],
        [[topic, p, value, offset] for ((topic, p), value), offset in operation.write_offsets.items()],
        pack_records(operation.reads),
        [
            [[topic, partition, end] for (topic, partition), end in operation.read_ends.items()],
            operation.session,
            operation.asked,
            operation.is_visible,
            operation.held,
            operation.due_ms,
            operation.about,
        ],
    ]


def unpack_operation(row: list[Any], index: int) -> Operation:
    """The operation again."""
    process, kind, (invoked, completed, began, ended), status, cause, writes, offsets, reads, more = row
    read_ends, session, asked, is_visible, held, due_ms, about = more
    return Operation(
        index,
        process,
        kind,
        invoked,
        completed,
        began,
        ended,
        Status(status),
        [((topic, partition), value) for topic, partition, value in writes],
        {((topic, p), value): offset for topic, p, value, offset in offsets},
        unpack_records(reads),
        {(topic, partition): end for topic, partition, end in read_ends},
        None if session is None else (session[0], session[1], session[2]),
        asked,
        is_visible,
        None if held is None else (held[0], held[1], held[2]),
        due_ms,
        about,
        cause,
    )
