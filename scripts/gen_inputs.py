"""Write docs/internals/inputs.md, or check that it is up to date: each bad input by its number, and what tries it.

    python -m scripts.gen_inputs [--check]

Rule: the inputs stand in tests/hostile_inputs (`rows.py`) and in tests/conformance/table/cases_hostile.py, and nowhere else.
`--check` writes nothing and exits 1 when the page is not what would be written.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.conformance.table.cases import Case
from tests.conformance.table.cases_hostile import HOSTILE
from tests.hostile_inputs.rows import NUMBERS, Kind, Row, rows_of

ROOT: Final = Path(__file__).resolve().parents[1]
PAGE: Final = ROOT / "docs" / "internals" / "inputs.md"

_HEAD: Final = """\
# Bad inputs

A bad input is a request that no honest client sends. Each one is refused with a named error, changes nothing, and harms
no other client. The numbers are those that tests and code give as "input 57"; a number that is missing was joined with its
neighbour.

Three kinds of tests try them. *Cluster*: through the listeners of clients, in a simulated cluster
(`tests/hostile_inputs/test_hostile_inputs.py`) and against real processes (`tests/integration/test_hostile_inputs.py`).
*Core*: against one core alone. *Socket*: over a real socket, because the input is about the connection and not about a
request. Fuzzing (`make fuzz`) tries inputs that have no number.

This page is written by `python -m scripts.gen_inputs`; a test compares.
"""
_KINDS: Final = {Kind.CLUSTER: "cluster", Kind.CORE: "core", Kind.DOOR: "socket"}


def page() -> str:
    """The page."""
    rows, cases = _rows(), _cases()
    sections = [
        "\n".join([f"## Input {number}", "", *map(_of_row, rows[number]), *map(_of_case, cases[number])]) + "\n"
        for number in sorted(rows.keys() | cases.keys())
    ]
    return "\n".join([_HEAD, *sections])


def _rows() -> dict[int, list[Row]]:
    found: dict[int, list[Row]] = defaultdict(list)
    for kind in Kind:
        for row in rows_of(kind):
            for number in row.numbers:
                found[number].append(row)
    return found


def _cases() -> dict[int, list[Case]]:
    found: dict[int, list[Case]] = defaultdict(list)
    for name, case in HOSTILE.items():
        for number in _numbers(name):
            found[number].append(case)
    return found


def _numbers(name: str) -> Iterator[int]:
    """Of "input 8, 12", and those of the list within "input 1-7"; none of what has no number."""
    match = re.fullmatch(r"input ([\d, -]+)", name)
    for first, last in re.findall(r"(\d+)(?:-(\d+))?", match[1]) if match else []:
        yield from (n for n in NUMBERS if int(first) <= n <= int(last)) if last else (int(first),)


def _of_row(row: Row) -> str:
    file = row.attempt.__module__.replace(".", "/")
    return f"- {row.says} ({_KINDS[row.kind]}: `{file}.py`, `{row.attempt.__name__}`)"


def _of_case(case: Case) -> str:
    return f"- {case.title} ({', '.join(f'`tests/{test}`' for test in case.tests)})"


def main(arguments: list[str] | None = None) -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser(description="Write the page of bad inputs.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when the page is out of date")
    if parser.parse_args(arguments).check:
        return 0 if PAGE.exists() and PAGE.read_text(encoding="utf-8") == page() else 1
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
