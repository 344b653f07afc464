"""Write the files of sdk/oncelog/sync, one for each asynchronous class, or check that they are up to date.

    python -m scripts.gen_sync [--check]

Rule 1: names, parameters, defaults, types and docstrings are those of the asynchronous class. What has no leading underscore
        there is here as well, unless `FACADES` leaves it out, its docstring says that it is for another module of ours, or
        `oncelog.sync.by_hand` has it.
Rule 2: a coroutine is waited for, an asynchronous generator becomes an iterator, a property is read; a plain method runs in the
        thread of the event loop, unless `FACADES` says that any thread may run it.
Rule 3: an iterable that the caller gives is read in the caller's thread: it may be a generator that uses this very client.
Rule 4: what is of an asynchronous class with a façade is handed out in its façade.
`--check` writes nothing and exits 1 when a file is not what would be written.
"""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, Final, NamedTuple

from oncelog.client.admin.admin import Admin
from oncelog.client.client import Client
from oncelog.client.consume.consumer import Consumer
from oncelog.client.once.in_log import OnceInLog
from oncelog.client.produce.producer import Producer
from oncelog.client.produce.transactions.participant import Participant
from oncelog.client.produce.transactions.transaction import Transaction
from oncelog.client.work.worker import Worker
from scripts.api_reader import is_for_us, is_ours
from scripts.written import ROOT, write_or_check

FOLDER: Final = ROOT / "sdk" / "oncelog" / "sync"
BY_HAND: Final = FOLDER / "by_hand.py"
LOOP: Final = FOLDER / "loop.py"
_MADE: Final = "Written by scripts/gen_sync.py from the asynchronous classes; not to be edited."
_WORDS: Final = {
    r"`async with ": "`with ",
    r"\b(no\s+caller)(\s+)awaited\b": r"\1\2has seen",
    r", and `visible`\s+says whether all markers are in": "",
    r"\bA cancellation\b": "A Ctrl-C",
}
"""What is said in other words where nothing is awaited."""


class Facade(NamedTuple):
    """A class without `await`, and the one it stands for."""

    of: type[Any]
    base: str
    """What it inherits from: names of `oncelog.sync.by_hand`, or `Wrapper`."""
    doc: str
    direct: tuple[str, ...] = ()
    """Plain methods that any thread may run."""
    left_out: tuple[str, ...] = ()
    """What the façade never had: it can be asked of the results, or is for programs with an event loop."""
    is_constructed: bool = False
    """Users call the class; all others are handed out."""


FACADES: Final[Mapping[str, Facade]] = {
    "transaction.py": Facade(
        Transaction,
        "TransactionBase[Key, Value]",
        "`with producer.transaction() as txn:` commits on exit, aborts on error. See `oncelog.Transaction`.",
        left_out=("error", "state", "visible", "what_to_do"),
    ),
    "producer.py": Facade(
        Producer,
        "ProducerBase[Key, Value]",
        "See `oncelog.Producer`.",
        direct=("transaction",),
        left_out=("is_closed", "is_started"),
    ),
    "participant.py": Facade(
        Participant,
        "ParticipantBase[Key, Value]",
        "A writer of a shared transaction. See `oncelog.client.produce.transactions.participant`.",
        left_out=("is_closed", "join"),
    ),
    "consumer.py": Facade(
        Consumer,
        "ConsumerBase[K, V]",
        "See `oncelog.Consumer`.",
        direct=("assignment", "processing"),
        left_out=("batches", "group", "is_closed"),
    ),
    "worker.py": Facade(
        Worker,
        "WorkerBase[K, V]",
        "A worker of a channel. See `oncelog.Worker`.",
        left_out=("is_closed",),
    ),
    "once_in_log.py": Facade(OnceInLog, "OnceInLogBase", "See `oncelog.OnceInLog`."),
    "client.py": Facade(
        Client,
        "ClientBase",
        "See `oncelog.Client`; takes the same arguments.",
        left_out=("give_up_after", "throttled_ms"),
        is_constructed=True,
    ),
    "admin.py": Facade(
        Admin, "Wrapper[AsyncAdmin]", "`client.admin`. See `oncelog.client.admin.admin`.", left_out=("raw_reader",)
    ),
}
"""File -> the class in it."""


