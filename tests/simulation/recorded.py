"""What every load has in common, in a simulation and on a real cluster: all that it does goes into a history.

Rule 1: an operation goes into the history before it starts; `OK` and `FAIL` are only said on definite answers.
Rule 2: a process that meets an error goes on with a new session after a while; it never ends before `stopping` is set.
Rule 3: an error that a caller sees is noted, with what was being done; nothing is tried again in silence.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from random import Random
from typing import Any, Final

from oncelog import errors
from oncelog.client.client import Client
from tests.simulation.history import History, Key, Operation, Records, Status, Value

RETRY_S: Final = 0.2
Session = Callable[[Client, str, Random], Awaitable[None]]


def encode(value: Value) -> bytes:
    """The bytes of a record."""
    return str(value).encode()


class RecordedLoad(ABC):
    """`pause_max_s`: between a process's operations."""

    def __init__(self, history: History, pause_max_s: float) -> None:
        self.history = history
        self.pause_max_s = pause_max_s
        self.stopping = False

    # ------------------------------------------------------------ where it runs

    @abstractmethod
    def now_ms(self) -> int:
        """The time of the history."""

    @abstractmethod
    def new_key(self, random: Random) -> Key:
        """Where the next value goes."""

    @abstractmethod
    def note(self, process: str, kind: str, error: errors.OncelogError) -> None:
        """An error that a caller saw."""

    def ended(self, operation: Operation, error: BaseException | None) -> None:  # noqa: B027  (a hook)
        """Called at the end of each operation."""

    def acknowledged(self, key: Key, offset: int) -> None:  # noqa: B027  (a hook)
        """Called when a plain send has its offset."""

    def may_come_late(self) -> bool:
        """Copies of requests that were refused may be under way (docs/durability.md: such a network must not be)."""
        return False

    # ------------------------------------------------------------ the history

    def begin(self, process: str, kind: str) -> Operation:
        """A new operation in the history."""
        return self.history.invoke(process, kind, self.now_ms())

    def end(self, operation: Operation, status: Status, error: BaseException | None = None) -> None:
        """Its end."""
        cause = "" if error is None else type(error).__name__
        self.history.complete(operation, status, self.now_ms(), cause)
        self.ended(operation, error)

    def new_writes(self, random: Random, operation: Operation, count: int) -> None:
        """Fresh values for random partitions."""
        for _ in range(count):
            operation.writes.append((self.new_key(random), self.history.new_value()))
        self.history.will_write(operation)

    # ------------------------------------------------------------ what processes do

    async def sessions(self, client: Client, name: str, random: Random, session: Session) -> None:
        """One session after the other, until `stopping`; closes the client."""
        try:
            while not self.stopping:
                try:
                    await session(client, name, random)
                except errors.OncelogError as error:
                    self.note(name, "session", error)
                    await asyncio.sleep(RETRY_S)
        finally:
            await client.close()

    async def send_some(self, producer: Any, name: str, random: Random, count: int) -> None:
        """So many times single sends, some of them at the same time."""
        for _ in range(count):
            if self.stopping:
                return
            await asyncio.gather(*(self._send(producer, name, random) for _ in range(random.randint(1, 4))))
            await asyncio.sleep(random.random() * self.pause_max_s)

    async def _send(self, producer: Any, name: str, random: Random) -> None:
        """Whoever is told that nothing was written may write it again; then it is there once, not twice."""
        operation = self.begin(name, "send")
        self.new_writes(random, operation, 1)
        while True:
            ((topic, partition), value) = operation.writes[0]
            try:
                data, key = self.payload(topic, value), self.record_key(topic, value)
                metadata = await producer.send_and_wait(topic, value=data, key=key, partition=partition)
            except errors.OncelogError as error:
                if error.context.get("written") != "false" or self.may_come_late():
                    self.end(operation, Status.INFO, error)
                    return
                self.end(operation, Status.FAIL, error)
                if self.stopping or random.random() < 0.5:
                    return
                writes, operation = operation.writes, self.begin(name, "send")
                operation.writes += writes
                self.history.will_write(operation)
            else:
                self.answered(operation, metadata.offset)
                return

    def payload(self, topic: str, value: Value) -> bytes:
        """The bytes of a record; a load may fill them up with blanks."""
        return encode(value)

    def record_key(self, _topic: str, _value: Value) -> bytes | None:
        """The key of a record; a load may give it one."""
        return None

    def answered(self, operation: Operation, offset: int) -> None:
        """A send is OK, at this offset; -1: the leader no longer knows."""
        (write,) = operation.writes
        if offset >= 0:
            operation.write_offsets[write] = offset
            self.acknowledged(write[0], offset)
        self.end(operation, Status.OK)

    async def commit(self, txn: Any, operation: Operation, **options: Any) -> None:
        """Asks once more when the outcome is unknown, as the error says."""
        operation.asked = self.history.moment()
        try:
            await txn.commit(**options)
        except errors.CommitOutcomeUnknownError as error:
            self.note(operation.process, "commit", error)
            await txn.commit(**options)
        operation.is_visible = txn.visible

    async def end_by_outcome(self, txn: Any, operation: Operation, error: errors.OncelogError) -> bool:
        """A transaction whose end is not known here stays INFO, and its session is over (False); an abort is a FAIL."""
        try:
            await txn.abort()
        except errors.OncelogError:
            self.end(operation, Status.INFO, error)
            return False
        self.end(operation, Status.FAIL, error)
        return True

    async def poll(self, consumer: Any, name: str, kind: str) -> None:
        """One call of a reader: `poll`, or `peek` at what is not committed."""
        operation = self.begin(name, kind)
        try:
            records = await consumer.getmany(timeout_ms=500)
        except errors.OncelogError as error:
            self.end(operation, Status.INFO, error)
            await asyncio.sleep(RETRY_S)
            return
        for record in records:
            operation.reads.setdefault((record.topic, record.partition), []).append((record.offset, int(record.value)))
        self.end(operation, Status.OK)


async def read_to(consumer: Any, ends: Mapping[Key, int]) -> dict[Key, Records]:
    """All that a consumer, assigned to these partitions, sees below their ends."""
    found: dict[Key, Records] = {(topic, partition): [] for topic, partition in ends}
    while any([await consumer.position(key) < end for key, end in ends.items()]):
        for record in await consumer.getmany(timeout_ms=500):
            found[record.topic, record.partition].append((record.offset, int(record.value)))
    return found
