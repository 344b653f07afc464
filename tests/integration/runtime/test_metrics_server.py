"""What Prometheus, a browser and a careless client get from the metrics port."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator

import pytest
from prometheus_client.parser import text_string_to_metric_families

from oncelog_runtime.adapters import metrics_server
from oncelog_runtime.adapters.metrics_server import MetricsServer
from oncelog_runtime.observability import metric_names as names
from oncelog_runtime.observability.metrics import Family, NodeMetrics, Row, labels_of
from tests.scraping import ask, get, unchunk

PARTITIONS = 10_000


async def raw(address: str, request: bytes) -> bytes:
    """The whole answer; empty when the server hung up."""
    host, _, port = address.rpartition(":")
    try:
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(request)
        return await asyncio.wait_for(reader.read(), 10)
    except ConnectionError:
        return b""


async def until(condition: Callable[[], bool]) -> None:
    """Waits for something that no event tells."""
    for _ in range(1_000):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it did not come to be within 10 s")


def many() -> Iterator[Family | None]:
    """As a broker with many partitions tells it."""
    for metric in (names.PARTITION_ISR, names.PARTITION_LOG_END, names.PARTITION_LSO_LAG):
        rows: list[Row] = []
        for number in range(PARTITIONS):
            rows.append((labels_of(metric, "orders", str(number)), number))
            if number % 250 == 249:
                yield None
        yield Family(metric, rows)


@pytest.mark.asyncio
async def test_nonsense_is_bounded() -> None:
    server = MetricsServer(NodeMetrics(), "127.0.0.1", 0)
    address = await server.start()
    assert await raw(address, b"x" * 100_000) == b"", "it hangs up before it has read all of this"
    assert b"404" in await raw(address, b"\xff\r\n\r\n".replace(b"\xff", b"GET \xff\xfe"))
    host, _, port = address.rpartition(":")
    idle = [await asyncio.open_connection(host, int(port)) for _ in range(16)]
    await until(lambda: server.open_connections == len(idle))
    assert await raw(address, get().encode()) == b"", "all places are taken"
    for _, writer in idle:
        writer.close()
    await until(lambda: server.open_connections == 0)
    assert (await ask(address, get()))[0] == "HTTP/1.1 200 OK", "and free again"
    await server.stop()


@pytest.mark.parametrize("bound", ["_SCRAPE_S", "_STALLED_S"])
@pytest.mark.asyncio
async def test_a_reader_who_takes_nothing_does_not_keep_its_place(monkeypatch: pytest.MonkeyPatch, bound: str) -> None:
    monkeypatch.setattr(metrics_server, bound, 0.2)
    metrics = NodeMetrics()
    metrics.collect_with(many)
    metrics.collect_with(lambda: iter((Family(names.RECORDS_IN, [(f'topic="{"x" * 8_000_000}"', 1)]),)))
    server = MetricsServer(metrics, "127.0.0.1", 0)
    host, _, port = (await server.start()).rpartition(":")
    _, writer = await asyncio.open_connection(host, int(port), limit=1)
    writer.write(get().encode())
    await until(lambda: server.open_connections == 1)
    await until(lambda: server.open_connections == 0)
    await server.stop()


@pytest.mark.asyncio
async def test_a_scrape_of_many_partitions_does_not_stall_the_loop() -> None:
    metrics = NodeMetrics()
    metrics.collect_with(many)
    server = MetricsServer(metrics, "127.0.0.1", 0)
    address = await server.start()
    turns: list[float] = []

    async def watch() -> None:
        last = time.thread_time()
        while True:
            await asyncio.sleep(0)
            now = time.thread_time()
            turns.append(now - last)
            last = now

    watching = asyncio.create_task(watch())
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(get().encode())
    received = bytearray()
    while data := await reader.read(1 << 20):
        received += data
    watching.cancel()
    writer.close()
    body = unchunk(received.decode().partition("\r\n\r\n")[2])
    assert sum(len(family.samples) for family in text_string_to_metric_families(body)) == 3 * PARTITIONS
    assert len(turns) > 100, "the loop turned all the time"
    turns.sort()
    assert turns[len(turns) * 99 // 100] < 0.01, "seconds of work between two turns"
    await server.stop()
