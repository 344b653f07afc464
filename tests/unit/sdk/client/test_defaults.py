"""The real ports of a client: they cost nothing until they are used, and belong to one process."""

from __future__ import annotations

import asyncio

import pytest

from oncelog import errors
from oncelog.client.defaults import LazyGrpcTransport


def test_a_transport_that_was_closed_connects_to_nobody() -> None:
    async def work() -> None:
        transport = LazyGrpcTransport("test")
        await transport.close()
        with pytest.raises(errors.IllegalStateError, match="this transport is closed"):
            await transport.call("127.0.0.1:1", "Partition.GetMetadata", b"", b"", 100)

    asyncio.run(work())