# ---------------------------------------------------------------- reading

Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def _source(path: str) -> str:
    return Path(path).read_text()


@cache
def _tree(path: str) -> ast.Module:
    return ast.parse(_source(path))


def _path_of(owner: type[Any] | ModuleType) -> str:
    return inspect.getsourcefile(owner) or ""


def methods_of(kind: type[Any]) -> Iterator[tuple[Function, type[Any]]]:
    """Every method in the order of the source, with the class that has it: a base's where the class has none of that name."""
    seen: set[str] = set()
    for owner in (base for base in kind.__mro__ if is_ours(base)):
        body = next(n for n in _tree(_path_of(owner)).body if isinstance(n, ast.ClassDef) and n.name == owner.__name__)
        for node in body.body:
            if isinstance(node, Function) and node.name not in seen:
                seen.add(node.name)
                yield node, owner


class Import(NamedTuple):
    """A line that brings a name."""

    line: str
    is_for_checkers: bool = False
    """Only type checkers see it."""


_COMMON: Final = {
    "Iterator": Import("from collections.abc import Iterator"),
    "fills_up": Import("from oncelog.value_types import fills_up"),
}
"""What the asynchronous classes need not name."""


@cache
def names_of(path: str) -> dict[str, Import]:
    """Name -> what brings it, for all that a module imports or defines."""
    module = ".".join(Path(path).relative_to(ROOT / "sdk").with_suffix("").parts)
    found: dict[str, Import] = {}
    for node in _tree(path).body:
        for inner in node.body if isinstance(node, ast.If) else [node]:
            if isinstance(inner, ast.ImportFrom | ast.Import):
                found |= {name: Import(line, inner is not node) for name, line in _imported(inner)}
            else:
                found |= {name: Import(f"from {module} import {name}") for name in _defined(inner)}
    return found


def _imported(node: ast.ImportFrom | ast.Import) -> Iterator[tuple[str, str]]:
    source = f"from {node.module} " if isinstance(node, ast.ImportFrom) else ""
    for item in node.names:
        renamed = f" as {item.asname}" if item.asname else ""
        yield item.asname or item.name, f"{source}import {item.name}{renamed}"


