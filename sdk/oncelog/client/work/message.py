"""A record that a worker was given, with the methods that settle it.

Rule 1: it is settled once: after `ack`, `nack` or `reject` every further word raises `IllegalStateError`. A word that the
        broker refused, or whose outcome is not known, may be said again.
Rule 2: key and value are deserialized when they are read for the first time. What a deserializer raises is raised there, each
        time, and settles nothing: the record is still the worker's, to be rejected for example.
Rule 3: a word returns when the broker has done what it says, durably. Words that are said meanwhile go together, in one call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Generic, Protocol

from oncelog.client.consume.fetched_records import ConsumerRecord
from oncelog.client.home.stays_here import StaysHere
from oncelog.config import WorkerConfig
from oncelog.core.work.bounds import check_reason
from oncelog.core.work.holding import Held
from oncelog.core.work.settlements import ACK, CHANNEL_PAUSE, NACK_DELAY_MS_MAX, Said, Verdict
from oncelog.errors import InvalidDelayError
from oncelog.v1 import coordinator_pb2 as co
from oncelog.value_types import Deserializer, K, V, fills_up

_UNREAD: Final[object] = object()
"""The deserializer has not made it yet."""


class Settles(Protocol):
    """The worker of a message, as far as the message needs it."""

    async def _say(self, messages: Sequence[ChannelMessage], said: Said) -> None:
        """Tells the brokers, and waits for their confirmation."""
        ...

    async def _acknowledge_in(self, messages: Sequence[ChannelMessage], name: co.TransactionName) -> None:
        """Acknowledges them in a transaction."""
        ...


@fills_up
class ChannelMessage(StaysHere, Generic[K, V]):
    """See the module. `deliveries`: how often the record has been delivered, this time included."""

    __slots__ = (
        "_config",
        "_held",
        "_key",
        "_value",
        "_worker",
        "deliveries",
        "headers",
        "offset",
        "partition",
        "raw_key",
        "raw_value",
        "timestamp_ms",
        "topic",
    )

    def __init__(
        self, record: ConsumerRecord[bytes | None, bytes | None], held: Held, worker: Settles, config: WorkerConfig
    ) -> None:
        self.topic: str = record.topic
        """The topic's name."""
        self.partition: int = record.partition
        """The number of the partition."""
        self.offset: int = record.offset
        """The record's offset."""
        self.timestamp_ms: int = record.timestamp_ms
        """Milliseconds since 1970."""
        self.raw_key: bytes | None = record.key
        """The key's bytes, as they were sent; None: the record has none."""
        self.raw_value: bytes | None = record.value
        """The value's bytes, as they were sent; None: a null."""
        self.headers: tuple[tuple[str, bytes | None], ...] = record.headers
        """Names and values, in order."""
        self.deliveries: int = held.place.delivery
        """How often the record has been delivered, this time included."""
        self._held = held
        self._worker = worker
        self._config = config
        self._key: Any = record.key if config.key_deserializer is None else _UNREAD
        self._value: Any = record.value if config.value_deserializer is None else _UNREAD

    @property
    def key(self) -> K:
        """The key; None: the record has none. With a `key_deserializer` what that makes of it, and raises what that raises."""
        if self._key is _UNREAD:
            self._key = _read(self._config.key_deserializer, self.raw_key)
        found: K = self._key
        return found

    @property
    def value(self) -> V:
        """The value; None: a null. With a `value_deserializer` what that makes of it, and raises what that raises."""
        if self._value is _UNREAD:
            self._value = _read(self._config.value_deserializer, self.raw_value)
        found: V = self._value
        return found

    @property
    def state(self) -> str:
        """ "held", "settling", "settled", or "lost" when it is another worker's by now; "waiting" before it is handed out."""
        return str(self._held.state.value)

    async def ack(self) -> None:
        """It is done: it never comes again. Returns when that is durable.

        Raises `NotOwnerError` when the broker has taken it away meanwhile, and it comes or has come again; `IllegalStateError`
        after it was settled; what else kept the broker from it: then the outcome is not known, and this may be called again.
        """
        await self._worker._say((self,), ACK)

    async def nack(self, delay_ms: int | None = None) -> None:
        """It is not done, and comes again after `delay_ms`, 0 to a day; None = after the channel's own pause. Raises as
        `ack`.
        """
        await self._worker._say((self,), nack_of(delay_ms))

    async def touch(self) -> None:
        """It is still worked on: `ack_wait_ms` begins again. Raises as `ack`."""
        await self._worker._say((self,), Said(Verdict.TOUCH))

    async def reject(self, reason: str = "") -> None:
        """It can never be done: it is dead at once, and goes to the channel's dead-letter topic, with the reason.

        Returns when its letter is written there: from then on it never comes again, whatever fails. Raises as `ack`, and why
        the letter cannot be written (`UnknownTopicError` for a topic that does not exist): then the broker goes on trying.
        """
        await self._worker._say((self,), Said(Verdict.REJECT, reason=check_reason(reason)))

    def __repr__(self) -> str:
        return (
            f"ChannelMessage(topic={self.topic!r}, partition={self.partition}, offset={self.offset}, key={self.raw_key!r},"
            f" deliveries={self.deliveries}, state={self.state!r})"
        )


def _read(deserializer: Deserializer | None, data: bytes | None) -> object:
    assert deserializer is not None
    try:
        return deserializer(data)
    except StopIteration as error:  # it would look like the end of whatever the caller is in
        raise RuntimeError("a deserializer raised StopIteration") from error


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
