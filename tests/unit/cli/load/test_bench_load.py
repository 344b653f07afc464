"""The loads do what they are told, no more and no less, through the calls of the SDK alone; the result counts it."""

from __future__ import annotations

import argparse
from collections.abc import Coroutine
from types import SimpleNamespace
from typing import Any

import pytest

from oncelog import errors
from oncelog.v1 import types_pb2
from oncelog_cli.load import bench_load
from oncelog_cli.load.bench_load import Bench
from oncelog_cli.main import build_parser
from tests.unit.sdk.client.fake_cluster import TOPIC, FakeCluster


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    made = FakeCluster()
    clock = SimpleNamespace(monotonic=made.loop.time, perf_counter=made.loop.time, time_ns=lambda: 1)
    monkeypatch.setattr(bench_load, "time", clock)
    return made


def flags(words: str) -> argparse.Namespace:
    found = build_parser().parse_args(["bench", *words.split(), "--topic", TOPIC])
    found.records = found.records or (None if found.duration else found.records_default)
    return found


def run(cluster: FakeCluster, words: str) -> dict[str, Any]:
    async def work(_: FakeCluster) -> dict[str, Any]:
        async with cluster.client(default_api_timeout_ms=1_000, request_timeout_ms=100) as client:
            return await bench_load.run(client, flags(words), False)

    return cluster.run(work)


def written(cluster: FakeCluster) -> int:
    return len(cluster.values(0)) + len(cluster.values(1))


@pytest.mark.parametrize("records", [1, 199, 450])
@pytest.mark.parametrize("producers", [1, 3])
def test_so_many_records_are_written_however_many_writers(cluster: FakeCluster, records: int, producers: int) -> None:
    result = run(cluster, f"produce --records {records} --producers {producers} --record-size 30")
    assert (result["records"], written(cluster), result["errors"]) == (records, records, {})
    assert result["mb"] == round(records * 30 / 1e6, 2)
    assert {len(value or b"") for value in cluster.values(0) + cluster.values(1)} == {30}
    assert result["p50_ms"] > 0


def test_without_acknowledgements_the_producer_promises_no_more_than_that(cluster: FakeCluster) -> None:
    assert run(cluster, "produce --records 10 --acks 1")["records"] == 10
    assert cluster.count("InitProducerId") == 0


def test_a_duration_ends_a_load_that_has_no_count(cluster: FakeCluster) -> None:
    result = run(cluster, "txn --duration 1s")
    assert 0.9 < result["seconds"] < 1.5
    assert result["records"] == written(cluster) > 0


def test_transactions_have_so_many_records_and_the_last_one_the_rest(cluster: FakeCluster) -> None:
    result = run(cluster, "txn --records 25 --txn-size 10")
    assert (result["transactions"], result["records"]) == (3, 25)
    assert [sum(c.records for c in request.counts) for request in cluster.end_requests] == [10, 10, 5]
    assert result["transactions_per_s"] > 0


@pytest.mark.parametrize(("rate", "outcome"), [(1, "ABORTED"), (0, "COMMITTED")])
def test_a_share_is_aborted(cluster: FakeCluster, rate: int, outcome: str) -> None:
    run(cluster, f"txn --records 30 --abort-rate {rate}")
    assert {request.outcome for request in cluster.end_requests} == {
        types_pb2.TransactionOutcome.Value(f"TRANSACTION_OUTCOME_{outcome}")
    }


def test_a_transaction_that_fails_is_counted_and_the_next_one_begun(cluster: FakeCluster) -> None:
    cluster.fail("append", errors.InvalidRecordError())
    result = run(cluster, "txn --records 30 --txn-size 10")
    assert (result["errors"], result["transactions"], result["records"]) == ({"INVALID_RECORD": 1}, 2, 20)


def test_a_writer_that_is_fenced_ends_and_says_why(cluster: FakeCluster) -> None:
    cluster.fail("EndTransaction", errors.ProducerFencedError())
    result = run(cluster, "txn --records 30 --txn-size 10")
    assert (result["errors"], result["transactions"]) == ({"PRODUCER_FENCED": 1}, 0)


def test_what_was_never_acknowledged_is_not_counted_as_written(cluster: FakeCluster) -> None:
    cluster.fail("append", *(errors.InvalidRecordError() for _ in range(1_000)))
    result = run(cluster, "produce --records 10")
    assert (result["records"], result["mb"]) == (0, 0)
    assert set(result["errors"]) == {"INVALID_RECORD"}


@pytest.mark.parametrize("consumers", [1, 2, 3])
def test_everything_up_to_the_end_is_read_once(cluster: FakeCluster, consumers: int) -> None:
    run(cluster, "produce --records 300 --record-size 30")
    result = run(cluster, f"consume --duration 60s --consumers {consumers}")
    assert (result["records"], result["mb"]) == (300, 0.01)
    assert result["seconds"] < 30, "it ends at the end, not with the time"


def test_a_topic_of_its_own_is_filled_before_it_is_read(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client:
            await Bench(client, flags("consume --records 40 --acks 0".replace(" --acks 0", "")), TOPIC).fill()

    fill: Coroutine[Any, Any, None] = work(cluster)
    cluster.loop.run(fill)
    assert written(cluster) == 40


def test_progress_can_be_told_before_anything_happened(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> str:
        async with cluster.client() as client:
            return Bench(client, flags("produce"), TOPIC).progress()

    assert cluster.run(work) == "0 s: 0 records, 0 records/s, 0.0 MB/s, p50 0.0 ms"
