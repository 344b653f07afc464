"""Small JSON files with a checksum: a turned bit makes one unreadable, and never makes it say something else.

Rule 1: the checksum covers all other fields, as they are written. A file that does not match raises `ValueError`.
Rule 2: version 1 had no checksum and is read as it is; every file is written as version 2. No turned bit makes a 1 of a 2.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from crc32c import crc32c

from oncelog.core.malformed import JsonObject

_UNCHECKED: Final = 1
_VERSION: Final = 2


def pack(fields: Mapping[str, object]) -> bytes:
    """Returns the content of a file with these fields."""
    value = {**fields, "version": _VERSION}
    return _encoded({**value, "crc": crc32c(_encoded(value))})


def unpack(data: bytes) -> JsonObject:
    """Returns the fields of a file. Raises one of `MALFORMED` when it is damaged."""
    value = json.loads(data)
    if value["version"] == _UNCHECKED:
        return dict(value)
    if value["version"] != _VERSION:
        raise ValueError("the file has a version that nobody wrote")
    crc = value.pop("crc")
    if crc != crc32c(_encoded(value)):
        raise ValueError("the file does not match its checksum")
    return dict(value)


def _encoded(value: Mapping[str, object]) -> bytes:
    return json.dumps(value, sort_keys=True).encode()
