"""What a parser promises about bytes from outside, and where its inputs begin.

Rule 1: `run` raises only what is documented (`allowed`), and asserts what must hold of what was parsed: a round trip, a bound.
Rule 2: `run` depends on its input alone: no clock, no randomness, no state from one input to the next.
Rule 3: seeds are made by the real encoders, so they follow the format when it changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from random import Random
from typing import Final


@dataclass(frozen=True, slots=True)
class Target:
    """One parser. `mend` makes checksums and lengths right again after a mutation, so that what lies behind them is met."""

    name: str
    run: Callable[[bytes], object]
    allowed: tuple[type[BaseException], ...]
    seeds: Callable[[], Iterable[bytes]]
    mend: Callable[[bytes, Random], bytes] | None = None
    max_bytes: int = 16_384
    limit_ms: int = 2_000
    """Of CPU, for one input."""
    limit_mib: int = 256
    """By which one input may raise the memory of the process."""
    words: tuple[bytes, ...] = field(default=())
    """Pieces that mean something in this format."""


TARGETS: Final[dict[str, Target]] = {}


def add(target: Target) -> Target:
    """Enters a target."""
    assert target.name not in TARGETS, f"two targets are called {target.name}"
    TARGETS[target.name] = target
    return target


def all_targets() -> dict[str, Target]:
    """Every target, by name."""
    from tests.fuzz.targets import batches, disk, people, replies, store, wire  # noqa: F401  (they enter theirs)

    return dict(sorted(TARGETS.items()))
