"""No function of ours takes a train of parameters: what belongs together is one object, given once.

Rule: at most 8 parameters, without `self` and `cls`; `*args` and `**options` count as one each. Users' calls are no exception.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
FOLDERS: Final = ("sdk", "spark", "services", "scripts", "bench", "demo")
GENERATED: Final = ("_pb2.py", "_pb2_grpc.py")
MOST: Final = 8


def parameters_of(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    given = node.args
    names = [item.arg for item in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    return len([name for name in names if name not in ("self", "cls")]) + bool(given.vararg) + bool(given.kwarg)


def functions(node: ast.AST, owner: str = "") -> Iterator[tuple[str, int]]:
    """Each function with its number of parameters, methods by the name of their class."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{owner}{child.name}", parameters_of(child)
        yield from functions(child, f"{child.name}." if isinstance(child, ast.ClassDef) else owner)


def too_many() -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for path in sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")):
        if not path.name.endswith(GENERATED):
            long = {name: count for name, count in functions(ast.parse(path.read_text())) if count > MOST}
            found |= {path.relative_to(ROOT).as_posix(): long} if long else {}
    return found


def test_no_function_takes_a_train_of_parameters() -> None:
    assert too_many() == {}


def test_a_train_is_counted() -> None:
    text = "class A:\n    def f(self, a, b, /, c, *d, e=1, **g): ...\nasync def h(): ..."
    assert dict(functions(ast.parse(text))) == {"A.f": 6, "h": 0}
