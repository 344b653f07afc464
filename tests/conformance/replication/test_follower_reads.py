"""A reader asks a follower in its rack: what it is shown there is what its leader would show, or the leader is asked.

Every broker of a script stands in a rack of its own: `broker-1` in `rack-1`.
"""

from __future__ import annotations

from typing import Any

import pytest

from oncelog import errors
from oncelog.client.admin.admin import AccessRule
from oncelog.types import TopicPartition
from oncelog.v1 import partition_pb2 as pa
from oncelog.wire import methods
from tests.conformance.cluster.test_access_rules import add, rules
from tests.conformance.script import Place, Script, about
from tests.conformance.tap import Tap
from tests.conformance.transactions.test_internal_topics import knock

WAIT_S = 3.0
"""Longer than a broker may be silent before its peers say that they do not hear it."""


def rack_of(node: str) -> str:
    return node.replace("broker", "rack")


def has_rack(tap: Tap) -> list[pa.FetchRequest]:
    """The requests that a follower may answer."""
    requests = [message.request for message in tap.seen]  # type: ignore[union-attr]
    return [request for request in requests if request.follower_may_answer]


async def caught_up(s: Script, node: str, place: Place, high_watermark: int) -> None:
    await s.until(lambda: s.replica(node, place).high_watermark == high_watermark)


async def offsets(s: Script, place: Place, node: str, offset: int = 0, **options: Any) -> list[int]:
    """The offsets of what a follower shows."""
    _, batches = await s.fetch(place, offset, to=node, near=True, **options)
    return [header.base_offset for header in batches]


async def test_every_in_sync_follower_shows_what_is_committed(s: Script) -> None:
    place = await s.place()
    await s.write(place, await s.producer(), "a", "b")
    for node in s.followers(place):
        await caught_up(s, node, place, 2)
        answer, batches = await s.fetch(place, to=node, near=True, epoch=s.state(place).leader_epoch)
        assert [header.next_offset for header in batches] == [2]
        assert (answer.high_watermark, answer.last_stable_offset, answer.next_offset) == (2, 2, 2)
        assert answer.leader_epoch == s.state(place).leader_epoch
        traffic = s.broker(node).replicas.metrics.traffic_of(s.replica(node, place).topic)
        assert 0 < traffic.follower_bytes_out == traffic.bytes_out


async def test_a_follower_answers_only_those_who_ask_for_it(s: Script) -> None:
    """As it always was: a client of an older version is sent to the leader."""
    place = await s.place()
    await s.write(place, await s.producer(), "a")
    follower = s.followers(place)[0]
    await caught_up(s, follower, place, 1)
    with pytest.raises(errors.NotLeaderError):
        await s.fetch(place, to=follower)
    answer, _ = await s.fetch(place, near=True)
    assert answer.next_offset == 1, "a leader answers everybody"


async def test_what_only_some_replicas_have_is_shown_by_no_follower(s: Script) -> None:
    """The record that the follower holds is gone after the next election."""
    place = await s.place()
    await s.write(place, await s.producer(), "a")
    leader, (follower, alone) = s.leader(place), s.followers(place)
    await caught_up(s, follower, place, 1)
    s.cut(alone, leader)
    await s.write(place, await s.producer(), "gone", acks=1)
    await s.until(lambda: s.replica(follower, place).log.log_end_offset == 2)
    for committed in (True, False):
        assert await offsets(s, place, follower, committed=committed) == [0]
        assert await offsets(s, place, follower, 1, committed=committed) == []
    s.kill(leader, follower)
    s.heal()
    assert await s.new_leader(place, leader) == alone
    s.restart(leader, follower)
    await s.rejoined(follower, place)
    assert await s.read(place) == ["a"]


async def test_a_reader_at_the_end_is_told_of_a_new_record_by_the_follower(s: Script) -> None:
    place = await s.place()
    writer = await s.producer()
    await s.write(place, writer, "a")
    follower = s.followers(place)[0]
    await caught_up(s, follower, place, 1)
    waiting = s.start(s.fetch(place, 1, to=follower, near=True, wait_ms=20_000))
    await s.sleep(0.5)
    began_ms = s.now_ms
    await s.write(place, writer, "b", seq=1)
    answer, _ = await waiting
    assert answer.next_offset == 2
    assert s.now_ms - began_ms < 200, "not at the end of its wait"


async def test_an_open_transaction_holds_a_reader_back_at_a_follower_too(s: Script) -> None:
    place = await s.place()
    plain, open_one = await s.producer(), await s.session("t")
    await s.write(place, plain, "a")
    await s.write(place, open_one, "held")
    await s.write(place, plain, "after", seq=1)
    follower = s.followers(place)[0]
    await caught_up(s, follower, place, 3)
    answer, _ = await s.fetch(place, to=follower, near=True)
    assert (answer.last_stable_offset, answer.next_offset) == (1, 1)
    assert await offsets(s, place, follower, committed=False) == [0, 1, 2]


