"""Answers what a producer's core asks about the client around it: leaders, quotas, calls under way. All of it is in memory."""

from __future__ import annotations

from oncelog.client.home.context import Context
from oncelog.client.produce.produce_calls import ProduceCalls
from oncelog.client.routing.metadata import Metadata, Topic
from oncelog.types import PartitionId
from oncelog.wire import methods

_METHOD = methods.PRODUCE.name


class ClientFacts:
    """The `Facts` of one sender. See `oncelog.core.produce.actions`."""

    def __init__(self, context: Context, metadata: Metadata, calls: ProduceCalls) -> None:
        self._context = context
        self._metadata = metadata
        self._calls = calls

    def leader(self, partition: PartitionId) -> str | None:
        """Address of the partition's leader; None = not known."""
        return self._metadata.leader(partition).address

    def is_gone(self, topic_id: str) -> bool:
        """No topic has this id any more."""
        return self._metadata.topic_name(topic_id) is None

    def newer_topic(self, name: str, topic_id: str) -> Topic | None:
        """The topic that has this name now, when it is another one than `topic_id`."""
        return self._metadata.newer_topic(name, topic_id)

    def held_until_ms(self, address: str, now_ms: int) -> int:
        """When the broker's quota lets us send again; 0 = now."""
        return self._context.throttles.until_ms(address, _METHOD, now_ms)

    def was_held_since(self, address: str, since_ms: int) -> bool:
        """The broker's quota kept us from sending at any moment since then."""
        return self._context.throttles.held_since(address, _METHOD, since_ms)

    def calls_in_flight(self, address: str) -> int:
        """How many Produce calls to this broker are under way."""
        return self._calls.lane(address).in_flight

    def delay_ms(self, attempt: int, at_least_ms: int = 0) -> int:
        """How long to wait before this try; it has a random part."""
        return self._context.delay_ms(attempt, at_least_ms)
