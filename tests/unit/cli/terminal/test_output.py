"""One value in every format."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from oncelog_cli.terminal.output import FORMATS, Printer, as_json, as_yaml, moment, table

ROWS = [{"topic": "a", "leader": None, "isr": (0, 2), "size": 5}, {"topic": "b\n\x1b[1m", "leader": 1, "isr": ()}]
SCALARS = st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=12)


def printed(style: str, rows: Any = ROWS) -> str:
    out = io.StringIO()
    Printer(style, out).rows(rows, ("topic", "leader", "isr"), ("size",))
    return out.getvalue()


def test_a_table_is_aligned_and_a_client_cannot_forge_a_line() -> None:
    assert printed("text").splitlines() == [
        "TOPIC       LEADER  ISR",
        "a           -       0,2",
        r"b\n\x1b[1m  1       -",
    ]


def test_a_number_has_its_unit_in_the_title_and_a_span_in_its_cell() -> None:
    """Regression: the columns P50, P99 and MAX of `bench` had no unit."""
    assert table([{"p50_ms": 64.25, "age_ms": 90_000}], ("p50_ms", "age_ms")).splitlines() == [
        "P50-MS  AGE",
        "64.25   1m30s",
    ]


def test_wide_has_more_columns_and_programs_get_all_of_them() -> None:
    assert "SIZE" not in printed("text")
    assert "SIZE" in printed("wide")
    assert json.loads(printed("json")) == yaml.safe_load(printed("yaml"))
    assert json.loads(printed("json"))[0] == {"topic": "a", "leader": None, "isr": [0, 2], "size": 5}


@settings(deadline=None)
@given(VALUES)
def test_yaml_says_what_json_says(value: Any) -> None:
    assert yaml.safe_load(as_yaml(value)) == as_json(value)


@pytest.mark.parametrize(
    "text", ["yes", "No", "null", "~", "1", "1e3", "- a", "a: b", "#", "", "é", "a #b", "0x1f", "="]
)
def test_text_stays_text_in_yaml(text: str) -> None:
    assert yaml.safe_load(as_yaml({"v": text})) == {"v": text}


def test_numbers_that_programs_round_become_text() -> None:
    assert as_json([(1 << 53) - 1, 1 << 53]) == [(1 << 53) - 1, str(1 << 53)]


def test_a_stream_of_yaml_documents_is_separated() -> None:
    out = io.StringIO()
    printer = Printer("yaml", out)
    printer.value({"a": 1}, "")
    printer.value({"a": 2}, "")
    assert list(yaml.safe_load_all(out.getvalue())) == [{"a": 1}, {"a": 2}]


def test_there_is_a_table_without_rows() -> None:
    assert table([], ("a_b",)) == "A-B"
    assert set(FORMATS) == {"text", "json", "yaml", "wide"}


def test_a_time_that_no_calendar_has_is_a_number() -> None:
    """`oncelog log dump` of a waiting log shows such times: those of records that are delivered."""
    assert moment(253_402_300_800_000 - 1_000) == "9999-12-31T23:59:59.000Z"
    assert moment(253_402_300_800_000) == "253402300800000ms"
    shown = table([{"timestamp_ms": (1 << 63) // 1000 - 1}], ["timestamp_ms"])
    assert shown.split() == ["TIMESTAMP", "9223372036854774ms"]
