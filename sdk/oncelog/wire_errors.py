"""`ErrorDetail` <-> `OncelogError`: the only place that converts between the two.

Rule: neither end trusts the other's words: what a stranger chose may stand in them, so they are one bounded line each.
"""

from __future__ import annotations

from typing import Final

from oncelog import errors
from oncelog.v1 import errors_pb2

_MESSAGE_CHARACTERS_MAX: Final = 2_000


def to_detail(error: errors.OncelogError) -> errors_pb2.ErrorDetail:
    """The wire form of an error."""
    return errors_pb2.ErrorDetail(
        code=int(error.code),  # type: ignore[arg-type]
        message=errors.printable(error.message, _MESSAGE_CHARACTERS_MAX),
        context=[errors_pb2.ErrorContext(name=n, value=v) for n, v in error.context.items()],
        retry_after_ms=error.retry_after_ms,
    )


def from_detail(detail: errors_pb2.ErrorDetail) -> errors.OncelogError:
    """The error that a peer sent."""
    context = {item.name: item.value for item in detail.context}
    message = errors.printable(detail.message, _MESSAGE_CHARACTERS_MAX)
    return errors.error_for(detail.code, message, detail.retry_after_ms, context)
