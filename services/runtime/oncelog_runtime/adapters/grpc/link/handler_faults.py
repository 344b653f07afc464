"""Turns a fault of a handler into an error for its caller; the log gets the rest, of each kind once a minute.

Rule: a broken invariant is no exception to that: a handler changes nothing itself, so no state is in doubt, and one request
      that meets a bug of ours must not end the process. The metric of requests counts each one.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from oncelog import errors

log = logging.getLogger(__name__)

_REPORT_EVERY_S: Final = 60.0
_reported: dict[tuple[str, str], float] = {}
"""When a kind of fault was last reported; there are as many kinds as methods and types of exceptions."""


def unexpected(error: BaseException, method: str) -> errors.OncelogError:
    """Returns the error for the caller of a handler that failed. See the module."""
    kind, now_s = (method, type(error).__name__), asyncio.get_running_loop().time()
    if now_s - _reported.get(kind, -_REPORT_EVERY_S) >= _REPORT_EVERY_S:
        _reported[kind] = now_s
        log.error("a handler failed", extra={"method": method}, exc_info=error)
    return errors.UnknownServerError("the server failed on this request; its log says why", method=method)
