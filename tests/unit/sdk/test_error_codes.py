"""The numbers here are those of the wire contract, and each has its class."""

from __future__ import annotations

import enum
import importlib
from typing import Any

import pytest

from oncelog.errors import BY_CODE, ErrorAction, ErrorCode
from oncelog.v1 import errors_pb2


def on_the_wire(generated: Any, prefix: str) -> dict[str, int]:
    """Names and numbers of a generated enum, without the prefix that protobuf asks for and the zero value."""
    return {name.removeprefix(prefix): number for name, number in generated.items() if number != 0}


@pytest.mark.parametrize(
    ("ours", "generated", "prefix"),
    [(ErrorCode, errors_pb2.ErrorCode, "ERROR_CODE_"), (ErrorAction, errors_pb2.ErrorAction, "ERROR_ACTION_")],
)
def test_names_and_numbers_are_those_of_the_wire(ours: type[enum.IntEnum], generated: Any, prefix: str) -> None:
    assert {member.name: member.value for member in ours} == on_the_wire(generated, prefix)


def test_every_code_has_its_class() -> None:
    assert set(BY_CODE) == set(ErrorCode)


def test_both_homes_have_the_same_enums() -> None:
    codes = importlib.import_module("oncelog.error_codes")
    assert codes.ErrorCode is ErrorCode
    assert codes.ErrorAction is ErrorAction
