"""Write ten records and read them back, in the order in which each partition has them.

python examples/produce_and_consume.py [BOOTSTRAP_SERVERS [TOPIC]]
"""

from __future__ import annotations

import asyncio
import sys

import oncelog

COUNT = 10


def text(data: bytes | None) -> str:  # a key or value may be null
    return "" if data is None else data.decode()


async def main(servers: str, topic: str) -> None:
    async with oncelog.Client(servers) as client:
        await client.admin.create_topic(topic, partitions=3, if_not_exists=True)
        # auto_offset_reset="latest": what comes from now on
        async with client.consumer(topic, key_deserializer=text, value_deserializer=text) as consumer:
            for partition in consumer.assignment():
                await consumer.position(partition)  # now, rather than with the first read
            async with client.producer(linger_ms=5) as producer:
                deliveries = [
                    await producer.send(topic, value=f"event {i}", key=f"device-{i % 4}") for i in range(COUNT)
                ]
                for delivery in deliveries:
                    written = await delivery  # raises what went wrong
                    print(f"wrote {written.topic}/{written.partition} at {written.offset}")
            left = COUNT
            async for record in consumer:
                print(f"read  {record.partition}/{record.offset}: {record.key} {record.value}")
                left -= 1
                if left == 0:
                    break


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:], *["localhost:9092", "events"][len(sys.argv) - 1 :]))
