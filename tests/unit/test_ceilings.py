"""What spreads by itself has a ceiling: places without a type, and lines in other files that serve traces and metrics.

Rule 1: `Any` is for what has no type: foreign libraries, JSON, and records of any key and value. A generic class needs no
        brackets to take every type (`oncelog/value_types.py`).
Rule 2: a shell tells an observer what happened; spans and metrics are made in files of their own, which say so in their names.
        Lines that hand a tracer or the metrics on, or use them in place, count wherever else they stand. The command line only
        passes addresses of metrics on, and simulation has traces of another kind.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from typing import Final

from tests.unit.test_tidy import texts

PRODUCTION: Final = ("sdk/", "services/", "spark/")
ANY_MOST: Final = 98
INLINE_MOST: Final = 150
OBSERVES: Final = re.compile(r"/trace/|/observability/|/observe/|(trac|metric|observer|collector|otel|otlp)[^/]*\.py$")
ELSEWHERE: Final = ("sdk/oncelog_cli/", "services/runtime/oncelog_runtime/sim/")
INLINE: Final = re.compile(r"_?(tracer|tracing|traces|traceparent|span|span_names|metrics|TRACEPARENT)")


def production() -> Iterator[tuple[str, str]]:
    """Name and text of each hand-written file of the packages."""
    for file, text in texts(include_generated=False):
        if file.endswith(".py") and file.startswith(PRODUCTION):
            yield file, text


def named(text: str, names: re.Pattern[str]) -> list[int]:
    """The lines of code with such a name, one for each place; imports, docstrings and comments do not count."""
    imports = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Import | ast.ImportFrom)]
    left_out = {line for node in imports for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)}
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    places = (token.start[0] for token in tokens if token.type == tokenize.NAME and names.fullmatch(token.string))
    return [line for line in places if line not in left_out]


def test_places_without_a_type_are_few() -> None:
    found = {file: len(named(text, re.compile("Any"))) for file, text in production()}
    assert sum(found.values()) <= ANY_MOST, sorted(found.items(), key=lambda item: -item[1])[:10]


def test_traces_and_metrics_stay_in_their_files() -> None:
    found = {
        file: len(set(named(text, INLINE)))
        for file, text in production()
        if not OBSERVES.search(file) and not file.startswith(ELSEWHERE)
    }
    assert sum(found.values()) <= INLINE_MOST, sorted(found.items(), key=lambda item: -item[1])[:10]


def test_each_place_in_code_is_counted() -> None:
    text = '"""Any."""\nfrom typing import Any\ndef f(a: Any) -> dict[str, Any]: ...  # Any\n'
    assert named(text, re.compile("Any")) == [3, 3]
    assert named("from a import metrics\nself._metrics.x(span)\n", INLINE) == [2, 2]
