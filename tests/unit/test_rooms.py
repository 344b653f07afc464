"""The folders show the architecture: none is a heap of files, and no files import each other in a circle.

Rule 1: a folder of the source holds at most 15 files flat, beside its `__init__.py`; generated ones do not count.
Rule 2: an import for type checkers, or within a function, is an import too: who needs another file's type knows that file.
Rule 3: the directions between folders are import contracts in `pyproject.toml` (`make lint`).
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]
PARENTS: Final = (
    "sdk",
    "spark",
    "services/runtime",
    "services/coordinator",
    "services/partition_leader",
    "services/pid_allocator",
)
"""Each holds packages."""
GENERATED: Final = ("_pb2.py", "_pb2_grpc.py")
MOST_FILES: Final = 15


def sources() -> dict[str, Path]:
    """Name of a module -> its file."""
    found = {}
    for parent in PARENTS:
        for package in (ROOT / parent).glob("*/__init__.py"):
            for path in package.parent.rglob("*.py"):
                parts = path.relative_to(ROOT / parent).with_suffix("").parts
                found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported(text: str) -> Iterator[str]:
    """Every name that a file imports, wherever in it: `from a import b` may be the module `a.b` or a name of `a`."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield from (f"{node.module}.{name.name}" for name in node.names)


def arrows(texts: Mapping[str, str]) -> dict[str, set[str]]:
    """Module -> the modules that it imports, among those that are given."""
    found: dict[str, set[str]] = {}
    for module, text in texts.items():
        names = (name if name in texts else name.rpartition(".")[0] for name in imported(text))
        found[module] = {name for name in names if name in texts and name != module}
    return found


def circle(graph: Mapping[str, set[str]]) -> list[str]:
    """One circle, empty: there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_no_files_import_each_other_in_a_circle() -> None:
    graph = arrows({module: path.read_text() for module, path in sources().items()})
    assert len(graph) > 500
    assert sum(map(len, graph.values())) > 2_000
    assert circle(graph) == []


@pytest.mark.parametrize(
    "back",
    [
        "import p.a",
        "from p import a",
        "from p.a import name",
        "if TYPE_CHECKING:\n    from p.a import A",
        "def f():\n    import p.a",
    ],
)
def test_a_circle_is_seen(back: str) -> None:
    there = {"p.a": "from p.b import name", "p.b": ""}
    assert circle(arrows(there)) == []
    assert set(circle(arrows(there | {"p.b": back}))) == {"p.a", "p.b"}


def test_no_folder_is_a_heap_of_files() -> None:
    files = [path for path in sources().values() if path.name != "__init__.py" and not path.name.endswith(GENERATED)]
    flat = Counter(path.parent.relative_to(ROOT).as_posix() for path in files)
    assert len(flat) > 50
    assert {folder: count for folder, count in flat.items() if count > MOST_FILES} == {}
