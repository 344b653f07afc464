"""A reader of Kafka for `bench.consume`, in a process of its own: PYTHON bench/kafka_reader.py SERVERS TOPIC PARTITIONS

It needs only `confluent-kafka`, so it may run in a virtual environment that has nothing of ours. Each line of its input is
`fill COUNT SIZE`, which creates the topic and writes so many records, or `assigned COUNT` or `subscribed COUNT`, which reads so
many with `consume(10000)`. The answer to each is one number: records per second.
"""

from __future__ import annotations

import os
import sys
import time
import uuid
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

AT_ONCE = 10_000


def fill(servers: str, topic: str, partitions: int, count: int, size: int) -> float:
    """Writes with acks=all, in batches of 64 KiB, as the other side's are."""
    admin = AdminClient({"bootstrap.servers": servers})
    for created in admin.create_topics([NewTopic(topic, partitions, 3)]).values():
        created.result(60)
    producer = Producer(
        {
            "bootstrap.servers": servers,
            "acks": "all",
            "linger.ms": 50,
            "batch.size": 64 << 10,
            "enable.idempotence": True,
        }
    )
    value = os.urandom(size)
    began_s = time.perf_counter()
    for number in range(count):
        while True:
            try:
                producer.produce(topic, value, partition=number * partitions // count)
                break
            except BufferError:
                producer.poll(0.1)
    if left := producer.flush(120):
        raise RuntimeError(f"{left} records are not acknowledged")
    return count / (time.perf_counter() - began_s)


def consumer(servers: str) -> Any:
    """With the defaults of the library, in a group of its own, read_committed."""
    return Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": uuid.uuid4().hex,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )


def take(reader: Any, limit: int) -> int:
    """Number of records of one `consume`. Raises `KafkaException`."""
    found = reader.consume(limit, 1.0)
    for one in found[:1]:
        if one.error() is not None:
            raise KafkaException(one.error())
    return len(found)


def read(servers: str, topic: str, partitions: int, how: str, count: int) -> float:
    """The clock runs from the first record on, as it does for the other side."""
    reader = consumer(servers)
    if how == "assigned":
        reader.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(partitions)])
    else:
        reader.subscribe([topic])
    while not take(reader, 1):
        pass
    seen, began_s = 0, time.perf_counter()
    while seen < count:
        seen += take(reader, AT_ONCE)
    speed = seen / (time.perf_counter() - began_s)
    reader.close()
    return speed


def main(servers: str, topic: str, partitions: str) -> int:
    """Until the input ends."""
    for line in sys.stdin:
        what, *numbers = line.split()
        if what == "fill":
            found = fill(servers, topic, int(partitions), int(numbers[0]), int(numbers[1]))
        else:
            found = read(servers, topic, int(partitions), what, int(numbers[0]))
        print(found, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
