"""A sender of markers, brokers that take them, and what they took."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from oncelog import errors
from oncelog.types import Buffer
from oncelog.v1 import partition_pb2 as pa
from oncelog.wire import methods
from oncelog.wire.wire_errors import to_detail
from oncelog_coordinator.core.transactions.commands import MarkersDone, SendMarkers
from oncelog_coordinator.core.transactions.records import Target
from oncelog_coordinator.effects.known_topics import KnownTopics
from oncelog_coordinator.effects.markers import MarkerSender
from oncelog_runtime.sim.world import SimWorld
from tests.unit.coordinator.fake_cluster import (
    BROKER,
    OTHER_BROKER,
    USER_TOPIC_ID,
    Cluster,
    FakeTransport,
)


class Life:
    """What a sender needs of a life."""

    def __init__(self) -> None:
        self.epoch = 5
        self.told: list[Any] = []

    def tell(self, command: Any) -> None:
        self.told.append(command)

    def partitions(self) -> list[int]:
        return sorted(p.partition for c in self.told if isinstance(c, MarkersDone) for p in c.partitions)


class Place:
    """A sender, brokers that take markers, and what they took."""

    def __init__(self) -> None:
        self.cluster = Cluster()
        self.transport = FakeTransport()
        self.life = Life()
        self.taken: list[tuple[str, Any]] = []
        self.synced: list[tuple[str, Any]] = []
        self.fail: dict[str, list[errors.OncelogError]] = {}
        self.answer: dict[int, errors.OncelogError] = {}
        for address in (BROKER, OTHER_BROKER):
            self.transport.serve(address, methods.WRITE_TXN_MARKERS, self._broker(address))
        self.sender = MarkerSender(
            self.life,  # type: ignore[arg-type]
            2,
            self.transport,
            self.cluster.view,
            KnownTopics(self.cluster, self.cluster.view),  # type: ignore[arg-type]
            1_000,
        )

    def _broker(self, address: str) -> Callable[[Any, Buffer], Awaitable[tuple[Any, Buffer]]]:
        async def write(request: Any, _payload: Buffer) -> tuple[Any, Buffer]:
            if self.fail.get(address):
                raise self.fail[address].pop(0)
            reply = pa.WriteTxnMarkersReply()
            for marker in request.markers:
                answer = reply.markers.add(topic_id=marker.topic_id, partition=marker.partition)
                error = self.answer.pop(marker.partition, None)
                if error is not None:
                    answer.error.CopyFrom(to_detail(error))
                elif request.on_disk:
                    self.synced.append((address, marker))
                else:
                    self.taken.append((address, marker))
            return reply, b""

        return write


Bug = Callable[[Place], None]


def confused_leader(place: Place) -> None:
    """Its first answer lacks a marker, which no leader of ours sends."""

    async def write(request: Any, _payload: Buffer) -> tuple[Any, Buffer]:
        place.transport.serve(BROKER, methods.WRITE_TXN_MARKERS, place._broker(BROKER))
        return pa.WriteTxnMarkersReply(), b""

    place.transport.serve(BROKER, methods.WRITE_TXN_MARKERS, write)


def broken_call(place: Place) -> None:
    """A bug of ours on the way of the first call."""
    call = place.transport.call

    async def once(*_args: Any) -> Any:
        place.transport.call = call  # type: ignore[method-assign]
        raise KeyError("a bug")

    place.transport.call = once  # type: ignore[method-assign, assignment]


def send(
    *partitions: int, n: int = 1, groups: tuple[str, ...] = (), winners: tuple[int, ...] | None = None
) -> SendMarkers:
    targets = tuple(Target(USER_TOPIC_ID, p, 7) for p in partitions)
    return SendMarkers("t", 9, n, 3, True, winners, targets, groups)


def run(world: SimWorld, scenario: Callable[[Place], Awaitable[None]]) -> Place:
    async def whole() -> Place:
        place = Place()
        await scenario(place)
        await place.sender.close()
        return place

    return world.run(whole())


def deleted(key: str, revision: int) -> Any:
    from oncelog_runtime.ports import Change

    return Change(key, None, revision)
