r"""`-f '%k %v\n'`: how a record is printed, and how a line is taken apart.

    %t topic   %p partition   %o offset   %d timestamp in ms   %i number of the record, from 1
    %k key     %v value       %h headers as name=value,name=value
    %K %V %H   lengths of key and value in bytes, number of headers
    %%         a percent sign; \n \t \r \\ \xNN as everywhere

Rule 1: printing knows all of them; reading knows %k %v %h %p %t, and text between two of them must separate them.
Rule 2: a null prints as nothing; bytes that are no text print as \xNN.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Protocol

from oncelog_cli.terminal.argument_types import UsageError

_FIELD: Final = re.compile(r"%(.)|([^%]+)|(%)", re.DOTALL)
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\"}
_READABLE: Final = "kvhpt"


def unescaped(text: str) -> str:
    r"""`\n`, `\t`, `\r`, `\\` and `\xNN` as the characters they stand for. Raises `UsageError`."""

    def replaced(found: re.Match[str]) -> str:
        if found[1]:
            return chr(int(found[1], 16))
        if found[2] in _ESCAPES:
            return _ESCAPES[found[2]]
        raise UsageError(rf"unknown escape {found[0]} in a format; there are \n \t \r \\ and \xNN")

    return re.sub(r"\\(?:x([0-9a-fA-F]{2})|(.)|$)", replaced, text)


def text_of(data: bytes | None) -> str | None:
    """As people read it."""
    return None if data is None else data.decode("utf-8", "backslashreplace")


def bytes_of(text: str) -> bytes:
    """The bytes that were typed or read as this text, also those that are no UTF-8."""
    return text.encode("utf-8", "surrogateescape")


def headers_text(headers: Iterable[tuple[str, bytes | None]]) -> str:
    """`name=value,name=value`."""
    return ",".join(f"{name}={text_of(value) or ''}" for name, value in headers)


class Printable(Protocol):
    """The fields of a record that a format can name: those of a record that was read, or of one to be written."""

    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def offset(self) -> int: ...
    @property
    def timestamp_ms(self) -> int: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def headers(self) -> Sequence[tuple[str, bytes | None]]: ...


_PRINTED: Final[Mapping[str, Callable[[Printable, int], object]]] = {
    "t": lambda record, number: record.topic,
    "p": lambda record, number: record.partition,
    "o": lambda record, number: record.offset,
    "d": lambda record, number: record.timestamp_ms,
    "i": lambda record, number: number,
    "k": lambda record, number: text_of(record.key) or "",
    "v": lambda record, number: text_of(record.value) or "",
    "h": lambda record, number: headers_text(record.headers),
    "K": lambda record, number: len(record.key or b""),
    "V": lambda record, number: len(record.value or b""),
    "H": lambda record, number: len(record.headers),
}


class OutputFormat:
    """Prints records. Raises `UsageError` for an unknown letter."""

    def __init__(self, text: str) -> None:
        self._parts: list[str | Callable[[Printable, int], object]] = []
        for letter, literal in _parts(unescaped(text)):
            if letter and letter not in _PRINTED:
                raise UsageError(f"unknown %{letter} in a format; there are {_listed(_PRINTED)}")
            self._parts.append(_PRINTED[letter] if letter else literal)

    def line(self, record: Printable, number: int) -> str:
        """The text of one record; without a newline of its own."""
        return "".join(part if isinstance(part, str) else str(part(record, number)) for part in self._parts)


class InputFormat:
    """Takes lines apart. Raises `UsageError` for a format that cannot be read back."""

    def __init__(self, text: str) -> None:
        body = unescaped(text).removesuffix("\n")
        if "\n" in body:
            raise UsageError("a record is one line: the format has a newline at its end at most")
        pattern, last = "", ""
        self._fields: list[str] = []
        for letter, literal in _parts(body):
            if not letter:
                pattern += re.escape(literal)
            elif letter not in _READABLE or letter in self._fields:
                raise UsageError(f"cannot read %{letter} (again); there are {_listed(_READABLE)}, each once")
            elif last:
                raise UsageError(f"nothing separates %{last} from %{letter}")
            else:
                pattern += r"(\d{1,19})" if letter == "p" else "(.*?)"
                self._fields.append(letter)
            last = letter
        self._pattern = re.compile(bytes_of(pattern) + b"$", re.DOTALL)

    def fields(self, line: bytes) -> dict[str, bytes]:
        """Letter -> bytes. Raises `UsageError` for a line that does not fit."""
        found = self._pattern.match(line)
        if found is None:
            raise UsageError(f"the line does not fit the format: {line[:80]!r}")
        return dict(zip(self._fields, found.groups(), strict=True))


def _parts(text: str) -> list[tuple[str, str]]:
    """(letter, "") for a field, ("", text) for what stands between."""
    found: list[tuple[str, str]] = []
    for letter, literal, lonely in _FIELD.findall(text):
        if lonely:
            raise UsageError("a format ends with %; write %% for a percent sign")
        if letter and letter != "%":
            found.append((letter, ""))
        elif found and not found[-1][0]:
            found[-1] = ("", found[-1][1] + (literal or "%"))
        else:
            found.append(("", literal or "%"))
    return found


def _listed(letters: Iterable[str]) -> str:
    return " ".join(f"%{letter}" for letter in letters)


def headers_of(words: list[str]) -> tuple[tuple[str, bytes], ...]:
    """`NAME:VALUE` (or NAME=VALUE) words. Raises `UsageError`."""
    found = []
    for word in words:
        split = re.match(r"([^:=]+)[:=](.*)", word, re.DOTALL)
        if split is None:
            raise UsageError(f"a header is NAME:VALUE; not {word!r}")
        found.append((split[1], bytes_of(split[2])))
    return tuple(found)
