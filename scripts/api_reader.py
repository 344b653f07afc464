"""What the program says of its public classes: signatures, docstrings, fields. For scripts/gen_api.py.

Rule 1: public is what has no leading underscore: members that a class has itself or from a base class of ours. Left out is
        what says in its first words that it is there for another module of ours ("For `oncelog.sync`: ...").
Rule 2: nothing is read from text that the program can be asked for; only docstrings below fields are read with `ast`.
"""

from __future__ import annotations

import ast
import dataclasses
import enum
import inspect
import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from scripts.gen_reference import docstrings

_OURS: Final = ("oncelog", "pyspark_oncelog")
_WIDTH: Final = 110
_USES: Final = {
    "__aenter__": "`async with`",
    "__enter__": "`with`",
    "__await__": "`await`",
    "__aiter__": "`async for`",
    "__iter__": "`for`",
}
_QUOTED: Final = re.compile(r"ForwardRef\('([^']*)'\)")
_FOR_US: Final = "For `oncelog."
_SEE_MODULE: Final = "See the module."


class Member(NamedTuple):
    """A method or property. `signature` is Python, without a body."""

    name: str
    signature: str
    doc: str


class Field(NamedTuple):
    """A field of a value, or a constant of an enum."""

    name: str
    type: str
    default: str
    doc: str


def is_ours(kind: Any) -> bool:
    """True for what the packages of this repository define."""
    return str(getattr(kind, "__module__", "")).partition(".")[0] in _OURS


def is_for_us(member: Any) -> bool:
    """True for a method that another module of the package calls, and no user."""
    return (getattr(member, "__doc__", None) or "").startswith(_FOR_US)


def is_value(kind: type[Any]) -> bool:
    """True for what is made of fields alone."""
    return dataclasses.is_dataclass(kind) or hasattr(kind, "_fields") or issubclass(kind, enum.Enum)


# ---------------------------------------------------------------- docstrings


def class_doc(kind: type[Any]) -> str:
    """The docstring; what it leaves to the module's is put in its place."""
    doc = inspect.getdoc(kind) or ""
    if not doc.startswith(_SEE_MODULE):
        return doc
    module = inspect.getdoc(sys.modules[kind.__module__]) or ""
    return f"{module}\n\n{doc.removeprefix(_SEE_MODULE).strip()}".strip()


def uses(kind: type[Any]) -> list[str]:
    """The statements that an object may stand in."""
    if is_value(kind) or issubclass(kind, list):
        return []
    return [words for name, words in _USES.items() if hasattr(kind, name)]


# ---------------------------------------------------------------- members


def members(kind: type[Any]) -> Iterator[Member]:
    """Rule 1, in the order of the source."""
    seen: set[str] = set()
    for base in kind.__mro__:
        if not is_ours(base):
            continue
        for name, raw in vars(base).items():
            if name.startswith("_") or name in seen or not _is_member(raw) or is_for_us(raw):
                continue
            seen.add(name)
            yield _member(name, raw)


def _is_member(raw: Any) -> bool:
    return isinstance(raw, property | classmethod | staticmethod) or inspect.isfunction(raw)


def _member(name: str, raw: Any) -> Member:
    if isinstance(raw, property):
        returns = _type_of(inspect.signature(raw.fget).return_annotation) if raw.fget else ""
        return Member(name, f"{name}: {returns}", inspect.getdoc(raw) or "")
    function = raw.__func__ if isinstance(raw, classmethod | staticmethod) else raw
    kind = "async def" if inspect.iscoroutinefunction(function) else "def"
    return Member(name, f"{kind} {name}{signature(function)}", inspect.getdoc(function) or "")


def signature(function: Any) -> str:
    """Parameters and result, on several lines when they are long."""
    asked = inspect.signature(function)
    shown = [_parameter(parameter) for parameter in asked.parameters.values() if parameter.name not in ("self", "cls")]
    keyword = [p for p in asked.parameters.values() if p.kind is p.KEYWORD_ONLY]
    if keyword and not any(p.kind is p.VAR_POSITIONAL for p in asked.parameters.values()):
        shown.insert([p.partition(":")[0] for p in shown].index(keyword[0].name), "*")
    returns = f" -> {_type_of(asked.return_annotation)}" if asked.return_annotation is not asked.empty else ""
    line = f"({', '.join(shown)}){returns}"
    return line if len(line) < _WIDTH - 20 else "(\n" + "".join(f"    {p},\n" for p in shown) + f"){returns}"


