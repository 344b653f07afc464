"""A history that outlives its process: every line is in the kernel's hands before the next thing is done.

Rule 1: an operation that was begun and never completed, because its process was killed, is INFO, with what it was to write.
Rule 2: moments are the machine's monotonic clock, so histories of many processes of one machine have one order.
Rule 3: a value is given out once in a torture: each process life has a number of its own, and its values lie above that.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from tests.e2e.kubernetes.recording import pack_operation, unpack_operation
from tests.simulation.history import History, Operation, Status, Value

_VALUES_PER_LIFE: Final = 10_000_000


class JournaledHistory(History):
    """`life` numbers the processes of a torture."""

    def __init__(self, path: Path, life: int) -> None:
        super().__init__()
        self._next_value = life * _VALUES_PER_LIFE
        self._file = open(path, "a", buffering=1)  # noqa: SIM115  (as long as the process)

    def moment(self) -> int:
        """Nanoseconds of the machine, later than all before."""
        self._moments = max(self._moments + 1, time.monotonic_ns())
        return self._moments

    def invoke(self, process: str, kind: str, now_ms: int) -> Operation:
        """Noted at once."""
        operation = super().invoke(process, kind, now_ms)
        self._note(operation)
        return operation

    def will_write(self, operation: Operation) -> None:
        """Noted before it is sent."""
        self._note(operation)

    def complete(self, operation: Operation, status: Status, now_ms: int, cause: str = "") -> None:
        """Noted; nothing about it comes later."""
        super().complete(operation, status, now_ms, cause)
        self._note(operation)
        self.operations[operation.index] = _FORGOTTEN  # the journal has it

    def note_error(self, at_ms: int, process: str, kind: str, name: str, message: str) -> None:
        """An error that a caller saw."""
        self._line({"at_ms": at_ms, "process": process, "kind": kind, "name": name, "message": message[:300]})

    def _note(self, operation: Operation) -> None:
        self._line([operation.index, pack_operation(operation)])

    def _line(self, document: Any) -> None:
        self._file.write(json.dumps(document, separators=(",", ":")) + "\n")


_FORGOTTEN: Final = Operation(-1, "", "", 0)


def read_journals(paths: Iterable[Path]) -> tuple[History, list[dict[str, Any]]]:
    """One history of all processes, in the order in which operations began, and the errors that callers saw."""
    found: list[Operation] = []
    errors: list[dict[str, Any]] = []
    for path in paths:
        rows: dict[int, list[Any]] = {}
        for document in _documents(path):
            if isinstance(document, dict):
                errors.append(document)
            else:
                rows[document[0]] = document[1]
        found += [unpack_operation(row, index) for index, row in rows.items()]
    history = History()
    history.operations = sorted(found, key=lambda operation: operation.began)
    for index, operation in enumerate(history.operations):
        operation.index = index
    return history, errors


def _documents(path: Path) -> Iterable[Any]:
    for line in path.read_text().splitlines():
        try:
            yield json.loads(line)
        except ValueError:
            return  # the last one: its process was killed while it wrote


def values_of(history: History) -> set[Value]:
    """Everything that anybody tried to write."""
    return {value for operation in history.operations for _, value in operation.writes}
