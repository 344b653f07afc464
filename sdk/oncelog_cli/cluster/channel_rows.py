"""Channels as they are printed: rows for tables and documents, and headings."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oncelog.client.admin.channel_descriptions import (
        ChannelDescription,
        ChannelListing,
        ClaimedMessages,
        PendingMessage,
    )

LIST_COLUMNS: Final = ("topic", "channel", "paused", "ack_wait_ms", "max_deliveries", "dead_letter_topic")
LIST_WIDE: Final = (
    "retry_backoff_ms",
    "retry_backoff_max_ms",
    "order_by_key",
    "ephemeral",
    "max_unsettled",
    "channel_id",
    "topic_id",
    "start",
    "created_ms",
)
Row = dict[str, Any]
"""Values by the names of their columns."""

_SUMMED: Final = (
    "depth",
    "in_flight",
    "in_transaction",
    "waiting",
    "delivered",
    "redelivered",
    "acknowledged",
    "dead",
)
DESCRIBE_COLUMNS: Final = ("partition", "settled_before", "end_offset", "depth", "in_flight", "redelivered", "dead")
DESCRIBE_WIDE: Final = ("in_transaction", "waiting", "delivered", "acknowledged", "leader_epoch", "error")
PENDING_COLUMNS: Final = (
    "partition",
    "offset",
    "worker_id",
    "idle_ms",
    "deliveries",
    "due_ms",
    "in_transaction",
    "dead",
    "trouble",
)
_NOTHING_CLAIMED: Final = (
    "no record was claimed: a claim takes what was delivered and is not settled, but nothing that is in its last delivery\n"
    "(max_deliveries), which is dead when that ends"
)
_STARTS: Final = {-1: "latest", -2: "earliest"}


def listing_row(item: ChannelListing) -> Row:
    """A channel with every option."""
    return {
        "topic": item.topic,
        "channel": item.channel,
        "paused": item.paused,
        **asdict(item.options),
        "channel_id": item.channel_id,
        "topic_id": item.topic_id,
        "start": _STARTS.get(item.start_timestamp_ms, item.start_timestamp_ms),
        "created_ms": item.created_ms,
    }


def described(found: ChannelDescription) -> tuple[list[Row], Row, list[Row]]:
    """A row for each partition, their sum, and a row for each worker."""
    rows: list[Row] = []
    for state in found.partitions:
        row: Row = {name: getattr(state, name) for name in ("partition", *_SUMMED)}
        row |= {name: getattr(state, name) for name in ("settled_before", "end_offset", "leader_epoch")}
        row["error"] = state.error.code.name if state.error is not None else None
        rows.append(row if state.error is None else {"partition": state.partition, "error": row["error"]})
    total = {"partition": "all", **{name: found.total(name) for name in _SUMMED}}
    return rows, total, _workers(found)


def _workers(found: ChannelDescription) -> list[Row]:
    """Returns how much each worker holds of all partitions, and when it was last heard of by any of them."""
    rows: dict[str, Row] = {}
    for state in found.partitions:
        for worker in state.workers:
            new = {"worker_id": worker.worker_id, "client": worker.client, "in_flight": 0, "idle_ms": worker.idle_ms}
            row = rows.setdefault(worker.worker_id, new)
            row["in_flight"] += worker.in_flight
            row["idle_ms"] = min(row["idle_ms"], worker.idle_ms)
    return [rows[name] for name in sorted(rows)]


def heading(found: ChannelDescription) -> str:
    """One line about the channel, and one for each partition whose leader did not answer."""
    listing = found.listing
    state = ", paused" if listing.paused else ""
    lines = [f"channel {listing.channel} of {listing.topic}{state}: {found.total('depth')} not settled"]
    lines += [f"partition {s.partition}: {s.error}" for s in found.partitions if s.error is not None]
    return "\n".join(lines)


def pending_row(item: PendingMessage) -> Row:
    """A record that waits for its end."""
    return asdict(item)


def told_claim(found: Sequence[ClaimedMessages], then: str) -> str:
    """Says how many records were claimed, and what `then` did with them."""
    count = sum(item.last_offset - item.first_offset + 1 for item in found)
    words = {"release": "come again at once", "ack": "are done", "reject": "are dead"}[then]
    return f"{count} records were claimed, and {words}" if count else _NOTHING_CLAIMED
