"""Latencies, durations and the metrics page of the load verbs."""

from __future__ import annotations

import argparse
import asyncio
import io
from collections.abc import Sequence
from typing import Any, cast

import pytest

from oncelog.core.verification import Anomaly, Reading
from oncelog.errors import LeaderNotAvailableError, NotEnoughReplicasError
from oncelog_cli.load.bench_load import Bench
from oncelog_cli.load.exporter import Exporter
from oncelog_cli.load.verdict import exit_code, sentence
from oncelog_cli.load.verify_load import Verification
from oncelog_cli.terminal.progress import Samples, rate, reporting, seconds, size

SOUND = {
    "committed": 3,
    "aborted": 1,
    "unknown": 0,
    "records": 60,
    "seconds": 1.0,
    "failed_calls": {},
    "end_to_end_ms": {"p50": 1.0, "p99": 2.0, "max": 3.0},
    "anomalies": [],
}
TORN = {**SOUND, "anomalies": [{"name": "torn", "meaning": "a part", "detail": "producer 1, transaction 2"}]}


def test_percentiles_stay_right_when_samples_are_thinned() -> None:
    samples = Samples()
    for i in range(250_000):
        samples.add(i % 1_000)
    assert samples.count == 250_000
    assert abs(samples.percentile(50) - 500) < 20
    assert abs(samples.percentile(99) - 990) < 20
    assert Samples().summary() == {"p50": 0.0, "p99": 0.0, "max": 0.0}


@pytest.mark.parametrize(
    ("text", "value"), [("30", 30.0), ("30s", 30.0), ("1.5m", 90.0), ("1h", 3600.0), ("500ms", 0.5), ("1h30m", 5400.0)]
)
def test_durations(text: str, value: float) -> None:
    assert seconds(text) == value


