"""`oncelog explain` knows every error of `oncelog.errors`, by each of its names, and says what to do."""

from __future__ import annotations

import json

import pytest

from oncelog import errors
from oncelog.v1 import errors_pb2
from oncelog_cli.main import main
from oncelog_cli.support.advice import WHAT_TO_DO
from oncelog_cli.support.explain import find


@pytest.mark.parametrize("code", list(errors.ErrorCode), ids=lambda code: code.name)
def test_every_error_is_found_by_name_class_and_number(code: errors.ErrorCode) -> None:
    cls = errors.BY_CODE[code]
    on_the_wire = errors_pb2.ErrorCode.Name(int(code))
    for word in (code.name, code.name.lower(), on_the_wire, on_the_wire.lower(), cls.__name__, str(int(code))):
        assert find(word) is cls
    assert cls.__doc__, "the meaning"
    assert WHAT_TO_DO[cls.action]


def test_one_error_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "OUT_OF_ORDER_SEQUENCE_NUMBER", "--format", "json"]) == 0
    row = json.loads(capsys.readouterr().out)
    assert (row["number"], row["requires_abort"], row["retriable"], row["fatal"]) == (45, True, False, False)


def test_all_of_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "--list", "--format", "json"]) == 0
    assert [row["number"] for row in json.loads(capsys.readouterr().out)] == sorted(errors.BY_CODE)


@pytest.mark.parametrize(("word", "hint"), [("PRODUCER_FENCD", "PRODUCER_FENCED"), ("77777", "--list")])
def test_a_wrong_word_is_an_error_with_a_hint(word: str, hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", word]) == 1
    assert hint in capsys.readouterr().err


def test_an_unreachable_cluster_is_a_matter_of_address_and_tls(capsys: pytest.CaptureFixture[str]) -> None:
    """Regression: the advice was to send the same request again."""
    assert main(["explain", "CLUSTER_UNREACHABLE"]) == 0
    said = capsys.readouterr().out
    assert "Check the address" in said
    assert "TLS" in said
    assert "Send the same request again" not in said