def _defined(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.ClassDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [target.id for target in targets if isinstance(target, ast.Name)]


# ---------------------------------------------------------------- a method


class Parameter(NamedTuple):
    """One of a method's, as its source has it."""

    stars: str
    name: str
    type: str
    default: str
    is_by_name: bool

    def declared(self) -> str:
        """In the head of a method."""
        default = f" = {self.default}" if self.default else ""
        return f"{self.stars}{self.name}: {self.type}{default}"

    def given(self) -> str:
        """In the call of the asynchronous method. Rule 3."""
        value = self.name
        if self.type.startswith("Iterable["):
            is_optional = self.type.endswith("| None")
            value = f"None if {value} is None else list({value})" if is_optional else f"list({value})"
        return f"{self.name}={value}" if self.is_by_name else f"{self.stars}{value}"


def parameters_of(node: Function, source: str) -> list[Parameter]:
    """All but `self`."""

    def one(item: ast.arg, default: ast.expr | None = None, stars: str = "", is_by_name: bool = False) -> Parameter:
        assert item.annotation is not None
        return Parameter(stars, item.arg, _text(source, item.annotation), _text(source, default), is_by_name)

    given = node.args
    plain = given.args[1:]
    defaults = [None] * (len(plain) - len(given.defaults)) + [*given.defaults]
    found = [one(item, default) for item, default in zip(plain, defaults, strict=True)]
    found += [one(given.vararg, stars="*")] if given.vararg else []
    found += [one(a, d, is_by_name=True) for a, d in zip(given.kwonlyargs, given.kw_defaults, strict=True)]
    return found + ([one(given.kwarg, stars="**")] if given.kwarg else [])


def _text(source: str, node: ast.expr | None) -> str:
    return " ".join((ast.get_source_segment(source, node) or "").split()) if node is not None else ""


def head_of(name: str, parameters: list[Parameter], returns: str) -> str:
    """The line that begins a method."""
    shown = [item.declared() for item in parameters]
    by_name = [i for i, item in enumerate(parameters) if item.is_by_name]
    if by_name and not any(item.stars == "*" for item in parameters):
        shown.insert(by_name[0], "*")
    return f"def {name}({', '.join(['self', *shown])}) -> {returns}:"


def doc_of(node: Function) -> str:
    """The docstring, in words for code without an event loop. Raises `ValueError` where they are missing."""
    text = ast.get_docstring(node) or ""
    for there, here in _WORDS.items():
        text = re.sub(there, here, text)
    if re.search(r"\bawait|\basync\b", text):
        raise ValueError(f"the docstring of {node.name} speaks of an event loop: give gen_sync.py other words for it")
    return text


def _quoted(text: str) -> str:
    start = " " if text.startswith('"') else ""
    return f'"""{start}{text}{chr(10) if chr(10) in text else ""}"""'


class Written(NamedTuple):
    """A method without `await`, and what its types and defaults name."""

    text: str
    names: set[str]
    path: str
    """Of the module that knows these names."""


def method(node: Function, owner: type[Any], facade: Facade, facades: Iterable[str]) -> Written:
    """The same method without `await`."""
    source = _source(_path_of(owner))
    name = node.name.replace("__a", "__", 1) if node.name in ("__aenter__", "__aexit__") else node.name
    parameters = parameters_of(node, source)
    returns = _text(source, node.returns).replace("AsyncIterator[", "Iterator[")
    is_read = any(isinstance(item, ast.Name) and item.id == "property" for item in node.decorator_list)
    lines = ["@property"] if is_read else []
    lines.append(head_of(name, parameters, returns))
    if not node.name.startswith("__a"):
        lines.append(textwrap.indent(_quoted(doc_of(node)), "    "))
    lines += [f"    {line}" for line in body_of(node, facade, parameters, facades)]
    mentioned = " ".join([returns, *(f"{item.type} {item.default}" for item in parameters)])
    return Written("\n".join(lines), set(re.findall(r"[A-Za-z_]\w*", mentioned)), _path_of(owner))


def body_of(node: Function, facade: Facade, parameters: list[Parameter], facades: Iterable[str]) -> Iterator[str]:
    """Rules 2 and 4."""
    given = ", ".join(item.given() for item in parameters)
    call = f"self._inner.{node.name}({given})"
    returned = ast.unparse(node.returns).partition("[")[0] if node.returns else "None"
    raw = getattr(facade.of, node.name)
    if isinstance(raw, property):
        yield f"return self._inner.{node.name}"
        return
    if inspect.iscoroutinefunction(raw):
        call = f"self._run({call})"
    elif inspect.isasyncgenfunction(raw):
        call = f"self._each({call})"
    elif node.name not in facade.direct:
        call = f"self._call(self._inner.{node.name}{', ' if given else ''}{given})"
    if returned == "None":
        yield call
    elif returned == facade.of.__name__:
        yield call
        yield "return self"
    else:
        yield f"return {returned}({call}, self._thread)" if returned in facades else f"return {call}"


def constructor(node: Function, facade: Facade) -> Written:
    """`__init__` of what users call."""
    path = _path_of(facade.of)
    parameters = parameters_of(node, _source(path))
    given = ", ".join(item.given() for item in parameters)
    lines = [
        head_of("__init__", parameters, "None"),
        textwrap.indent(_quoted(doc_of(node)), "    "),
        f"    super().__init__(Async{facade.of.__name__}({given}))",
    ]
    mentioned = " ".join(f"{item.type} {item.default}" for item in parameters)
    return Written("\n".join(lines), set(re.findall(r"[A-Za-z_]\w*", mentioned)), path)


# ---------------------------------------------------------------- a class


def members(facade: Facade, facades: Iterable[str]) -> Iterator[Written]:
    """Rule 1."""
    by_hand = {name for name, _ in _written_by_hand(facade.base)}
    for node, owner in methods_of(facade.of):
        if node.name == "__init__" and facade.is_constructed:
            yield constructor(node, facade)
        is_public = not node.name.startswith("_") or node.name in ("__aenter__", "__aexit__")
        is_mine = node.name in by_hand or node.name in facade.left_out
        if is_public and not is_mine and not is_for_us(getattr(facade.of, node.name)):
            yield method(node, owner, facade, facades)


def _written_by_hand(base: str) -> Iterator[tuple[str, str]]:
    """Names of methods in a class of `by_hand` and in those that it inherits from, each with its class."""
    name = base.partition("[")[0]
    tree = _tree(str(BY_HAND))
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            yield from ((item.name, name) for item in node.body if isinstance(item, Function))
            for above in node.bases:
                yield from _written_by_hand(ast.unparse(above))


def _class(facade: Facade, written: list[Written]) -> str:
    lines = ["@fills_up"] if _is_generic(facade) else []
    lines += [f"class {facade.of.__name__}({facade.base}):", f'    """{facade.doc}"""']
    return "\n\n".join(["\n".join(lines), *(textwrap.indent(item.text, "    ") for item in written)])


def _is_generic(facade: Facade) -> bool:
    return facade.base.endswith(("Value]", "V]"))


# ---------------------------------------------------------------- a file


def page(file: str) -> str:
    """One of the files."""
    facade = FACADES[file]
    name = facade.of.__name__
    here = {other.of.__name__: f"oncelog.sync.{path.removesuffix('.py')}" for path, other in FACADES.items()}
    written = [*members(facade, here)]
    found = _imports(facade, written)
    found |= {other: Import(f"from {module} import {other}") for other, module in here.items() if other in found}
    found.pop(name, None)
    doc = f"{name} without `await` (see `oncelog.sync`)."
    return _tidied(f'"""{doc}\n\n{_MADE}\n"""', found.values(), _class(facade, written), FOLDER / file)


def _imports(facade: Facade, written: list[Written]) -> dict[str, Import]:
    """What brings the names of a class: those of its head from our own modules, those of its methods as the source has them."""
    asynchronous = f"Async{facade.of.__name__}"
    ours = _COMMON | names_of(str(LOOP)) | names_of(str(BY_HAND))
    ours |= {asynchronous: Import(f"from {facade.of.__module__} import {facade.of.__name__} as {asynchronous}")}
    head = {*re.findall(r"\w+", facade.base)} | ({"fills_up"} if _is_generic(facade) else set())
    found = {name: ours[name] for name in head | ({asynchronous} if facade.is_constructed else set()) if name in ours}
    for item in written:
        known = _COMMON | names_of(item.path)
        found |= {name: known[name] for name in item.names if name in known}
    return found


def _tidied(doc: str, imports: Iterable[Import], body: str, path: Path) -> str:
    """The file, its imports and lines as this repository has them everywhere."""
    plain = "\n".join(sorted(item.line for item in imports if not item.is_for_checkers))
    checked = "\n".join(sorted(item.line for item in imports if item.is_for_checkers))
    head = [doc, "from __future__ import annotations", plain]
    if checked:
        head.append("from typing import TYPE_CHECKING\n\nif TYPE_CHECKING:\n" + textwrap.indent(checked, "    "))
    text = "\n\n".join([*head, body]) + "\n"
    for command in ("check --select I --fix --quiet", "format --quiet"):
        whole = [sys.executable, "-m", "ruff", *command.split(), "--stdin-filename", str(path), "-"]
        text = subprocess.run(whole, input=text, capture_output=True, text=True, check=True).stdout
    return text


def main(arguments: list[str] | None = None) -> int:
    """Returns the exit code."""
    files = {FOLDER / name: page(name) for name in FACADES}
    return write_or_check(files, "the façade without `await`", "python -m scripts.gen_sync", arguments)


if __name__ == "__main__":
    sys.exit(main())
