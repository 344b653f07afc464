"""A link sends what its partitions have in one request, takes each answer for its own session, and pauses after a loss."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

from oncelog.core.batch.header import partition_tag
from oncelog.errors import FencedLeaderEpochError, OncelogError, RequestTimedOutError, StorageError, UnknownTopicError
from oncelog.types import BrokerRef, Buffer, PartitionId
from oncelog.v1 import partition_pb2 as pb
from oncelog.wire import methods
from oncelog.wire.wire_errors import to_detail
from oncelog_partition_leader.config import BrokerConfig
from oncelog_partition_leader.partition.append_trace import TracedAppends
from oncelog_partition_leader.partition.broker_metrics import BrokerMetrics
from oncelog_partition_leader.replication.follower_link import FollowerLink
from oncelog_partition_leader.replication.moved_replicas import MovedReplicas
from oncelog_partition_leader.replication.observe.metrics_observer import MetricsObserver
from oncelog_runtime.metadata.cluster_keys import Reassignment
from oncelog_runtime.metadata.cluster_view import Versioned
from tests.unit.partition_leader.cluster_place import TOPIC_ID, Place, run
from tests.unit.partition_leader.log_helpers import batch, open_log, write

FOLLOWER = 1


class Led(SimpleNamespace):
    """A leadership over a real log, which notes what its follower did."""

    __hash__ = object.__hash__  # type: ignore[assignment]

    def next_session(self) -> int:
        self.sessions += 1
        return int(self.sessions)

    def start_session(self, ref: BrokerRef, number: int) -> None:
        self.told.append(("session", number))

    def acknowledge(self, ref: BrokerRef, number: int, end: int, _synced_end: int) -> None:
        self.told.append(("acknowledged", number, end))

    def cannot_write(self, ref: BrokerRef, number: int) -> None:
        self.told.append(("cannot write", number))


class Linked:
    """A link from broker 0 to broker 1, whose answers are `ends`: log end by partition."""

    def __init__(self, place: Place, bytes_per_s: int = 0) -> None:
        self.place = place
        self.view, self.transport, self.bugs = place.view, place.transport, place.bugs
        self.observer = MetricsObserver(BrokerMetrics(place.ports.metrics))
        self.config = replace(BrokerConfig(node_id=0), replicate_in_flight_max=1)
        self.moved = MovedReplicas(bytes_per_s, place.clock, place.view)
        self.requests: list[pb.ReplicateRequest] = []
        self.ends: dict[int, int] = {}
        self.readers_wait = False
        self.refusals: list[OncelogError] = []
        self.errors: list[OncelogError] = []
        self.heard: list[Any] = []
        place.transport.serve("broker-1:9092", methods.REPLICATE, self._replicate)
        host: Any = self
        self.link = FollowerLink(host, FOLLOWER, place.tasks, "memory")

    me = property(lambda self: self.place.me)

    def fenced(self, leadership: Any, error: OncelogError) -> None:
        self.heard.append("deposed")
        self.link.remove(leadership)

    def unreachable(self, ref: BrokerRef, error: OncelogError) -> None:
        self.heard.append(("unreachable", ref))

    def broken(self, leadership: Any) -> None:
        self.heard.append("broken")

    async def led(self, number: int = 0, batches: int = 1) -> Led:
        log = await open_log(self.place.node.disk, directory=f"logs/t-{TOPIC_ID}-{number}")
        for sequence in range(batches):
            write(log, batch(1, sequence, tag=partition_tag(TOPIC_ID, number)))
        return Led(
            partition=PartitionId(TOPIC_ID, number),
            epoch=1,
            high_watermark=0,
            held_everywhere=0,
            log=log,
            replicas=SimpleNamespace(epoch_start=0, committed=()),
            topic_config=SimpleNamespace(fsync=False),
            confirming=SimpleNamespace(asked=0, answered=lambda _broker, _question: None),
            traced=TracedAppends(),
            sessions=0,
            told=[],
        )

    async def _replicate(self, request: pb.ReplicateRequest, _payload: Buffer) -> tuple[pb.ReplicateReply, Buffer]:
        self.requests.append(request)
        if self.errors:
            raise self.errors.pop(0)
        reply = pb.ReplicateReply()
        for item in request.partitions:
            answer = reply.partitions.add(partition=item.partition, session=item.session)
            if self.refusals:
                answer.error.CopyFrom(to_detail(self.refusals.pop(0)))
                continue
            if item.length:
                self.ends[item.partition] = item.base_offset + 1
            answer.log_end_offset, answer.last_epoch = self.ends.get(item.partition, 0), -1
            answer.readers_wait = self.readers_wait
        return reply, b""


def test_a_session_begins_with_a_hello_and_then_streams() -> None:
    async def scenario(place: Place) -> None:
        s = Linked(place)
        led = await s.led()
        s.link.add(led)  # type: ignore[arg-type]
        await place.until(lambda: ("acknowledged", 1, 1) in led.told)
        assert [request.partitions[0].hello for request in s.requests] == [True, False]
        assert s.requests[0].follower.incarnation == place.ref(FOLLOWER).incarnation

    run(scenario)


def test_waiting_partitions_go_in_one_request() -> None:
    async def scenario(place: Place) -> None:
        s = Linked(place)
        for led in [await s.led(number) for number in range(3)]:
            s.link.add(led)  # type: ignore[arg-type]
        await place.until(lambda: len(s.requests) >= 2)
        assert [len(request.partitions) for request in s.requests[:2]] == [3, 3]

    run(scenario)


def test_a_watermark_alone_is_sent_after_a_short_delay() -> None:
    async def scenario(place: Place) -> None:
        s = Linked(place)
        led = await s.led()
        s.link.add(led)  # type: ignore[arg-type]
        await place.until(lambda: len(s.requests) == 2)
        led.high_watermark = 1
        before_ms = place.clock.monotonic_ms()
        s.link.watermark_moved(led)  # type: ignore[arg-type]
        await place.until(lambda: len(s.requests) == 3)
        assert s.requests[2].partitions[0].high_watermark == 1
        assert place.clock.monotonic_ms() - before_ms >= s.config.watermark_push_delay_ms

    run(scenario)


def test_a_lost_answer_ends_the_session_and_is_reported() -> None:
    async def scenario(place: Place) -> None:
        s = Linked(place)
        led = await s.led()
        s.errors.append(RequestTimedOutError("no answer"))
        s.link.add(led)  # type: ignore[arg-type]
        await place.until(lambda: ("acknowledged", 2, 1) in led.told)
        assert [item.partitions[0].session for item in s.requests] == [1, 2, 2]
        assert s.heard == [("unreachable", place.ref(FOLLOWER))]

    run(scenario)


def test_a_follower_that_answers_with_an_error_is_not_unreachable() -> None:
    async def scenario(place: Place) -> None:
        s = Linked(place)
        led = await s.led()
        s.errors.append(StorageError("its disk"))
        s.link.add(led)  # type: ignore[arg-type]
        await place.until(lambda: ("acknowledged", 2, 1) in led.told)
        assert s.heard == []

    run(scenario)


def test_a_follower_that_cannot_write_is_noted_and_greeted_again() -> None:
    async def scenario(place: Place) -> None:
        s = Linked(place)
        led = await s.led()
        s.refusals.append(StorageError("full"))
        s.link.add(led)  # type: ignore[arg-type]
        await place.until(lambda: ("acknowledged", 2, 1) in led.told)
        assert led.told[:2] == [("session", 1), ("cannot write", 1)]

    run(scenario)


def test_a_follower_that_knows_a_newer_epoch_ends_the_leadership() -> None:
    async def scenario(place: Place) -> None:
        s = Linked(place)
        led = await s.led()
        s.refusals.append(FencedLeaderEpochError(leader_epoch=1, known_epoch=2))
        s.link.add(led)  # type: ignore[arg-type]
        await place.until(lambda: s.heard == ["deposed"])
        await place.until(lambda: len(s.requests) == 1)
        assert led.told == [("session", 1)]

    run(scenario)


def test_a_bug_in_a_leadership_breaks_only_that_one() -> None:
    async def scenario(place: Place) -> None:
        s = Linked(place)
        bad, good = await s.led(0), await s.led(1)
        bad.confirming.answered = None
        s.link.add(bad)  # type: ignore[arg-type]
        s.link.add(good)  # type: ignore[arg-type]
        await place.until(lambda: ("acknowledged", 1, 1) in good.told)
        assert s.heard == ["broken"]
        place.take_faults()

    run(scenario)


def test_a_new_incarnation_begins_a_new_session() -> None:
    async def scenario(place: Place) -> None:
        s = Linked(place)
        led = await s.led()
        s.link.add(led)  # type: ignore[arg-type]
        await place.until(lambda: len(s.requests) == 2)
        await place.register(FOLLOWER)
        s.link.incarnation_is(place.ref(FOLLOWER))
        await place.until(lambda: ("session", 2) in led.told and len(s.requests) > 2)
        assert s.requests[2].follower.incarnation == place.ref(FOLLOWER).incarnation

    run(scenario)


def test_a_partition_that_is_refused_again_and_again_is_asked_for_less_and_less_often() -> None:
    """A follower that opens a thousand logs would otherwise refuse each of them twenty times a second."""

    async def scenario(place: Place) -> None:
        s = Linked(place)
        led = await s.led()
        s.refusals = [UnknownTopicError("no such replica here (yet)") for _ in range(6)]
        at_ms: list[int] = []
        s.link.add(led)  # type: ignore[arg-type]
        for count in range(1, 8):
            await place.until(lambda count=count: len(s.requests) >= count)  # type: ignore[misc]
            at_ms.append(place.clock.monotonic_ms())
        pauses_ms = [later - sooner for sooner, later in pairwise(at_ms)]
        assert all(abs(found - due) < 45 for found, due in zip(pauses_ms, (50, 100, 200, 400, 400, 400), strict=True))
        await place.until(lambda: ("acknowledged", 7, 1) in led.told)
        s.link.restart(led)  # type: ignore[arg-type]
        s.refusals = [UnknownTopicError("no such replica here (yet)")]
        await place.until(lambda: not s.refusals)
        refused_ms = place.clock.monotonic_ms()
        await place.until(lambda: ("session", 9) in led.told)
        assert place.clock.monotonic_ms() - refused_ms < 95, "an answer in between begins the pauses again"

    run(scenario)


def test_a_watermark_goes_at_once_to_a_follower_at_which_readers_wait() -> None:
    async def scenario(place: Place) -> None:
        s = Linked(place)
        s.readers_wait = True
        led = await s.led()
        s.link.add(led)  # type: ignore[arg-type]
        await place.until(lambda: ("acknowledged", 1, 1) in led.told)
        led.high_watermark = 1
        before_ms = place.clock.monotonic_ms()
        s.link.watermark_moved(led)  # type: ignore[arg-type]
        await place.until(lambda: len(s.requests) == 3)
        assert s.requests[2].partitions[0].high_watermark == 1
        assert place.clock.monotonic_ms() - before_ms < s.config.watermark_push_delay_ms // 2

    run(scenario)


def test_a_replica_that_is_moved_waits_for_its_data_and_no_other_partition_waits_with_it() -> None:
    async def scenario(place: Place) -> None:
        s = Linked(place, bytes_per_s=1_000)
        moved, other = await s.led(0, batches=20), await s.led(1, batches=20)
        entry = Versioned(Reassignment((0,), (0, FOLLOWER)), 1)
        place.view.reassignments[moved.partition] = entry

        def sent(partition: int) -> int:
            items = (item for request in s.requests for item in request.partitions)
            return sum(item.length for item in items if item.partition == partition)

        began_ms = place.clock.monotonic_ms()
        for led in (moved, other):
            s.link.add(led)  # type: ignore[arg-type]
        await place.until(lambda: sent(1) == other.log.size_bytes)
        assert place.clock.monotonic_ms() - began_ms < 100
        assert sent(0) < moved.log.size_bytes
        await place.until(lambda: ("acknowledged", 1, 20) in moved.told)
        took_ms = place.clock.monotonic_ms() - began_ms
        size = moved.log.size_bytes
        assert took_ms >= size - 1_000 - 500, "a second's worth goes at once, then a byte a millisecond"
        assert took_ms <= size + 2_000
        sizes = [item.length for request in s.requests for item in request.partitions if item.partition == 0]
        assert max(sizes) < 500, "a batch at a time"

    run(scenario)
