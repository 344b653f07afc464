"""`Once` and `Client.once` in processes that die and freeze at each point of a record's work; the checker sees a flaw."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from oncelog.sync import Client
from tests.hostile.once_faults import GROUP, LOG_POINTS, POINTS, LogRun, OnceRun, PointRun
from tests.hostile.process_faults import SESSION_S, Verdict, judged, new_cluster


def kill_at(run: PointRun, point: str) -> None:
    """A worker that has partitions dies at this point of a record's work."""
    assert any(run.kill_at(at, point) for at in (*range(run.count), 0)), f"no worker came to {point}"


@pytest.mark.parametrize("has_ids", [False, True])
def test_every_input_has_its_effect_once_wherever_a_worker_dies(tmp_path: Path, has_ids: bool) -> None:
    with new_cluster(tmp_path / "cluster", brokers=1) as cluster:
        run = OnceRun(cluster, file=tmp_path / "effects.db", has_ids=has_ids)
        with Client(cluster.bootstrap_servers) as client, run.going():
            for point in POINTS:
                kill_at(run, point)
            assert run.freeze_at(1, "begun", SESSION_S + 4), "the worker came to the point"
            address = client.admin.describe_group(GROUP).listing.coordinator
            [name] = [name for name, process in cluster.processes.items() if process.address == address]
            run.kill_service(name, 1)
            verdict = run.verdict()
    assert verdict.is_right, verdict


def test_every_input_is_in_the_output_once_where_the_log_remembers(tmp_path: Path) -> None:
    with new_cluster(tmp_path, brokers=1) as cluster:
        run = LogRun(cluster)
        with run.going():
            for point in LOG_POINTS:
                kill_at(run, point)
            assert run.freeze_at(1, "begun", SESSION_S + 4), "the worker came to the point"
            verdict = run.verdict()
    assert verdict.is_right, verdict


@pytest.mark.parametrize(("flaw", "point"), [("before", "wrote"), ("after", "committed")])
def test_effects_outside_of_the_transaction_are_seen(tmp_path: Path, flaw: str, point: str) -> None:
    with new_cluster(tmp_path / "cluster", brokers=1) as cluster:
        run = OnceRun(cluster, file=tmp_path / "effects.db", flaw=flaw, settle_s=20)
        with run.going():
            kill_at(run, point)
            verdict = run.verdict()
    assert not verdict.is_right
    assert (verdict.repeated, verdict.missing) == ((1, 0) if flaw == "before" else (0, 1))


@pytest.mark.parametrize(
    ("numbers", "verdict"),
    [
        ([0, 1, 2], Verdict(3, 3)),
        ([0, 2], Verdict(3, 2, missing=1)),
        ([0, 1, 1, 2], Verdict(3, 4, repeated=1)),
        ([0, 2, 1], Verdict(3, 3, out_of_order=1)),
        ([0, 1, 1], Verdict(3, 3, missing=1, repeated=1)),
    ],
)
def test_a_verdict_names_what_is_wrong(numbers: list[int], verdict: Verdict) -> None:
    found = judged(Counter({7: 3}), {7: numbers})
    assert found == verdict
    assert found.is_right == (numbers == [0, 1, 2])
