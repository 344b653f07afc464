"""Planted bugs: each file takes one rule of the holes out of the production code, while its context manager is open.

Rule 1: a plant changes one rule, by replacing one or two functions of production code; the rest runs as it is.
Rule 2: a plant that no longer finds what it replaces fails loudly: it would be a test of nothing.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Plant:
    """One rule taken out. `scripts` are the conformance scripts that must fail then, as `module::test`."""

    hole: int
    rule: str
    scripts: tuple[str, ...]
    planted: Callable[[], AbstractContextManager[None]]


def plant(hole: int, rule: str, *scripts: str) -> Callable[[Callable[[], AbstractContextManager[None]]], Plant]:
    """Makes a `Plant` out of a context manager."""
    return lambda planted: Plant(hole, rule, scripts, planted)


@contextmanager
def replaced(owner: Any, name: str, make: Callable[[Any], Any]) -> Iterator[None]:
    """`owner.name` is `make(original)` inside the block. Raises `AttributeError` when there is no such thing."""
    original = owner.__dict__[name] if isinstance(owner, type) and name in owner.__dict__ else getattr(owner, name)
    setattr(owner, name, make(original))
    try:
        yield
    finally:
        setattr(owner, name, original)


def all_plants() -> list[Plant]:
    """Every plant of this folder, by the hole's number."""
    names = sorted(path.stem for path in Path(__file__).parent.glob("hole_*.py"))
    modules = [importlib.import_module(f"{__name__}.{name}") for name in names]
    return [module.PLANT for module in modules]
