"""This source tree with tracing compiled out: what `bench.tracing` compares tracing switched off with.

Rule 1: a question whether there is a tracer, a span or a trace becomes its answer, "there is none", and what hangs on it
        disappears; the context of a call is read as empty. Nothing else of the code changes.
Rule 2: a tree in which nothing was found to compile out is an error: it would be compared with itself.
Rule 3: observers stay, and with them the calls of the ones that do nothing: `python -m bench.tracing --before TREE` compares
        with a tree that has none.
"""

from __future__ import annotations

import ast
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Final

_ABSENT: Final = frozenset({"tracer", "_tracer", "span", "trace", "traces", "_traces"})
_CONTEXT: Final = "TRACEPARENT"
_AT_LEAST: Final = 15


class CompileOut(ast.NodeTransformer):
    """Counts in `found` what it has decided."""

    def __init__(self) -> None:
        self.found = 0

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        """`tracer is None` -> True."""
        self.generic_visit(node)
        asks = len(node.ops) == 1 and isinstance(node.ops[0], ast.Is | ast.IsNot)
        right = node.comparators[0]
        if not asks or not isinstance(right, ast.Constant) or right.value is not None or not _is_absent(node.left):
            return node
        self.found += 1
        return ast.copy_location(ast.Constant(isinstance(node.ops[0], ast.Is)), node)

    def visit_Call(self, node: ast.Call) -> ast.expr:
        """`TRACEPARENT.get()` -> ""."""
        self.generic_visit(node)
        function = node.func
        if isinstance(function, ast.Attribute) and function.attr == "get" and isinstance(function.value, ast.Name):
            if function.value.id == _CONTEXT:
                self.found += 1
                return ast.copy_location(ast.Constant(""), node)
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        """`False and x` -> False, `True and x` -> x."""
        self.generic_visit(node)
        decides = isinstance(node.op, ast.Or)
        kept: list[ast.expr] = []
        for value in node.values:
            if isinstance(value, ast.Constant) and value.value is decides:
                return value if not kept else node
            if not (isinstance(value, ast.Constant) and value.value is (not decides)):
                kept.append(value)
        if not kept:
            return node.values[0]
        node.values = kept
        return kept[0] if len(kept) == 1 else node

    def visit_If(self, node: ast.If) -> ast.AST | list[ast.stmt]:
        """Only the branch that is taken."""
        self.generic_visit(node)
        if not isinstance(node.test, ast.Constant) or not isinstance(node.test.value, bool):
            return node
        return (node.body if node.test.value else node.orelse) or ast.copy_location(ast.Pass(), node)

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        """As above."""
        self.generic_visit(node)
        if not isinstance(node.test, ast.Constant) or not isinstance(node.test.value, bool):
            return node
        return node.body if node.test.value else node.orelse


def _is_absent(node: ast.expr) -> bool:
    name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
    return name in _ABSENT


def compiled_out(source: str) -> tuple[str, int]:
    """A module without tracing, and how often it asked for it. One that never asks stays as it is."""
    transformer = CompileOut()
    tree = transformer.visit(ast.parse(source))
    if not transformer.found:
        return source, 0
    return ast.unparse(ast.fix_missing_locations(tree)), transformer.found


def write_untraced(tree: Path, packages: Iterable[str], target: Path) -> int:
    """Copies the packages of a tree without tracing; how many questions were decided. Raises `RuntimeError` by rule 2."""
    found = 0
    for package in (*packages, "bench"):
        shutil.copytree(tree / package, target / package, ignore=shutil.ignore_patterns("__pycache__", "out"))
    for path in target.rglob("*.py"):
        if path.name.endswith(("_pb2.py", "_pb2_grpc.py")) or (target / "bench") in path.parents:
            continue
        text, decided = compiled_out(path.read_text())
        if decided:
            path.write_text(text)
        found += decided
    if found < _AT_LEAST:
        raise RuntimeError(f"only {found} places ask for tracing: their names have changed, see bench/untraced.py")
    return found
