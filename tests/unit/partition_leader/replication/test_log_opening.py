"""Logs are opened so that none vouches for what it lacks, and a rotten one makes way for an empty one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from oncelog.errors import StorageError
from oncelog.types import PartitionId
from oncelog_partition_leader.core.replication.replica_state import EMPTY, LogState, Seal
from oncelog_partition_leader.log.data_dir.custody import Custody, read_log
from oncelog_partition_leader.log.data_dir.trash import Trash
from oncelog_partition_leader.log.log_config import LogConfig
from oncelog_partition_leader.log.partition_log import PartitionLog
from oncelog_partition_leader.log.tail_cache import TailMemory
from oncelog_partition_leader.replication.log_opening import LogOpener
from oncelog_partition_leader.replication.sealing import read_seal, write_seal
from oncelog_runtime.sim.world import SimWorld
from tests.unit.partition_leader.log_helpers import DIRECTORY, TOPIC_ID, contents, plain, write

PLACE = PartitionId(TOPIC_ID, 3)
CONFIG = LogConfig(tail_cache_bytes=0)
LOG = f"{DIRECTORY}/{0:020d}.log"


class Place:
    """An opener on one disk; `incarnation` is the broker's."""

    def __init__(self, world: SimWorld) -> None:
        node = world.node("b")
        self.disk = node.disk
        self.clock = node.clock
        self.incarnation = 50
        self.custody = Custody(self.disk, "logs", world.random("custody"))
        self.trash = Trash(self.disk, "logs", 1_000)
        self.opener = LogOpener(self.disk, "logs", self.trash, self.clock, self.custody, lambda: self.incarnation)

    async def open(self, *, rescan: bool = False) -> PartitionLog:
        return await self.opener.open(PLACE, "orders", CONFIG, rescan=rescan)

    async def written(self, count: int = 3) -> PartitionLog:
        """A new log with batches, all synced."""
        log = await self.open()
        write(log, *[plain()] * count)
        await log.sync()
        return log

    def replica(self, log: PartitionLog) -> Any:
        """What of a replica the opener looks at."""
        found = SimpleNamespace(
            id=PLACE, topic="orders", log=log, claim=None, seal=None, high_watermark=0, known_epoch=7
        )
        self.opener.opened(found)  # type: ignore[arg-type]
        return found

    def claim(self) -> tuple[int, int]:
        """(known since, intact since) of the log by itself."""
        claim = read_log(self.disk, DIRECTORY, self.incarnation)
        return claim.known_since, claim.intact_since


def run(scenario: Callable[[Place], Awaitable[None]]) -> None:
    with SimWorld(2) as world:

        async def whole() -> None:
            place = Place(world)
            place.disk.make_dirs("logs")
            await place.custody.open()
            place.custody.adopted(40)
            await scenario(place)

        world.run(whole())


# ---------------------------------------------------------------- what is vouched for


def test_a_log_that_is_made_vouches_for_nothing_before_it() -> None:
    async def scenario(place: Place) -> None:
        assert place.opener.directory_of("orders", PLACE) == DIRECTORY
        await (await place.open()).close()
        assert place.claim()[1] == 50
        place.incarnation = 60
        await (await place.open()).close()
        assert place.claim()[1] == 50, "opened again it is the same log"

    run(scenario)


def test_a_log_that_failed_vouches_for_less_and_that_is_on_disk_before_it_is_used() -> None:
    async def scenario(place: Place) -> None:
        await (await place.written()).close(clean=False)
        place.incarnation = 60
        place.opener.failed(PLACE)
        log = await place.open()
        assert place.claim()[1] == 60
        assert log.log_end_offset == 3
        await log.close()
        place.incarnation = 70
        await place.open()
        assert place.claim()[1] == 60, "it failed once"

    run(scenario)


def test_a_failed_log_that_nothing_counts_on_vouches_for_nothing_before_the_next_incarnation() -> None:
    async def scenario(place: Place) -> None:
        await (await place.written()).close(clean=False)
        place.opener.failed(PLACE)
        place.opener.left(PLACE)
        log = await place.open()
        assert read_log(place.disk, DIRECTORY, 99).intact_since == 51
        replica = place.replica(log)
        assert place.opener.owes(PLACE)
        await place.opener.in_sync(replica)
        assert read_log(place.disk, DIRECTORY, 99).intact_since == 50, "it holds everything again"
        assert not place.opener.owes(PLACE)

    run(scenario)


