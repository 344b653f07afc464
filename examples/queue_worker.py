"""A queue of tasks that several workers share: one task fails at first and comes again, one can never be done.

python examples/queue_worker.py [BOOTSTRAP_SERVERS [TOPIC]]
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter

import oncelog

COUNT = 20
CHANNEL = "mailer"


async def work_on(client: oncelog.Client, topic: str, done: Counter[str]) -> None:
    """Takes tasks until all of them are done."""
    async with client.worker(
        topic, channel=CHANNEL, max_in_flight=4, ack_wait_ms=10_000, dead_letter_topic=f"{topic}-dead"
    ) as worker:
        while done.total() < COUNT:
            for message in await worker.getmany(timeout_ms=200):
                task = (message.value or b"").decode()
                try:
                    if task == "mail 7" and message.deliveries == 1:
                        await message.nack(delay_ms=300)  # the server of this mail is busy: again in a moment
                        continue
                    if task == "mail 13":
                        await message.reject("no such address")
                    else:
                        await message.ack()
                except oncelog.NotOwnerError:
                    continue  # it took too long, or a broker died: the task comes again, maybe to another worker
                done[task] += 1


async def main(servers: str, topic: str) -> None:
    async with oncelog.Client(servers) as client:
        for name in (topic, f"{topic}-dead"):
            await client.admin.create_topic(name, partitions=3, if_not_exists=True)
        async with client.producer() as producer:
            await producer.send_many(topic, [f"mail {i}" for i in range(COUNT)])
        done: Counter[str] = Counter()
        await asyncio.gather(*(work_on(client, topic, done) for _ in range(3)))
        print(f"done: {len(done)}, twice: {sum(count > 1 for count in done.values())}")
        found = await client.admin.describe_channel(topic, CHANNEL)
        print(
            f"left: {found.total('depth')}, delivered again: {found.total('redelivered')}, dead: {found.total('dead')}"
        )
        async with client.consumer(f"{topic}-dead", auto_offset_reset="earliest") as consumer:
            letter = await consumer.getone(timeout_ms=10_000)
        if letter is not None:
            reason = dict(letter.headers)["oncelog.dead.reason"]
            print(f"dead letter: {(letter.value or b'').decode()}, {(reason or b'').decode()}")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:], *["localhost:9092", "mails"][len(sys.argv) - 1 :]))