async def test_a_marker_that_is_not_committed_ends_nothing_at_a_follower(s: Script) -> None:
    place = await s.place()
    writer = await s.session("t")
    await s.write(place, writer, "held")
    leader, (follower, late) = s.leader(place), s.followers(place)
    await caught_up(s, follower, place, 1)
    held = s.hold(methods.REPLICATE, source=leader, target=late, match=about(place))
    ending = s.start(s.end(writer, counts={place: 1}, visible=True))
    await s.until(lambda: s.replica(follower, place).log.log_end_offset == 2)
    assert await offsets(s, place, follower) == []
    held.release()
    await ending
    await caught_up(s, follower, place, 2)
    assert await offsets(s, place, follower) == [0, 1]


async def test_a_follower_names_what_was_aborted(s: Script) -> None:
    place = await s.place()
    plain, aborting = await s.producer(), await s.session("t")
    await s.write(place, plain, "a")
    await s.write(place, aborting, "never")
    await s.end(aborting, commit=False, visible=True)
    await s.write(place, plain, "b", seq=1)
    for follower in s.followers(place):
        await caught_up(s, follower, place, 4)
        answer, _ = await s.fetch(place, to=follower, near=True)
        assert [(entry.txn_producer_id, entry.txn_no) for entry in answer.aborted] == [
            (aborting.txn_producer_id, aborting.txn_no)
        ]
        assert await s.read(place, client_rack=rack_of(follower)) == ["a", "b"]


async def test_a_follower_that_left_the_isr_sends_readers_to_the_leader(s: Script) -> None:
    place = await s.place()
    writer = await s.producer()
    await s.write(place, writer, "a")
    leader, follower = s.leader(place), s.followers(place)[0]
    await caught_up(s, follower, place, 1)
    held = s.hold(methods.REPLICATE, source=leader, target=follower, match=about(place))
    await s.write(place, writer, "b", seq=1, acks=1)
    await s.until(lambda: follower not in s.isr(place))
    await s.sleep(0.1)
    with pytest.raises(errors.NotLeaderError, match="not in sync"):
        await s.fetch(place, to=follower, near=True)
    assert await s.read(place, client_rack=rack_of(follower)) == ["a", "b"]
    held.release()
    await s.rejoined(follower, place)
    await caught_up(s, follower, place, 2)
    await s.until(lambda: s.broker(follower).me() in (s.replica(follower, place).isr_seen or ()))
    assert await offsets(s, place, follower) == [0, 1]


async def test_a_follower_that_is_cut_off_from_everything_answers_nobody(s: Script) -> None:
    """It does not hear that it left the ISR, nor of the records that were committed since."""
    place = await s.place()
    await s.write(place, await s.producer(), "a")
    follower = s.followers(place)[0]
    await caught_up(s, follower, place, 1)
    s.cut(follower)
    s.cut_from_etcd(follower)
    await s.sleep(WAIT_S)
    with pytest.raises(errors.NotLeaderError, match="hear its leader"):
        await s.fetch(place, to=follower, near=True)


async def test_a_follower_answers_in_a_new_epoch_after_it_has_heard_from_its_leader(s: Script) -> None:
    place = await s.place()
    await s.write(place, await s.producer(), "a")
    old, (first, second) = s.leader(place), s.followers(place)
    for node in (first, second):
        await caught_up(s, node, place, 1)
    held = [s.hold(methods.REPLICATE, source=node, match=about(place)) for node in (first, second)]
    s.kill(old)
    new = await s.new_leader(place, old)
    follower = second if new == first else first
    await s.until(lambda: s.replica(follower, place).known_epoch == s.state(place).leader_epoch)
    with pytest.raises(errors.NotLeaderError, match="newest epoch"):
        await s.fetch(place, to=follower, near=True)
    for tap in held:
        tap.release()
    await s.retry(lambda: offsets(s, place, follower))
    assert await offsets(s, place, follower) == [0]


async def test_a_follower_never_calls_an_offset_out_of_range(s: Script) -> None:
    """A consumer would go back to where it begins; only the leader knows the ends of the log."""
    place = await s.place()
    await s.write(place, await s.producer(), "a")
    follower = s.followers(place)[0]
    await caught_up(s, follower, place, 1)
    with pytest.raises(errors.OffsetNotAvailableError):
        await s.fetch(place, 5, to=follower, near=True)
    with pytest.raises(errors.OffsetOutOfRangeError):
        await s.fetch(place, 5, near=True)


async def test_records_that_were_deleted_are_soon_not_shown_by_followers(s: Script) -> None:
    place = await s.place()
    await s.write(place, await s.producer(), "a", "b")
    follower = s.followers(place)[0]
    await caught_up(s, follower, place, 2)
    request = pa.DeleteRecordsRequest(topic_id=place.topic_id, partition=0, before_offset=2)
    await s.call(s.leader(place), methods.DELETE_RECORDS, request)
    await s.sleep(0.5)
    with pytest.raises(errors.OffsetNotAvailableError):
        await s.fetch(place, to=follower, near=True)


