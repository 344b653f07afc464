"""Tracing compiled out."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from bench.untraced import compiled_out, write_untraced

ROOT = Path(__file__).parents[3]
CODE = """
def serve(self, request, frame):
    if self._host.tracer is not None:
        request.span = start(frame)
    if self._tracer is None or not frame or not is_sampled(TRACEPARENT.get()):
        return plain(frame)
    name = "" if request.span is None else request.span.name
    if frame is None:
        return name
"""


def test_what_asks_for_tracing_disappears() -> None:
    text, found = compiled_out(CODE)
    assert found == 4
    body = ast.parse(text).body[0]
    assert isinstance(body, ast.FunctionDef)
    assert [ast.unparse(line) for line in body.body] == [
        "pass",
        "return plain(frame)",
        "name = ''",
        "if frame is None:\n    return name",
    ]


def test_a_module_that_never_asks_stays_as_it_is() -> None:
    source = "x = 1  # a comment\n"
    assert compiled_out(source) == (source, 0)


def test_this_tree_asks_in_many_places(tmp_path: Path) -> None:
    found = write_untraced(ROOT, ("sdk/oncelog", "services/runtime"), tmp_path)
    assert found >= 15
    observer = (tmp_path / "services/runtime/oncelog_runtime/adapters/grpc/link/link_observer.py").read_text()
    assert "return LinkObserver()" in observer
    assert "LinkTraces(tracer)" not in observer


def test_a_tree_in_which_nothing_asks_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="names have changed"):
        write_untraced(ROOT, ("docs",), tmp_path)