def _parameter(parameter: inspect.Parameter) -> str:
    stars = (
        "*" if parameter.kind is parameter.VAR_POSITIONAL else "**" if parameter.kind is parameter.VAR_KEYWORD else ""
    )
    text = f"{stars}{parameter.name}"
    if parameter.annotation is not parameter.empty:
        text += f": {_type_of(parameter.annotation)}"
    return text if parameter.default is parameter.empty else f"{text} = {parameter.default!r}"


def _type_of(annotation: Any) -> str:
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))
    match = _QUOTED.fullmatch(text) or re.fullmatch(r"Unpack\[(\w+)(?:\[.*\])?\]", text)
    return match[1] if match else str(text)


# ---------------------------------------------------------------- fields


def attributes(kind: type[Any]) -> list[Field]:
    """What `__init__` puts into `self` under public names, with the docstrings below; not of values."""
    found: dict[str, Field] = {}
    for base in kind.__mro__ if not is_value(kind) else ():
        if is_ours(base) and "__init__" in vars(base):
            (function,) = ast.parse(textwrap.dedent(inspect.getsource(vars(base)["__init__"]))).body
            assert isinstance(function, ast.FunctionDef)
            for node, after in zip(function.body, [*function.body[1:], None], strict=True):
                name = _assigned(node)
                if name and not name.startswith("_") and name not in found:
                    doc = after.value if isinstance(after, ast.Expr) else None
                    text = str(doc.value) if isinstance(doc, ast.Constant) else ""
                    found[name] = Field(name, "", "", " ".join(text.split()))
    return list(found.values())


def _assigned(node: ast.stmt) -> str:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    ours = [item for item in targets if isinstance(item, ast.Attribute) and ast.unparse(item.value) == "self"]
    return ours[0].attr if ours else ""


def value_fields(kind: type[Any]) -> list[Field]:
    """Of a dataclass, a NamedTuple or an enum; none of anything else."""
    if issubclass(kind, enum.Enum):
        return [Field(item.name, "", str(item.value), "") for item in kind]
    if dataclasses.is_dataclass(kind):
        found = [(item.name, item.type, _default(item)) for item in dataclasses.fields(kind)]
    elif hasattr(kind, "_fields"):
        given: dict[str, Any] = kind._field_defaults
        types = inspect.get_annotations(kind)
        found = [(name, types[name], repr(given[name]) if name in given else "") for name in kind._fields]
    else:
        return []
    written = docstrings(Path(inspect.getsourcefile(kind) or ""), kind.__name__)
    return [
        Field(name, _type_of(getattr(said, "__forward_arg__", said)), default, " ".join(written.get(name, "").split()))
        for name, said, default in found
    ]


def _default(item: dataclasses.Field[Any]) -> str:
    if item.default is not dataclasses.MISSING:
        return repr(item.default)
    return "" if item.default_factory is dataclasses.MISSING else "empty"


# ---------------------------------------------------------------- names


def mentioned(kind: type[Any]) -> set[str]:
    """Names in the types of a class's fields and in its members' signatures."""
    texts = [field.type for field in value_fields(kind)]
    texts += [member.signature for member in members(kind)]
    return {word for text in texts for word in re.findall(r"\b[A-Z]\w+", text)}


def values_of(roots: list[type[Any]], known: set[type[Any]]) -> list[type[Any]]:
    """Values of ours that the signatures of these classes mention, and those that these mention; sorted by name."""
    by_name = _all_values()
    found: dict[str, type[Any]] = {}
    left = list(roots)
    while left:
        for name in sorted(mentioned(left.pop())):
            kind = by_name.get(name)
            if kind is not None and kind not in known and name not in found:
                found[name] = kind
                left.append(kind)
    return [found[name] for name in sorted(found)]


def _all_values() -> dict[str, type[Any]]:
    """Every value class below the SDK's client and its types."""
    found: dict[str, type[Any]] = {}
    for name, module in sorted(sys.modules.items()):
        if name.startswith("oncelog.client") or name == "oncelog.types":
            for item in vars(module).values():
                if inspect.isclass(item) and is_ours(item) and is_value(item) and not item.__name__.startswith("_"):
                    found[item.__name__] = item
    return found
