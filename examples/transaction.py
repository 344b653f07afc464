"""One transaction over three partitions: all of it is visible, or nothing.

python examples/transaction.py [BOOTSTRAP_SERVERS [TOPIC]]
"""

from __future__ import annotations

import asyncio
import sys

import oncelog

PARTITIONS = 3


async def write(producer: oncelog.Producer[bytes, str], topic: str, word: str) -> None:
    async with producer.transaction() as txn:  # commits on exit, aborts on an error
        for partition in range(PARTITIONS):
            await txn.send(topic, value=word, partition=partition)
        await txn.flush()  # in the logs by now, and yet no read_committed consumer sees it
        if word == "wrong":
            raise ValueError("the third leg is wrong: nobody sees the other two")


async def main(servers: str, topic: str) -> None:
    async with oncelog.Client(servers) as client:
        await client.admin.create_topic(topic, partitions=PARTITIONS, if_not_exists=True)
        async with client.producer(transactional_id=f"transfer-{topic}") as producer:
            try:
                await write(producer, topic, "wrong")
            except ValueError as error:
                print(f"aborted: {error}")
            await write(producer, topic, "right")
            print("committed")
        async with client.consumer(topic, auto_offset_reset="earliest") as consumer:  # read_committed by default
            seen: set[int] = set()
            async for record in consumer:
                print(f"read  {record.partition}/{record.offset}: {(record.value or b'null').decode()}")
                seen.add(record.partition)
                if len(seen) == PARTITIONS:
                    break


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:], *["localhost:9092", "transfers"][len(sys.argv) - 1 :]))
