"""`ErrorDetail` <-> `OncelogError`: the only place that converts between the two."""

from __future__ import annotations

from typing import Final

from oncelog import errors
from oncelog.v1 import errors_pb2

_TEXT_MAX: Final = 4_096
_NAME_MAX: Final = 128
_CONTEXT_MAX: Final = 64
RETRY_AFTER_MS_MAX: Final = 300_000
"""A peer cannot make us wait for longer than this before we look again."""


def to_detail(error: errors.OncelogError) -> errors_pb2.ErrorDetail:
    """The wire form of an error."""
    return errors_pb2.ErrorDetail(
        code=int(error.code),  # type: ignore[arg-type]
        message=error.message,
        context=[errors_pb2.ErrorContext(name=n, value=v) for n, v in error.context.items()],
        retry_after_ms=error.retry_after_ms,
    )


def from_detail(detail: errors_pb2.ErrorDetail) -> errors.OncelogError:
    """The error that a peer sent, at a bounded length, and with a bounded wait."""
    context = {item.name[:_NAME_MAX]: item.value[:_TEXT_MAX] for item in detail.context[:_CONTEXT_MAX]}
    retry_after_ms = min(max(detail.retry_after_ms, 0), RETRY_AFTER_MS_MAX)
    return errors.error_for(detail.code, detail.message[:_TEXT_MAX], retry_after_ms, context)
