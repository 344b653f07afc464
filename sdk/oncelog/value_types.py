"""The types of keys and values, for type checkers: what a (de)serializer says of them is known of records and of `send`.

Rule 1: nothing here costs a program that runs anything: these are names in annotations.
Rule 2: a class named without brackets takes every type, as in a program that says nothing: `Consumer` is `Consumer[Any, Any]`.
Rule 3: what a factory of a client returns is exact: without a (de)serializer it is the type that the code has then.
"""

from __future__ import annotations

import typing
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Protocol, overload

if TYPE_CHECKING:
    from typing_extensions import TypeVar  # every type checker brings it; a program that runs does without
else:

    def TypeVar(name: str, *, default: Any, **variance: bool) -> typing.TypeVar:  # noqa: N802
        """Until Python 3.13 a type variable has no default at run time, where nobody asks for it."""
        return typing.TypeVar(name, **variance)


Sendable = bytes | bytearray | memoryview | str | None
"""What a key or a value may be without a serializer."""

K = TypeVar("K", covariant=True, default=Any)
"""The type of keys that are read."""
V = TypeVar("V", covariant=True, default=Any)
"""The type of values that are read."""
Key = TypeVar("Key", contravariant=True, default=Any)
"""The type of keys that are written."""
Value = TypeVar("Value", contravariant=True, default=Any)
"""The type of values that are written."""
ReadKey = TypeVar("ReadKey", default=bytes | None)
"""What a `key_deserializer` returns."""
ReadValue = TypeVar("ReadValue", default=bytes | None)
"""What a `value_deserializer` returns."""
SentKey = TypeVar("SentKey", default=Sendable)
"""What a `key_serializer` takes."""
SentValue = TypeVar("SentValue", default=Sendable)
"""What a `value_serializer` takes."""

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
