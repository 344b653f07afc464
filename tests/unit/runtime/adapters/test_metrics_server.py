"""GET /metrics: the format that was asked for, and a port that is in use."""

from __future__ import annotations

import pytest

from oncelog_runtime.adapters.metrics_server import MetricsServer
from oncelog_runtime.config.startup_error import AddressInUseError
from oncelog_runtime.observability import metric_names as names
from oncelog_runtime.observability.exposition import OPEN_METRICS, TEXT
from oncelog_runtime.observability.metrics import NodeMetrics, one
from tests.scraping import ask, get


@pytest.mark.asyncio
async def test_it_answers_in_the_format_that_is_asked_for() -> None:
    metrics = NodeMetrics()
    metrics.collect_with(lambda: iter((one(names.TXN_OPEN, 4),)))
    server = MetricsServer(metrics, "127.0.0.1", 0)
    address = await server.start()
    status, headers, body = await ask(address, get())
    assert (status, headers["content-type"]) == ("HTTP/1.1 200 OK", TEXT)
    assert body.endswith("oncelog_txn_open 4\n")
    _, headers, body = await ask(address, get(accept="application/openmetrics-text;version=1.0.0,text/plain;q=0.1"))
    assert headers["content-type"] == OPEN_METRICS
    assert body.endswith("# EOF\n")
    status, headers, body = await ask(address, "GET /metrics HTTP/1.0\r\n\r\n")
    assert "transfer-encoding" not in headers
    assert body.endswith("oncelog_txn_open 4\n")
    assert (await ask(address, "HEAD /metrics HTTP/1.1\r\n\r\n"))[2] == ""
    assert (await ask(address, get("/")))[0] == "HTTP/1.1 404 Not Found"
    assert (await ask(address, "POST /metrics HTTP/1.1\r\n\r\n"))[0] == "HTTP/1.1 405 Method Not Allowed"
    await server.stop()
    await server.stop()


@pytest.mark.asyncio
async def test_a_port_in_use_is_explained() -> None:
    server = MetricsServer(NodeMetrics(), "127.0.0.1", 0)
    address = await server.start()
    with pytest.raises(AddressInUseError, match="--metrics-port"):
        await MetricsServer(NodeMetrics(), "127.0.0.1", int(address.rpartition(":")[2])).start()
    await server.stop()
