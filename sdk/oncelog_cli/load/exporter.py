"""The Prometheus endpoint of `oncelog verify --exporter`: a handful of numbers in the text format, without a library.

Rule: it answers every GET alike and keeps no connection: one scraper every few seconds is all that it serves.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from typing import Final

from oncelog_cli.load.verdict import Verdict

BUCKETS_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_LATENCY: Final = "oncelog_verify_end_to_end_seconds"


class Exporter:
    """The numbers. They only grow."""

    def __init__(self) -> None:
        self._buckets = [0] * len(BUCKETS_S)
        self._count = 0
        self._sum_s = 0.0
        self._transactions: Counter[str] = Counter({"committed": 0, "aborted": 0, "unknown": 0})
        self._anomalies: Counter[str] = Counter()
        self._failed: Counter[str] = Counter()
        self._rounds = 0

    def latency(self, ms: float) -> None:
        """A record arrived so long after it was sent."""
        seconds = ms / 1000
        self._count += 1
        self._sum_s += seconds
        for i, bound in enumerate(BUCKETS_S):
            if seconds <= bound:
                self._buckets[i] += 1

    def failed(self, calls: Mapping[str, int]) -> None:
        """Calls that failed, by the error's name."""
        self._failed.update(calls)

    def round(self, result: Verdict) -> None:
        """Counts a round that has ended."""
        self._rounds += 1
        self._transactions.update({name: result[name] for name in ("committed", "aborted", "unknown")})
        self._anomalies.update(anomaly["name"] for anomaly in result["anomalies"])
        self.failed(result["failed_calls"])

    def text(self) -> str:
        """The page."""
        lines = [f"# HELP {_LATENCY} From send to a read_committed reader.", f"# TYPE {_LATENCY} histogram"]
        lines += [f'{_LATENCY}_bucket{{le="{b}"}} {n}' for b, n in zip(BUCKETS_S, self._buckets, strict=True)]
        lines += [f'{_LATENCY}_bucket{{le="+Inf"}} {self._count}', f"{_LATENCY}_sum {self._sum_s}"]
        lines.append(f"{_LATENCY}_count {self._count}")
        lines += _counter("oncelog_verify_transactions_total", "outcome", "Transactions.", self._transactions)
        lines += _counter("oncelog_verify_anomalies_total", "anomaly", "What was not exactly once.", self._anomalies)
        lines += _counter("oncelog_verify_failed_calls_total", "error", "Calls that failed.", self._failed)
        lines += ["# HELP oncelog_verify_rounds_total Rounds that ended.", "# TYPE oncelog_verify_rounds_total counter"]
        return "\n".join([*lines, f"oncelog_verify_rounds_total {self._rounds}", ""])

    @contextlib.asynccontextmanager
    async def serve(self, port: int) -> AsyncIterator[int]:
        """Listens on all addresses until the block ends; the port (0 = any). Raises `OSError` when it is taken."""
        server = await asyncio.start_server(self._answer, "0.0.0.0", port)
        try:
            yield int(server.sockets[0].getsockname()[1])
        finally:
            server.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(5):
                await reader.readuntil(b"\r\n\r\n")
                body = self.text().encode()
                head = f"HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {len(body)}\r\n"
                writer.write(f"{head}Connection: close\r\n\r\n".encode() + body)
                await writer.drain()
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # the scraper went away, or is none
        finally:
            writer.close()


def _counter(name: str, label: str, about: str, values: Mapping[str, int]) -> list[str]:
    lines = [f"# HELP {name} {about}", f"# TYPE {name} counter"]
    return lines + [f'{name}{{{label}="{key}"}} {value}' for key, value in sorted(values.items())]
