"""What a comparison of source trees concludes from its starts."""

from __future__ import annotations

import statistics

import pytest

from bench.sides import ROOT, Side, interval, report


def side(name: str, *ratios: float) -> Side:
    return Side(name, ROOT, ratios={"record": list(ratios)}, medians={"record": [2.0] * len(ratios)})


def test_the_interval_is_students() -> None:
    ratios = [1.00, 1.01, 1.02, 1.03, 1.04]
    low, high = interval(ratios)
    assert statistics.mean((low, high)) == pytest.approx(1.02)
    assert (high - low) / 2 == pytest.approx(2.776 * 0.015811 / 5**0.5, rel=0.01)


def test_more_starts_than_the_table_has_take_its_last_line() -> None:
    few, many = interval([0.9, 1.1] * 10), interval([0.9, 1.1] * 100)
    assert many[1] - many[0] < few[1] - few[0]


def test_a_row_says_the_cost_and_how_sure_it_is() -> None:
    first, other = report([side("without", 1.0, 1.0, 1.0), side("on", 1.02, 1.04, 1.03)])
    assert (first["cost_percent"], first["from_percent"], first["to_percent"]) == (0, 0, 0)
    assert other["cost_percent"] == pytest.approx(3)
    assert other["from_percent"] == pytest.approx(3 - 4.30 / 3**0.5, abs=0.01)
    assert other["starts"] == 3
