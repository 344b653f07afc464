"""Write docs/internals/cases.md, and the parts "Shown by" of docs/internals/invariants.md, or check that they are up to date.

    python -m scripts.gen_internals [--check]

Rule 1: a case, its tests and its reason stand in the tables of tests/conformance alone; the page is drawn from them.
Rule 2: what shows a hole is its tests, the planted bugs whose scripts these are, and the rule of the model with its number.
Rule 3: everything else in invariants.md is written by hand, and stays as it is.
`--check` writes nothing and exits 1 when a page is not what would be written.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final

from tests.conformance.table.cases import CASES, HOLES, Case
from tests.conformance.table.cases_kafka import WEAKNESSES
from tests.conformance.table.cases_later import LATER
from tests.conformance.table.stories import STORIES
from tests.simulation.planted_bugs import Plant, all_plants

ROOT: Final = Path(__file__).resolve().parents[1]
FOLDER: Final = ROOT / "docs" / "internals"
MODEL_RULES: Final = ROOT / "tests" / "model" / "rules.py"

PARTS: Final = {
    "A": "Ids and sessions",
    "B": "Idempotent append",
    "C": "Coordinator",
    "D": "Markers, stable offset, read_committed",
    "E": "Durable state",
    "F": "Replication",
    "G": "The log",
    "H": "Groups and offsets",
    "I": "Fetch, share, client",
    "K": "End to end with Spark",
}
"""Letters of the cases, in the order of the page."""

_HEAD: Final = """\
# Conformance cases

Numbers that tests and code give as "case B30". A to K follow the tests of Kafka and of its later repairs; W1 to W24 are
weaknesses of Kafka's protocol. Each case has its tests, or the reason why there are none. Known ways to break the protocol
itself are on [invariants.md](invariants.md), storage faults on [storage.md](storage.md).

This page is written by `python -m scripts.gen_internals` from the tables in `tests/conformance`; change those.
"""
_BLOCK: Final = re.compile(r"(<!-- shown-by: hole (\d+) -->\n).*?(<!-- end -->)", re.DOTALL)
_OF_HOLE: Final = re.compile(r"\((\d+)\)")


def pages() -> dict[Path, str]:
    """Each page as it should be."""
    invariants = FOLDER / "invariants.md"
    return {FOLDER / "cases.md": cases_page(), invariants: with_proofs(invariants.read_text(encoding="utf-8"))}


# ---------------------------------------------------------------- cases


def cases_page() -> str:
    """The page of all cases."""
    known = {**CASES, **LATER}
    parts = [_HEAD]
    for letter, title in PARTS.items():
        parts.append(f"## {letter}: {title[0].lower()}{title[1:]}\n")
        parts += [_section(f"Case {number}", case) for number, case in _of(letter, known)]
    parts.append("## Weaknesses of Kafka's protocol\n")
    parts += [_section(number, case) for number, case in _of("W", WEAKNESSES)]
    return "\n".join(parts)


def _of(letter: str, cases: Mapping[str, Case]) -> list[tuple[str, Case]]:
    found = [(number, case) for number, case in cases.items() if number[0] == letter]
    return sorted(found, key=lambda item: int(item[0][1:]))


def _section(heading: str, case: Case) -> str:
    story = STORIES.get(heading.removeprefix("Case "), "")
    title = _sentence(case.title)
    lines = [f"### {heading}", "", f"**{title}** {story}" if story else f"**{title}**", "", *by_file(case.tests)]
    if case.reason:
        lines += ["", _sentence(case.reason)] if case.tests else [_sentence(case.reason)]
    return "\n".join(lines) + "\n"


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}{'' if text.endswith('.') else '.'}"


def by_file(tests: Iterable[str]) -> list[str]:
    """One line for each file, with its tests."""
    files: dict[str, list[str]] = defaultdict(list)
    for test in tests:
        path, _, name = test.partition("::")
        files[path].append(f"`{name}`")
    return [f"- `tests/{path}`: {', '.join(names)}" for path, names in files.items()]


# ---------------------------------------------------------------- holes


def with_proofs(text: str) -> str:
    """The page of invariants with each block "shown-by" as the tables say."""
    return _BLOCK.sub(lambda found: f"{found[1]}{proof(int(found[2]))}{found[3]}", text)


def proof(hole: int) -> str:
    """What shows that a hole is closed."""
    case = HOLES.get(hole)
    plants = [plant for plant in all_plants() if shows(plant, hole, case)]
    tests = case.tests if case is not None else tuple(test for plant in plants for test in plant.scripts)
    lines = ["*Shown by.*", "", *by_file(tests)]
    lines += [f"- planted bug `{plant.name}`, without the rule: {plant.rule}" for plant in plants]
    lines += [f"- rule of the model: `{name}`" for name in model_rules().get(hole, ())]
    if not plants:
        lines.append("- no planted bug of its own")
    return "\n".join(lines) + "\n\n"


def shows(plant: Plant, hole: int, case: Case | None) -> bool:
    """The plant opens this hole: by its name, or by a test that fails with it."""
    return plant.name == f"hole-{hole:02}" or (case is not None and not set(plant.scripts).isdisjoint(case.tests))


@cache
def model_rules() -> dict[int, tuple[str, ...]]:
    """Rules of the model by the number of the hole that each one closes, as their docstrings say."""
    found: dict[int, tuple[str, ...]] = {}
    for name, doc in _documented_fields(ast.parse(MODEL_RULES.read_text(encoding="utf-8"))):
        if match := _OF_HOLE.match(doc):
            number = int(match[1])
            found[number] = (*found.get(number, ()), name)
    return found


def _documented_fields(tree: ast.Module) -> Iterator[tuple[str, str]]:
    (rules,) = (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Rules")
    for field, doc in zip(rules.body, rules.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            if isinstance(doc, ast.Expr) and isinstance(doc.value, ast.Constant) and isinstance(doc.value.value, str):
                yield field.target.id, doc.value.value


# ---------------------------------------------------------------- files


def main(argv: list[str] | None = None) -> int:
    """Writes or checks; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing, exit 1 when a page is out of date")
    check = parser.parse_args(argv).check
    stale = [path for path, text in pages().items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    for path in stale:
        print(f"{path.relative_to(ROOT)} is out of date" if check else f"wrote {path.relative_to(ROOT)}")
        if not check:
            path.write_text(pages()[path], encoding="utf-8")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
