"""The figures of idle group members: shared out among processes, counted from metrics, printed with their units."""

from __future__ import annotations

import pytest

from bench.group_idle import Found, heartbeat_interval_ms, heartbeats_in, shares, table

FOUND = Found(
    members=1_000,
    groups=20,
    heartbeat_interval_ms=3_000,
    empty_cpu_percent=1.0,
    idle_cpu_percent=11.0,
    heartbeats_per_s=250.0,
    empty_mib=100.0,
    idle_mib=180.0,
    join_s=80.0,
)


@pytest.mark.parametrize(("members", "processes"), [(1_000, 4), (10, 4), (3, 4)])
def test_every_member_is_in_one_process(members: int, processes: int) -> None:
    found = [number for first, count in shares(members, processes) for number in range(first, first + count)]
    assert found == list(range(members))
    assert len(shares(members, processes)) == processes


def test_heartbeats_are_counted_whatever_they_were_answered() -> None:
    text = """\
oncelog_request_duration_seconds_count{method="Coordinator.GroupHeartbeat",code="OK"} 120
oncelog_request_duration_seconds_count{method="Coordinator.GroupHeartbeat",code="FENCED_MEMBER_EPOCH"} 3
oncelog_request_duration_seconds_sum{method="Coordinator.GroupHeartbeat",code="OK"} 900
oncelog_request_duration_seconds_count{method="Coordinator.CommitOffsets",code="OK"} 7
"""
    assert heartbeats_in(text.splitlines()) == 123


def test_the_interval_is_the_one_in_force() -> None:
    assert heartbeat_interval_ms(["python"]) == 3_000
    assert heartbeat_interval_ms(["python", "--group-heartbeat-interval-ms=500"]) == 500


def test_a_heartbeat_and_a_member_have_their_share() -> None:
    assert FOUND.us_per_heartbeat == 400
    assert FOUND.kib_per_member == pytest.approx(81.92)
    assert "every 3000 ms each, 250/s answered" in table(FOUND)
    assert "11.00 % of a core" in table(FOUND)
