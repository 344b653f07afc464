"""`acks=0` is at most once: what may have arrived is not sent again, what certainly did not is."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog import errors
from oncelog.v1 import partition_pb2 as pa
from oncelog.v1 import types_pb2
from oncelog.wire import methods
from tests.conformance.script import Place, Script

CARELESS: dict[str, Any] = {"acks": 0, "enable_idempotence": False, "request_timeout_ms": 500}


def unacknowledged(request: pa.ProduceRequest, _payload: bytes) -> bool:
    return request.acks == 0


async def copies(s: Script, place: Place) -> list[str]:
    """What is there after every repetition would have come."""
    await s.sleep(10)
    return await s.read(place)


async def test_without_acknowledgements_every_record_is_there_once(s: Script) -> None:
    place = await s.place()
    async with s.client() as client, client.producer(**CARELESS) as producer:
        for number in range(20):
            assert (await producer.send_and_wait(place.topic, b"%d" % number, partition=0)).offset == -1
    assert await copies(s, place) == [str(number) for number in range(20)]


async def test_without_acknowledgements_a_lost_answer_makes_no_second_copy(s: Script) -> None:
    place = await s.place()
    lost = s.lose_answers(methods.PRODUCE, match=unacknowledged)
    async with s.client() as client, client.producer(**CARELESS) as producer:
        for number in range(5):
            await producer.send_and_wait(place.topic, b"%d" % number, partition=0)
    assert len(lost.seen) == 5
    assert await copies(s, place) == [str(number) for number in range(5)]


async def test_without_acknowledgements_a_request_that_comes_late_comes_alone(s: Script) -> None:
    place = await s.place()
    held = s.hold(methods.PRODUCE, match=unacknowledged)
    async with s.client() as client, client.producer(**CARELESS) as producer:
        await producer.send_and_wait(place.topic, b"late", partition=0)
        held.close()
        await producer.send_and_wait(place.topic, b"next", partition=0)
        await s.sleep(5)
    (message,) = held.seen
    message.deliver_late()
    assert await copies(s, place) == ["next", "late"]


@pytest.mark.parametrize("is_dead", [True, False])
async def test_without_acknowledgements_a_leader_that_leads_no_more_is_left(s: Script, is_dead: bool) -> None:
    """A dead one refuses the connection; one that was deposed says so: in both cases nothing was written."""
    place = await s.place()
    old = s.leader(place)
    async with s.client(metadata_max_age_ms=600_000) as client, client.producer(**CARELESS) as producer:
        await producer.send_and_wait(place.topic, b"first", partition=0)
        await s.until(lambda: s.isr(place) == {"broker-0", "broker-1", "broker-2"})
        await s.sleep(1)
        if is_dead:
            s.kill(old)
        else:
            async with s.client() as operator:
                await operator.admin.transfer_leadership(place.topic, 0, int(s.followers(place)[0][-1]))
        await s.new_leader(place, old)
        await producer.send_and_wait(place.topic, b"second", partition=0)
    assert await copies(s, place) == ["first", "second"]


async def test_plain_records_without_acks_are_acknowledged_by_all(s: Script) -> None:
    """Callers with stubs alone that leave `acks` (and the time-out) out do not ask for records
    to be lost.
    """
    place = await s.place()
    request = pa.ProduceRecordsRequest(topic=place.topic, partition=0, records=[types_pb2.Record(value=b"x")])
    for node in ("broker-0", "broker-1", "broker-2"):
        assert (await s.call(node, methods.PRODUCE_RECORDS, request)).base_offset >= 0
    s.kill(*s.followers(place))
    await s.until(lambda: s.isr(place) == {s.leader(place)})
    with pytest.raises(errors.NotEnoughReplicasError):
        await s.call(s.leader(place), methods.PRODUCE_RECORDS, request)
    request.acks = 0
    assert (await s.call(s.leader(place), methods.PRODUCE_RECORDS, request)).base_offset == -1
