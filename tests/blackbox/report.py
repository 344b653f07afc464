"""The page that a torture ends with: operations, faults, anomalies, heal times, worst pauses; the same as JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields
from typing import Any

from tests.blackbox.judging import Round

_SHOWN = 30


@dataclass(slots=True)
class Report:
    """Everything that a run showed. `setting` says how it was run: seed, nodes, kinds of faults."""

    setting: dict[str, Any]
    rounds: list[Round] = field(default_factory=list)
    broken: str = ""
    """Why the run ended before its time; empty: it did not."""

    @property
    def anomalies(self) -> list[str]:
        """Of all rounds."""
        return [f"round {one.number}: {text}" for one in self.rounds for text in one.anomalies]

    @property
    def is_pass(self) -> bool:
        """It ran to its end, and nothing is wrong."""
        return bool(self.rounds) and not self.broken and not self.anomalies

    def document(self) -> dict[str, Any]:
        """As JSON takes it."""
        return {
            "passed": self.is_pass,
            "broken": self.broken,
            "setting": self.setting,
            "operations_per_s": self._rate(),
            "faults": sum(_total(self.rounds, "faults").values()),
            "anomalies": self.anomalies,
            "rounds": [_plain(one) for one in self.rounds],
        }

    def json(self) -> str:
        """The document."""
        return json.dumps(self.document(), indent=1)

    def page(self) -> str:
        """One page."""
        return "\n".join(self._lines())

    def _rate(self) -> float:
        seconds = sum(one.seconds for one in self.rounds)
        return round(sum(one.succeeded for one in self.rounds) / seconds, 1) if seconds else 0.0

    def _lines(self) -> Iterator[str]:
        verdict = "PASSED" if self.is_pass else "FAILED"
        loaded = sum(one.seconds for one in self.rounds)
        yield f"{verdict}: {len(self.rounds)} rounds, {loaded:.0f} s of load, {self._rate():.0f} operations/s succeeded"
        yield "setting    " + ", ".join(f"{name} {value}" for name, value in self.setting.items())
        if self.broken:
            yield f"broken     {self.broken}"
        yield f"operations {_listed(_total(self.rounds, 'operations'))}"
        yield f"errors     {_listed(_total(self.rounds, 'errors'))}"
        faults = _total(self.rounds, "faults")
        yield f"faults     {sum(faults.values())}: {_listed(faults)}"
        yield f"no effect  {_listed(_total(self.rounds, 'unseen'))}"
        yield f"not done   {_listed(_total(self.rounds, 'not_now'))}"
        last = max(self.rounds, key=lambda one: one.healthy_s, default=Round(0))
        yield f"healthy    after {last.healthy_s:.1f} s at the worst: {last.waited_for or '-'}"
        yield f"settled    LSO = high watermark after {_worst(one.settled_s for one in self.rounds):.1f} s at the worst"
        yield f"read       {_worst(one.lag_s for one in self.rounds):.1f} s after its acknowledgement at the worst"
        yield f"delayed    {_worst(one.late_s for one in self.rounds):.1f} s late at a worker at the worst"
        stall_s = _worst(one.stall_s for one in self.rounds)
        yield f"machine    gave the harness itself no processor for {stall_s:.1f} s at the worst"
        for title, name in (("pause of", "pauses_s"), ("pause with", "pause_after")):
            found = _worst_by_name(getattr(one, name) for one in self.rounds)
            yield f"{title:<10} " + (", ".join(f"{kind} {seconds:.1f} s" for kind, seconds in found.items()) or "-")
        yield from map(_row, self.rounds)
        names = Counter(text.split(": ")[1] for text in self.anomalies)
        yield f"anomalies  {len(self.anomalies)}{': ' + _listed(names) if names else ''}"
        for text in self.anomalies[:_SHOWN]:
            yield f"  {text}"


def _row(one: Round) -> str:
    rate = one.succeeded / one.seconds if one.seconds else 0.0
    pause = max(one.pauses_s.values(), default=0.0)
    return (
        f"  round {one.number}: {rate:.0f} operations/s, healthy after {one.healthy_s:.1f} s, pause {pause:.1f} s,"
        f" {len(one.anomalies)} anomalies, {_listed(one.faults)}"
    )


def _plain(one: Round) -> dict[str, Any]:
    values = {field.name: getattr(one, field.name) for field in fields(one)}
    return {name: dict(value) if isinstance(value, Counter) else value for name, value in values.items()}


def _total(rounds: Iterable[Round], name: str) -> Counter[str]:
    found: Counter[str] = Counter()
    for one in rounds:
        found.update(getattr(one, name))
    return found


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items())) or "-"


def _worst(values: Iterable[float]) -> float:
    return max(values, default=0.0)


def _worst_by_name(found: Iterable[dict[str, float]]) -> dict[str, float]:
    worst: dict[str, float] = {}
    for one in found:
        for name, value in one.items():
            worst[name] = max(worst.get(name, 0.0), value)
    return dict(sorted(worst.items()))
