"""What a type checker knows of keys and values. Nothing here runs: test_options.py has mypy check it."""

from __future__ import annotations

import functools
import json
import pickle
from typing import Any, assert_type

import oncelog
from oncelog import sync

Sendable = bytes | bytearray | memoryview | str | None


class Order:
    number = 7


def encode(order: Order) -> bytes:
    return b"%d" % order.number


def decode(data: bytes | None) -> Order | None:
    return None if data is None else Order()


def decode_bytes(data: bytes) -> Order:
    return Order()


def as_text(order: Order) -> str:
    return str(order.number)


def with_indent(item: Order, indent: int) -> bytes:
    return b" " * indent


ORDERS = oncelog.Client("a:1").producer(value_serializer=encode)
SYNC_ORDERS = oncelog.SyncClient("a:1").producer(value_serializer=encode)
SYNC_PART: sync.Participant[Sendable, Order]


async def read(client: oncelog.Client) -> None:
    assert_type(client.consumer("t", group_id="g"), oncelog.Consumer[bytes | None, bytes | None])
    async with client.consumer("t", value_deserializer=decode) as consumer:
        assert_type(consumer, oncelog.Consumer[bytes | None, Order | None])
        async for record in consumer:
            assert_type(record.key, bytes | None)
            assert_type(record.value, Order | None)
        records = await consumer.getmany()
        assert_type(records, oncelog.Records[bytes | None, Order | None])
        assert_type(records[0].value, Order | None)
        async for batch in consumer.batches():
            assert_type(batch, oncelog.Records[bytes | None, Order | None])
        if (one := await consumer.getone()) is not None:
            assert_type(one.value, Order | None)
    both = client.consumer("t", key_deserializer=lambda key: (key or b"").decode(), value_deserializer=decode)
    assert_type(both, oncelog.Consumer[str, Order | None])
    loose = client.consumer("t", value_deserializer=lambda data: json.loads(data or b"null"))
    assert_type(loose, oncelog.Consumer[bytes | None, Any])


async def work(client: oncelog.Client) -> None:
    assert_type(client.worker("t", channel="c"), oncelog.Worker[bytes | None, bytes | None])
    async with client.worker("t", channel="c", value_deserializer=decode) as worker:
        assert_type(worker, oncelog.Worker[bytes | None, Order | None])
        async for message in worker:
            assert_type(message, oncelog.ChannelMessage[bytes | None, Order | None])
            assert_type(message.value, Order | None)
            await message.ack()
        await worker.ack(await worker.getmany())


async def write(client: oncelog.Client) -> None:
    assert_type(client.producer(linger_ms=5), oncelog.Producer[Sendable, Sendable])
    async with client.producer(value_serializer=encode, transactional_id="t") as producer:
        assert_type(producer, oncelog.Producer[Sendable, Order])
        await producer.send("t", value=Order(), key="7")
        await producer.send_and_wait("t", Order())
        await producer.send_many("t", [Order(), (b"7", Order()), oncelog.Message(Order(), "7")])
        async with producer.transaction() as txn:
            assert_type(txn, oncelog.Transaction[Sendable, Order])
            await txn.send("t", Order())
            await txn.send_many("t", [Order()])
        assert_type(await producer.begin_transaction(), oncelog.Transaction[Sendable, Order])
    joined = await client.join_transaction(oncelog.SharedBatch("t", "run", "app", 1), value_serializer=encode)
    assert_type(joined, oncelog.Participant[Sendable, Order])
    await joined.send_many("t", [Order(), (b"7", Order()), oncelog.Message(Order(), "7")])
    assert_type(client.producer(key_serializer=str.encode), oncelog.Producer[str, Sendable])
    await client.producer(value_serializer=functools.partial(with_indent, indent=2)).send("t", Order())
    any_value = client.producer(value_serializer=lambda value: json.dumps(value).encode())
    assert_type(any_value, oncelog.Producer[Sendable, Any])
    await any_value.send("t", {"number": 7})
    assert_type(client.producer(value_serializer=pickle.dumps), oncelog.Producer[Sendable, Any])
    assert_type(client.producer(value_serializer=json.dumps), oncelog.Producer[Sendable, Any])
    assert_type(client.producer(value_serializer=as_text), oncelog.Producer[Sendable, Order])
    await client.producer(value_serializer=as_text).send_and_wait("t", Order(), partition=0, headers={"h": "1"})


def without_a_loop(client: oncelog.SyncClient) -> None:
    assert_type(client.consumer("t"), sync.Consumer[bytes | None, bytes | None])
    with client.consumer("t", value_deserializer=decode) as consumer:
        assert_type(consumer, sync.Consumer[bytes | None, Order | None])
        for record in consumer:
            assert_type(record.value, Order | None)
        assert_type(consumer.getmany(), oncelog.Records[bytes | None, Order | None])
        if (one := consumer.getone()) is not None:
            assert_type(one.value, Order | None)
    with client.worker("t", channel="c", value_deserializer=decode) as worker:
        assert_type(worker, sync.Worker[bytes | None, Order | None])
        for message in worker:
            assert_type(message.value, Order | None)
            message.ack()
    assert_type(client.producer(), sync.Producer[Sendable, Sendable])
    with client.producer(value_serializer=encode, transactional_id="t") as producer:
        assert_type(producer, sync.Producer[Sendable, Order])
        producer.send("t", Order(), key=b"7").result()
        producer.send_and_wait("t", Order())
        producer.send_many("t", [(b"7", Order())])
        with producer.transaction() as txn:
            assert_type(txn, sync.Transaction[Sendable, Order])
            txn.send("t", Order())
            txn.send_many("t", [Order()])
    joined = client.join_transaction(oncelog.SharedBatch("t", "run", "app", 1), value_serializer=encode)
    assert_type(joined, sync.Participant[Sendable, Order])
    joined.send_many("t", [Order(), (b"7", Order())])


def what_accepts_more_or_gives_less_fits(client: oncelog.Client, names: dict[str, Any]) -> None:
    consume(client.consumer("t", value_deserializer=lambda data: Order()))
    produce(client.producer(key_serializer=lambda key: None if key is None else bytes(key), value_serializer=encode))
    plain(client.consumer(), client.producer(), oncelog.ConsumerRecord("t", 0, 0, 0, 1, Order(), ()))
    assert_type(client.consumer(**names), oncelog.Consumer[Any, Any])
    assert_type(client.producer(**names), oncelog.Producer[Any, Any])


def consume(consumer: oncelog.Consumer[bytes | None, Order | None]) -> None: ...


def produce(producer: oncelog.Producer[bytes, Order]) -> None: ...


def plain(consumer: oncelog.Consumer, producer: oncelog.Producer, record: oncelog.ConsumerRecord) -> None:
    assert_type(record.value, Any)
