"""What workers of a channel saw and said, in a simulation: acknowledged records never come again, each record has one owner.

`Judge` notes every delivery and every confirmed acknowledgement with its time, and which worker has a record until when, as
that worker knows it. A new leader knows nothing of what the former one gave out.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from dataclasses import dataclass, field
from random import Random
from typing import Final

from oncelog import errors
from oncelog.client.home.context import now_ms
from oncelog.client.work.message import ChannelMessage
from oncelog.core.work.holding import Held
from oncelog.core.work.message_states import MessageState

ACK_WAIT_MS: Final = 4_000


def now_s() -> float:
    """The simulation's own time, the same for everybody."""
    return asyncio.get_running_loop().time()


@dataclass(slots=True)
class Judge:
    """What workers saw and said of each value."""

    written: set[int] = field(default_factory=set)
    perhaps_written: set[int] = field(default_factory=set)
    acknowledged_s: dict[int, float] = field(default_factory=dict)
    """When the first acknowledgement was confirmed."""
    said: set[int] = field(default_factory=set)
    """Those of which an acknowledgement or a rejection was sent; it may count, whatever its worker was told."""
    delivered: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    dead: set[int] = field(default_factory=set)
    """Those whose rejection was answered."""
    letters: set[int] = field(default_factory=set)
    anomalies: list[str] = field(default_factory=list)
    is_ordered: bool = False
    """The channel keeps the order of keys."""
    newest: dict[bytes | None, int] = field(default_factory=dict)
    """Key -> its highest offset that was handed out."""
    holders: dict[int, dict[str, Held]] = field(default_factory=lambda: defaultdict(dict))
    """Value -> worker -> what the worker knows of the record that it got."""

    def handed_out(self, worker: str, message: ChannelMessage) -> None:
        """A worker got a record."""
        value = int(message.value or b"0")
        self.delivered[value] += 1
        for other, held in self.holders[value].items():
            if other != worker and _is_owned(held, message._held):
                self.anomalies.append(f"{value} came to {worker} at {now_s():.3f}, and {other} has it")
        self.holders[value][worker] = message._held
        self._note_order(worker, message)
        acked_s = self.acknowledged_s.get(value)
        if acked_s is not None and now_s() > acked_s:
            self.anomalies.append(f"{value} came to {worker} at {now_s():.3f}, acknowledged at {acked_s:.3f}")

    def _note_order(self, worker: str, message: ChannelMessage) -> None:
        newest = self.newest.get(message.key, -1)
        if self.is_ordered and message.offset < newest:
            self.anomalies.append(f"{message.offset} of {message.key!r} came to {worker} after {newest}")
        self.newest[message.key] = max(newest, message.offset)

    def gives_back(self, worker: str, value: int) -> None:
        """The worker is about to say so."""
        self.holders[value].pop(worker, None)

    def leaves(self, worker: str) -> None:
        """The worker is about to say so."""
        for held in self.holders.values():
            held.pop(worker, None)

    def acknowledged(self, value: int) -> None:
        """The broker has confirmed it."""
        self.acknowledged_s.setdefault(value, now_s())


def _is_owned(held: Held, later: Held) -> bool:
    """Whether the record was still its worker's when the same leader gave it to another one."""
    is_open = held.state in (MessageState.HELD, MessageState.SETTLING)
    return is_open and held.leader_epoch == later.leader_epoch and held.until_ms > now_ms()


async def settle(message: ChannelMessage, judge: Judge, random: Random, name: str) -> None:
    """Does one of all the things that a worker may do with a record."""
    value, choice = int(message.value or b"0"), random.random()
    if choice < 0.70 or 0.80 <= choice < 0.97:
        judge.said.add(value)
    try:
        if choice < 0.70:
            await message.ack()
            judge.acknowledged(value)
        elif choice < 0.80:
            judge.gives_back(name, value)
            await message.nack(delay_ms=random.choice([0, 100, 2_000]))
        elif choice < 0.85:
            await asyncio.sleep(ACK_WAIT_MS / 1000 + 1)  # too late: it is another's by then
            await message.ack()
            judge.acknowledged(value)
        elif choice < 0.92:
            await asyncio.sleep(ACK_WAIT_MS / 2000)
            await message.touch()
            await asyncio.sleep(ACK_WAIT_MS / 2000)
            await message.ack()
            judge.acknowledged(value)
        elif choice < 0.97:
            await message.reject("bad")
            judge.dead.add(value)
    except errors.NotOwnerError:
        pass
    except errors.OncelogError as error:
        if not error.retriable and not isinstance(error, errors.IllegalStateError):
            raise
