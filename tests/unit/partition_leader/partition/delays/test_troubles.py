"""Trouble is counted each time, said once a minute, and tried again after pauses that grow."""

from __future__ import annotations

import logging

import pytest

from oncelog.errors import MessageTooLargeError, RequestTimedOutError
from oncelog_partition_leader.partition.delays.troubles import PAUSE_MAX_MS, SAY_EVERY_MS, Troubles


def test_pauses_grow_while_it_lasts_and_end_with_a_success() -> None:
    trouble, now_ms, pauses = Troubles().of("__delayed.orders", 0), 0, []
    for _ in range(10):
        trouble.failed(RequestTimedOutError(), now_ms)
        pauses.append(trouble.pauses_for_ms(now_ms))
        now_ms += pauses[-1]
        assert trouble.pauses_for_ms(now_ms) == 0
    assert pauses[:3] == [200, 400, 800]
    assert pauses[-1] == PAUSE_MAX_MS
    trouble.failed(RequestTimedOutError(), now_ms)
    trouble.over()
    assert trouble.pauses_for_ms(now_ms) == 0
    trouble.failed(RequestTimedOutError(), now_ms)
    assert trouble.pauses_for_ms(now_ms) == 200


def test_a_failure_long_after_the_last_one_begins_with_a_short_pause() -> None:
    trouble = Troubles().of("__delayed.orders", 0)
    trouble.failed(RequestTimedOutError(), 0)
    trouble.failed(RequestTimedOutError(), 100_000)
    assert trouble.pauses_for_ms(100_000) == 200


def test_each_is_counted_and_one_a_minute_is_said(caplog: pytest.LogCaptureFixture) -> None:
    troubles = Troubles()
    trouble = troubles.of("__delayed.orders", 0)
    assert troubles.of("__delayed.orders", 0) is trouble
    with caplog.at_level(logging.WARNING):
        for now_ms in range(0, 2 * SAY_EVERY_MS, 1_000):
            trouble.failed(RequestTimedOutError(), now_ms)
            trouble.refused(3, MessageTooLargeError(), now_ms)
    assert troubles.total == 2 * 2 * SAY_EVERY_MS // 1_000
    assert len(caplog.records) == 2
    assert "__delayed.orders-0" in caplog.text
    troubles.forget("__delayed.orders", 0)
    assert troubles.of("__delayed.orders", 0) is not trouble
