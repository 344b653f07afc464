"""A log is opened until that succeeds, closed or removed only as etcd says, and each step ends with another look."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from oncelog.errors import MetadataUnavailableError, OncelogError, StorageError
from oncelog.types import BrokerRef
from oncelog_partition_leader.replication.replicas.log_keeper import LogKeeper
from oncelog_runtime.metadata.cluster_keys import DeletedTopic, deleted_topic_key
from tests.unit.partition_leader.cluster_place import P0, TOPIC_ID, Place, run
from tests.unit.partition_leader.log_helpers import open_log
from tests.unit.partition_leader.replication.replicas.parts import Parts


class Keeping:
    """The logs of broker 0. `errors`: what opening raises first."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.parts = Parts(place)
        self.here = self.parts.here
        self.errors: list[Exception] = []
        self.done: list[Any] = []
        opener: Any = SimpleNamespace(
            open=self._open,
            opened=lambda partition: self.done.append("opened"),
            failed=lambda _id: self.done.append("failed"),
            forget=lambda _id: self.done.append("forgotten"),
            directory_of=lambda topic, partition: f"logs/{topic}-{partition.topic_id}-{partition.partition}",
        )
        leftovers: Any = SimpleNamespace(of=lambda _id: ["folder"], trash_all=self._trash, put_away=self._trash)
        self.logs = LogKeeper(self.parts.context, self.here, self.parts.host, opener, leftovers, self.parts.apply)

    async def _open(self, partition: Any, topic: str, _config: Any, *, rescan: bool) -> Any:
        if self.errors:
            raise self.errors.pop(0)
        self.done.append(f"rescan={rescan}")
        return await open_log(self.place.node.disk, directory=f"logs/{topic}-{partition.topic_id}-0")

    async def _trash(self, what: Any) -> None:
        self.done.append(("trashed", what))

    def replica(self, **more: Any) -> Any:
        partition = self.parts.replica(**more)

        async def close(*, clean: bool) -> None:
            self.done.append(("closed", clean))
            if isinstance(more.get("close_error"), OncelogError):
                raise more["close_error"]

        partition.close = close
        return partition

    async def looked(self) -> None:
        await self.place.until(lambda: ("apply", P0) in self.parts.told)
        assert self.here.busy == {}


def test_a_log_is_opened_until_that_succeeds() -> None:
    async def scenario(place: Place) -> None:
        await place.topic()
        s = Keeping(place)
        s.errors = [StorageError("io"), ValueError("a bug")]
        s.logs.open(P0)
        await place.until(lambda: P0 in s.here.unopened)
        with pytest.raises(StorageError, match="not open"):
            s.logs.require_open(P0)
        await s.looked()
        assert (s.done, s.here.unopened) == (["rescan=False", "opened"], {})
        assert s.logs.require_open(P0) is s.here.partitions[P0]
        place.take_faults()

    run(scenario)


def test_a_log_of_a_topic_that_is_gone_is_not_opened() -> None:
    async def scenario(place: Place) -> None:
        s = Keeping(place)
        s.logs.open(P0)
        await s.looked()
        assert (s.done, s.here.partitions) == ([], {})

    run(scenario)


@pytest.mark.parametrize("reason", ["rot", "io"])
def test_a_failed_log_is_opened_again_and_a_rotten_one_wholly_checked(reason: str) -> None:
    async def scenario(place: Place) -> None:
        await place.topic()
        s = Keeping(place)
        s.replica(failed=StorageError("x", reason=reason))
        await s.logs.reopen(P0)
        assert s.done == ["failed", ("closed", False), f"rescan={reason == 'rot'}", "opened"]

    run(scenario)