def test_a_tail_that_was_cut_lowers_the_claim_and_keeps_the_seal() -> None:
    async def scenario(place: Place) -> None:
        await (await place.written()).close(clean=False)
        await write_seal(place.disk, DIRECTORY, Seal(50, 1, 3))
        last = max(name for name in place.disk.list(DIRECTORY) if name.endswith(".log"))
        place.disk.open(f"{DIRECTORY}/{last}").append([plain()[:-1]])
        place.incarnation = 60
        log = await place.open()
        assert (log.log_end_offset, place.claim()[1]) == (3, 60)
        assert place.replica(log).seal == Seal(50, 1, 3), "what was synced is there"

    run(scenario)


def test_a_tail_whose_loss_could_not_be_written_down_is_not_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(place: Place) -> None:
        await (await place.written()).close(clean=False)
        last = max(name for name in place.disk.list(DIRECTORY) if name.endswith(".log"))
        place.disk.open(f"{DIRECTORY}/{last}").append([plain()[:-1]])
        place.incarnation = 60

        async def full(*_: object, **__: object) -> None:
            raise StorageError("full", reason="full")

        with monkeypatch.context() as patch:
            patch.setattr(place.opener, "lower_claim", full)
            with pytest.raises(StorageError):
                await place.open()
        assert not (await place.open()).lost_tail, "the first try has cut it"
        assert place.claim()[1] == 60

    run(scenario)


def test_a_claim_that_cannot_be_written_keeps_the_log_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(place: Place) -> None:
        await (await place.written()).close(clean=False)
        place.opener.failed(PLACE)

        async def full(*_: object) -> None:
            raise StorageError("full", reason="full")

        with monkeypatch.context() as patch:
            patch.setattr(place.disk, "write_atomic", full)
            with pytest.raises(StorageError):
                await place.open()
        place.incarnation = 60
        await place.open()
        assert place.claim()[1] == 60, "the next try still knows that it failed"

    run(scenario)


def test_before_a_log_is_copied_anew_it_loses_its_seal_and_its_claim() -> None:
    async def scenario(place: Place) -> None:
        log = await place.written()
        await write_seal(place.disk, DIRECTORY, Seal(50, 1, 3))
        replica = place.replica(log)
        place.incarnation = 60
        await place.opener.will_be_reset(replica)
        assert replica.claim.intact_since == 60
        assert replica.seal is None
        assert read_seal(place.disk, DIRECTORY) is None

    run(scenario)


def test_a_replica_says_what_holds_by_its_directory_and_by_its_log() -> None:
    async def scenario(place: Place) -> None:
        state = place.opener.status(place.replica(await place.written()))
        assert state.log == LogState(1, 3)
        assert (state.intact_since, state.known_since, state.known_epoch) == (50, 40, 7)

    run(scenario)


# ---------------------------------------------------------------- rot


def rot(place: Place) -> None:
    place.disk.remove(f"{DIRECTORY}/{0:020d}.index")
    place.disk.flip_bit(LOG, 150, 1)


def asides(place: Place) -> list[str]:
    return [name for name in place.disk.list("logs") if "quarantined" in name]


@pytest.mark.case("S24")
def test_a_log_on_an_older_image_of_the_disk_vouches_for_nothing_before_this_process() -> None:
    async def scenario(place: Place) -> None:
        replica = place.replica(await place.written())
        place.incarnation, place.custody._used_until, place.custody._first = 60, 50, 60
        assert place.opener.status(replica, named=50).intact_since == 50
        assert place.opener.status(replica, named=55).intact_since == 60, "etcd knows of a use that the disk does not"
        assert place.opener.status(replica, named=60).intact_since == 50, "this process's own"

    run(scenario)


