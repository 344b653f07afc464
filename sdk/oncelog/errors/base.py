"""The attributes of every error, and the four families, which say what a client does next.

Rule: `context` may hold what a stranger chose: it is bounded, and what cannot be printed is escaped (`printable`).
"""

from __future__ import annotations

from typing import ClassVar, Final

from oncelog.error_codes import ErrorAction, ErrorCode

_CONTEXT_CHARACTERS_MAX: Final = 1_000


def printable(text: str, limit: int = _CONTEXT_CHARACTERS_MAX) -> str:
    """The text as one line that no terminal and no log obeys: control characters are escaped, and a long text is cut."""
    shown = text[: limit + 1]
    if not shown.isprintable():
        shown = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in shown)
    return shown if len(shown) <= limit else f"{shown[:limit]}..."


class OncelogError(Exception):
    """The root. `message` is one sentence for a person; `context` holds named values (always text).

    `retry_after_ms`: wait at least this long before the next try; 0 = the caller's own back-off.
    `go_to`: host:port of who can serve the call, as a server tells its caller; empty = not known, and always in what our own
    client receives, which finds its way by metadata.
    """

    code: ClassVar[ErrorCode] = ErrorCode.UNKNOWN_ERROR
    action: ClassVar[ErrorAction] = ErrorAction.FATAL

    def __init__(self, message: str = "", *, retry_after_ms: int = 0, go_to: str = "", **context: object) -> None:
        self.message = message or (type(self).__doc__ or type(self).__name__).strip().splitlines()[0]
        self.retry_after_ms = retry_after_ms
        self.go_to = go_to
        self.context = {name: printable(str(value)) for name, value in sorted(context.items())}
        super().__init__(self.message)

    def __str__(self) -> str:
        if not self.context:
            return self.message
        return f"{self.message} ({', '.join(f'{name}={value}' for name, value in self.context.items())})"

    @property
    def retriable(self) -> bool:
        """True: the same request may be sent again."""
        return self.action in (ErrorAction.RETRY, ErrorAction.REFRESH)

    @property
    def requires_abort(self) -> bool:
        """True: abort the transaction, then go on with a new one."""
        return self.action is ErrorAction.ABORT

    @property
    def fatal(self) -> bool:
        """True: this producer or client can do nothing more."""
        return self.action is ErrorAction.FATAL


class RetriableError(OncelogError):
    """The same request may be sent again."""

    action = ErrorAction.RETRY


class AbortableTransactionError(OncelogError):
    """Abort this transaction and go on with the next one."""

    action = ErrorAction.ABORT


class FatalProducerError(OncelogError):
    """This producer is finished; create a new one."""

    action = ErrorAction.FATAL


class CallerError(OncelogError):
    """The caller's mistake; the same request will always fail."""

    action = ErrorAction.CALLER