@pytest.mark.parametrize("text", ["", "-1", "3x", "s"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        seconds(text)


def test_a_size_of_nothing_is_none() -> None:
    assert size("64KiB") == 65_536
    for wrong in ("0", "-1", "x"):
        with pytest.raises(argparse.ArgumentTypeError):
            size(wrong)


def test_a_share_is_from_0_to_1() -> None:
    assert rate("0.5") == 0.5
    with pytest.raises(argparse.ArgumentTypeError):
        rate("1.5")


def test_the_exit_code_is_the_verdict() -> None:
    assert exit_code(SOUND, strict=True) == 0
    assert exit_code(TORN, strict=False) == 1
    assert exit_code({**SOUND, "committed": 0}, strict=False) == 1, "nothing is shown by nothing"
    failed = {**SOUND, "failed_calls": {"NETWORK_ERROR": 1}}
    assert (exit_code(failed, strict=False), exit_code(failed, strict=True)) == (0, 1)
    assert "exactly once" in sentence(SOUND)
    assert "ANOMALY torn: a part: producer 1, transaction 2" in sentence(TORN)


def test_a_scraper_gets_the_numbers() -> None:
    async def scrape() -> str:
        exporter = Exporter()
        exporter.latency(3.0)
        exporter.latency(40_000.0)
        exporter.round(TORN)
        async with exporter.serve(0) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
            answer = await asyncio.wait_for(reader.read(), 10)
            writer.close()
        return answer.decode()

    head, _, page = asyncio.run(scrape()).partition("\r\n\r\n")
    assert head.startswith("HTTP/1.1 200 OK")
    assert f"Content-Length: {len(page)}" in head
    lines = page.splitlines()
    assert 'oncelog_verify_end_to_end_seconds_bucket{le="0.0025"} 0' in lines
    assert 'oncelog_verify_end_to_end_seconds_bucket{le="0.005"} 1' in lines
    assert 'oncelog_verify_end_to_end_seconds_bucket{le="+Inf"} 2' in lines
    assert "oncelog_verify_end_to_end_seconds_count 2" in lines
    assert 'oncelog_verify_transactions_total{outcome="committed"} 3' in lines
    assert 'oncelog_verify_anomalies_total{anomaly="torn"} 1' in lines


class Terminal(io.StringIO):
    """Somebody looks."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("stream", "said"), [(Terminal(), "\r\x1b[K7 records\r\x1b[K"), (io.StringIO(), "")])
def test_long_work_says_how_far_it_is_on_a_terminal_only(
    stream: io.StringIO, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The line is removed at the end; in a log it would be one line for each look."""
    monkeypatch.setattr("sys.stderr", stream)

    async def work() -> None:
        looked = asyncio.Event()

        def line() -> str:
            looked.set()
            return "7 records"

        async with reporting(line, interval_s=0.0):
            await looked.wait()

    asyncio.run(work())
    assert stream.getvalue() == said


class Mute:
    """A client whose consumer is never given anything."""

    def consumer(self, **_options: object) -> Mute:
        return self

    async def __aenter__(self) -> Mute:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None

    async def assign(self, _partitions: object) -> None:
        return None

    def seek(self, _where: object, _offset: int) -> None:
        return None

    async def position(self, _where: object) -> int:
        return 3

    async def getmany(self, timeout_ms: int) -> list[object]:
        await asyncio.sleep(0)
        return []


def test_a_reader_that_stands_still_is_an_anomaly_and_no_hang() -> None:
    client = cast(Any, Mute())
    run = Verification(client, argparse.Namespace(record_size=100, timeout_ms=20), "t", "name")
    run._partitions, run._start, run._ends = [0], {0: 0}, {0: 5}
    found = asyncio.run(asyncio.wait_for(run._read(client, Reading(1)), 10))
    assert found == [Anomaly("not-readable", "partitions [0]")]
    run._ends = {0: 3}
    assert asyncio.run(run._read(client, Reading(1))) == []


class Silent:
    """A cluster of three partitions, of which the leaders answer one after the other."""

    def __init__(self, answering: Sequence[int]) -> None:
        self.admin = self
        self.config = argparse.Namespace(default_api_timeout_ms=250)
        self._answering = answering
        self.asked = 0

    async def describe_topic(self, _name: str) -> argparse.Namespace:
        return argparse.Namespace(partitions=[argparse.Namespace(partition=number) for number in range(3)])

    async def partition_offsets(self, _name: str) -> dict[int, argparse.Namespace]:
        self.asked += 1
        known = self._answering[: self.asked]
        return {number: argparse.Namespace(high_watermark=number + 10) for number in known}


def begin_of(cluster: Silent) -> dict[int, int]:
    run = Verification(cast(Any, cluster), argparse.Namespace(record_size=100), "t", "name")
    return asyncio.run(run._ends_now())


def test_a_run_begins_when_every_leader_answers() -> None:
    assert begin_of(Silent([2, 0, 1])) == {0: 10, 1: 11, 2: 12}


def test_a_leader_that_never_answers_is_named() -> None:
    with pytest.raises(LeaderNotAvailableError, match="cluster health") as caught:
        begin_of(Silent([1]))
    assert caught.value.context["partitions"] == "0,2"


def test_a_bench_of_which_nothing_was_acknowledged_has_no_records() -> None:
    class Refused:
        def producer(self, **_options: object) -> Refused:
            return self

        async def __aenter__(self) -> Refused:
            return self

        async def __aexit__(self, *_: object) -> None:
            return None

        async def send(self, _topic: str, _value: bytes) -> asyncio.Future[None]:
            delivery: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            delivery.set_exception(NotEnoughReplicasError())
            return delivery

        async def flush(self) -> None:
            raise NotEnoughReplicasError

    args = argparse.Namespace(
        record_size=10, records=5, duration=None, producers=1, acks="all", batch_size=1, linger_ms=0, compression="none"
    )
    bench = Bench(cast(Any, Refused()), args, "t")
    asyncio.run(bench.produce())
    assert (bench.records, dict(bench.errors)) == (0, {"NOT_ENOUGH_REPLICAS": 2})
