"""Workers are known, bounded, and have left when they are silent."""

from __future__ import annotations

import pytest

from oncelog.errors import ResourceExhaustedError
from oncelog_partition_leader.core.channels import workers as module
from oncelog_partition_leader.core.channels.workers import Workers, worker_timeout_ms
from oncelog_runtime.metadata.channel_values import ChannelOptions


@pytest.mark.parametrize(("ack_wait_ms", "timeout_ms"), [(3_000, 3_000), (30_000, 10_000)])
def test_the_time_out_is_that_of_a_record_and_no_more_than_ten_seconds(ack_wait_ms: int, timeout_ms: int) -> None:
    assert worker_timeout_ms(ChannelOptions(ack_wait_ms=ack_wait_ms)) == timeout_ms


def test_a_silent_worker_is_found_when_it_is_time() -> None:
    workers = Workers()
    workers.heard("ann", "10.0.0.1", 0)
    workers.heard("bob", "10.0.0.2", 40)
    workers.heard("ann", "10.0.0.9", 60)
    assert workers.next_silence_ms(100) == 140
    assert workers.silent(139, 100) == []
    assert workers.silent(140, 100) == ["bob"]
    assert workers.silent(160, 100) == ["bob", "ann"]
    assert workers.get("ann").client == "10.0.0.9"  # type: ignore[union-attr]
    assert workers.get("ann").idle_ms(75) == 15  # type: ignore[union-attr]


def test_a_standing_request_is_a_sign_of_life() -> None:
    workers = Workers()
    workers.heard("ann", "", 0)
    workers.begin("ann", 50, 0)
    workers.begin("ann", 60, 10)
    assert workers.silent(1_000, 100) == []
    assert workers.next_silence_ms(100) is None
    workers.end("ann", 1_000)
    assert workers.get("ann").idle_ms(5_000) == 0  # type: ignore[union-attr]
    workers.end("ann", 2_000)
    assert workers.next_silence_ms(100) == 2_100
    assert workers.get("ann").max_in_flight == 60  # type: ignore[union-attr]


def test_no_worker_was_silent_while_the_leader_stood_still() -> None:
    workers = Workers()
    workers.heard("w1", "here", 0)
    workers.heard("w2", "here", 5)
    workers.spare(1_000)
    assert workers.silent(1_099, 100) == []
    assert workers.silent(1_100, 100) == ["w1", "w2"]


def test_a_standing_one_hides_no_silent_one() -> None:
    workers = Workers()
    for worker_id, now_ms in (("ann", 0), ("bob", 10)):
        workers.heard(worker_id, "", now_ms)
    workers.begin("ann", 1, 5)
    assert workers.silent(500, 100) == ["bob"]


def test_who_has_left_is_not_known() -> None:
    workers = Workers()
    workers.heard("ann", "", 0)
    workers.begin("ann", 1, 0)
    assert workers.left("ann")
    assert not workers.left("ann")
    workers.end("ann", 5)
    assert workers.get("ann") is None
    assert len(workers) == 0


def test_one_worker_too_many_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_WORKERS", 2)
    workers = Workers()
    workers.heard("bob", "", 0)
    workers.heard("ann", "", 0)
    with pytest.raises(ResourceExhaustedError):
        workers.heard("cid", "", 0)
    assert [worker.worker_id for worker in workers.all()] == ["ann", "bob"]
    workers.heard("ann", "", 1)


@pytest.mark.parametrize(("available", "waiting", "share"), [(10, 3, 4), (9, 3, 3), (1, 5, 1), (0, 2, 1), (7, 0, 7)])
def test_a_share_is_fair_and_at_least_one(available: int, waiting: int, share: int) -> None:
    assert Workers.share(available, waiting) == share
