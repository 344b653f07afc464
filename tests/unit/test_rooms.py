"""The folders show the architecture: none is a heap of files, and neither files nor folders import each other in a circle.

Rule 1: a folder of the source holds at most 15 files flat, beside its `__init__.py`; generated ones do not count.
Rule 2: an import for type checkers, or within a function, is an import too: who needs another file's type knows that file.
Rule 3: the rooms of a folder, which are its files and folders, stand on floors: every import leads to a room further down. So
        no folder needs what stands on it, at any depth.
Rule 4: what is drawn in ARCHITECTURE.md fits on a sheet: few rooms at the top of the broker and of the client, and few floors.
Rule 5: which room stands on which floor is said by import contracts in `pyproject.toml` (`make lint`).
Rule 6: each reading order of ARCHITECTURE.md, from a call to the disk and from a row to its commit, names fewer than ten files.
"""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
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
MOST_ROOMS: Final = {"oncelog_partition_leader": (8, 8), "oncelog.client": (10, 8)}
"""Folder -> most rooms and floors. A launcher, `__main__.py`, is no room: it is the door."""
WAYS: Final = ("A reading order: from `send` to the follower's disk", "Another one: from a Spark row to its commit")
"""Headings of ARCHITECTURE.md."""
MOST_NAMES: Final = 9
DOORS: Final = ("__init__", "__main__")


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


@cache
def house() -> dict[str, set[str]]:
    """All of the source."""
    return arrows({module: path.read_text() for module, path in sources().items()})


def circle(graph: Mapping[str, set[str]]) -> list[str]:
    """One circle, empty: there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_no_files_import_each_other_in_a_circle() -> None:
    graph = house()
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


def rooms(graph: Mapping[str, set[str]]) -> dict[str, dict[str, set[str]]]:
    """Folder -> its rooms -> the rooms beside it that they need: an arrow between files counts where their ways part."""
    found: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for module, others in graph.items():
        way = module.split(".")
        for depth in range(1, len(way)):
            found[".".join(way[:depth])][way[depth]] |= set()
        for other in others:
            there = other.split(".")
            depth = next((at for at, (a, b) in enumerate(zip(way, there, strict=False)) if a != b), 0)
            if depth:
                found[".".join(way[:depth])][way[depth]].add(there[depth])
    return found


def floors(graph: Mapping[str, set[str]]) -> int:
    """How many floors the rooms of a folder need: the longest way down."""
    heights: dict[str, int] = {}
    for room in TopologicalSorter(graph).static_order():
        heights[room] = 1 + max((heights[below] for below in graph.get(room, ())), default=0)
    return max(heights.values())


def test_no_room_needs_one_that_stands_on_it() -> None:
    found = rooms(house())
    assert len(found) > 70
    assert {folder: circle(inside) for folder, inside in found.items() if circle(inside)} == {}


def test_a_folder_and_a_file_beside_it_that_need_each_other_are_seen() -> None:
    inside = {"p.low.a": "from p import b", "p.b": "", "p.low.c": "from p.low import a"}
    assert circle(rooms(arrows(inside))["p"]) == []
    assert set(circle(rooms(arrows(inside | {"p.b": "from p.low import c"}))["p"])) == {"low", "b"}


@pytest.mark.parametrize("folder", sorted(MOST_ROOMS))
def test_the_rooms_at_the_top_fit_on_a_sheet(folder: str) -> None:
    found = rooms(house())[folder]
    inside = {room: below for room, below in found.items() if room not in DOORS}
    most_rooms, most_floors = MOST_ROOMS[folder]
    assert len(inside) > most_rooms // 2
    assert len(inside) <= most_rooms
    assert floors(inside) <= most_floors


def test_floors_are_counted_along_the_longest_way_down() -> None:
    assert floors({"a": {"b", "c"}, "b": {"c"}, "c": set(), "d": {"c"}}) == 3


@pytest.mark.parametrize("way", WAYS)
def test_a_way_through_the_house_names_few_files(way: str) -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    section = text.split(f"## {way}\n")[1].split("\n## ")[0]
    steps = [line for line in section.splitlines() if re.match(r"\d+\. ", line)]
    names = re.findall(r"`[\w./]+\.py`", "\n".join(steps))
    assert len(steps) == len(names), "one file for each step"
    assert 5 < len(names) <= MOST_NAMES
