"""One action on several names: each has its own outcome, and one failure does not keep the others from it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable

from oncelog.errors import OncelogError
from oncelog_cli.terminal.output import Printer

Outcome = tuple[dict[str, object], str]
"""The result of one action: an object for programs, and a sentence for people."""


async def each(names: Iterable[str], what: str, work: Callable[[str], Awaitable[Outcome]], printer: Printer) -> int:
    """Runs `work(name)` one after the other. Exit code 1 when one of them failed.

    For programs: an array of objects under the names' key `what`; a failed one has `error` and `message`.
    """
    rows: list[dict[str, object]] = []
    failed = False
    for name in names:
        try:
            row, sentence = await work(name)
        except OncelogError as error:
            failed = True
            rows.append({what: name, "error": error.code.name, "message": str(error)})
            printer.complain(f"error {error.code.name}: {error}")
            continue
        rows.append({what: name, **row})
        if printer.is_text:
            printer.text(sentence)
    if not printer.is_text:
        printer.data(rows)
    return 1 if failed else 0
