"""A record with a time to live has a header that says when it expires."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog import errors
from oncelog.client.produce.expiring import with_expiry
from oncelog.core.batch.record import EXPIRES_HEADER, TTL_MS_MAX


@pytest.mark.parametrize("given", [(), {}, []])
def test_the_time_is_now_and_the_time_to_live(given: Any) -> None:
    assert with_expiry(given, 5, 1_000) == [(EXPIRES_HEADER, b"1005")]


@pytest.mark.parametrize("given", [{"a": "b"}, [("a", "b")]])
def test_other_headers_stay_before_it(given: Any) -> None:
    assert with_expiry(given, 1, 0) == [("a", "b"), (EXPIRES_HEADER, b"1")]


@pytest.mark.parametrize("ttl_ms", [0, -1, 1.5, "5", True, TTL_MS_MAX + 1])
def test_what_is_no_time_to_live_is_refused(ttl_ms: Any) -> None:
    with pytest.raises(errors.InvalidDelayError):
        with_expiry((), ttl_ms, 0)
