"""A record that a worker was given, with the words that settle it.

Rule 1: it is settled once: after `ack`, `nack` or `reject` every further word raises `IllegalStateError`. A word that the
        broker refused, or whose outcome is not known, may be said again.
Rule 2: a word returns when the broker has done what it says, durably. Words that are said meanwhile go together, in one call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from oncelog.client.consume.fetched_records import ConsumerRecord
from oncelog.client.home.stays_here import StaysHere
from oncelog.core.work.holding import Held
from oncelog.core.work.settlements import CHANNEL_PAUSE, NACK_DELAY_MS_MAX, REASON_CHARACTERS_MAX, Said, Verdict
from oncelog.errors import InvalidDelayError, InvalidRequestError
from oncelog.v1 import coordinator_pb2 as co


class Settles(Protocol):
    """The worker of a message, as far as the message needs it."""

    async def _say(self, messages: Sequence[ChannelMessage], said: Said) -> None:
        """Tells the brokers, and waits for their confirmation."""
        ...

    async def _acknowledge_in(self, messages: Sequence[ChannelMessage], name: co.TransactionName) -> None:
        """Acknowledges them in a transaction."""
        ...


class ChannelMessage(StaysHere):
    """See the module. `deliveries`: how often the record has been delivered, this time included."""

    __slots__ = (
        "_held",
        "_worker",
        "deliveries",
        "headers",
        "key",
        "offset",
        "partition",
        "timestamp_ms",
        "topic",
        "value",
    )

    def __init__(self, record: ConsumerRecord[bytes | None, bytes | None], held: Held, worker: Settles) -> None:
        self.topic: str = record.topic
        self.partition: int = record.partition
        self.offset: int = record.offset
        self.timestamp_ms: int = record.timestamp_ms
        """Milliseconds since 1970."""
        self.key: bytes | None = record.key
        self.value: bytes | None = record.value
        self.headers: tuple[tuple[str, bytes | None], ...] = record.headers
        self.deliveries: int = held.place.delivery
        self._held = held
        self._worker = worker

    @property
    def state(self) -> str:
        """ "held", "settling", "settled", or "lost" when it is another worker's by now; "waiting" before it is handed out."""
        return str(self._held.state.value)

    async def ack(self) -> None:
        """It is done: it never comes again. Returns when that is durable.

        Raises `NotOwnerError` when the broker has taken it away meanwhile, and it comes or has come again; `IllegalStateError`
        after it was settled; what else kept the broker from it: then the outcome is not known, and this may be called again.
        """
        await self._worker._say((self,), Said(Verdict.ACK))

    async def nack(self, delay_ms: int | None = None) -> None:
        """It is not done, and comes again after `delay_ms`, 0 to a day; None = after the channel's own pause. Raises as
        `ack`.
        """
        await self._worker._say((self,), nack_of(delay_ms))

    async def touch(self) -> None:
        """It is still worked on: `ack_wait_ms` begins again. Raises as `ack`."""
        await self._worker._say((self,), Said(Verdict.TOUCH))

    async def reject(self, reason: str = "") -> None:
        """It can never be done: it is dead at once, and goes to the channel's dead-letter topic, with the reason. Raises
        as `ack`.
        """
        if len(reason) > REASON_CHARACTERS_MAX:
            raise InvalidRequestError(f"a reason has at most {REASON_CHARACTERS_MAX} characters", given=len(reason))
        await self._worker._say((self,), Said(Verdict.REJECT, reason=reason))

    def __repr__(self) -> str:
        return (
            f"ChannelMessage(topic={self.topic!r}, partition={self.partition}, offset={self.offset}, key={self.key!r},"
            f" deliveries={self.deliveries}, state={self.state!r})"
        )


def nack_of(delay_ms: int | None) -> Said:
    """Returns the word for a NACK with this delay. Raises `InvalidDelayError`."""
    if delay_ms is not None and (type(delay_ms) is not int or not 0 <= delay_ms <= NACK_DELAY_MS_MAX):
        raise InvalidDelayError(f"delay_ms is 0 to {NACK_DELAY_MS_MAX}, a day", given=delay_ms)
    return Said(Verdict.NACK, CHANNEL_PAUSE if delay_ms is None else delay_ms)


def held_of(messages: Sequence[Any]) -> list[Held]:
    """The entries of messages. Raises `TypeError` for anything else."""
    for message in messages:
        if not isinstance(message, ChannelMessage):
            raise TypeError(f"a worker settles the messages that it handed out, not a {type(message).__name__}")
    return [message._held for message in messages]
