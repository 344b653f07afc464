"""Each order becomes one invoice, however often this is killed and started, and however many of it run at once.

python examples/process.py [BOOTSTRAP_SERVERS [TOPIC]]
"""

from __future__ import annotations

import asyncio
import sys

import oncelog

ORDERS = 20


async def main(servers: str, topic: str) -> None:
    stop = asyncio.Event()
    invoices = f"{topic}-invoices"

    def invoice(order: oncelog.ConsumerRecord[bytes, bytes]) -> str:
        if order.value == b"order 7":
            raise ValueError("order 7 has no price")
        if order.value.endswith(b"%d" % (ORDERS - 1)):
            stop.set()  # the last one; a service runs until it is told to stop
        return f"invoice for {order.value.decode()}"

    def unpriced(order: oncelog.ConsumerRecord[bytes, bytes], error: Exception) -> None:
        print(f"left out: {error}")

    async with oncelog.Client(servers) as client:
        for name in (topic, invoices):
            await client.admin.create_topic(name, partitions=2, if_not_exists=True)
        async with client.producer() as producer:
            await producer.send_many(topic, [("customer 1", f"order {number}") for number in range(ORDERS)])
        done = await client.process(topic, invoices, invoice, group_id=f"billing-{topic}", on_error=unpriced, stop=stop)
        print(f"{done.records} orders, {done.outputs} invoices")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:], *["localhost:9092", "orders"][len(sys.argv) - 1 :]))
