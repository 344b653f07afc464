"""A worker of a channel in a process of its own, for `tests.hostile.channel_faults`.

    python -m tests.hostile.channel_worker SERVERS TOPIC CHANNEL JOURNAL [OUTPUT]

Each line of the journal is an event with the machine's monotonic time, which all processes share: `D` a record was handed
out, `S` its acknowledgement is about to be sent, `A` it was confirmed. A process that is frozen between the hand-out and its
line would be blamed for what happened meanwhile, so the time of `D` is the one at which the SDK looked whether the record is
still its own. Lines reach the kernel before anything else happens, so a SIGKILL loses none. With OUTPUT each record is copied
there, and acknowledged in the transaction that holds the copy. Ends when its standard input ends.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
import time
from typing import Any

import uvloop

from oncelog import errors
from oncelog.client.client import Client

ACK_WAIT_MS = 5_000
_AT_ONCE = 20


class Journal:
    """Writes events, one `write` for each."""

    def __init__(self, path: str) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def note(self, kind: str, message: Any, at_s: float | None = None) -> None:
        """Notes what happens to a message now, or happened then; and who gave it, in which epoch and when."""
        held, at_s = message._held, time.monotonic() if at_s is None else at_s
        given = f"{message.partition} {held.broker} {held.leader_epoch} {held.from_ms / 1000:.3f}"
        os.write(self._descriptor, f"{kind} {int(message.value)} {at_s:.6f} {message.deliveries} {given}\n".encode())


async def work(client: Client, topic: str, channel: str, journal: Journal, over: asyncio.Event) -> None:
    """Works on records, several at once, with all that a worker may do."""
    chance = random.Random()

    async def one(message: Any) -> None:
        await asyncio.sleep(chance.random() * 0.02)
        try:
            if chance.random() < 0.02:
                await message.nack(delay_ms=chance.choice([0, 200, 2_000]))
                return
            journal.note("S", message)
            await message.ack()
        except errors.NotOwnerError:
            return
        except errors.OncelogError as error:
            if not error.retriable:
                raise
            return
        journal.note("A", message)

    async with client.worker(topic, channel=channel, max_in_flight=_AT_ONCE, ack_wait_ms=ACK_WAIT_MS) as worker:
        while not over.is_set():
            messages = await worker.getmany(timeout_ms=500)
            for message in messages:
                journal.note("D", message, worker._receiver.seen_ms / 1000)
            async with asyncio.TaskGroup() as group:
                for message in messages:
                    group.create_task(one(message))


async def copy(client: Client, topic: str, channel: str, output: str, over: asyncio.Event) -> None:
    """Copies records, acknowledging each in the transaction of its copy."""
    name = f"channel-worker-{os.getpid()}-{random.getrandbits(32):08x}"
    async with (
        client.producer(transactional_id=name, transaction_timeout_ms=5_000) as producer,
        client.worker(topic, channel=channel, max_in_flight=_AT_ONCE, ack_wait_ms=ACK_WAIT_MS) as worker,
    ):
        while not over.is_set():
            messages = await worker.getmany(timeout_ms=500)
            if not messages:
                continue
            try:
                async with producer.transaction() as txn:
                    for message in messages:
                        await txn.send(output, message.value, key=message.key)
                    await txn.ack(messages)
            except errors.OncelogError as error:
                if error.fatal or isinstance(error, errors.CommitOutcomeUnknownError):
                    raise


async def main(servers: str, topic: str, channel: str, journal: str, output: str = "") -> None:
    """Works until the standard input ends. What passes begins the work again, as a supervisor would."""
    over = asyncio.Event()
    asyncio.get_running_loop().run_in_executor(None, sys.stdin.read).add_done_callback(lambda _: over.set())
    noted = Journal(journal)
    while not over.is_set():
        try:
            async with Client(servers) as client:
                if output:
                    await copy(client, topic, channel, output, over)
                else:
                    await work(client, topic, channel, noted, over)
        except* errors.OncelogError:
            await asyncio.sleep(0.2)


if __name__ == "__main__":
    uvloop.run(main(*sys.argv[1:]))
