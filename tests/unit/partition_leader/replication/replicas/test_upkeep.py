"""One replica's fault does not keep the others from their upkeep, and a broker that is cut off gives way."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from oncelog.errors import StorageError
from oncelog.types import PartitionId
from oncelog_partition_leader.replication.replicas.upkeep import Upkeep
from tests.unit.partition_leader.cluster_place import P0, P1, Place, run
from tests.unit.partition_leader.replication.replicas.parts import Parts, noting


class Keeping:
    """The upkeep of broker 0."""

    def __init__(self, place: Place) -> None:
        self.parts = Parts(place)
        self.here = self.parts.here
        self.sealer = noting()
        self.looked: list[str] = []
        self.given: list[Any] = []
        host: Any = self.parts.host
        host.isr = noting()
        host.hand_over = SimpleNamespace(is_due=lambda _partition: True, give_away=self._give_away, leave=self._leave)
        leftovers: Any = SimpleNamespace(look=self._look)
        self.upkeep = Upkeep(self.parts.context, self.here, host, self.sealer, leftovers)

    async def _look(self) -> None:
        self.looked.append("leftovers")

    async def _give_away(self, led: Any, *, leaves: bool, to: Any = None) -> None:
        self.given.append((list(led), leaves, to))

    async def _leave(self, partitions: Any) -> None:
        self.given.append(list(partitions))

    def leads(self, *, must_give_way: bool = False, expire: Any = None, is_waiting: bool = True) -> Any:
        replicas = noting(must_give_way=lambda _now_ms, _alive: must_give_way, is_settled=False)
        more = {"expire": expire} if expire is not None else {}
        config = SimpleNamespace(fsync=False)
        led = noting(partition=P0, replicas=replicas, topic_config=config, is_waiting=is_waiting, **more)
        self.here.led[led] = self.here.waiting[led] = None
        return led


def _bug(*_: Any) -> None:
    raise ValueError("a bug")


def test_a_bug_in_one_leadership_keeps_no_other_from_its_time_outs() -> None:
    async def scenario(place: Place) -> None:
        s = Keeping(place)
        s.leads(expire=_bug)
        other = s.leads()
        s.upkeep.tick()
        assert other.calls == [("expire", place.clock.monotonic_ms())]
        place.take_faults()

    run(scenario)


def test_only_leaderships_in_which_something_waits_are_looked_at() -> None:
    async def scenario(place: Place) -> None:
        s = Keeping(place)
        waiting, quiet, idle = s.leads(), s.leads(is_waiting=False), s.leads()
        del s.here.waiting[idle]
        s.upkeep.tick()
        s.upkeep.tick()
        assert (len(waiting.calls), len(quiet.calls), idle.calls) == (2, 1, [])
        assert list(s.here.waiting) == [waiting], "what waits no more is forgotten"

    run(scenario)


def test_a_settled_isr_is_looked_at_only_when_brokers_change_or_fall_silent() -> None:
    async def scenario(place: Place) -> None:
        s = Keeping(place)
        settled, other = s.leads(), s.leads()
        looks = s.parts.host.isr.calls  # type: ignore[attr-defined]
        live = place.view.live()
        s.upkeep.look_at_isrs()
        assert settled.replicas.calls == [("settle", live)]
        settled.replicas.is_settled = True
        looks.clear()
        s.upkeep.look_at_isrs()
        assert looks == [("look", other)]
        s.parts.silent = [place.ref(1)]
        s.upkeep.look_at_isrs()
        assert looks == [("look", other), ("look", settled), ("look", other)]
        s.parts.silent = []
        looks.clear()
        del place.view.brokers[1]
        s.upkeep.look_at_isrs()
        s.upkeep.look_at_isrs()
        assert looks == [("look", settled), ("look", other), ("look", other)], "once for the change"

    run(scenario)


def test_isrs_seals_and_syncs_are_looked_after() -> None:
    async def scenario(place: Place) -> None:
        s = Keeping(place)
        led = s.leads()
        partition = s.parts.replica(sync=noting(), leadership=led)
        partition.log.wants_sync = True
        s.here.changed[partition] = None
        s.upkeep.look_at_isrs()
        assert (s.parts.host.isr.calls, s.sealer.calls) == ([("look", led)], [("look", partition)])  # type: ignore[attr-defined]
        assert partition.sync.calls == [("request", None)]
        partition.log.failed = StorageError("found by a read")
        s.upkeep.look_at_isrs()
        assert partition.calls == [("fail", partition.log.failed)]

    run(scenario)


def test_a_log_is_looked_at_until_it_wants_nothing_and_again_when_it_has_changed() -> None:
    async def scenario(place: Place) -> None:
        s = Keeping(place)
        partition = s.parts.replica(sync=noting())
        partition.log.wants_sync = True
        s.upkeep.look_at_isrs()
        assert partition.sync.calls == [], "it has not said that it changed"
        s.here.changed[partition] = None
        s.upkeep.look_at_isrs()
        s.upkeep.look_at_isrs()
        assert len(partition.sync.calls) == 2, "a checkpoint that could not be stored stays due"
        partition.log.wants_sync = False
        s.upkeep.look_at_isrs()
        assert s.here.changed == {}

    run(scenario)


def test_a_broker_that_is_cut_off_hands_over_to_those_that_live() -> None:
    async def scenario(place: Place) -> None:
        s = Keeping(place)
        isolated = s.leads(must_give_way=True)
        s.leads()
        s.upkeep.look_at_isrs()
        await place.seen()
        assert s.given == [], "it hears from everybody"
        s.parts.silent = [place.ref(1)]
        s.upkeep.look_at_isrs()
        await place.until(lambda: bool(s.given))
        assert s.given == [([isolated], False, [place.ref(1)])]

    run(scenario)


def test_retention_goes_on_after_an_error_and_ends_with_the_leftovers() -> None:
    async def scenario(place: Place) -> None:
        s = Keeping(place)
        trimmed: list[Any] = []

        async def trim(_now_ms: int) -> None:
            trimmed.append(P1)

        async def fail(_now_ms: int) -> None:
            raise StorageError("io")

        failing = s.parts.replica(trim=fail)
        s.here.partitions[P1] = noting(trim=trim)
        await s.upkeep.trim()
        assert (trimmed, s.looked, failing.calls) == ([P1], ["leftovers"], []), "the disk was full, the log is whole"
        failing.log.failed = StorageError("io")
        await s.upkeep.trim()
        assert [verb for verb, _ in failing.calls] == ["fail"]

    run(scenario)


def test_retention_of_many_logs_lets_others_run() -> None:
    """A log with nothing to delete awaits nothing: a thousand of them would hold the event loop."""

    async def scenario(place: Place) -> None:
        s = Keeping(place)
        trimmed = 0

        async def trim(_now_ms: int) -> None:
            nonlocal trimmed
            trimmed += 1

        for number in range(100):
            s.here.partitions[PartitionId("0" * 32, number)] = noting(trim=trim)
        seen: list[int] = []
        trimming = asyncio.ensure_future(s.upkeep.trim())
        while not trimming.done():
            seen.append(trimmed)
            await asyncio.sleep(0)
        assert trimmed == 100
        assert set(seen) - {0, 100}, "others ran in between"

    run(scenario)


def test_a_stalled_disk_fails_what_waits_for_it_and_is_left_once() -> None:
    async def scenario(place: Place) -> None:
        s = Keeping(place)
        partition = s.parts.replica(sync=noting(), topic_config=SimpleNamespace(fsync=True))
        s.upkeep.disk_stalled(False)
        assert partition.sync.calls == []
        s.upkeep.disk_stalled(True)
        s.upkeep.disk_stalled(True)
        assert partition.sync.calls == [("stalled", None)] * 2
        assert s.upkeep._leaves_disk
        await place.until(lambda: not s.upkeep._leaves_disk)

    run(scenario)
