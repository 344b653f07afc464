"""What the suite says: one line per step with its time, a table at the end, and the same as JSON."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path


class Wrong(Exception):
    """Something is not as promised."""


@dataclass(slots=True)
class Step:
    """One step: when it began (milliseconds since 1970), how long it took, what it found."""

    name: str
    began_ms: int = 0
    seconds: float = 0.0
    outcome: str = "ok"
    detail: str = ""
    figures: dict[str, float] = field(default_factory=dict)


class Report:
    """Collects steps in their order."""

    def __init__(self) -> None:
        self.steps: list[Step] = []

    @contextmanager
    def step(self, name: str, *survived: type[Exception]) -> Iterator[Step]:
        """Times a step; an exception makes it FAILED, and ends here if its kind can be survived."""
        step = Step(name, began_ms=time.time_ns() // 1_000_000)
        self.steps.append(step)
        began = time.monotonic()
        try:
            yield step
        except BaseException as error:
            step.outcome = "FAILED"
            said = _short(" ".join(str(error).split()))
            step.detail = "; ".join(part for part in (step.detail, said) if part)
            if not isinstance(error, survived):
                raise
        finally:
            step.seconds = round(time.monotonic() - began, 1)
            print(self._line(step), flush=True)

    @property
    def failed(self) -> bool:
        """Something was not as it should be."""
        return any(step.outcome != "ok" for step in self.steps)

    def table(self) -> str:
        """All steps."""
        width = max(len(step.name) for step in self.steps)
        rule = "-" * (width + 60)
        return "\n".join([rule, *(self._line(step, width) for step in self.steps), rule])

    def write(self, path: Path, **more: object) -> None:
        """As JSON."""
        path.parent.mkdir(parents=True, exist_ok=True)
        document = {**more, "ok": not self.failed, "steps": [asdict(step) for step in self.steps]}
        path.write_text(json.dumps(document, indent=1) + "\n")

    @staticmethod
    def _line(step: Step, width: int = 40) -> str:
        figures = "  ".join(f"{name} {value:g}" for name, value in step.figures.items())
        text = "; ".join(part for part in (step.detail, figures) if part)
        return f"{step.outcome:<6} {step.seconds:>7.1f} s  {step.name:<{width}}  {text}".rstrip()


def _short(said: str) -> str:
    """The beginning names the command, and the end says what was wrong."""
    return said if len(said) <= 700 else f"{said[:150]} ... {said[-550:]}"
