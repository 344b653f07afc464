"""The verdict is 0 only when something was shown: an anomaly, nothing committed, or, if strict, a failed call is 1."""

from __future__ import annotations

import json
from typing import Any

import pytest

from oncelog_cli.load.verdict import exit_code, sentence, show
from oncelog_cli.terminal.output import Printer

ANOMALY = {"name": "lost", "detail": "partition 3", "meaning": "a record is missing"}


def result(**more: Any) -> dict[str, Any]:
    return {
        "committed": 5,
        "aborted": 1,
        "unknown": 0,
        "records": 100,
        "seconds": 2.0,
        "failed_calls": {},
        "end_to_end_ms": {"p50": 1.0, "p99": 2.0, "max": 3.0},
        "anomalies": [],
        **more,
    }


@pytest.mark.parametrize(
    ("more", "code", "strict_code"),
    [
        ({}, 0, 0),
        ({"committed": 0}, 1, 1),
        ({"anomalies": [ANOMALY]}, 1, 1),
        ({"failed_calls": {"NETWORK_ERROR": 2}}, 0, 1),
    ],
)
def test_the_exit_code_is_the_verdict(more: dict[str, Any], code: int, strict_code: int) -> None:
    assert exit_code(result(**more), strict=False) == code
    assert exit_code(result(**more), strict=True) == strict_code


@pytest.mark.parametrize(
    ("more", "last"),
    [
        ({}, "exactly once"),
        ({"committed": 0}, "nothing was committed, so nothing is proved"),
        ({"anomalies": [ANOMALY]}, "ANOMALY lost: a record is missing: partition 3"),
    ],
)
def test_people_read_the_verdict_last_and_never_beside_an_anomaly(more: dict[str, Any], last: str) -> None:
    lines = sentence(result(**more)).splitlines()
    assert lines[-1] == last
    assert ("exactly once" in lines) == (last == "exactly once")


def test_failed_calls_are_named_with_their_numbers() -> None:
    told = sentence(result(failed_calls={"NETWORK_ERROR": 2, "STORAGE_ERROR": 1}))
    assert "failed calls: NETWORK_ERROR 2, STORAGE_ERROR 1" in told


def test_programs_get_the_result_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    show(result(), Printer("json"))
    assert json.loads(capsys.readouterr().out) == result()
