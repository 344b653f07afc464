"""What `oncelog verify` says in the end: for people, for programs, and as an exit code."""

from __future__ import annotations

from typing import Any

from oncelog_cli.terminal.output import Printer


def show(result: dict[str, Any], printer: Printer) -> None:
    """The verdict, then what it rests on."""
    printer.value(result, sentence(result))


def exit_code(result: dict[str, Any], *, strict: bool) -> int:
    """0 = exactly once, and something was shown by it."""
    failed = strict and bool(result["failed_calls"])
    return 1 if result["anomalies"] or not result["committed"] or failed else 0


def sentence(result: dict[str, Any]) -> str:
    """For people."""
    latency = result["end_to_end_ms"]
    outcomes = ", ".join(f"{result[name]} {name}" for name in ("committed", "aborted", "unknown"))
    lines = [
        f"transactions: {outcomes}; {result['records']} records in {result['seconds']} s",
        f"end to end: p50 {latency['p50']} ms, p99 {latency['p99']} ms, max {latency['max']} ms",
    ]
    if result["failed_calls"]:
        lines.append("failed calls: " + ", ".join(f"{name} {n}" for name, n in result["failed_calls"].items()))
    if result["anomalies"]:
        lines += [f"ANOMALY {a['name']}: {a['meaning']}: {a['detail']}" for a in result["anomalies"]]
    elif not result["committed"]:
        lines.append("nothing was committed, so nothing is proved")
    else:
        lines.append("exactly once")
    return "\n".join(lines)
