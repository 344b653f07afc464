"""The types of keys and values, for type checkers: what a (de)serializer says of them is known of records and of `send`.

Rule 1: nothing here costs a program that runs anything: these are names in annotations.
Rule 2: a class named without brackets takes every type, as in a program that says nothing: `Consumer` is `Consumer[Any, Any]`.
Rule 3: what a factory of a client returns is exact: without a (de)serializer it is the type that the code has then.
"""

from __future__ import annotations

import sys
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol, overload

_HAS_DEFAULTS: Final = sys.version_info >= (3, 13)
"""Python's own type variables know defaults."""
_defaults: Final[dict[object, object]] = {}
"""The defaults of type variables, where Python does not keep them."""
C = typing.TypeVar("C", bound=type)

if TYPE_CHECKING:
    from typing_extensions import TypeVar  # every type checker brings it; a program that runs does without
else:

    def TypeVar(name: str, *, default: object, **variance: bool) -> typing.TypeVar:  # noqa: N802
        """A type variable with a default, in every Python."""
        if _HAS_DEFAULTS:
            return typing.TypeVar(name, default=default, **variance)
        made = typing.TypeVar(name, **variance)
        _defaults[made] = default
        return made


def fills_up(kind: C) -> C:
    """Decorates a generic class: what brackets leave out has its default, also where an annotation is evaluated."""
    if not _HAS_DEFAULTS:
        kind.__class_getitem__ = classmethod(_filled)  # type: ignore[attr-defined]
    return kind


def _filled(kind: Any, given: object) -> object:
    named = given if isinstance(given, tuple) else (given,)
    left_out = kind.__parameters__[len(named) :]
    if all(variable in _defaults for variable in left_out):
        named += tuple(_defaults[variable] for variable in left_out)
    return typing.Generic.__dict__["__class_getitem__"].__get__(None, kind)(named)  # refuses what is too much


Sendable = bytes | bytearray | memoryview | str | None
"""The types that a key or a value may have without a serializer."""

K = TypeVar("K", covariant=True, default=Any)
"""The type of keys that are read."""
V = TypeVar("V", covariant=True, default=Any)
"""The type of values that are read."""
Key = TypeVar("Key", contravariant=True, default=Any)
"""The type of keys that are written."""
Value = TypeVar("Value", contravariant=True, default=Any)
"""The type of values that are written."""
ReadKey = TypeVar("ReadKey", default=bytes | None)
"""The type that a `key_deserializer` returns."""
ReadValue = TypeVar("ReadValue", default=bytes | None)
"""The type that a `value_deserializer` returns."""
SentKey = TypeVar("SentKey", default=Sendable)
"""The type that a `key_serializer` takes."""
SentValue = TypeVar("SentValue", default=Sendable)
"""The type that a `value_serializer` takes."""

Headers = Mapping[str, bytes | str | None] | Sequence[tuple[str, bytes | str | None]]
"""A record's headers, as callers give them."""
NULL: Final[Any] = None
"""A key or value that is left out. Its type is Any, since no annotation can say "only where a null is of this type"."""

Deserializer = Callable[[bytes | None], V]
"""Called for each record, also where key or value is null."""


class Serializer(Protocol[Value]):
    """A function that makes bytes, or text, which is sent as UTF-8; called for each record, also where key or value is left out
    (None).

    The second form is for a lambda, whose parameter has no type: with it type checkers take that for any type, not for
    `Sendable`. It refuses no function.
    """

    @overload
    def __call__(self, item: Value, /) -> Sendable: ...
    @overload
    def __call__(self, item: Any, /) -> Sendable: ...
