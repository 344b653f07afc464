"""The page is Prometheus' text format: a histogram whose buckets hold all below them, and counters that only grow."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from oncelog_cli.load.exporter import BUCKETS_S, Exporter


def values(text: str) -> dict[str, float]:
    return {
        name: float(value) for name, _, value in (line.rpartition(" ") for line in text.splitlines()) if name[:1] != "#"
    }


def round_of(**more: Any) -> dict[str, Any]:
    return {"committed": 2, "aborted": 1, "unknown": 0, "anomalies": [], "failed_calls": {}, **more}


def test_a_bucket_counts_everything_up_to_its_bound() -> None:
    exporter = Exporter()
    for ms in (1.0, 1.1, 30_000, 30_001):
        exporter.latency(ms)
    found = values(exporter.text())
    buckets = [found[f'oncelog_verify_end_to_end_seconds_bucket{{le="{bound}"}}'] for bound in BUCKETS_S]
    assert buckets == [1, *[2] * (len(BUCKETS_S) - 2), 3]
    assert found['oncelog_verify_end_to_end_seconds_bucket{le="+Inf"}'] == 4
    assert found["oncelog_verify_end_to_end_seconds_count"] == 4
    assert found["oncelog_verify_end_to_end_seconds_sum"] == pytest.approx(60.0031)


def test_rounds_add_up() -> None:
    exporter = Exporter()
    exporter.round(round_of(anomalies=[{"name": "lost"}], failed_calls={"NETWORK_ERROR": 3}))
    exporter.round(round_of())
    exporter.failed({"NETWORK_ERROR": 1})
    found = values(exporter.text())
    assert found['oncelog_verify_transactions_total{outcome="committed"}'] == 4
    assert found['oncelog_verify_transactions_total{outcome="aborted"}'] == 2
    assert found['oncelog_verify_anomalies_total{anomaly="lost"}'] == 1
    assert found['oncelog_verify_failed_calls_total{error="NETWORK_ERROR"}'] == 4
    assert found["oncelog_verify_rounds_total"] == 2


def test_before_the_first_round_the_outcomes_are_there_and_0() -> None:
    """A series that begins with its first anomaly shows no growth."""
    found = values(Exporter().text())
    for outcome in ("committed", "aborted", "unknown"):
        assert found[f'oncelog_verify_transactions_total{{outcome="{outcome}"}}'] == 0


@pytest.mark.parametrize("asked", [b"GET /metrics HTTP/1.1\r\n\r\n", b"GET / HTTP/1.0\r\nHost: a\r\n\r\n"])
def test_every_get_is_answered_and_the_connection_closed(asked: bytes) -> None:
    async def work() -> bytes:
        async with Exporter().serve(0) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(asked)
            found = await reader.read()
            writer.close()
            return found

    head, _, body = asyncio.run(work()).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4")
    assert f"Content-Length: {len(body)}".encode() in head
    assert body.decode() == Exporter().text()


@pytest.mark.parametrize("sent", [b"", b"no http", b"x" * 200_000], ids=["nothing", "half", "far too much"])
def test_one_who_is_no_scraper_harms_no_other(sent: bytes) -> None:
    async def work() -> bytes:
        async with Exporter().serve(0) as port:
            _, stranger = await asyncio.open_connection("127.0.0.1", port)
            stranger.write(sent)
            stranger.close()
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET / HTTP/1.1\r\n\r\n")
            found = await reader.read()
            writer.close()
            return found

    assert asyncio.run(work()).startswith(b"HTTP/1.1 200 OK")
