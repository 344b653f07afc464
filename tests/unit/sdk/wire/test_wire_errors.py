"""An error on its way: what a stranger chose stays one bounded line, and neither end believes the other's words."""

from __future__ import annotations

import pytest

from oncelog.errors import ErrorCode, InvalidRequestError, NotCoordinatorError, UnknownServerError
from oncelog.v1 import errors_pb2
from oncelog.wire.wire_errors import from_detail, to_detail

HOSTILE = "a\n\x1b[31m\u202e\0b"


def test_what_a_stranger_chose_is_one_printable_line() -> None:
    detail = to_detail(InvalidRequestError(f"no such thing: {HOSTILE}", topic=HOSTILE, long="x" * (1 << 20)))
    for text in (detail.message, *(item.value for item in detail.context)):
        assert text.isprintable()
    assert r"a\n\x1b[31m\u202e\x00b" in detail.message
    assert detail.ByteSize() < 3_000
    assert to_detail(InvalidRequestError("caf\u00e9 \U0001f600")).message == "caf\u00e9 \U0001f600", "text stays text"


def test_a_server_is_believed_no_more() -> None:
    detail = errors_pb2.ErrorDetail(code=42, message=HOSTILE * 100_000)  # type: ignore[arg-type]
    detail.context.add(name="b\n", value=HOSTILE)
    error = from_detail(detail)
    assert str(error).isprintable()
    assert len(str(error)) < 3_000


@pytest.mark.parametrize("name", ["message", "retry_after_ms", "self", "code"])
def test_a_value_may_have_any_name(name: str) -> None:
    detail = errors_pb2.ErrorDetail(code=42, message="no")  # type: ignore[arg-type]
    detail.context.add(name=name, value="x")
    error = from_detail(detail)
    assert (error.code, error.message, error.context) == (ErrorCode.INVALID_REQUEST, "no", {name: "x"})


@pytest.mark.parametrize("code", [0, 999, -1, (1 << 31) - 1])
def test_a_number_that_nobody_knows_is_an_unknown_error(code: int) -> None:
    assert type(from_detail(errors_pb2.ErrorDetail(code=code))) is UnknownServerError  # type: ignore[arg-type]


def test_where_to_go_instead_is_told_once_and_not_handed_on() -> None:
    """A leader that hands on a coordinator's refusal must not send its producer to a coordinator."""
    detail = to_detail(NotCoordinatorError("not here", go_to="c1:9192"))
    assert (detail.go_to, list(detail.context)) == ("c1:9192", [])
    assert to_detail(from_detail(detail)).go_to == ""


def test_a_caller_with_stubs_alone_hears_what_to_do_next() -> None:
    assert to_detail(NotCoordinatorError()).action == errors_pb2.ERROR_ACTION_REFRESH
    assert to_detail(InvalidRequestError()).action == errors_pb2.ERROR_ACTION_CALLER
