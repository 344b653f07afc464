"""The part of gRPC's contexts that this package uses, as protocols: grpc itself ships no types.

Rule: a name here means what it means in `grpc.aio.ServicerContext` and `grpc.HandlerCallDetails`; a test compares the names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

import grpc

Metadata = Iterable[tuple[str, str | bytes]]


class ServerContext(Protocol):
    """One call, as its handler sees it."""

    async def read(self) -> bytes:
        """The next message, or `grpc.aio.EOF`."""
        ...

    async def write(self, message: bytes) -> None:
        """Sends a message."""
        ...

    async def abort(self, code: grpc.StatusCode, details: str = "", trailing_metadata: Metadata = ()) -> None:
        """Ends the call with an error, and raises."""
        ...

    def invocation_metadata(self) -> Metadata | None:
        """The metadata that the caller has sent."""
        ...

    def set_code(self, code: grpc.StatusCode) -> None:
        """Sets the status that goes out with the answer."""
        ...

    def set_details(self, details: str) -> None:
        """Sets the text that belongs to the status."""
        ...

    def set_trailing_metadata(self, trailing_metadata: Metadata) -> None:
        """Sets the metadata that goes out with the answer."""
        ...

    def peer(self) -> str:
        """The address of the caller, in gRPC's form."""
        ...

    def auth_context(self) -> Mapping[str, Sequence[bytes]]:
        """The facts that TLS knows about the caller."""
        ...

    def time_remaining(self) -> float | None:
        """Seconds until the deadline; None without one."""
        ...

    def code(self) -> grpc.StatusCode | int | None:
        """The status that the handler has set."""
        ...

    def details(self) -> str | None:
        """The text that belongs to the status."""
        ...

    def add_done_callback(self, callback: Callable[[object], None]) -> None:
        """Calls back when the call has ended."""
        ...


class CallDetails(Protocol):
    """A call that begins."""

    @property
    def method(self) -> str:
        """`/package.Service/Method`."""
        ...

    @property
    def invocation_metadata(self) -> Metadata | None:
        """The metadata that the caller has sent."""
        ...
