"""The verdict of `oncelog verify`: for people, for programs, and as an exit code."""

from __future__ import annotations

from typing import TypedDict

from oncelog_cli.terminal.output import Printer


class AnomalyRow(TypedDict):
    """One kind of anomaly that was found: its name, what it means, and where it was seen."""

    name: str
    detail: str
    meaning: str


class Verdict(TypedDict):
    """The result of one run of `oncelog verify`, as programs get it."""

    topic: str
    exactly_once: bool
    seconds: float
    committed: int
    aborted: int
    unknown: int
    records: int
    failed_calls: dict[str, int]
    end_to_end_ms: dict[str, float]
    anomalies: list[AnomalyRow]


def show(result: Verdict, printer: Printer) -> None:
    """The verdict, then what it rests on."""
    printer.value(result, sentence(result))


def exit_code(result: Verdict, *, strict: bool) -> int:
    """0 = exactly once, and something was shown by it."""
    failed = strict and bool(result["failed_calls"])
    return 1 if result["anomalies"] or not result["committed"] or failed else 0


def sentence(result: Verdict) -> str:
    """For people."""
    latency = result["end_to_end_ms"]
    outcomes = f"{result['committed']} committed, {result['aborted']} aborted, {result['unknown']} unknown"
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
