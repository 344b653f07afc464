"""The repository keeps its own house rules, in every file that git would take.

Rule 1: no hand-written file is longer than 700 lines; near 600, ask which entity wants its own.
Rule 2: every Python file begins with its promise.
Rule 3: a class with more than some 20 methods or 15 fields says in its docstring why.
Rule 4: nothing names a package registry's host or a place on one machine; lock files name no index.
"""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from scripts.gen_sync import FACADES

ROOT = Path(__file__).resolve().parents[2]
MAX_LINES = 700
MAX_CLASS_LINES = 350
MAX_METHODS = 22
MAX_FIELDS = 16
SAYS_WHY = re.compile(r"\b(methods|fields)\b|is a method")
PUBLIC = {
    "sdk/oncelog/client/client.py:Client",
    "sdk/oncelog/client/consume/consumer.py:Consumer",
    "sdk/oncelog/client/produce/producer.py:Producer",
    "sdk/oncelog/client/produce/transactions/transaction.py:Transaction",
    "sdk/oncelog/client/work/worker.py:Worker",
}
"""Their methods are what users call, and their docstrings are for users."""
FACADE = tuple(f"sdk/oncelog/sync/{file}" for file in FACADES)
"""Generated from the asynchronous classes."""
MAX_LINES_OF = {"helm/oncelog/values.yaml": 900}  # Helm knows one file of values
GENERATED = re.compile(
    r"_pb2(_grpc)?\.pyi?$|^locks/.*\.txt$|^LICENSE$|^helm/oncelog/(values\.schema\.json|README\.md)$|^tests/chart/golden/"
    r"|^docs/cli\.md$|^docs/reference/|^docs/internals/cases\.md$" + "".join(f"|^{re.escape(file)}$" for file in FACADE)
)
CORPUS = "tests/fuzz/corpus/"  # bytes of any kind
# Spelled in two halves, so that this file does not break its own rule.
REGISTRY_HOSTS = (
    "pypi" + ".org",
    "files.python" + "hosted",
    "repo1.maven" + ".org",
    "repo.maven" + ".apache",
    "registry.npm" + "js",
    "proxy.golang" + ".org",
    "static.crates" + ".io",
)
MACHINE_PATH = re.compile(r"(?<![\w.\-/*}])/(?:work|root|Users)/\w")
INDEX_LINE = re.compile(r"^\s*(--(extra-)?index-url|--find-links|--trusted-host|-i |-f )", re.MULTILINE)


@cache
def files() -> tuple[Path, ...]:
    """Every file that is tracked or would be added."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip("not a git checkout")
    names = sorted(set(done.stdout.split("\0")) - {""})
    return tuple(ROOT / name for name in names if (ROOT / name).is_file())


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def texts(include_generated: bool) -> Iterator[tuple[str, str]]:
    """Name and content of each text file."""
    for path in files():
        if name(path).startswith(CORPUS) or (not include_generated and GENERATED.search(name(path))):
            continue
        content = path.read_bytes()
        if b"\0" not in content:
            yield name(path), content.decode()


def test_the_list_of_files_is_not_empty() -> None:
    assert ROOT / "pyproject.toml" in files()


def test_no_file_is_too_long() -> None:
    lengths = {file: text.count("\n") for file, text in texts(include_generated=False)}
    assert {file: lines for file, lines in lengths.items() if lines > MAX_LINES_OF.get(file, MAX_LINES)} == {}


def test_no_class_is_too_long() -> None:
    found: dict[str, int] = {}
    for file, text in texts(include_generated=False):
        if file.endswith(".py") and file.startswith(("sdk/", "spark/", "services/")):
            classes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ClassDef)]
            found |= {f"{file}:{node.name}": (node.end_lineno or 0) - node.lineno + 1 for node in classes}
    assert len(found) > 500
    assert {name: lines for name, lines in found.items() if lines > MAX_CLASS_LINES} == {}


def methods_of(node: ast.ClassDef) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [child for child in node.body if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)]


def fields_of(node: ast.ClassDef) -> set[str]:
    """Attributes that the methods of a class set on itself: the fields of a plain data class are its parameters."""
    stored = [item for method in methods_of(node) for item in ast.walk(method) if isinstance(item, ast.Attribute)]
    return {
        item.attr
        for item in stored
        if isinstance(item.ctx, ast.Store) and isinstance(item.value, ast.Name) and item.value.id == "self"
    }


def is_wide(node: ast.ClassDef) -> bool:
    return len({method.name for method in methods_of(node)}) > MAX_METHODS or len(fields_of(node)) > MAX_FIELDS


def test_a_class_with_many_methods_or_fields_says_why() -> None:
    found: dict[str, bool] = {}
    for file, text in texts(include_generated=False):
        if file.endswith(".py") and file.startswith(("sdk/", "spark/", "services/")) and file not in FACADE:
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.ClassDef) and is_wide(node):
                    found[f"{file}:{node.name}"] = bool(SAYS_WHY.search(ast.get_docstring(node) or ""))
    assert len(found) > 20
    assert {name for name, says_why in found.items() if not says_why} == PUBLIC


def test_a_wide_class_is_seen() -> None:
    many = "".join(f"    def m{number}(self): self.f{number} = 1\n" for number in range(MAX_FIELDS + 1))
    (wide,) = ast.parse(f"class A:\n{many}").body
    (narrow,) = ast.parse("class B:\n    f: int\n    def m(self): other.f = 1; self.g += 1").body
    assert isinstance(wide, ast.ClassDef)
    assert isinstance(narrow, ast.ClassDef)
    assert is_wide(wide)
    assert not is_wide(narrow)
    assert fields_of(narrow) == {"g"}


def test_every_python_file_begins_with_its_promise() -> None:
    python = [(file, text) for file, text in texts(include_generated=False) if file.endswith(".py")]
    assert [file for file, text in python if not ast.get_docstring(ast.parse(text, file))] == []


def test_nothing_names_a_registry() -> None:
    found = [(file, host) for file, text in texts(include_generated=True) for host in REGISTRY_HOSTS if host in text]
    assert found == []


def test_nothing_names_a_place_on_one_machine() -> None:
    places = {str(ROOT), str(Path.home())}
    # A container's /app or a home of / would match ordinary text.
    literal = [place + "/" for place in places if place.count("/") >= 2]
    found = []
    for file, text in texts(include_generated=True):
        match = MACHINE_PATH.search(text)
        found += [(file, match.group())] if match else []
        found += [(file, place) for place in literal if place in text]
    assert found == []


def test_lock_files_pin_by_hash_and_name_no_index() -> None:
    locks = [(file, text) for file, text in texts(include_generated=True) if re.match(r"locks/.*\.txt$", file)]
    assert locks
    for file, text in locks:
        assert not INDEX_LINE.search(text), file
        assert "http" not in text, file
        for requirement in re.findall(r"^[a-z0-9].*?(?=^[a-z0-9]|\Z)", text, re.MULTILINE | re.DOTALL):
            assert re.match(r"[a-z0-9._-]+==\S+", requirement), requirement
            assert "--hash=sha256:" in requirement, requirement