@pytest.mark.parametrize(("was_deleted", "has_failed"), [(True, False), (False, False), (False, True)])
def test_the_log_of_an_absent_topic_is_trashed_only_when_it_was_deleted(was_deleted: bool, has_failed: bool) -> None:
    async def scenario(place: Place) -> None:
        if was_deleted:
            await place.put(deleted_topic_key(TOPIC_ID), DeletedTopic("t", 1).encode())
        s, doubts = Keeping(place), list[int]()
        place.view.on_doubt = lambda: doubts.append(1)
        s.logs.close_without_topic(s.replica(failed=StorageError("io") if has_failed else None))
        await s.looked()
        trashed = ["forgotten", ("trashed", ["folder"])]
        assert s.done == [("closed", not (was_deleted or has_failed)), *(trashed if was_deleted else [])]
        assert s.here.partitions == {}
        assert bool(doubts) is not was_deleted, "etcd may have been restored"

    run(scenario)


@pytest.mark.parametrize("is_moved", [True, False])
def test_a_replica_is_removed_only_when_etcd_confirms_it(is_moved: bool) -> None:
    async def scenario(place: Place) -> None:
        await place.topic()
        await place.lead(leader=1, isr=(1, 2), replicas=(1, 2) if is_moved else (0, 1, 2))
        s = Keeping(place)
        partition = s.replica()
        s.logs.remove(P0, "t")
        s.logs.remove(P0, "t")
        await s.looked()
        if is_moved:
            assert (s.done, s.here.partitions) == ([("closed", False), ("trashed", "folder"), "forgotten"], {})
        else:
            assert (s.done, s.here.partitions) == ([], {P0: partition})

    run(scenario)


def test_before_this_process_is_registered_nothing_is_removed() -> None:
    """Until then it is not known whether etcd was restored while it was down."""

    async def scenario(place: Place) -> None:
        await place.topic()
        await place.lead(leader=1, isr=(1, 2), replicas=(1, 2))
        s = Keeping(place)
        registration: Any = s.parts.context.cluster.registration
        registration.ref = BrokerRef(0, 0)
        s.replica()
        s.logs.remove(P0, "t")
        await asyncio.sleep(3)
        assert s.done == []
        registration.ref = place.me()
        await s.looked()
        assert ("trashed", "folder") in s.done

    run(scenario)


@pytest.mark.parametrize("is_moved", [True, False])
def test_a_replica_about_which_etcd_does_not_answer_before_the_broker_stops_is_closed_with_the_others(
    is_moved: bool,
) -> None:
    async def scenario(place: Place) -> None:
        await place.topic()
        await place.lead(leader=1, isr=(1, 2), replicas=(1, 2))
        s = Keeping(place)
        partition = s.replica()
        place.metadata.fail = [MetadataUnavailableError() for _ in range(100)]
        if is_moved:
            s.logs.remove(P0, "t")
        else:
            s.logs.close_without_topic(partition)
        await place.until(lambda: len(place.metadata.fail) < 100)
        assert s.here.partitions == {}, "it takes no messages"
        await place.tasks.stop()
        assert (s.done, s.here.partitions) == ([], {P0: partition})
        assert await s.logs.close_all(clean=True)
        assert s.done == [("closed", True)]

    run(scenario)


def test_where_there_is_nothing_nothing_is_removed() -> None:
    async def scenario(place: Place) -> None:
        s = Keeping(place)
        s.logs.remove(P0, "t")
        assert s.here.busy == {}

    run(scenario)


@pytest.mark.parametrize(
    ("more", "busy", "is_clean"),
    [
        ({}, False, True),
        ({}, True, False),
        ({"failed": StorageError("io")}, False, False),
        ({"close_error": StorageError("io")}, False, False),
    ],
)
def test_all_is_clean_only_if_every_log_was_closed_cleanly(more: dict[str, Any], busy: bool, is_clean: bool) -> None:
    async def scenario(place: Place) -> None:
        s = Keeping(place)
        s.replica(**more)
        if busy:
            s.here.busy[P0] = None
        assert await s.logs.close_all(clean=True) is is_clean
        assert s.here.closing

    run(scenario)
