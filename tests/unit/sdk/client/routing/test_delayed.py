"""A delay becomes a time, or a named refusal, before anything is sent."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from oncelog.client.routing.delayed import DELAY_MAX_MS, DelayedRecords, due_at_ms
from oncelog.errors import InvalidDelayError

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NOW_MS = int(NOW.timestamp() * 1000)


@pytest.mark.parametrize(
    ("deliver_at", "due_ms"),
    [
        (timedelta(0), NOW_MS),
        (timedelta(seconds=1.5), NOW_MS + 1_500),
        (timedelta(microseconds=1), NOW_MS + 1),
        (timedelta(milliseconds=7, microseconds=999), NOW_MS + 8),
        (timedelta(days=365), NOW_MS + DELAY_MAX_MS),
        (NOW_MS + 7, NOW_MS + 7),
        (NOW + timedelta(days=365), NOW_MS + DELAY_MAX_MS),
        (NOW + timedelta(milliseconds=7, microseconds=999), NOW_MS + 8),
    ],
)
def test_delays_and_times(deliver_at: Any, due_ms: int) -> None:
    assert due_at_ms(NOW_MS, deliver_at) == due_ms


@pytest.mark.parametrize(
    "deliver_at",
    [
        timedelta(microseconds=-1),
        timedelta.max,
        timedelta.min,
        datetime.max.replace(tzinfo=UTC),
        datetime.min.replace(tzinfo=UTC),
        timedelta(days=365, milliseconds=1),
        NOW_MS - 1,
        NOW + timedelta(days=366),
        datetime(2026, 6, 1),
        "tomorrow",
        float(NOW_MS + 1),
    ],
)
def test_what_is_no_time_within_a_year_is_refused(deliver_at: Any) -> None:
    with pytest.raises(InvalidDelayError):
        due_at_ms(NOW_MS, deliver_at)


def _placed(ttl_ms: Any) -> Any:
    """What becomes of a record that is due in 10 seconds; nothing can be called."""
    context: Any = SimpleNamespace(clock=SimpleNamespace(now_ms=lambda: NOW_MS))
    metadata: Any = SimpleNamespace(known_topic=lambda _: "known" if ttl_ms == 5 else None)
    caller: Any = None
    return asyncio.run(DelayedRecords(context, metadata, caller).place("orders", timedelta(seconds=10), ttl_ms))


def test_the_time_to_live_begins_when_the_record_is_due() -> None:
    assert _placed(5) == ("__delayed.orders", NOW_MS + 10_000, 10_005)


@pytest.mark.parametrize("ttl_ms", [0, -1, -9_999, 1.5, float("nan"), "5", True])
def test_what_is_no_time_to_live_is_refused_before_anything_is_made(ttl_ms: Any) -> None:
    with pytest.raises(InvalidDelayError):
        _placed(ttl_ms)
