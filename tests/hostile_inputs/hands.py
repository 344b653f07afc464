"""What a row has in its hands: a client's door of a whole cluster, and the check that nothing came of an input.

Rule: a row speaks to the doors of clients alone, as somebody who may do everything that clients may.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

import pytest

from oncelog import errors
from oncelog.v1 import partition_pb2 as pb
from oncelog.wire import methods
from oncelog.wire.methods import MethodSpec
from oncelog.wire.wire_errors import from_detail, to_detail
from tests.conformance.names import TIMEOUT_MS, Place, Writer
from tests.conformance.script import Script
from tests.hostile_inputs.rows import Row
from tests.simulation.cluster import DOORS

T = TypeVar("T")
NOBODY: Final = Writer(-1, -1)
_SECRETIVE: Final = re.compile(
    r"Traceback|\.py\b|/(usr|home|root|tmp|work|var|data)/|0x[0-9a-f]{8}|[\x00-\x1f\x7f\x1b]"
)
_numbers = itertools.count()


class ClientHands(Script):
    """A script at the clients' doors of a simulated cluster."""

    async def call(
        self, node: str, spec: MethodSpec[Any, Any], request: Any, payload: bytes = b"", timeout_ms: int = TIMEOUT_MS
    ) -> Any:
        """As `Script.call`, through the clients' door."""
        reply, bulk = await self.sent(lambda: spec.call(self.transport, self.door(node), request, timeout_ms, payload))
        self._bulk = bulk
        return reply

    async def raw(self, node: str, method: str, header: bytes) -> bytes:
        """A request that may be no message at all."""
        found, _ = await self.sent(lambda: self.transport.call(self.door(node), method, header, b"", TIMEOUT_MS))
        return bytes(found)

    async def sent(self, call: Callable[[], Awaitable[T]]) -> T:
        """A call that certainly goes out."""
        return await call()

    def door(self, node: str) -> str:
        """The address of a node's door for clients."""
        return f"{node}:{DOORS['client']}"

    def any_broker(self) -> str:
        """A node that can be asked for metadata."""
        return "broker-0"

    async def controller(self) -> str:
        """The node that creates topics."""
        reply = await self.call(self.any_broker(), methods.GET_METADATA, pb.GetMetadataRequest())
        return f"broker-{reply.controller.broker_id}"

    async def as_stranger(self, node: str, spec: MethodSpec[Any, Any], request: Any) -> Any:
        """The same call by somebody to whom no rule allows anything. Raises what one item of the reply says."""
        reply, _ = await self.sent(lambda: spec.call(self.stranger, self.door(node), request, TIMEOUT_MS))
        return raised(reply)

    @property
    def stranger(self) -> Any:
        """The transport of somebody without any right."""
        return self.world.client("stranger")


def raised(reply: Any) -> Any:
    """The reply, or the first error that one of its items says."""
    for field in ("partitions", "topics", "errors", "markers"):
        for item in getattr(reply, field, ()):
            if not isinstance(item, int) and item.HasField("error"):
                raise from_detail(item.error)
    return reply


async def refused(
    call: Awaitable[Any], *expected: type[errors.OncelogError], again: bool = False
) -> errors.OncelogError:
    """The input is refused by one of these names, in a sentence that tells a stranger nothing. `again`: it may be retried."""
    with pytest.raises(expected) as refusal:
        raised(await call)
    assert again or not refusal.value.retriable, "what is bad once is bad for ever"
    check_sentence(refusal.value)
    return refusal.value


def check_sentence(error: errors.OncelogError) -> None:
    """As a client is told it: no trace, no path, nothing that could end a line or colour a terminal."""
    error = from_detail(to_detail(error))
    for text in (error.message, *map(str, error.context.values())):
        assert not _SECRETIVE.search(text), f"an error tells too much: {text!r}"
        assert len(text) < 2_010, "an error is a sentence"


async def nothing_comes_of_it(hands: Any, row: Row) -> None:
    """Before and after the input a healthy client writes and reads; in between the log has just what was written honestly."""
    name = f"row-{'-'.join(map(str, row.numbers))}-{next(_numbers)}"
    (place,) = await hands.topic(name)
    healthy = await hands.producer()
    await hands.write(place, healthy, "before")
    written = await row.attempt(hands, place) or []
    await hands.write(place, healthy, "after", seq=1)
    assert await hands.read(place) == ["before", *written, "after"], "nothing but what was written honestly"
    ends = {await hands.latest(place, committed=committed) for committed in (True, False)}
    assert len(ends) == 1, "nothing stays open"


def batch_of(
    hands: Any, place: Place, writer: Writer = NOBODY, seq: int | None = None, value: str = "hostile"
) -> bytes:
    """A sound batch, to be spoiled."""
    data: bytes = hands.batch(
        place, writer, value, seq=seq if seq is not None else (-1 if writer.producer_id < 0 else 0)
    )
    return data
