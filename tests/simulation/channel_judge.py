"""What workers of a channel saw and said: acknowledged records never come again, each record has one owner.

`Judge` is told of every delivery and every confirmed acknowledgement in the order of time, and knows which worker has a record
until when, as that worker knows it. A new leader knows nothing of what the former one gave out.

A simulation tells it of everything as it happens; the black box plays its journals back (`tests/blackbox/channel_judging.py`).
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Final, NamedTuple, Protocol

from oncelog import errors
from oncelog.client.work.message import ChannelMessage
from oncelog.core.work.message_states import MessageState

ACK_WAIT_MS: Final = 4_000


def now_s() -> float:
    """The simulation's own time, the same for everybody."""
    return asyncio.get_running_loop().time()


class Hold(Protocol):
    """What a worker knows of a record that it was given: from the leader of which epoch, until when, and what became of it."""

    leader_epoch: int
    until_ms: int
    state: MessageState


class Delivery(NamedTuple):
    """A record that was handed out."""

    value: int
    partition: int
    offset: int
    key: bytes | None
    hold: Hold

    @classmethod
    def of(cls, message: ChannelMessage) -> Delivery:
        """The delivery of this message."""
        value = int(message.value or b"0")
        return cls(value, message.partition, message.offset, message.key, message._held)


class Notes(Protocol):
    """Who is told what a worker does with a record (`settle`)."""

    def says(self, worker: str, delivery: Delivery) -> None:
        """An acknowledgement or a rejection is about to be sent."""

    def acknowledged(self, worker: str, delivery: Delivery) -> None:
        """The broker has confirmed the acknowledgement."""

    def rejected(self, worker: str, delivery: Delivery) -> None:
        """The broker has confirmed the rejection."""

    def gives_back(self, worker: str, delivery: Delivery) -> None:
        """A NACK is about to be sent."""


@dataclass(slots=True)
class Judge:
    """What workers saw and said of each value. `clock` tells the time in seconds."""

    clock: Callable[[], float] = now_s

    written: set[int] = field(default_factory=set)
    perhaps_written: set[int] = field(default_factory=set)
    acknowledged_s: dict[int, float] = field(default_factory=dict)
    """When the first acknowledgement was confirmed."""
    said: set[int] = field(default_factory=set)
    """Those of which an acknowledgement or a rejection was sent; it may count, whatever its worker was told: a copy of it that
    a next leader refuses says nothing of the first one."""
    delivered: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    dead: set[int] = field(default_factory=set)
    """Those whose rejection was answered."""
    letters: set[int] = field(default_factory=set)
    anomalies: list[str] = field(default_factory=list)
    is_ordered: bool = False
    """The channel keeps the order of keys."""
    newest: dict[tuple[int, bytes | None], int] = field(default_factory=dict)
    """Partition and key -> its highest offset that was handed out."""
    holders: dict[int, dict[str, Hold]] = field(default_factory=lambda: defaultdict(dict))
    """Value -> worker -> what the worker knows of the record that it got."""

    def handed_out(self, worker: str, delivery: Delivery) -> None:
        """A worker got a record."""
        value, now = delivery.value, self.clock()
        self.delivered[value] += 1
        for other, hold in self.holders[value].items():
            if other != worker and _is_owned(hold, delivery.hold, now):
                self.anomalies.append(f"two-owners: {value} came to {worker} at {now:.3f}, and {other} has it")
        self.holders[value][worker] = delivery.hold
        self._note_order(worker, delivery)
        acked_s = self.acknowledged_s.get(value)
        if acked_s is not None and now > acked_s:
            self.anomalies.append(
                f"acknowledged-again: {value} came to {worker} at {now:.3f}, acknowledged at {acked_s:.3f}"
            )

    def _note_order(self, worker: str, delivery: Delivery) -> None:
        key = delivery.partition, delivery.key
        newest = self.newest.get(key, -1)
        if self.is_ordered and delivery.offset < newest:
            self.anomalies.append(f"key-overtaken: {delivery.offset} of {key} came to {worker} after {newest}")
        self.newest[key] = max(newest, delivery.offset)

    def says(self, _worker: str, delivery: Delivery) -> None:
        """See `Notes`."""
        self.said.add(delivery.value)

    def gives_back(self, worker: str, delivery: Delivery) -> None:
        """See `Notes`."""
        self.holders[delivery.value].pop(worker, None)

    def acknowledged(self, _worker: str, delivery: Delivery) -> None:
        """See `Notes`."""
        self.acknowledged_s.setdefault(delivery.value, self.clock())

    def rejected(self, _worker: str, delivery: Delivery) -> None:
        """See `Notes`."""
        self.dead.add(delivery.value)

    def leaves(self, worker: str) -> None:
        """The worker is about to say so."""
        for held in self.holders.values():
            held.pop(worker, None)

    def lost(self) -> list[str]:
        """A sentence for each record that is nowhere, when everything has been done; `letters` holds all letters by now.

        What was said counts: it may have been done, whatever its worker was told.
        """
        lost = self.written - {*self.acknowledged_s} - self.letters - self.said
        texts = [f"lost-in-channel: {value} was written, and nobody has done it" for value in sorted(lost)]
        unwritten = self.dead - self.letters
        return texts + [f"lost-letter: {value} was rejected, and is in no letter" for value in sorted(unwritten)]

    def wrong_copies(self, copies: Counter[int]) -> list[str]:
        """A sentence for each record that was not copied once, and for each copy of nothing."""
        lost, strange = self.written - {*copies}, {*copies} - self.written - self.perhaps_written
        return [
            *(f"lost-copy: {value}" for value in sorted(lost)),
            *(f"copied-twice: {value}" for value, times in sorted(copies.items()) if times > 1),
            *(f"copied-from-nowhere: {value}" for value in sorted(strange)),
        ]


def _is_owned(hold: Hold, later: Hold, at_s: float) -> bool:
    """Whether the record was still its worker's when the same leader gave it to another one."""
    is_open = hold.state in (MessageState.HELD, MessageState.SETTLING)
    return is_open and hold.leader_epoch == later.leader_epoch and hold.until_ms > at_s * 1000


async def settle(message: ChannelMessage, notes: Notes, random: Random, name: str) -> None:
    """Does one of all the things that a worker may do with a record."""
    delivery, choice = Delivery.of(message), random.random()
    if choice < 0.70 or 0.80 <= choice < 0.97:
        notes.says(name, delivery)
    try:
        if choice < 0.70:
            await message.ack()
            notes.acknowledged(name, delivery)
        elif choice < 0.80:
            notes.gives_back(name, delivery)
            await message.nack(delay_ms=random.choice([0, 100, 2_000]))
        elif choice < 0.85:
            await asyncio.sleep(ACK_WAIT_MS / 1000 + 1)  # too late: it is another's by then
            await message.ack()
            notes.acknowledged(name, delivery)
        elif choice < 0.92:
            await asyncio.sleep(ACK_WAIT_MS / 2000)
            await message.touch()
            await asyncio.sleep(ACK_WAIT_MS / 2000)
            await message.ack()
            notes.acknowledged(name, delivery)
        elif choice < 0.97:
            await message.reject("bad")
            notes.rejected(name, delivery)
    except errors.NotOwnerError:
        pass
    except errors.OncelogError as error:
        if not error.retriable and not isinstance(error, errors.IllegalStateError):
            raise
