"""Writes docs/cli.md from the parsers of the command line; `--check` says whether it is what would be written.

Rule: the page says what `--help` says, so it is never wrong for longer than a test run.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from typing import Final

from oncelog_cli.main import build_parser
from oncelog_cli.terminal.parsing import common_flags
from scripts.written import ROOT, write_or_check

PAGE: Final = ROOT / "docs" / "cli.md"
_HEAD: Final = """# The command line

Made from the parsers by `python -m scripts.gen_cli_docs`; a test compares. Every verb says the same with `--help`.

- Every verb has the common flags below; those that speak to the processes of `oncelog up` and to no broker (up, down,
  status, kill, pause, resume, start) have `--format` of them.
- `--format text|wide` is for people, `json` and `yaml` are for programs; all of them come from the same rows, and
  programs get the `wide` columns too.
- Numbers are JSON numbers; those of 2^53 and above are text, because JavaScript and jq would round them (only the ids
  under which coordinators write their own logs are that large). Times are milliseconds under names that end in `_ms`.
- Spans of time are typed as `500ms`, `5s`, `1h30m`, `7d`, sizes as `64KiB`, `10M`, `1GiB` (1024 each); a flag or an option
  of a topic that has a unit in its name (`--timeout-ms`, `retention_ms`, `segment_bytes`) takes a plain number in that
  unit, too.
- Exit codes: 0 done, 1 a named error, or an unhealthy or not existing thing, 2 wrong usage, 130 interrupted.
- With several names each has its own outcome; one that fails does not keep the others from it, and the exit code is 1.
"""


def verbs(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Every parser that runs something, in the order of `--help`."""
    inner = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if not inner and parser.get_default("run"):
        yield parser
    for action in inner:
        for child in dict.fromkeys(action.choices.values()):
            yield from verbs(child)


def _flags(actions: list[argparse.Action], known: frozenset[str]) -> list[str]:
    rows = []
    for action in actions:
        if action.dest == "help" or known & set(action.option_strings):
            continue
        name = ", ".join(action.option_strings) or str(action.metavar or action.dest)
        if action.option_strings and action.nargs != 0:
            choices = "|".join(map(str, action.choices)) if action.choices else None
            name += f" {action.metavar or choices or action.dest.upper()}"
        about = (action.help or "").replace("%%", "%").replace("|", "\\|")
        cell = name.replace("|", "\\|")
        rows.append(f"| `{cell}` | {about} |")
    return ["| | |", "|---|---|", *rows] if rows else []


def page() -> str:
    """The whole page."""
    common = common_flags()
    known = frozenset(flag for action in common._actions for flag in action.option_strings)
    lines = [_HEAD, "## Common flags", "", *_flags(common._actions, frozenset()), ""]
    for verb in verbs(build_parser()):
        lines += [f"## {verb.prog}", "", (verb.description or "").strip(), ""]
        lines += [*_flags(verb._actions, known), ""]
        examples = [line[2:] for line in (verb.epilog or "").splitlines()[1:]]
        if examples:
            lines += ["```sh", *examples, "```", ""]
    return "\n".join(lines).rstrip() + "\n"


def main(arguments: list[str] | None = None) -> int:
    """Writes the page, or says that it is not what it should be. Returns the exit code."""
    return write_or_check({PAGE: page()}, "docs/cli.md", "python -m scripts.gen_cli_docs", arguments)


if __name__ == "__main__":
    sys.exit(main())
