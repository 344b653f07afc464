"""Rates hold under any order of requests, sizes, rests and changes of the limit, and nobody starves."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from oncelog.errors import ThrottlingQuotaExceededError
from oncelog_runtime.core.quota import Account, QuotaKind, TokenBucket

INTERVAL_MS = 1_000
ARRIVALS = st.lists(st.tuples(st.integers(0, 3_000), st.integers(1, 5_000)), min_size=1, max_size=40)
"""(how long after the one before, size)"""
PATIENCE_MS = 1_000


@given(arrivals=ARRIVALS, limit=st.integers(1, 3_000))
@settings(max_examples=100, deadline=None)
def test_over_any_time_no_more_starts_than_the_rate_one_interval_and_one_request(
    arrivals: list[tuple[int, int]], limit: int
) -> None:
    bucket, now, started = TokenBucket(limit, INTERVAL_MS, 0), 0.0, []
    for rest, size in arrivals:
        now += rest
        started.append((now + bucket.delay_ms(now), size))
        bucket.take(size, now)
    assert started == sorted(started, key=lambda item: item[0]), "who came first starts first"
    for first in range(len(started)):
        for last in range(first, len(started)):
            took_ms = started[last][0] - started[first][0]
            total = sum(size for _, size in started[first : last + 1])
            largest = max(size for _, size in started[first : last + 1])
            assert total <= limit * (took_ms + INTERVAL_MS) / INTERVAL_MS + largest + 1e-3


@given(sizes=st.lists(st.integers(1, 5_000), min_size=1, max_size=40), limit=st.integers(1, 3_000))
@settings(max_examples=60, deadline=None)
def test_who_asks_again_when_he_is_told_gets_his_whole_rate(sizes: list[int], limit: int) -> None:
    account, now, moved = Account("User:a"), 0.0, 0
    account.limit_by({QuotaKind.PRODUCE_BYTES: limit}, 1, now)
    for size in sizes:
        try:
            now += account.admit(QuotaKind.PRODUCE_BYTES, size, now, PATIENCE_MS)
        except ThrottlingQuotaExceededError as error:
            now += error.retry_after_ms + 1
            now += account.admit(QuotaKind.PRODUCE_BYTES, size, now, PATIENCE_MS)
        moved += size
        account.answered(QuotaKind.PRODUCE_BYTES, 10, now)
    assert moved >= limit * now / INTERVAL_MS - len(sizes) * 2 * limit / INTERVAL_MS - 1e-3, (
        "nothing of the rate is lost"
    )
    assert account.in_flight == 0


@given(
    sizes=st.lists(st.integers(1, 5_000), min_size=1, max_size=40), limits=st.lists(st.integers(1, 3_000), min_size=1)
)
@settings(max_examples=60, deadline=None)
def test_a_change_of_the_limit_forgives_no_debt_and_adds_none(sizes: list[int], limits: list[int]) -> None:
    bucket, now = TokenBucket(limits[0], INTERVAL_MS, 0), 0.0
    for size, limit in zip(sizes, limits * len(sizes), strict=False):
        before = bucket.delay_ms(now) * bucket.limit
        bucket.change(limit, now)
        after = bucket.delay_ms(now) * bucket.limit
        assert abs(after - before) <= 1e-6 * max(before, 1.0)
        bucket.take(size, now)
        now += 100


@given(answers=st.lists(st.integers(0, 20_000), min_size=1, max_size=40), limit=st.integers(1, 3_000))
@settings(max_examples=60, deadline=None)
def test_answers_are_paid_by_the_next_request(answers: list[int], limit: int) -> None:
    account, now, read = Account("User:a"), 0.0, 0
    account.limit_by({QuotaKind.FETCH_BYTES: limit}, 1, now)
    for size in answers:
        now += account.admit(QuotaKind.FETCH_BYTES, 100, now, float("inf"))
        told = account.answered(QuotaKind.FETCH_BYTES, size, now)
        read += size
        assert read <= limit * (now + told + INTERVAL_MS) / INTERVAL_MS + 1e-3
