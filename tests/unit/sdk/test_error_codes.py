"""The numbers here are those of the wire contract, and each has its class."""

from __future__ import annotations

import enum
import importlib
from typing import Any

import pytest

from oncelog.errors import BY_CODE, ErrorAction, ErrorCode
from oncelog.v1 import errors_pb2
from scripts import gen_errors


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


# ---------------------------------------------------------------- what is written from errors.proto


def test_codes_and_meanings_are_those_of_the_proto() -> None:
    assert gen_errors.main(["--check"]) == 0, "run python -m scripts.gen_errors"


def test_every_class_is_found_and_begins_with_the_meaning_of_its_code() -> None:
    meanings = {v.name: v.meaning for v in gen_errors.values_of(gen_errors.PROTO.read_text(), "ErrorCode")}
    assert {cls.code.name: (cls.__doc__ or "").splitlines()[0] for cls in BY_CODE.values()} == meanings
    other = dict.fromkeys(meanings, "Something else.")
    changed = [
        gen_errors.with_meanings(path.read_text(), other).count("Something else.")
        for path in gen_errors.CLASSES.glob("*.py")
    ]
    assert sum(changed) == len(BY_CODE)


def test_a_value_has_the_comment_above_it_as_its_meaning() -> None:
    proto = "enum ErrorCode {\n  // None.\n  ERROR_CODE_NONE = 0;\n  // One,\n  // two.\n  ERROR_CODE_A = 7;\n}\n"
    assert gen_errors.values_of(proto, "ErrorCode") == [gen_errors.Value("A", 7, "One, two.")]
