"""Write what the SDK repeats of `protos/oncelog/v1/errors.proto`, or check that it is up to date.

    python -m scripts.gen_errors [--check]

Rule 1: the proto is the one source of numbers and meanings. `sdk/oncelog/error_codes.py` is written from it, and so is the
        first line of the docstring of each error class, which is the error's default message.
Rule 2: a value of the proto has its meaning in the comment above it: one sentence, or several, as people read them.
Rule 3: which class a code has, and with it the family and the action, is said once too: in `oncelog.errors`.
`--check` writes nothing and exits 1 when a file is not what would be written.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Final, NamedTuple

from scripts.written import ROOT, write_or_check

PROTO: Final = ROOT / "protos" / "oncelog" / "v1" / "errors.proto"
CODES: Final = ROOT / "sdk" / "oncelog" / "error_codes.py"
CLASSES: Final = ROOT / "sdk" / "oncelog" / "errors"
_ENUM: Final = re.compile(r"^enum (\w+) \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_VALUE: Final = re.compile(r"((?:^ *//.*\n)*)^ *(\w+) = (\d+);", re.MULTILINE)
_CLASS: Final = re.compile(
    r'(class \w+\(\w+\):\n    """)([^"\n]*(?:"[^"\n]+)*)("""|\n)((?:(?!^class ).*\n)*?    code = ErrorCode\.(\w+)\n)',
    re.MULTILINE,
)
_HEAD: Final = '''"""The numbers of the wire: each error's code, and what the client does next.

Written by scripts/gen_errors.py from `protos/oncelog/v1/errors.proto`, where the meaning of each number stands; not to be
edited. The numbers stay as they are. The class of each code is in `oncelog.errors`.
"""

from __future__ import annotations

import enum


class ErrorCode(enum.IntEnum):
    """Stable numbers, equal to `oncelog.v1.ErrorCode`."""

'''
_ACTION: Final = '''

class ErrorAction(enum.IntEnum):
    """What the client does next, equal to `oncelog.v1.ErrorAction`."""

'''


class Value(NamedTuple):
    """One value of an enum of the proto. `name` is without the prefix of the enum."""

    name: str
    number: int
    meaning: str


def values_of(proto: str, enum: str) -> list[Value]:
    """Returns the values of an enum by their numbers, without its zero, which stands for no error and no action."""
    body = next(text for name, text in _ENUM.findall(proto) if name == enum)
    prefix = re.sub(r"(?<!^)(?=[A-Z])", "_", enum).upper() + "_"
    found = []
    for comment, name, number in _VALUE.findall(body):
        lines = [line.strip().removeprefix("//").strip() for line in comment.splitlines()]
        found.append(Value(name.removeprefix(prefix), int(number), " ".join(lines)))
    return sorted((value for value in found if value.number), key=lambda value: value.number)


def codes(proto: str) -> str:
    """Returns the text of `error_codes.py`."""
    names = [f"    {value.name} = {value.number}\n" for value in values_of(proto, "ErrorCode")]
    actions = [f"    {value.name} = {value.number}\n" for value in values_of(proto, "ErrorAction")]
    return _HEAD + "".join(names) + _ACTION + "".join(actions)


def with_meanings(source: str, meanings: dict[str, str]) -> str:
    """Returns a file of error classes in which the docstring of each begins with the meaning of its code."""
    return _CLASS.sub(lambda m: m[1] + meanings[m[5]] + m[3] + m[4], source)


def files() -> dict[Path, str]:
    """Returns what each file should hold."""
    proto = PROTO.read_text()
    meanings = {value.name: value.meaning for value in values_of(proto, "ErrorCode")}
    found = {path: with_meanings(path.read_text(), meanings) for path in sorted(CLASSES.glob("*.py"))}
    return {CODES: codes(proto), **found}


def main(arguments: list[str] | None = None) -> int:
    """Writes or checks. Returns the exit code."""
    return write_or_check(
        files(), "the error codes and the meanings of errors", "python -m scripts.gen_errors", arguments
    )


if __name__ == "__main__":
    sys.exit(main())
