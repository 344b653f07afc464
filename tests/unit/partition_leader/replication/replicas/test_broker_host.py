"""Events of leaderships, links and replicas reach the part that acts on them."""

from __future__ import annotations

from typing import Any

from oncelog.errors import FencedLeaderEpochError, StorageError
from tests.unit.partition_leader.cluster_place import P0, Place, run
from tests.unit.partition_leader.replication.replicas.parts import Parts, noting


def test_a_full_log_is_handed_over_once() -> None:
    async def scenario(place: Place) -> None:
        parts = Parts(place)
        leadership: Any = noting(partition=P0)
        partition = parts.replica()
        given: list[Any] = []

        async def give_away(led: Any, *, leaves: bool) -> None:
            given.append((led, leaves))

        parts.host.hand_over.give_away = give_away  # type: ignore[method-assign, assignment]
        for _ in range(2):
            parts.host.hand_over_full(leadership)
        await place.until(lambda: bool(given))
        assert (given, partition.calls) == ([([leadership], True)], []), "not twice in a moment"

    run(scenario)


def test_a_log_whose_disk_is_nearly_full_is_handed_over_and_its_replica_stays_in_the_isr() -> None:
    async def scenario(place: Place) -> None:
        parts = Parts(place)
        leadership: Any = noting(partition=P0)
        given: list[Any] = []

        async def give_away(led: Any, *, leaves: bool) -> None:
            given.append((led, leaves))

        parts.host.hand_over.give_away = give_away  # type: ignore[method-assign, assignment]
        for _ in range(2):
            parts.host.hand_over_nearly_full(leadership)
        await place.until(lambda: bool(given))
        assert given == [([leadership], False)], "not twice in a moment"

    run(scenario)


def test_a_newer_epoch_is_taken_only_from_the_present_leadership() -> None:
    async def scenario(place: Place) -> None:
        parts = Parts(place)
        present, earlier = noting(partition=P0), noting(partition=P0)
        partition = parts.replica(leadership=present)
        error = FencedLeaderEpochError(known_epoch=8)
        parts.host.fenced(earlier, error)
        assert (partition.calls, parts.told) == ([], [])
        parts.host.fenced(present, error)
        assert (partition.calls, parts.told) == ([("saw_epoch", 8)], [("apply", P0)])

    run(scenario)


def test_brokers_that_are_not_registered_or_refuse_connections_are_gone() -> None:
    async def scenario(place: Place) -> None:
        assert Parts(place).host.gone([1, 2, 9]) == {2, 9}

    run(scenario)


def test_a_bug_in_a_leadership_fails_its_log() -> None:
    async def scenario(place: Place) -> None:
        parts = Parts(place)
        partition = parts.replica()
        parts.host.broken(noting(partition=P0))
        ((verb, error),) = partition.calls
        assert (verb, error.context["reason"]) == ("fail", "bug")

    run(scenario)


def test_other_events_are_passed_on() -> None:
    async def scenario(place: Place) -> None:
        parts = Parts(place)
        host: Any = parts.host
        host.replicator, host.isr = noting(), noting()
        led = noting(partition=P0)
        parts.here.led[led] = None
        partition = parts.replica(leadership=led)
        host.appended(led)
        host.watermark_moved(led)
        host.taken_out(led, 2)
        host.leadership_ended(led)
        host.isr_may_change(led)
        host.enrol(led, None, 1, "tx")
        verbs = ["appended", "watermark_moved", "restart", "ended"]
        assert host.replicator.calls == [(verb, led) for verb in verbs]
        assert (host.isr.calls, partition.calls) == ([("look", led)], [])
        assert (parts.coordinators.calls, parts.here.led) == ([("enrol_soon", led)], {})
        host.log_failed(partition, StorageError("io"))
        await host.lower_claim(partition)
        assert parts.told == [("log failed", partition), ("lower claim", partition)]

    run(scenario)
