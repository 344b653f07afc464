"""Whatever stands in JSON that a stranger wrote, taking values out of it fails with one of `MALFORMED`, or gives them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from oncelog.core.malformed import MALFORMED

READERS: list[tuple[str, Callable[[Any], object]]] = [
    ("{", lambda value: value),
    ("[" * 100_000, lambda value: value),
    ("1e400", int),
    ("NaN", int),
    ("[]", lambda value: value.items()),
    ("[]", lambda value: value[0]),
    ("{}", lambda value: value["name"]),
    ("null", lambda value: value["name"]),
    ('{"a": "b"}', lambda value: int(value["a"])),
    ('"' + "9" * 5_000 + '"', int),
]


@pytest.mark.parametrize(("text", "take"), READERS, ids=[text[:12] for text, _ in READERS])
def test_each_way_to_be_malformed_is_caught(text: str, take: Callable[[Any], object]) -> None:
    with pytest.raises(MALFORMED):
        take(json.loads(text))


def test_our_own_mistakes_are_not_taken_for_a_strangers() -> None:
    for ours in (AssertionError, MemoryError, OSError, NameError):
        assert not issubclass(ours, MALFORMED)
