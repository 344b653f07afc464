"""What a benchmark run found: a list of rows, a table for people, JSON for programs."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Row:
    """One figure beside the limit that it is compared with, measured in the same run.

    `ratio` = value / limit_value. `target` says what the ratio or value should be, in words, e.g. ">= 0.5".
    """

    name: str
    value: float
    unit: str
    limit_name: str = ""
    limit_value: float = 0.0
    target: str = ""

    @property
    def ratio(self) -> float | None:
        """None when there is nothing to compare with."""
        return self.value / self.limit_value if self.limit_value else None

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None without a target. A target on the value says its unit: "<= 10 ms"."""
        if not self.target:
            return None
        sign, number, *unit = self.target.split()
        compared = self.value if unit else self.ratio
        assert compared is not None, f"{self.name}: a ratio target needs a limit"
        return compared >= float(number) if sign == ">=" else compared <= float(number)


def table(rows: list[Row]) -> str:
    """Aligned, with the ratio and whether the target is met."""
    lines = [("what", "value", "limit", "ratio", "target", "met")]
    for row in rows:
        limit = f"{row.limit_value:.2f} {row.limit_name}" if row.limit_name else "-"
        ratio = "-" if row.ratio is None else f"{row.ratio:.2f}"
        met = {True: "yes", False: "NO", None: "-"}[row.met]
        lines.append((row.name, f"{row.value:.2f} {row.unit}", limit, ratio, row.target or "-", met))
    widths = [max(len(line[i]) for line in lines) for i in range(6)]
    return "\n".join("  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip() for line in lines)


def save(rows: list[Row], path: Path) -> None:
    """Writes the rows as a JSON list of objects."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps([{**asdict(row), "ratio": row.ratio} for row in rows], indent=1) + "\n")