@pytest.mark.parametrize("count", [1, 40])
def test_logs_share_the_memory_of_their_newest_batches(count: int) -> None:
    async def scenario(place: Place) -> None:
        memory = TailMemory(2_000)
        opener = LogOpener(
            place.disk, "logs", place.trash, place.clock, place.custody, lambda: place.incarnation, memory
        )
        logs = []
        for number in range(count):
            log = await opener.open(PartitionId(TOPIC_ID, number), "orders", LogConfig(tail_cache_bytes=1 << 20))
            logs.append(log)
            for _ in range(20):
                write(log, plain(tag=log.tag))
                assert memory.bytes <= 2_000
        for log in logs:
            await log.close()
        assert memory.bytes == 0, "a closed log holds nothing"

    run(scenario)


def test_a_rotten_log_is_set_aside_and_its_replica_is_not_electable_until_it_is_in_sync() -> None:
    async def scenario(place: Place) -> None:
        await (await place.written()).close(clean=False)
        rot(place)
        place.incarnation = 60
        log = await place.open()
        assert (log.log_end_offset, len(asides(place)), place.claim()[1]) == (0, 1, 60)
        replica = place.replica(log)
        state = place.opener.status(replica)
        assert (state.log, state.intact_since, state.known_since) == (EMPTY, 60, 60)
        await place.opener.in_sync(replica)
        assert asides(place) == [], "it was repaired from a healthy one"
        assert place.opener.status(replica).known_since == 40

    run(scenario)


def test_a_restart_remembers_that_a_log_was_set_aside() -> None:
    async def scenario(place: Place) -> None:
        await (await place.written()).close(clean=False)
        rot(place)
        await (await place.open()).close()
        again = LogOpener(place.disk, "logs", place.trash, place.clock, place.custody, lambda: 60)
        await again.open(PLACE, "orders", CONFIG)
        assert again.owes(PLACE)
        again.forget(PLACE)
        assert not again.owes(PLACE)

    run(scenario)


@pytest.mark.case("S32")
def test_rot_below_what_recovery_looks_at_is_found_by_a_rescan() -> None:
    async def scenario(place: Place) -> None:
        await (await place.written()).close()
        place.disk.flip_bit(LOG, 150, 1)
        log = await place.open()
        assert log.log_end_offset == 3, "a clean start reads no batch"
        await log.close()
        assert (await place.open(rescan=True)).log_end_offset == 0
        assert len(asides(place)) == 1

    run(scenario)


def test_any_other_failure_of_the_disk_sets_nothing_aside(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(place: Place) -> None:
        await (await place.written()).close()

        async def broken(*_: object) -> None:
            raise StorageError("broken", reason="io")

        with monkeypatch.context() as patch:
            patch.setattr(PartitionLog, "open", broken)
            with pytest.raises(StorageError):
                await place.open()
        assert asides(place) == []

    run(scenario)


def test_a_log_that_is_needed_again_comes_back_from_the_trash() -> None:
    async def scenario(place: Place) -> None:
        log = await place.written()
        held = contents(log)
        await log.close()
        await place.trash.put(DIRECTORY.removeprefix("logs/"), 1)
        log = await place.open()
        assert contents(log) == held
        assert place.claim()[1] == 50

    run(scenario)


def test_many_logs_are_opened_with_one_listing_of_their_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """With thousands of logs a listing for each of them takes longer than all the rest."""

    async def scenario(place: Place) -> None:
        listed: list[str] = []
        list_folder = place.disk.list
        monkeypatch.setattr(place.disk, "list", lambda path: listed.append(path) or list_folder(path))
        for number in range(4, 14):
            assert place.opener._asides("orders", PartitionId(TOPIC_ID, number)) == []
        assert listed.count("logs") == 1
        await asyncio.sleep(1)
        place.opener._asides("orders", PLACE)
        assert listed.count("logs") == 2, "a later look sees what others have changed"

    run(scenario)


def test_what_is_set_aside_is_seen_at_once() -> None:
    async def scenario(place: Place) -> None:
        log = await place.written()
        await log.close()
        assert place.opener._asides("orders", PLACE) == []
        rot(place)
        again = await place.open()
        assert again.log_end_offset == 0, "rotten"
        assert place.opener._asides("orders", PLACE) == [f"{DIRECTORY}.quarantined-0"]
        await place.opener.in_sync(place.replica(again))
        assert place.opener._asides("orders", PLACE) == []
        assert not place.disk.exists(f"{DIRECTORY}.quarantined-0")

    run(scenario)
