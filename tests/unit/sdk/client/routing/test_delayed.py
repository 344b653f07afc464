"""A delay becomes a time, or a named refusal, before anything is sent."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from oncelog.client.routing.delayed import DELAY_MAX_MS, due_at_ms
from oncelog.errors import InvalidDelayError

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NOW_MS = int(NOW.timestamp() * 1000)


@pytest.mark.parametrize(
    ("delay_ms", "deliver_at", "due_ms"),
    [
        (0, None, NOW_MS),
        (1_500, None, NOW_MS + 1_500),
        (None, NOW_MS + 7, NOW_MS + 7),
        (None, NOW + timedelta(days=365), NOW_MS + DELAY_MAX_MS),
    ],
)
def test_delays_and_times(delay_ms: int | None, deliver_at: Any, due_ms: int) -> None:
    assert due_at_ms(NOW_MS, delay_ms, deliver_at) == due_ms


@pytest.mark.parametrize(
    ("delay_ms", "deliver_at"),
    [
        (None, None),
        (1, NOW_MS + 1),
        (-1, None),
        (DELAY_MAX_MS + 1, None),
        (None, NOW_MS - 1),
        (None, NOW + timedelta(days=366)),
        (None, datetime(2026, 6, 1)),
    ],
)
def test_what_is_no_time_within_a_year_is_refused(delay_ms: int | None, deliver_at: Any) -> None:
    with pytest.raises(InvalidDelayError):
        due_at_ms(NOW_MS, delay_ms, deliver_at)
