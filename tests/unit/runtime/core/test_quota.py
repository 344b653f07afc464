"""How much one caller may do: what is above a rate waits, what would wait too long is refused and costs nothing."""

from __future__ import annotations

import pytest

from oncelog import errors
from oncelog_runtime.core.quota import Account, QuotaKind, TokenBucket

K = QuotaKind


def test_an_id_that_rested_for_an_hour_makes_room() -> None:
    account = Account("User:ann")
    account.limit_by({K.TRANSACTIONAL_IDS: 2}, 1, 0)
    account.use_transactional_id("a", 0)
    account.use_transactional_id("b", 1_000)
    account.use_transactional_id("a", 2_000)
    with pytest.raises(errors.ThrottlingQuotaExceededError) as caught:
        account.use_transactional_id("c", 3_000)
    assert caught.value.retry_after_ms == 3_598_000
    account.use_transactional_id("c", 3_601_000)
    with pytest.raises(errors.ThrottlingQuotaExceededError):
        account.use_transactional_id("b", 3_601_001)


def account(**limits: int) -> Account:
    made = Account("User:ann")
    made.limit_by({K[name.upper()]: limit for name, limit in limits.items()}, 1, 0)
    return made


def test_a_rested_bucket_lets_one_interval_through_at_once_and_then_its_rate() -> None:
    bucket = TokenBucket(100, 1_000, 0)
    bucket.take(100, 0)
    assert bucket.delay_ms(0) == 0
    bucket.take(50, 0)
    assert (bucket.delay_ms(0), bucket.delay_ms(400), bucket.delay_ms(500)) == (500, 100, 0)


def test_a_long_rest_saves_up_no_more_than_one_interval() -> None:
    bucket = TokenBucket(100, 1_000, 0)
    bucket.take(200, 60_000)
    assert bucket.delay_ms(60_000) == 1_000


def test_a_bucket_is_full_when_a_new_one_would_be_the_same() -> None:
    bucket = TokenBucket(100, 1_000, 0)
    assert bucket.is_full(0)
    bucket.take(10, 0)
    assert not bucket.is_full(99)
    assert bucket.is_full(100)


def test_another_limit_keeps_the_debt_in_tokens() -> None:
    bucket = TokenBucket(100, 1_000, 0)
    bucket.take(200, 0)
    bucket.change(200, 0)
    assert bucket.delay_ms(0) == 500


def test_bytes_above_the_rate_wait_and_what_would_wait_too_long_costs_nothing() -> None:
    ann = account(produce_bytes=1_000)
    assert ann.admit(K.PRODUCE_BYTES, 1_500, 0, 1_000) == 0
    assert ann.admit(K.PRODUCE_BYTES, 1_000, 0, 1_000) == 500
    with pytest.raises(errors.ThrottlingQuotaExceededError, match="produce_bytes_per_s = 1000") as caught:
        ann.admit(K.PRODUCE_BYTES, 1_000, 0, 1_000)
    assert caught.value.retry_after_ms == 1_500
    assert ann.in_flight == 2
    assert ann.admit(K.PRODUCE_BYTES, 1, 500, 1_000) == 1_000, "patience itself is not too long"
    assert ann.admit(K.FETCH_BYTES, 1, 500, 1_000) == 0, "who reads is not delayed by what he wrote"


def test_an_answers_size_is_paid_by_the_next_request() -> None:
    ann = account(fetch_bytes=1_000)
    assert ann.admit(K.FETCH_BYTES, 10, 0, 100) == 0
    assert ann.answered(K.FETCH_BYTES, 1_500, 0) == 500
    with pytest.raises(errors.ThrottlingQuotaExceededError):
        ann.admit(K.FETCH_BYTES, 10, 0, 100)
    assert ann.admit(K.FETCH_BYTES, 10, 400, 100) == 100


def test_requests_in_flight_end_with_an_answer_or_without() -> None:
    ann = account(requests_in_flight=2)
    for _ in range(2):
        ann.admit(None, 0, 0, 1_000)
    with pytest.raises(errors.ThrottlingQuotaExceededError, match="requests_in_flight"):
        ann.admit(None, 0, 0, 1_000)
    ann.abandoned()
    ann.admit(None, 0, 0, 1_000)
    ann.answered(None, 0, 0)
    ann.admit(None, 0, 0, 1_000)


def test_a_large_topic_is_made_and_delays_the_next_change() -> None:
    ann = account(partition_changes=60)
    ann.change_partitions(120, 0)
    with pytest.raises(errors.ThrottlingQuotaExceededError) as caught:
        ann.change_partitions(1, 0)
    assert caught.value.retry_after_ms == 60_000
    ann.change_partitions(1, 60_000)


def test_connections_are_counted_by_who_holds_them() -> None:
    ann = account(connections=2)
    ann.connect(1)
    with pytest.raises(errors.ThrottlingQuotaExceededError, match="connections = 2"):
        ann.connect(2)


def test_limits_that_are_lifted_count_no_more_and_an_idle_account_may_be_forgotten() -> None:
    ann = account(produce_bytes=10, transactional_ids=1)
    ann.admit(K.PRODUCE_BYTES, 1_000, 0, 0)
    ann.use_transactional_id("a", 0)
    ann.answered(K.PRODUCE_BYTES, 0, 0)
    assert not ann.is_idle(0)
    ann.limit_by({}, 2, 0)
    assert ann.admit(K.PRODUCE_BYTES, 1_000, 0, 0) == 0
    ann.abandoned()
    ann.use_transactional_id("b", 0)
    assert ann.is_idle(0)
