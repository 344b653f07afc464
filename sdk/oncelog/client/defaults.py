"""The real ports of a client: gRPC, the system's clock, the system's randomness. Nothing here runs in the simulation.

Rule 1: grpc is imported with the first call, so that making a client costs nothing.
Rule 2: a client belongs to the process that made it: a forked child has a copy of its random state, and would draw the
        same nonces as its siblings. Its use raises `ForkedClientError`.
"""

from __future__ import annotations

import os
import time
from random import Random
from typing import TYPE_CHECKING, Final

from oncelog.config import PLAINTEXT, ClientConfig
from oncelog.core.throttles import Throttles
from oncelog.errors import ForkedClientError, IllegalStateError
from oncelog.link.malloc import tune_malloc
from oncelog.types import Buffer

if TYPE_CHECKING:
    from oncelog.link.grpc_tls import ClientTls
    from oncelog.link.grpc_transport import GrpcTransport
    from oncelog.trace.tracing import Tracer

_FLUSH_MS: Final = 1_000


class SystemClock:
    """Implements `oncelog.ports.WallClock`."""

    def now_ms(self) -> int:
        """Milliseconds since 1970."""
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        """Milliseconds since some start."""
        return time.monotonic_ns() // 1_000_000


def system_random() -> Random:
    """A generator that no other process repeats."""
    return Random(int.from_bytes(os.urandom(32), "little"))


class LazyGrpcTransport:
    """Implements `oncelog.ports.Transport`: a `GrpcTransport` from the first call on. Without `config`: plaintext."""

    def __init__(self, software: str, tracer: Tracer | None = None, config: ClientConfig | None = None) -> None:
        self._software = software
        self._tracer = tracer
        self._config = config or ClientConfig()
        self._pid = os.getpid()
        self._inner: GrpcTransport | None = None
        self._is_closed = False
        self.throttles = Throttles()

    async def call(
        self, address: str, method: str, header: bytes, payload: Buffer, timeout_ms: int
    ) -> tuple[bytes, Buffer]:
        """See `oncelog.ports.Transport.call`.

        Raises `ForkedClientError` in a forked child, `ConfigError` for certificates that cannot work, `IllegalStateError` after
        `close`.
        """
        inner = self._inner or self._make()
        return await inner.call(address, method, header, payload, timeout_ms)

    def _make(self) -> GrpcTransport:
        if os.getpid() != self._pid:
            raise ForkedClientError.inherited()
        if self._is_closed:
            raise IllegalStateError("this transport is closed")
        tune_malloc()
        from oncelog.link.client_link import GrpcOptions
        from oncelog.link.credentials import credentials_of
        from oncelog.link.grpc_transport import GrpcTransport

        self._inner = GrpcTransport(
            options=GrpcOptions(software=self._software),
            tls=self._tls(),
            tracer=self._tracer,
            credentials=credentials_of(self._config),
            throttles=self.throttles,
        )
        return self._inner

    def _tls(self) -> ClientTls | None:
        config = self._config
        if config.security_protocol == PLAINTEXT:
            return None
        from oncelog.link.grpc_tls import ClientTls
        from oncelog.link.tls_check import PemPaths
        from oncelog.link.tls_files import TlsFiles

        files = TlsFiles(PemPaths(config.ssl_certfile, config.ssl_keyfile, config.ssl_cafile))
        files.current()
        return ClientTls(files)

    async def close(self) -> None:
        """Ends all links, for good."""
        self._is_closed = True
        inner, self._inner = self._inner, None
        if inner is not None:
            await inner.close()
