"""Patterns of topic names: they mean what Python's regular expressions mean, and cost the same whatever they are."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oncelog.errors import InvalidRegularExpressionError
from oncelog_coordinator.core.groups.patterns import CHARACTERS_MAX, parse_pattern


@pytest.mark.parametrize(
    ("pattern", "matching", "other"),
    [
        ("orders", ["orders"], ["order", "orders2", "my-orders"]),
        (r"orders\..*", ["orders.", "orders.eu"], ["orders", "ordersxeu"]),
        ("^a|b$", ["a", "b"], ["ab", ""]),
        ("(eu|us)-[0-9]+", ["eu-1", "us-42"], ["eu-", "de-1", "eu-1x"]),
        ("(?:a|b)?c*", ["a", "b", "ccc", "bcc"], ["ab", "d"]),
        ("[^a-y]+", ["z", "Z9"], ["a", "za"]),
        ("[a-]x|[]]?y", ["-x", "ax", "y"], ["x", "]"]),
        (r"\d\w\-\.", ["1a-."], ["aa-.", "1.-."]),
        ("a.c", ["abc", "a-c"], ["ac", "abbc"]),
        ("(a*)*b", ["b", "aab"], ["a"]),
    ],
)
def test_what_a_pattern_matches(pattern: str, matching: list[str], other: list[str]) -> None:
    found = parse_pattern(pattern)
    assert all(map(found.matches, matching))
    assert not any(map(found.matches, other))


@pytest.mark.parametrize(
    "pattern",
    [
        *("", "(", ")", "a)", "(a", "[a", "[", "*", "a**", "+a", "a{2}", "a|*", "(?=a)", "(?<n>a)", r"\1", r"\b", "\\"),
        *("[z-a]", "a" * 257, "(" * 21 + "a" + ")" * 21, "a^b", "a$b", "?", "]", "a+?"),
    ],
)  # fmt: skip
def test_everything_else_is_refused_by_name(pattern: str) -> None:
    with pytest.raises(InvalidRegularExpressionError):
        parse_pattern(pattern)


@pytest.mark.parametrize("pattern", ["(a*)*" * 30 + "b", "(a|a)*" * 40 + "b", "(.*a)" * 25 + "." * 100, ".*" * 128])
def test_a_pattern_that_would_backtrack_costs_no_more_than_others(pattern: str) -> None:
    assert len(pattern) <= CHARACTERS_MAX
    began = time.process_time()
    found = parse_pattern(pattern)
    for length in range(200, 249):
        found.matches("a" * length)
    assert time.process_time() - began < 5


_PIECES = st.recursive(
    st.sampled_from(["a", "b", "-", ".", "[ab]", "[^b]", r"\d", r"\.", "[a-c]", "1"]),
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map("".join),
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: f"({'|'.join(parts)})"),
        st.tuples(inner, st.sampled_from("*+?")).map(lambda pair: f"(?:{pair[0]}){pair[1]}"),
    ),
    max_leaves=8,
)


@settings(max_examples=300, deadline=None)
@given(_PIECES, st.lists(st.text("abc1-.", max_size=8), max_size=10))
def test_it_means_what_python_means(pattern: str, names: list[str]) -> None:
    if len(pattern) > CHARACTERS_MAX:
        return
    found, expected = parse_pattern(pattern), re.compile(pattern)
    for name in names:
        assert found.matches(name) == (expected.fullmatch(name) is not None), (pattern, name)
