"""`-f` formats: what is printed, what is read back, what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog_cli.records.consume import Shown
from oncelog_cli.records.formats import InputFormat, OutputFormat, headers_of, unescaped
from oncelog_cli.terminal.argument_types import UsageError

RECORD = Shown("orders", 3, 42, 1_700_000_000_000, b"k", b"v\xff", (("a", b"1"), ("b", None)))
WORDS = st.text(st.characters(exclude_characters="\n\r", exclude_categories=["Cs"]))


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        (r"%t/%p/%o\n", "orders/3/42\n"),
        ("%k=%v", r"k=v\xff"),
        ("%d %i", "1700000000000 7"),
        ("%h|%H %K %V", "a=1,b=|2 1 2"),
        (r"100%%\t\x41\\", "100%\tA\\"),
        ("", ""),
    ],
)
def test_printing(text: str, printed: str) -> None:
    assert OutputFormat(text).line(RECORD, 7) == printed


def test_a_null_prints_as_nothing() -> None:
    assert OutputFormat("[%k][%v]").line(RECORD._replace(key=None, value=None), 1) == "[][]"


@pytest.mark.parametrize(
    ("text", "line", "fields"),
    [
        (r"%v\n", b"a b", {"v": b"a b"}),
        (r"%k %v\n", b"a b c", {"k": b"a", "v": b"b c"}),
        ("%p|%k|%v", b"12||x", {"p": b"12", "k": b"", "v": b"x"}),
        ("%h\\t%v", b"a=1,b=2\tx", {"h": b"a=1,b=2", "v": b"x"}),
        ("%k%%%v", b"5%6", {"k": b"5", "v": b"6"}),
        ("%v", b"\xff\x00", {"v": b"\xff\x00"}),
    ],
)
def test_reading(text: str, line: bytes, fields: dict[str, bytes]) -> None:
    assert InputFormat(text).fields(line) == fields


@given(st.text(st.characters(codec="ascii", exclude_characters=" \n\r")), WORDS)
def test_what_is_printed_can_be_read(key: str, value: str) -> None:
    line = OutputFormat(r"%k %v\n").line(RECORD._replace(key=key.encode(), value=value.encode()), 1)
    assert InputFormat(r"%k %v\n").fields(line[:-1].encode()) == {"k": key.encode(), "v": value.encode()}


@pytest.mark.parametrize("text", ["%q", "%", r"\q", "\\"])
def test_a_wrong_format_is_refused_by_both(text: str) -> None:
    with pytest.raises(UsageError):
        OutputFormat(text)
    with pytest.raises(UsageError):
        InputFormat(text)


@pytest.mark.parametrize("text", ["%k%v", "%v %v", "%o", r"%k\n%v"])
def test_what_cannot_be_read_back_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        InputFormat(text)


def test_a_line_that_does_not_fit_is_named() -> None:
    with pytest.raises(UsageError, match="'nothing'"):
        InputFormat("%k %v").fields(b"nothing")


def test_headers() -> None:
    assert headers_of(["a:1", "b=2:3", "c:"]) == (("a", b"1"), ("b", b"2:3"), ("c", b""))
    with pytest.raises(UsageError):
        headers_of(["nothing"])
    assert unescaped(r"\x7c") == "|"
