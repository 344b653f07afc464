"""The numbers of the list, and the rows that show each of them.

Rule 1: every number has a row, and a row says its input in plain words.
Rule 2: where a row runs is its kind. CLUSTER: through the doors of clients of a whole cluster, simulated and real. CORE: a core
        alone. DOOR: a real socket, since the input is about the way and not about a request.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

NUMBERS: Final = (
    *(
        1,
        2,
        3,
        5,
        6,
        7,
        9,
        10,
        11,
        13,
        14,
        15,
        16,
        18,
        19,
        20,
        21,
        23,
        24,
        25,
        26,
        27,
        28,
        30,
        31,
        33,
        34,
        35,
        36,
        37,
        38,
    ),
    *(
        40,
        41,
        42,
        43,
        44,
        46,
        47,
        49,
        50,
        51,
        52,
        54,
        55,
        56,
        57,
        58,
        60,
        62,
        63,
        64,
        65,
        67,
        68,
        69,
        70,
        72,
        73,
        74,
        76,
    ),
    *(77, 78, 80, 81, 82, 83),
)
"""Numbers that are missing here are halves of their neighbours."""


class Kind(enum.Enum):
    """Where a row runs."""

    CLUSTER = "cluster"
    CORE = "core"
    DOOR = "door"


@dataclass(frozen=True, slots=True)
class Row:
    """One input. `attempt` of a CLUSTER row gets a script's hands and a partition, and returns what it wrote honestly."""

    numbers: tuple[int, ...]
    says: str
    kind: Kind
    attempt: Callable[..., Any]

    @property
    def name(self) -> str:
        """As a test's id."""
        return f"{'-'.join(map(str, self.numbers))} {self.says}"


ROWS: Final[list[Row]] = []


def row(*numbers: int, says: str, kind: Kind = Kind.CLUSTER) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Enters a function as a row."""
    assert numbers
    assert set(numbers) <= set(NUMBERS), f"not on the list: {sorted(set(numbers) - set(NUMBERS))}"

    def enter(attempt: Callable[..., Any]) -> Callable[..., Any]:
        assert all(says != known.says for known in ROWS), f"two rows say {says!r}"
        ROWS.append(Row(numbers, says, kind, attempt))
        return attempt

    return enter


def rows_of(kind: Kind) -> list[Row]:
    """All rows of a kind, in the order of their first number."""
    from tests.hostile_inputs import admin, batches, cores, doors, reads, sessions  # noqa: F401  (they enter their rows)

    return sorted((found for found in ROWS if found.kind is kind), key=lambda found: (found.numbers, found.says))
