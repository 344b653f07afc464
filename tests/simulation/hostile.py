"""A client that sends what cannot be: it must be refused, and harm nobody.

Rule 1: each request is wrong by its bytes alone, so a leader that is asked must refuse it, whatever it knows.
Rule 2: an answer that never comes proves nothing; an answer without an error is a violation.
Rule 3: it also speaks on links as no client does; nothing of that asks for anything that exists.
"""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any, Final

from oncelog import errors
from oncelog.core.batch.header import NO_SHARD, partition_tag
from oncelog.link import link_codec
from oncelog.link.link_codec import Frame
from oncelog.v1 import link_pb2
from oncelog.v1 import partition_pb2 as pa
from oncelog.wire import methods
from oncelog_runtime.metadata.cluster_keys import Partition, Topic, partition_key, topic_key
from tests.sealing import sealed
from tests.simulation.history import Key
from tests.simulation.workload import Workload

_TIMEOUT_MS: Final = 1_500
_MOST: Final = (1 << 31) - 1
_STRANGE_SHARE: Final = 0.5
_STRANGER: Final = 1 << 40
"""A producer id that nobody was given."""


class Hostile:
    """`sent` counts what was sent, `accepted` says which of it was not refused."""

    def __init__(self, workload: Workload, every_ms: float) -> None:
        self.sent = 0
        self.accepted: list[str] = []
        self._workload = workload
        self._every_ms = every_ms
        self._world = workload.cluster.world
        self._transport = self._world.client("hostile")

    async def main(self) -> None:
        """Until the workload stops."""
        random = self._world.random("hostile")
        while not self._workload.stopping:
            await asyncio.sleep(min(1.0, random.expovariate(1 / self._every_ms) / 1000))
            key = random.choice(self._workload.keys)
            name = random.choice(sorted(_REQUESTS))
            await self._send(name, key, random)

    async def _send(self, name: str, key: Key, random: Random) -> None:
        place = self._place(key)
        if place is None:
            return
        topic_id, leader = place
        if random.random() < _STRANGE_SHARE:
            self._knock(self._workload.cluster.node(leader).address, random)
        spec, request, payload = _REQUESTS[name](topic_id, key[1], random)
        self.sent += 1
        self._world.loop.note_fault(f"hostile {name}")
        try:
            reply, _ = await spec.call(
                self._transport, self._workload.cluster.node(leader).address, request, _TIMEOUT_MS, payload
            )
        except errors.OncelogError:
            return
        answers = getattr(reply, "partitions", [])
        if not answers or not all(answer.HasField("error") for answer in answers):
            self.accepted.append(f"hostile: {name} to {key} was answered without an error: {reply}")

    def _knock(self, address: str, random: Random) -> None:
        name = random.choice(sorted(_STRANGE_LINKS))
        self._world.loop.note_fault(f"hostile {name}")
        self._world.network.knock(address, "hostile", *_STRANGE_LINKS[name])

    def _place(self, key: Key) -> tuple[str, str] | None:
        """The topic's id, and the node that leads."""
        store = self._world.metadata
        topic = store.get(topic_key(key[0]))
        if topic is None:
            return None
        topic_id = Topic.decode(topic.value).topic_id
        state = store.get(partition_key(topic_id, key[1]))
        leader = None if state is None else Partition.decode(state.value).leader
        return None if leader is None else (topic_id, f"broker-{leader.broker_id}")


def _batch(topic_id: str, partition: int, **wrong: Any) -> bytes:
    """An idempotent batch of one record's size, but for what is wrong."""
    fields: dict[str, Any] = {
        "codec": 0,
        "attributes": 0,
        "schema_id": 0,
        "record_count": 1,
        "producer_id": -1,
        "producer_epoch": -1,
        "base_sequence": -1,
        "txn_producer_id": -1,
        "txn_no": 0,
        "base_timestamp_ms": 0,
        "max_timestamp_ms": 0,
        "uncompressed_length": 5_000,
        "tag": partition_tag(topic_id, partition),
        "txn_shard": NO_SHARD,
    }
    return sealed(b"x" * 5_000, **(fields | wrong))


