"""The test of the harness: does it find bugs that are known to be there?

Rule 1: a plant is found by a report with anomalies. A run that broke, because the cluster never came up or never healed,
        counts as found as well, and is told as such: nobody would take it for a pass.
Rule 2: each plant gets its faults and at most so many tries with other seeds; the score says found of hunted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tests.blackbox.report import Report

Run = Callable[[str, str, int], Report]
"""(plant, faults, seed) -> the report of a torture."""


@dataclass(slots=True)
class Catch:
    """What became of a plant: how it showed (empty: it was not found), and after how many tries."""

    name: str
    shown: list[str] = field(default_factory=list)
    tries: int = 0

    def __str__(self) -> str:
        how = ", ".join(self.shown) if self.shown else "NOT FOUND"
        return f"{self.name}: {how} ({self.tries} {'try' if self.tries == 1 else 'tries'})"


def names_of(report: Report) -> list[str]:
    """Names of the anomalies of a report, or what broke it."""
    found = {text.split(": ")[1] for text in report.anomalies}
    if report.broken:
        found.add(f"broken by {report.broken.split(':')[0]}")
    return sorted(found)


def hunt(plants: Mapping[str, str], run: Run, seed: int, tries: int, say: Callable[[str], None]) -> list[Catch]:
    """Hunts each of the plants."""
    found = []
    for name, faults in plants.items():
        catch = Catch(name)
        while not catch.shown and catch.tries < tries:
            catch.tries += 1
            catch.shown = names_of(run(name, faults, seed + catch.tries - 1))
        say(str(catch))
        found.append(catch)
    return found


def score(found: list[Catch]) -> str:
    """One line for each plant, and the score."""
    caught = sum(bool(catch.shown) for catch in found)
    return "\n".join([*map(str, found), f"found {caught} of {len(found)}"])
