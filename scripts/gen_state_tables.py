"""Draw the tables of legal transitions into the docs, or check that they are what the code says.

    python -m scripts.gen_state_tables [--check]

A page gets a table where it has these two lines; what stands between them is replaced:

    <!-- states: transaction-number -->
    <!-- end of states -->

A page of docs or docs/internals gets a picture of the same table where it has these:

    <!-- picture: transaction-number -->
    <!-- end of picture -->

Rule 1: a table in the code is the only place of a transition. A page shows it and never adds one.
Rule 2: every table of `TABLES` is on some page, and every table that `found` sees in the code is in `TABLES`.
`--check` writes nothing and exits 1 when a page is not what would be written, or a rule is broken.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
PAGES: Final = ROOT / "docs" / "internals"
SOURCES: Final = ("sdk", "spark", "services")

_MARKED: Final = re.compile(r"(<!-- states: ([\w-]+) -->\n).*?(<!-- end of states -->\n)", re.DOTALL)
_PICTURE: Final = re.compile(r"(<!-- picture: ([\w-]+) -->\n).*?(<!-- end of picture -->\n)", re.DOTALL)
_NAME_OF_A_TABLE: Final = re.compile(r"_?([A-Z]+_)?(TRANSITIONS|VALID_PREVIOUS|VALID_NEXT)$")

Step = tuple[Enum, Enum, str]
"""From, to, and who takes the step ("" = the code does not say)."""


class StateTableError(Exception):
    """Pages and code do not fit together; the message says what to do."""


@dataclass(frozen=True)
class Table:
    """One table in the code: `module` and `attribute` name it, `steps` reads it."""

    name: str
    module: str
    attribute: str
    steps: Callable[[Mapping[Any, Any]], Iterator[Step]]

    def drawn(self) -> str:
        """The table as Markdown, its rows in the order of the states' enum."""
        states, steps = self._sorted_steps()
        rows = _rows_with_triggers(steps) if any(who for _, _, who in steps) else _rows(states, steps)
        return "\n".join(["", f"Drawn from `{self.module}.{self.attribute}`.", "", *rows, "", ""])

    def pictured(self) -> str:
        """The table as a diagram in text: a column for each state, and a line with an arrow for each step."""
        states, steps = self._sorted_steps()
        names = [state.name for state in states]
        columns = [1 + sum(len(before) + 3 for before in names[:at]) + len(name) // 2 for at, name in enumerate(names)]
        lines = [" " + "   ".join(names), _lifelines(columns)]
        for old, new, who in steps:
            first, *more = who.split("; ")
            arrow = _arrow(columns, columns[states.index(old)], columns[states.index(new)])
            lines += [f"{arrow}   {first}", *(f"{_lifelines(columns)}   or {trigger}" for trigger in more)]
        diagram = ["```text", *(line.rstrip() for line in lines), "```"]
        return "\n".join(["", *diagram, "", f"Drawn from `{self.module}.{self.attribute}`.", "", ""])

    def _sorted_steps(self) -> tuple[list[Enum], list[Step]]:
        steps = list(self.steps(getattr(importlib.import_module(self.module), self.attribute)))
        states = list(type(steps[0][0]))
        return states, sorted(steps, key=lambda step: (states.index(step[0]), states.index(step[1])))


def by_pair(table: Mapping[tuple[Enum, Enum], Iterable[Enum]]) -> Iterator[Step]:
    """Of a table (from, to) -> who takes the step."""
    for (old, new), triggers in table.items():
        yield old, new, "; ".join(str(trigger.value) for trigger in triggers)


def by_previous(table: Mapping[Enum, Iterable[Enum]]) -> Iterator[Step]:
    """Of a table to -> all from."""
    for new, olds in table.items():
        yield from ((old, new, "") for old in olds)


def by_next(table: Mapping[Enum, Iterable[Enum]]) -> Iterator[Step]:
    """Of a table from -> all to."""
    for old, news in table.items():
        yield from ((old, new, "") for new in news)


def by_incident(table: Mapping[Enum, Mapping[Enum, Enum]]) -> Iterator[Step]:
    """Of a table from -> (who takes the step -> to)."""
    for old, moves in table.items():
        incidents: dict[Enum, list[str]] = {}
        for incident, new in moves.items():
            incidents.setdefault(new, []).append(str(incident.value))
        yield from ((old, new, "; ".join(who)) for new, who in incidents.items())


TABLES: Final = (
    Table("transaction-number", "oncelog_coordinator.core.transactions.states", "TRANSITIONS", by_pair),
    Table("group-member", "oncelog_coordinator.core.groups.states", "TRANSITIONS", by_pair),
    Table("group-member-client", "oncelog.core.consume.member_states", "MEMBER_TRANSITIONS", by_incident),
    Table("channel-message", "oncelog.core.work.message_states", "MESSAGE_TRANSITIONS", by_incident),
    Table("producer-transaction", "oncelog.core.produce.transaction", "_VALID_PREVIOUS", by_previous),
    Table(
        "replication-session",
        "oncelog_partition_leader.core.replication.replication_session",
        "TRANSITIONS",
        by_pair,
    ),
    Table("suspect", "oncelog_partition_leader.core.cluster.suspects", "TRANSITIONS", by_pair),
    Table("batch-attempt", "oncelog.core.produce.attempt", "ATTEMPT_TRANSITIONS", by_incident),
    Table("channel-record", "oncelog_partition_leader.core.channels.record_states", "TRANSITIONS", by_pair),
)


def _lifelines(columns: list[int]) -> str:
    return "".join("|" if at in columns else " " for at in range(columns[-1] + 1))


def _arrow(columns: list[int], start: int, end: int) -> str:
    """A line of the picture with one arrow; a step that leads back to its own state is an `@`."""
    line = list(_lifelines(columns))
    if start == end:
        line[start] = "@"
    elif start < end:
        line[start + 1 : end] = "-" * (end - start - 2) + ">"
    else:
        line[end + 1 : start] = "<" + "-" * (start - end - 2)
    return "".join(line)


def _rows_with_triggers(steps: list[Step]) -> Iterator[str]:
    yield from ("| from | to | taken by |", "|---|---|---|")
    yield from (f"| {old.name} | {new.name} | {who} |" for old, new, who in steps)


def _rows(states: list[Enum], steps: list[Step]) -> Iterator[str]:
    yield from ("| from | to |", "|---|---|")
    for state in states:
        news = ", ".join(new.name for old, new, _ in steps if old is state)
        yield f"| {state.name} | {news or 'nothing: it is final'} |"


# ---------------------------------------------------------------- pages


def found() -> set[tuple[str, str]]:
    """(module, attribute) of everything in the sources that is named like a table of transitions."""
    tables: set[tuple[str, str]] = set()
    for folder in SOURCES:
        for path in sorted((ROOT / folder).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            if "_pb2" in path.name or not re.search(r"TRANSITIONS|VALID_PREVIOUS|VALID_NEXT", text):
                continue
            tables |= {(_module_of(path), name) for name in _assigned(ast.parse(text)) if _NAME_OF_A_TABLE.match(name)}
    return tables


def _module_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    package = next(
        place for place, part in enumerate(parts) if (ROOT.joinpath(*parts[: place + 1]) / "__init__.py").exists()
    )
    return ".".join(parts[package:])


def _assigned(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        targets = (
            [node.target] if isinstance(node, ast.AnnAssign) else node.targets if isinstance(node, ast.Assign) else []
        )
        yield from (target.id for target in targets if isinstance(target, ast.Name))


def redrawn(text: str) -> str:
    """A page with its tables as the code has them. Raises `StateTableError` for a name that no table has."""
    tables = {table.name: table for table in TABLES}

    def named(match: re.Match[str]) -> Table:
        if match[2] not in tables:
            raise StateTableError(f"no table {match[2]!r}: add it to TABLES in scripts/gen_state_tables.py")
        return tables[match[2]]

    text = _MARKED.sub(lambda match: match[1] + named(match).drawn() + match[3], text)
    return _PICTURE.sub(lambda match: match[1] + named(match).pictured() + match[3], text)


def pages() -> dict[Path, str]:
    """Each page that has a table or a picture, as it should be. Raises `StateTableError` when a rule is broken."""
    texts = {
        path: path.read_text(encoding="utf-8") for path in sorted([*PAGES.glob("*.md"), *PAGES.parent.glob("*.md")])
    }
    shown = {match[2] for text in texts.values() for match in _MARKED.finditer(text)}
    if missing := sorted({table.name for table in TABLES} - shown):
        raise StateTableError(f"no page of docs/internals shows {', '.join(missing)}: write its two marks into one")
    if unknown := sorted(found() - {(table.module, table.attribute) for table in TABLES}):
        raise StateTableError(f"not in TABLES of scripts/gen_state_tables.py: {unknown}")
    return {path: redrawn(text) for path, text in texts.items() if _MARKED.search(text) or _PICTURE.search(text)}


def main(arguments: list[str] | None = None) -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser(description="Draw the tables of states into the docs.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when a page is out of date")
    is_check = parser.parse_args(arguments).check
    try:
        wanted = pages()
    except StateTableError as error:
        print(error, file=sys.stderr)
        return 1
    old = [path for path, text in wanted.items() if path.read_text(encoding="utf-8") != text]
    for path in old:
        if is_check:
            print(
                f"{path.relative_to(PAGES.parents[1])} is out of date: run python -m scripts.gen_state_tables",
                file=sys.stderr,
            )
        else:
            path.write_text(wanted[path], encoding="utf-8")
    return 1 if is_check and old else 0


if __name__ == "__main__":
    sys.exit(main())
