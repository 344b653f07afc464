"""The test of the harness: does it find bugs that are known to be there?

Rule 1: a plant is found by an anomaly. A run that broke, a client that hung, a load without success and whatever did not happen
        in time find nothing: a machine that is too slow shows them as well. They are told, and do not count.
Rule 2: each plant gets its faults and at most so many tries with other seeds; the score says found of hunted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tests.blackbox.judging import NO_PROOF
from tests.blackbox.report import Report

Run = Callable[[str, str, int], Report]
"""(plant, faults, seed) -> the report of a torture."""


@dataclass(slots=True)
class Catch:
    """What became of a plant: how it showed (empty: it was not found), what else went wrong, and after how many tries."""

    name: str
    shown: list[str] = field(default_factory=list)
    trouble: list[str] = field(default_factory=list)
    tries: int = 0

    def __str__(self) -> str:
        how = ", ".join(self.shown) if self.shown else " ".join(["NOT FOUND", *self.trouble])
        return f"{self.name}: {how} ({self.tries} {'try' if self.tries == 1 else 'tries'})"


def names_of(report: Report) -> set[str]:
    """Names of the anomalies of a report."""
    return {text.split(": ")[1] for text in report.anomalies}


def hunt(plants: Mapping[str, str], run: Run, seed: int, tries: int, say: Callable[[str], None]) -> list[Catch]:
    """Hunts each of the plants."""
    found = []
    for name, faults in plants.items():
        catch = Catch(name)
        while not catch.shown and catch.tries < tries:
            catch.tries += 1
            report = run(name, faults, seed + catch.tries - 1)
            catch.shown = sorted(names_of(report) - NO_PROOF)
            catch.trouble += [*sorted(names_of(report) & NO_PROOF), *([f"({report.broken})"] if report.broken else [])]
        say(str(catch))
        found.append(catch)
    return found


def score(found: list[Catch]) -> str:
    """One line for each plant, and the score."""
    caught = sum(bool(catch.shown) for catch in found)
    return "\n".join([*map(str, found), f"found {caught} of {len(found)}"])