async def test_a_consumer_reads_in_its_rack_and_goes_to_the_leader_while_nobody_answers_there(s: Script) -> None:
    place = await s.place()
    writer, where = await s.producer(), TopicPartition(place.topic, place.partition)
    await s.write(place, writer, "0")
    near = s.followers(place)[0]
    await caught_up(s, near, place, 1)
    asked = s.watch(methods.FETCH, target=near, match=about(place))
    at_leader = s.watch(methods.FETCH, target=s.leader(place), match=about(place))
    seen: list[bytes | None] = []
    options: dict[str, Any] = {"client_rack": rack_of(near), "auto_offset_reset": "earliest", "fetch_max_wait_ms": 50}
    async with s.client() as client, client.consumer(**options) as consumer:
        await consumer.assign([where])

        async def read_on(number: int) -> None:
            await s.retry(lambda: s.write(place, writer, str(number), seq=number))
            while len(seen) <= number:
                seen.extend(record.value for record in await consumer.getmany(timeout_ms=200))

        await read_on(1)
        assert has_rack(asked)
        assert not at_leader.seen, "nothing was asked of the leader"
        s.kill(near)
        await read_on(2)
        assert at_leader.seen
        s.restart(near)
        await s.rejoined(near, place)
        before = len(has_rack(asked))
        await s.sleep(31)
        await read_on(3)
        await s.until(lambda: len(has_rack(asked)) > before + 5, "it reads there again")
        await read_on(4)
    assert seen == [str(number).encode() for number in range(5)]


async def test_a_reader_that_was_told_of_more_elsewhere_waits_at_a_follower(s: Script) -> None:
    """The follower's high watermark is behind the leader's; a consumer that changes over does not call that a lie."""
    place = await s.place()
    writer, where = await s.producer(), TopicPartition(place.topic, place.partition)
    await s.write(place, writer, "0")
    leader, near = s.leader(place), s.followers(place)[0]
    await caught_up(s, near, place, 1)
    refused = s.hold(methods.FETCH, target=near, match=about(place))
    options: dict[str, Any] = {"client_rack": rack_of(near), "auto_offset_reset": "earliest", "fetch_max_wait_ms": 50}
    async with s.client() as client, client.consumer(**options) as consumer:
        await consumer.assign([where])
        first = s.start(consumer.getmany(timeout_ms=10_000))
        (await refused.caught()).fail()
        assert len(await first) == 1, "from the leader"
        refused.close()
        held = s.hold(methods.REPLICATE, source=leader, target=near, match=lambda request, _: not _has_data(request))
        await s.write(place, writer, "1", seq=1)
        assert len(await consumer.getmany(timeout_ms=500)) == 1
        assert s.replica(near, place).high_watermark == 1, "it has the record, and has not heard that it is committed"
        await s.sleep(1)
        asked = s.watch(methods.FETCH, target=near, match=about(place))
        assert not await consumer.getmany(timeout_ms=500)
        assert has_rack(asked)
        held.release()
        await s.write(place, writer, "2", seq=2)
        assert [record.value for record in await consumer.getmany(timeout_ms=2_000)] == [b"2"]


def _has_data(request: pa.ReplicateRequest) -> bool:
    return any(item.length or item.hello for item in request.partitions)


async def test_a_new_leader_of_an_aborted_transaction_and_its_followers_agree(s: Script) -> None:
    place = await s.place()
    writer = await s.session("t")
    await s.write(place, writer, "never")
    old = s.leader(place)
    s.kill(old)
    new = await s.new_leader(place, old)
    await s.retry(lambda: s.end(writer, commit=False, visible=True))
    follower = next(node for node in s.followers(place) if node in s.cluster.services)
    await s.until(lambda: s.replica(follower, place).high_watermark == s.replica(new, place).high_watermark)
    answers = [(await s.fetch(place, to=node, near=True))[0] for node in (new, follower)]
    assert answers[0].aborted == answers[1].aborted
    assert answers[0].aborted


@rules
async def test_a_follower_asks_for_the_same_rights(s: Script) -> None:
    place = await s.place()
    await s.write(place, await s.producer(), "a")
    follower = s.followers(place)[0]
    await caught_up(s, follower, place, 1)
    item = pa.FetchPartition(topic_id=place.topic_id, partition=0, leader_epoch=-1)
    request = pa.FetchRequest(isolation_level=1, max_bytes=1 << 20, partitions=[item], follower_may_answer=True)
    with pytest.raises((errors.TopicAuthorizationError, errors.UnknownTopicError)):
        await knock(s, follower, "client", methods.FETCH, request, who="eve")
    await add(s, AccessRule("User:ann", "READ", "TOPIC", place.topic))
    reply = await knock(s, follower, "client", methods.FETCH, request, who="ann")
    assert reply.partitions[0].next_offset == 1
