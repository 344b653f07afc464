"""Everything that the core of a producer asks its shell to do, and the facts that it asks the shell for.

Rule 1: the shell does every action, in the order in which the core gave them, before it gives the core anything else.
Rule 2: an action that ends in an answer is answered once, also when its task is cancelled before its first step.
Rule 3: facts come from memory: asking for one waits for nothing and changes nothing.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol, TypeAlias

from oncelog.core.produce.accumulator import Batch
from oncelog.errors import OncelogError
from oncelog.types import PartitionId


class Send:
    """Makes one Produce call: at most one batch per partition. Each batch gets one `ProducerCore.answered`."""

    __slots__ = ("address", "batches", "size_bytes")

    def __init__(self, address: str) -> None:
        self.address = address
        self.batches: list[Batch] = []
        self.size_bytes = 0

    def add(self, batch: Batch) -> None:
        """Another partition's batch."""
        self.batches.append(batch)
        self.size_bytes += len(batch.encoded)


class WaitForCall(NamedTuple):
    """Wakes the partition when a call to this broker ends: no other may begin before that."""

    partition: PartitionId
    address: str


class WakeAt(NamedTuple):
    """Wakes the partition at this time, in the loop's milliseconds. A later one replaces it."""

    partition: PartitionId
    at_ms: int


class AskState(NamedTuple):
    """Asks the leader whether it has this batch, until `RecoveryCore.awaits_state` is false; then `RecoveryCore.asked`."""

    partition: PartitionId
    batch: Batch


class RenewIdentity(NamedTuple):
    """Gets a producer id: `ProducerCore.renewed` or `renewal_failed`, and in any case `renewal_over`."""


class Refresh(NamedTuple):
    """Asks for the cluster's metadata, unless a request for it is under way; then `RecoveryCore.refreshed`."""


class Acknowledged(NamedTuple):
    """Tells those who wait for this batch that it is written."""

    batch: Batch


class Failed(NamedTuple):
    """Tells those who wait for this batch why it is not written, or why that is not known."""

    batch: Batch
    error: OncelogError


Action: TypeAlias = Send | WaitForCall | WakeAt | AskState | RenewIdentity | Refresh | Acknowledged | Failed


class KnownTopic(Protocol):
    """A topic as the metadata has it."""

    @property
    def topic_id(self) -> str:
        """Differs from that of an earlier topic of the same name."""
        ...

    @property
    def partitions(self) -> int:
        """How many it has."""
        ...


class Facts(Protocol):
    """The shell answers from its memory, as of this moment."""

    def leader(self, partition: PartitionId) -> str | None:
        """Address of the partition's leader; None = not known."""
        ...

    def is_gone(self, topic_id: str) -> bool:
        """No topic has this id any more."""
        ...

    def newer_topic(self, name: str, topic_id: str) -> KnownTopic | None:
        """The topic that has this name now, when it is another one than `topic_id`."""
        ...

    def held_until_ms(self, address: str, now_ms: int) -> int:
        """When the broker's quota lets us send again; 0 = now."""
        ...

    def was_held_since(self, address: str, since_ms: int) -> bool:
        """The broker's quota kept us from sending at any moment since then."""
        ...

    def calls_in_flight(self, address: str) -> int:
        """How many Produce calls to this broker are under way."""
        ...

    def delay_ms(self, attempt: int, at_least_ms: int = 0) -> int:
        """How long to wait before this try; it has a random part."""
        ...
