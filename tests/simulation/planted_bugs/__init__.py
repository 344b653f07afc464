"""Planted bugs: each takes one rule out of the production code, while its context manager is open.

    hole_NN.py    the holes of the protocol, one file each
    rules_*.py    rules of leader, replication, elections, storage, coordinator and client, by area
    rules_pairs   guards that stand one behind the other, taken out together

Rule 1: a plant changes one rule: it replaces a function of production code, or edits a line of one; the rest runs as it is.
Rule 2: a plant that no longer finds what it changes fails loudly: it would be a test of nothing.
"""

from __future__ import annotations

import importlib
import inspect
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Planted = Callable[[], AbstractContextManager[None]]


@dataclass(frozen=True)
class Plant:
    """One rule taken out. `scripts` are tests that must fail then, as `path::test` below `tests/`."""

    name: str
    rule: str
    scripts: tuple[str, ...]
    planted: Planted
    kind: str = "rule"
    """hole, rule or pair."""


def plant(hole: int, rule: str, *scripts: str) -> Callable[[Planted], Plant]:
    """Makes a `Plant` of a hole out of a context manager. Its scripts are `folder/module::test` of the conformance tests."""
    paths = tuple(f"conformance/{module}.py::{test}" for module, _, test in (s.partition("::") for s in scripts))
    return lambda planted: Plant(f"hole-{hole:02}", rule, paths, planted, "hole")


def without(name: str, rule: str, change: Planted | Sequence[Planted], *scripts: str, kind: str = "rule") -> Plant:
    """A `Plant` of a rule: `change` takes it out."""
    changes = change if isinstance(change, Sequence) else [change]

    @contextmanager
    def planted() -> Iterator[None]:
        with ExitStack() as stack:
            for one in changes:
                stack.enter_context(one())
            yield

    return Plant(name, rule, scripts, planted, kind)


def unguarded(name: str, rule: str, *changes: Planted, scripts: Sequence[str] = ()) -> Plant:
    """A `Plant` of a rule and of the guard that stands behind it. `scripts` must fail without both."""
    return without(name, rule, changes, *scripts, kind="pair")


@contextmanager
def replaced(owner: Any, name: str, make: Callable[[Any], Any]) -> Iterator[None]:
    """`owner.name` is `make(original)` inside the block. Raises `AttributeError` when there is no such thing."""
    original = owner.__dict__[name] if isinstance(owner, type) and name in owner.__dict__ else getattr(owner, name)
    setattr(owner, name, make(original))
    try:
        yield
    finally:
        setattr(owner, name, original)


def edit(owner: Any, name: str, *lines: tuple[str, str]) -> Planted:
    """`owner.name` with pieces of its source replaced: (what stands there exactly once, what stands there instead).

    Raises `LookupError` when a piece is not there, or there more than once: the rule has moved, the plant must follow.
    """

    def make(original: Any) -> Any:
        function = inspect.unwrap(getattr(original, "fget", None) or getattr(original, "__func__", original))
        source = textwrap.dedent(inspect.getsource(function))
        for old, new in lines:
            if source.count(old) != 1:
                raise LookupError(
                    f"{function.__qualname__} has {source.count(old)} times what is to be changed: {old!r}"
                )
            source = source.replace(old, new)
        made: dict[str, Any] = {}
        code = compile(f"from __future__ import annotations\n{source}", f"<{function.__qualname__}, planted>", "exec")
        exec(code, function.__globals__, made)
        return made[function.__name__]

    return lambda: replaced(owner, name, make)


def all_plants() -> list[Plant]:
    """Every plant of this folder: the holes by number, then the rules in the order of their files."""
    names = sorted(path.stem for path in Path(__file__).parent.glob("*.py") if path.stem != "__init__")
    found: list[Plant] = []
    for name in names:
        module = importlib.import_module(f"{__name__}.{name}")
        found.extend([module.PLANT] if name.startswith("hole_") else module.PLANTS)
    return found


def plant_named(name: str) -> Plant:
    """One plant. Raises `KeyError`."""
    return {found.name: found for found in all_plants()}[name]
