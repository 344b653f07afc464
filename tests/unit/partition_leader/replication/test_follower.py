"""A follower checks everything before it writes anything, and says how far its log goes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from oncelog import errors
from oncelog.types import BrokerRef
from oncelog.v1 import partition_pb2 as pb
from oncelog.v1 import types_pb2
from oncelog.wire.wire_errors import from_detail
from oncelog_partition_leader.core.log.disk_levels import Level
from oncelog_partition_leader.core.producers.producer_state import ProducerStates
from oncelog_partition_leader.partition.partition import LocalPartition
from oncelog_partition_leader.replication.follower import Follower
from oncelog_runtime.sim.world import SimWorld
from tests.unit.partition_leader.log_helpers import TOPIC_ID, batch, contents, open_log, write
from tests.unit.partition_leader.replica_host import ME, PLACE, ReplicaHost

EPOCH = 3


class Place:
    """One replica, its follower's side, and what a leader would send."""

    def __init__(self, host: ReplicaHost, replica: LocalPartition, sent: bytes) -> None:
        self.host = host
        self.replica = replica
        self.log = replica.log
        self.sent = sent
        """Two batches of an offset each, as a leader wrote them in `EPOCH`."""
        self.follower = Follower({PLACE: replica}, lambda: ME, host.tasks, host.bugs, host.disk_watch, host.disk_room)

    async def ask(self, *items: pb.ReplicatePartition, payload: bytes = b"", to: BrokerRef = ME) -> pb.ReplicateReply:
        ref = types_pb2.BrokerRef(broker_id=to.broker_id, incarnation=to.incarnation)
        return await self.follower.replicate(pb.ReplicateRequest(follower=ref, partitions=items), payload)

    async def one(self, item: pb.ReplicatePartition, payload: bytes = b"") -> pb.ReplicatePartitionReply:
        (answer,) = (await self.ask(item, payload=payload)).partitions
        return answer

    async def begun(self, session: int = 1) -> None:
        answer = await self.one(item(hello=True, session=session))
        assert not answer.HasField("error")

    async def refused(self, item: pb.ReplicatePartition, payload: bytes = b"") -> errors.OncelogError:
        before = self.log.log_end_offset
        answer = await self.one(item, payload)
        assert answer.HasField("error")
        assert self.log.log_end_offset == before, "a refused message leaves no trace"
        return from_detail(answer.error)


def item(**fields: Any) -> pb.ReplicatePartition:
    known = {"topic_id": TOPIC_ID, "partition": 3, "leader_epoch": EPOCH, "session": 1}
    return pb.ReplicatePartition(**{**known, **fields})


def run(scenario: Callable[[Place], Awaitable[None]], *, fsync: bool = False) -> None:
    with SimWorld(4) as world:
        host = ReplicaHost(world)

        async def whole() -> None:
            leader = await open_log(world.node("leader").disk)
            write(leader, batch(1, 0), batch(1, 1), epoch=EPOCH)
            place = Place(host, await host.replica(fsync=fsync), contents(leader))
            await scenario(place)
            await place.replica.close(clean=True)
            assert not host.faults

        world.run(whole())


def data(place: Place, base_offset: int = 0, **more: Any) -> pb.ReplicatePartition:
    return item(length=len(place.sent), base_offset=base_offset, **more)


# ---------------------------------------------------------------- what is checked


def test_another_incarnation_is_nobody_here() -> None:
    async def scenario(place: Place) -> None:
        with pytest.raises(errors.StaleBrokerEpochError):
            await place.ask(item(hello=True), to=BrokerRef(ME.broker_id, ME.incarnation - 1))

    run(scenario)


def test_lengths_that_do_not_add_up_are_refused_as_a_whole() -> None:
    async def scenario(place: Place) -> None:
        await place.begun()
        with pytest.raises(errors.InvalidRequestError):
            await place.ask(data(place), payload=place.sent + b"x")
        assert place.log.log_end_offset == 0

    run(scenario)


def test_an_unknown_replica_harms_no_other_one() -> None:
    async def scenario(place: Place) -> None:
        await place.begun()
        unknown = item(partition=9)
        reply = await place.ask(unknown, data(place), payload=place.sent)
        assert isinstance(from_detail(reply.partitions[0].error), errors.UnknownTopicError)
        assert reply.partitions[1].log_end_offset == 2

    run(scenario)


