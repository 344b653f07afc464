"""A dead letter is the record as it was, and says where it comes from."""

from __future__ import annotations

import pytest

from oncelog import errors
from oncelog.core.batch.batch import decode_batch, encode_batch
from oncelog.core.batch.record import EXPIRES_HEADER
from oncelog.core.names import waiting_topic
from oncelog_partition_leader.core.channels.settlement import Dead
from tests.unit.partition_leader.channel_world import LETTERS_ID, TOPIC_ID, ChannelWorld, play


def test_a_letter_has_key_value_headers_and_origin() -> None:
    async def scenario(world: ChannelWorld) -> None:
        partition = await world.lead(1)
        data = encode_batch(
            [b"k0", b"k1"],
            [b"v0", None],
            timestamps_ms=[1, 2],
            headers=[[], [("trace", b"1")]],
            topic_id=TOPIC_ID,
            partition=1,
        )
        await world.append(data, 1)
        await world.around.letters.bury(partition, "billing", "letters", [Dead(1, 4, "too bad"), Dead(0, 1, "")])
        request = world.transport.produced[0]
        assert (request.acks, request.partitions[0].topic_id, request.partitions[0].partition) == (-1, LETTERS_ID, 0)
        first, second = decode_batch(world.transport.letters[0][1])
        assert (first.key, first.value, first.headers[0]) == (b"k1", None, ("trace", b"1"))
        assert dict(first.headers[1:]) == {
            "oncelog.dead.topic": b"orders",
            "oncelog.dead.partition": b"1",
            "oncelog.dead.offset": b"1",
            "oncelog.dead.channel": b"billing",
            "oncelog.dead.deliveries": b"4",
            "oncelog.dead.reason": b"too bad",
        }
        assert (second.key, second.value) == (b"k0", b"v0")

    play(scenario)


def test_a_letter_has_no_time_to_live() -> None:
    async def scenario(world: ChannelWorld) -> None:
        partition = await world.lead(1)
        headers = [[("a", b"1"), (EXPIRES_HEADER, b"5"), ("b", b"2")]]
        data = encode_batch([None], [b"v"], timestamps_ms=[1], headers=headers, topic_id=TOPIC_ID, partition=1)
        await world.append(data, 1)
        await world.around.letters.bury(partition, "billing", "letters", [Dead(0, 1, "")])
        (letter,) = decode_batch(world.transport.letters[0][1])
        names = [name for name, _ in letter.headers]
        assert names[:2] == ["a", "b"]
        assert all(name.startswith("oncelog.dead.") for name in names[2:])

    play(scenario)


def test_a_record_that_was_deleted_gets_no_letter() -> None:
    async def scenario(world: ChannelWorld) -> None:
        partition = await world.lead()
        await world.send(b"a")
        await world.send(b"b")
        await partition.delete_before(1)
        await world.around.letters.bury(partition, "billing", "letters", [Dead(0, 1, "")])
        assert world.transport.produced == []

    play(scenario)


def test_letters_go_to_topics_of_users_that_exist() -> None:
    async def scenario(world: ChannelWorld) -> None:
        partition = await world.lead()
        await world.send(b"a")
        with pytest.raises(errors.UnknownTopicError):
            await world.around.letters.bury(partition, "billing", "nowhere", [Dead(0, 1, "")])
        for topic in ("__consumer_offsets", waiting_topic("letters")):
            with pytest.raises(errors.InvalidTopicError):
                await world.around.letters.bury(partition, "billing", topic, [Dead(0, 1, "")])

    play(scenario)