Request = tuple[methods.MethodSpec[Any, Any], Any, bytes]


def _produce(topic_id: str, partition: int, batches: list[bytes], length: int | None = None) -> Request:
    items = [
        pa.ProducePartition(topic_id=topic_id, partition=partition, length=len(data) if length is None else length)
        for data in batches
    ]
    return methods.PRODUCE, pa.ProduceRequest(acks=-1, timeout_ms=_TIMEOUT_MS, partitions=items), b"".join(batches)


def _too_many_records(topic_id: str, partition: int, random: Random) -> Request:
    return _produce(topic_id, partition, [_batch(topic_id, partition, record_count=_MOST)] * random.randint(1, 5))


def _undecodable(topic_id: str, partition: int, random: Random) -> Request:
    return _produce(topic_id, partition, [_batch(topic_id, partition)] * random.randint(1, 3))


def _named_twice(topic_id: str, partition: int, random: Random) -> Request:
    return _produce(topic_id, partition, [_batch(topic_id, partition, record_count=_MOST)] * 2)


def _first_sequence_missing(topic_id: str, partition: int, random: Random) -> Request:
    wrong = {"producer_id": _STRANGER, "producer_epoch": 0, "base_sequence": random.choice([-1, -7, _MOST])}
    return _produce(topic_id, partition, [_batch(topic_id, partition, **wrong)])


def _other_partition(topic_id: str, partition: int, random: Random) -> Request:
    return _produce(topic_id, partition, [_batch(topic_id, partition, tag=random.getrandbits(31))])


def _noise(topic_id: str, partition: int, random: Random) -> Request:
    return _produce(topic_id, partition, [random.randbytes(random.randint(1, 400))])


def _wrong_length(topic_id: str, partition: int, random: Random) -> Request:
    return _produce(topic_id, partition, [_batch(topic_id, partition)], length=random.choice([-1, 0, 40, _MOST]))


def _settle_beyond(topic_id: str, partition: int, random: Random) -> Request:
    request = pa.GetProducerStateRequest(
        topic_id=topic_id, partition=partition, producer_id=_STRANGER, producer_epoch=_MOST, settle=True
    )
    return methods.GET_PRODUCER_STATE, request, b""


_REQUESTS: Final = {
    "too many records": _too_many_records,
    "partition named twice": _named_twice,
    "first sequence missing": _first_sequence_missing,
    "tag of another partition": _other_partition,
    "noise": _noise,
    "payload that nobody decodes": _undecodable,
    "wrong length": _wrong_length,
    "epoch beyond all": _settle_beyond,
}


def _hello(**fields: Any) -> bytes:
    said: dict[str, Any] = {"protocol_min": 1, "protocol_max": 1} | fields
    return link_codec.hello_envelope(link_pb2.Hello(**said))


def _asking(*numbers: int) -> bytes:
    return link_codec.encode_envelope(
        [Frame(n, link_codec.REQUEST, methods.PRODUCE.name + "Nothing", 1_000, payload=b"x" * 500) for n in numbers]
    )


_STRANGE_LINKS: Final[dict[str, tuple[bytes, ...]]] = {
    "link of garbage": (b"\xff\xff",),
    "link without a hello": (_asking(1),),
    "link of another cluster": (_hello(cluster_id="another"), _asking(1)),
    "link without a proof": (_hello(mechanism="SIMULATED"), _asking(1)),
    "link that asks for nothing": (_hello(), _asking(1, 2, 3)),
    "link with id 0": (_hello() + _asking(1, 0), _asking(2)),
    "link that ends in garbage": (_hello(), _asking(1), b"\xff\xff", _asking(2)),
}
