"""`oncelog explain ERROR`: what an error means and what to do, from the table of `oncelog.errors` itself."""

from __future__ import annotations

import argparse
import difflib
import re
from typing import Final

from oncelog.errors import BY_CODE, ConfigError, OncelogError
from oncelog_cli.support.advice import what_to_do
from oncelog_cli.terminal.output import Printer
from oncelog_cli.terminal.parsing import Commands

COLUMNS: Final = ("number", "name", "class", "action", "retriable", "requires_abort", "fatal")


def add_parser(commands: Commands) -> None:
    """This verb."""
    explain = commands.verb(
        "explain",
        _run,
        "say what an error means and what to do",
        ("oncelog explain TXN_ABORTED", "oncelog explain ProducerFencedError", "oncelog explain 90",
         "oncelog explain --list"),
    )  # fmt: skip
    explain.add_argument("error", nargs="?", help="its name, its class or its number")
    explain.add_argument("--list", action="store_true", help="all errors")


def _run(args: argparse.Namespace, printer: Printer) -> int:
    """Exit code 1: there is no such error."""
    if args.list or args.error is None:
        printer.rows([_row(cls) for _, cls in sorted(BY_CODE.items())], COLUMNS, ("meaning",))
        return 0
    row = _row(find(args.error))
    answers = {name: "yes" if row[name] else "no" for name in ("retriable", "requires_abort", "fatal")}
    printer.value(
        row,
        f"{row['name']} ({row['number']}, {row['class']})\n"
        f"  meaning         {row['meaning']}\n"
        f"  retriable       {answers['retriable']}\n"
        f"  requires abort  {answers['requires_abort']}\n"
        f"  fatal           {answers['fatal']}\n"
        f"  what to do      {row['what_to_do']}",
    )
    return 0


def find(word: str) -> type[OncelogError]:
    """By name (TXN_ABORTED, ERROR_CODE_TXN_ABORTED), class (TxnAbortedError) or number, in any case.

    Raises `ConfigError` with the nearest.
    """
    if re.fullmatch(r"-?[0-9]{1,9}", word):
        if int(word) in BY_CODE:
            return BY_CODE[int(word)]
        raise ConfigError(f"no error has the number {word}; see oncelog explain --list")
    names: dict[str, type[OncelogError]] = {}
    for cls in BY_CODE.values():
        names[_plain(cls.code.name)] = names[_plain(cls.__name__)] = names[_plain(cls.__name__[: -len("Error")])] = cls
    plain = _plain(word).removeprefix("errorcode")  # as the wire contract and grpcurl name it
    found = names.get(plain)
    if found is not None:
        return found
    near = difflib.get_close_matches(plain, names, 1)
    hint = f"did you mean {names[near[0]].code.name}?" if near else "see oncelog explain --list"
    raise ConfigError(f"there is no error {word!r}; {hint}")


def _plain(word: str) -> str:
    return word.replace("_", "").replace("-", "").lower()


def _row(cls: type[OncelogError]) -> dict[str, object]:
    error = cls()
    return {
        "number": int(cls.code),
        "name": cls.code.name,
        "class": cls.__name__,
        "action": cls.action.name,
        "retriable": error.retriable,
        "requires_abort": error.requires_abort,
        "fatal": error.fatal,
        "meaning": " ".join((cls.__doc__ or "").split()),
        "what_to_do": what_to_do(cls.code, cls.action),
    }