def test_an_older_leader_and_an_older_session_are_fenced() -> None:
    async def scenario(place: Place) -> None:
        await place.begun(session=5)
        for stale in ({"leader_epoch": EPOCH - 1, "session": 5}, {"session": 4}, {"session": 5, "hello": True}):
            error = await place.refused(item(**{"length": len(place.sent), **stale}), place.sent)
            assert isinstance(error, errors.FencedLeaderEpochError)

    run(scenario)


def test_batches_that_do_not_follow_the_log_end_are_refused() -> None:
    async def scenario(place: Place) -> None:
        await place.begun()
        error = await place.refused(data(place, base_offset=1), place.sent)
        assert isinstance(error, errors.OffsetOutOfRangeError)
        assert error.context["log_end_offset"] == "0"

    run(scenario)


def test_while_the_log_is_rewritten_nothing_is_taken() -> None:
    async def scenario(place: Place) -> None:
        await place.begun()
        async with place.replica.exclusive:
            error = await place.refused(data(place), place.sent)
        assert isinstance(error, errors.LeaderNotAvailableError)

    run(scenario)


def test_a_fault_of_ours_is_an_error_of_its_item_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(place: Place) -> None:
        await place.begun()
        monkeypatch.setattr(LocalPartition, "follow", lambda *_: 1 // 0)
        assert isinstance(await place.refused(data(place), place.sent), errors.InternalServerError)
        asyncio.get_running_loop().errors.clear()  # type: ignore[attr-defined]

    run(scenario)


# ---------------------------------------------------------------- what is taken


def test_a_hello_is_answered_with_the_end_and_its_epoch() -> None:
    async def scenario(place: Place) -> None:
        answer = await place.one(item(hello=True))
        assert (answer.log_end_offset, answer.last_epoch) == (0, -1)
        await place.one(data(place), place.sent)
        answer = await place.one(item(hello=True, session=2))
        assert (answer.log_end_offset, answer.last_epoch, answer.last_epoch_start) == (2, EPOCH, 0)

    run(scenario)


def test_the_leaders_bytes_are_taken_and_its_watermark_as_far_as_the_log_goes() -> None:
    async def scenario(place: Place) -> None:
        await place.begun()
        answer = await place.one(data(place, high_watermark=9), place.sent)
        assert answer.log_end_offset == 2
        assert contents(place.log) == place.sent
        assert place.replica.high_watermark == 2
        assert (await place.one(item(high_watermark=9))).log_end_offset == 2

    run(scenario)


def test_messages_of_one_link_are_taken_in_the_order_in_which_they_came() -> None:
    async def scenario(place: Place) -> None:
        await place.begun()
        half = len(place.sent) // 2
        first = item(length=half, base_offset=0)
        second = item(length=half, base_offset=1)
        answers = await asyncio.gather(place.one(first, place.sent[:half]), place.one(second, place.sent[half:]))
        assert [answer.log_end_offset for answer in answers] == [1, 2]

    run(scenario)


def test_what_every_replica_holds_is_the_newest_word_of_the_newest_leader() -> None:
    async def scenario(place: Place) -> None:
        assert place.replica.held_everywhere == 0
        await place.begun()
        answer = await place.one(data(place, held_everywhere=2), place.sent)
        assert (answer.log_end_offset, answer.synced_end_offset) == (2, 0), "nothing asked for a sync yet"
        assert place.replica.held_everywhere == 2
        await place.replica.sync.wait(2)
        assert (await place.one(item(held_everywhere=1))).synced_end_offset == 2
        assert place.replica.held_everywhere == 1, "it may go down: a replica begins again"
        place.replica.saw_epoch(EPOCH + 1)
        assert place.replica.held_everywhere == 0, "the next leader may have replicas that this one did not know"
        await place.one(item(hello=True, leader_epoch=EPOCH + 1))
        assert place.replica.held_everywhere == 0, "a hello says nothing of it"
        await place.one(item(leader_epoch=EPOCH + 1))
        assert place.replica.held_everywhere == 0, "an older version says nothing of it"

    run(scenario)


def test_in_fsync_mode_the_answer_names_what_was_synced_for_it() -> None:
    async def scenario(place: Place) -> None:
        await place.begun()
        answer = await place.one(data(place), place.sent)
        assert (answer.log_end_offset, answer.synced_end_offset) == (2, 2)

    run(scenario, fsync=True)


def test_a_cut_and_a_reset_end_where_the_leader_says() -> None:
    async def scenario(place: Place) -> None:
        await place.begun()
        await place.one(data(place), place.sent)
        await place.begun(session=2)
        assert (await place.one(item(session=2, truncate_to=1))).log_end_offset == 1
        await place.begun(session=3)
        states = ProducerStates()
        states.end_offset = 70
        snapshot = states.snapshot()
        reset = item(session=3, reset=True, base_offset=70, length=len(snapshot))
        assert (await place.one(reset, snapshot)).log_end_offset == 70
        assert place.log.log_start_offset == 70
        assert "claim lowered" in place.host.told

    run(scenario)


def test_the_note_of_an_epoch_waits_until_the_log_goes_as_far_as_the_leaders_did() -> None:
    async def scenario(place: Place) -> None:
        await place.begun()
        await place.one(item(epoch_start_offset=2))
        assert place.log.reached_epoch < EPOCH
        await place.one(data(place, epoch_start_offset=2), place.sent)
        assert place.log.reached_epoch == EPOCH

    run(scenario)


# ---------------------------------------------------------------- syncs


@pytest.mark.parametrize("said_by", ["the topic", "the leader"])
def test_in_fsync_mode_only_what_is_on_disk_is_acknowledged(said_by: str) -> None:
    async def scenario(place: Place) -> None:
        await place.begun()
        place.host.node.hang_disk()
        answering = asyncio.ensure_future(place.one(data(place, fsync=said_by == "the leader"), place.sent))
        await asyncio.sleep(0.5)
        assert not answering.done()
        place.host.node.thaw_disk()
        assert (await answering).log_end_offset == 2
        assert place.log.synced_end_offset == 2

    run(scenario, fsync=said_by == "the topic")


def test_while_the_disk_is_stalled_the_leader_hears_so_at_once() -> None:
    async def scenario(place: Place) -> None:
        await place.begun()
        place.host.disk_watch.stalled = True
        error = await place.refused(item(fsync=True))
        assert isinstance(error, errors.StorageError)
        assert error.context["reason"] == "stalled"
        assert (await place.one(data(place), place.sent)).log_end_offset == 2, "memory needs no disk"
        place.host.disk_watch.stalled = False

    run(scenario)


def test_a_nearly_full_disk_takes_no_copies_of_records() -> None:
    async def scenario(place: Place) -> None:
        await place.begun()
        place.host.disk_room.level = Level.RESERVED
        error = await place.refused(data(place), place.sent)
        assert isinstance(error, errors.StorageError)
        assert error.context["reason"] == "full", "the follower leaves the ISR at once, and holds nobody up"
        place.host.disk_room.level = Level.LOW
        assert (await place.one(data(place), place.sent)).log_end_offset == 2

    run(scenario)


def test_a_session_that_ended_while_the_disk_worked_acknowledges_nothing() -> None:
    async def scenario(place: Place) -> None:
        await place.begun()
        place.host.node.hang_disk()
        answering = asyncio.ensure_future(place.one(data(place), place.sent))
        await asyncio.sleep(0.1)
        place.replica.check_session(EPOCH, 2, hello=True)
        place.host.node.thaw_disk()
        answer = await answering
        assert isinstance(from_detail(answer.error), errors.LeaderNotAvailableError)

    run(scenario, fsync=True)


def test_a_log_that_failed_takes_nothing_and_says_why() -> None:
    async def scenario(place: Place) -> None:
        await place.begun()
        place.replica.fail(errors.StorageError("broken", reason="io"))
        assert isinstance(await place.refused(data(place), place.sent), errors.StorageError)
        assert len(place.host.failures) == 1

    run(scenario)


def test_an_acknowledgement_says_whether_readers_wait() -> None:
    class Ear:
        def wake(self) -> None:
            pass

    async def scenario(place: Place) -> None:
        await place.begun()
        assert not (await place.one(item())).readers_wait
        ear: Any = Ear()
        place.replica.watch(ear)
        assert (await place.one(data(place, high_watermark=2), place.sent)).readers_wait, "they did until this message"
        assert not place.replica.watchers, "the watermark has woken them"
        assert not (await place.one(item(high_watermark=2))).readers_wait

    run(scenario)
