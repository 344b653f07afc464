"""`python -m tests.simulation.link_coverage [--seed N] [--seeds M]`: how much of the link's code a simulation runs.

Prints the share of the lines in function bodies that were run, for each module of the link core, and the lines that were not.
Exit status 1 below `NEEDED`. A trace function is all it takes: only frames of these modules are looked at.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import CodeType, FrameType, ModuleType
from typing import Any, Final

from oncelog.link import client_core, link_core, link_states, server_core
from tests.simulation.scenario import run_seed

CORE: Final = (link_states, link_core, client_core, server_core)
NEEDED: Final = 0.9


@dataclass
class Coverage:
    """Lines by file: those in function bodies, and those that ran."""

    lines: dict[str, set[int]]
    ran: dict[str, set[int]] = field(default_factory=dict)

    @classmethod
    def of(cls, *modules: ModuleType) -> Coverage:
        """Nothing has run yet."""
        names = [str(module.__file__) for module in modules]
        return cls({name: _lines_of(name) for name in names}, {name: set() for name in names})

    def missed(self, name: str) -> list[int]:
        """Lines of a file that did not run."""
        return sorted(self.lines[name] - self.ran[name])

    @property
    def share(self) -> float:
        """Of all lines, from 0 to 1."""
        total = sum(len(lines) for lines in self.lines.values())
        return 1 - sum(len(self.missed(name)) for name in self.lines) / total if total else 1.0

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Notes what runs inside the block, in this thread."""

        def trace(frame: FrameType, event: str, _: Any) -> Callable[..., Any] | None:
            ran = self.ran.get(frame.f_code.co_filename)
            if ran is None:
                return None
            if event == "line":
                ran.add(frame.f_lineno)
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            yield
        finally:
            sys.settrace(before)

    def report(self) -> Iterator[str]:
        """A line for each file, and one for all."""
        for name, lines in self.lines.items():
            missed = self.missed(name)
            share = 1 - len(missed) / len(lines) if lines else 1.0
            yield f"{name.rpartition('/')[2]:20} {len(lines):4} lines {share:7.1%}  not run: {missed}"
        yield f"{'all':20} {sum(map(len, self.lines.values())):4} lines {self.share:7.1%}"


def _lines_of(name: str) -> set[int]:
    """The lines that could run: the `...` of a port's method is no code."""
    with open(name, encoding="utf-8") as file:
        text = file.read()
    stubs = {number for number, line in enumerate(text.splitlines(), 1) if line.strip() == "..."}
    lines = {
        line
        for code in _functions(compile(text, name, "exec"))
        for _, _, line in code.co_lines()
        if line and line > code.co_firstlineno
    }
    return lines - stubs


def _functions(code: CodeType) -> Iterator[CodeType]:
    """Of functions, but not of the classes and annotations around them."""
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            if constant.co_flags & 0x2:  # CO_NEWLOCALS: a function
                yield constant
            yield from _functions(constant)


def main(arguments: list[str] | None = None) -> int:
    """The exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.link_coverage", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--seeds", type=int, default=20)
    options = parser.parse_args(arguments)
    coverage = Coverage.of(*CORE)
    with coverage.watching():
        failed = [seed for seed in range(options.seed, options.seed + options.seeds) if run_seed(seed).violations]
    print(*coverage.report(), sep="\n")
    print(f"{options.seeds} seeds, with violations: {failed or 'none'}")
    return 1 if failed or coverage.share < NEEDED else 0


if __name__ == "__main__":
    sys.exit(main())
