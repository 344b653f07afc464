"""What a data directory vouches for after clean stops, kill -9, power cuts, and when it is new (KIP-858, KIP-966)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from random import Random

import pytest

from oncelog.errors import StorageError
from oncelog_partition_leader.log.checkpoints import CLEAN_SHUTDOWN, IDENTITY
from oncelog_partition_leader.log.data_dir.custody import Claim, Custody, read_log, write_log
from oncelog_runtime.sim import SimWorld
from oncelog_runtime.sim.disk import SimDisk

FILE = "logs/directory.json"


class Life:
    """One process on a simulated machine's disk. `start` returns its claim, or None while it has none."""

    def __init__(self, world: SimWorld) -> None:
        self.world = world
        self.disk: SimDisk = world.node("a").disk
        self.disk.make_dirs("logs")
        self.custody: Custody

    async def start(self, incarnation: int) -> Claim:
        await self.disk.sync_dir("")
        self.custody = Custody(self.disk, "logs", Random(incarnation))
        await self.custody.open()
        if self.custody.adopted(incarnation):
            await self.custody.store()
        return self.custody.claim

    def kill(self) -> None:
        self.disk = self.disk.after_kill()

    def power_cut(self) -> None:
        self.disk = self.disk.after_power_cut()


def lived(story: Callable[[Life], Awaitable[None]], seed: int = 1) -> None:
    with SimWorld(seed) as world:
        world.run(story(Life(world)))


def test_a_new_directory_vouches_for_nothing_that_was_before() -> None:
    async def story(life: Life) -> None:
        assert await life.start(10) == Claim(known_since=10, intact_since=10)

    lived(story)


def test_other_files_in_a_new_directory_are_no_logs() -> None:
    async def story(life: Life) -> None:
        life.disk.make_dirs("logs/.trash")
        assert await life.start(10) == Claim(known_since=10, intact_since=10)

    lived(story)


def test_kill_9_and_a_clean_stop_lose_nothing() -> None:
    async def story(life: Life) -> None:
        await life.start(10)
        directory_id = life.custody.directory_id
        life.kill()
        assert await life.start(20) == Claim(10, 10)
        await life.custody.close()
        life.power_cut()
        assert await life.start(30) == Claim(10, 10)
        assert life.custody.directory_id == directory_id

    lived(story)


def test_a_power_cut_may_have_lost_everything_before_the_next_incarnation() -> None:
    async def story(life: Life) -> None:
        await life.start(10)
        life.power_cut()
        assert await life.start(20) == Claim(10, 20)
        life.kill()
        assert await life.start(30) == Claim(10, 20), "and nothing since"

    lived(story)


def test_a_clean_stop_vouches_for_one_start_only() -> None:
    async def story(life: Life) -> None:
        await life.start(10)
        await life.custody.close()
        await life.start(20)
        life.power_cut()
        assert await life.start(30) == Claim(10, 30)

    lived(story)


def test_a_crash_before_the_first_incarnation_was_written_down_claims_less_and_never_more() -> None:
    async def story(life: Life) -> None:
        await life.start(10)
        life.power_cut()
        await Custody(life.disk, "logs", Random(1)).open()  # and it is killed before it is registered
        life.kill()
        assert await life.start(30) == Claim(10, 30)

    lived(story)


def test_logs_without_the_file_are_an_older_versions_and_perhaps_not_whole() -> None:
    async def story(life: Life) -> None:
        life.disk.make_dirs("logs/t-0-0")
        await life.disk.write_atomic("logs/t-0-0/partition.json", b"{}")
        assert await life.start(10) == Claim(known_since=0, intact_since=10)

    lived(story)


@pytest.mark.parametrize(
    "damaged", [b"", b"{", b"[]", b'{"clean": true}', b'{"clean":1,"boot_id":"","known_since":"x"}']
)
def test_a_damaged_file_vouches_only_for_what_is_still_to_come(damaged: bytes) -> None:
    async def story(life: Life) -> None:
        await life.start(10)
        await life.disk.write_atomic(FILE, damaged)
        assert (await life.start(20)).intact_since == 20

    lived(story)


def test_claims_go_back_with_a_restored_metadata_store() -> None:
    async def story(life: Life) -> None:
        await life.start(5_000)
        life.kill()
        assert await life.start(900) == Claim(900, 900)
        assert json.loads(life.disk.read_file(FILE))["intact_since"] == 900

    lived(story)


def test_a_start_that_failed_before_the_directory_was_taken_over_claims_nothing() -> None:
    async def story(life: Life) -> None:
        await Custody(life.disk, "logs", Random(1)).close()
        assert not life.disk.exists(FILE)

    lived(story)


def test_a_log_vouches_for_less_than_its_directory_after_it_failed() -> None:
    async def story(life: Life) -> None:
        life.disk.make_dirs("logs/t-0-0")
        assert read_log(life.disk, "logs/t-0-0", 30) == Claim()
        await write_log(life.disk, "logs/t-0-0", Claim().lost_before(30))
        life.power_cut()
        assert read_log(life.disk, "logs/t-0-0", 50) == Claim(0, 30)
        assert read_log(life.disk, "logs/t-0-0", 20) == Claim(0, 20), "no claim lies in the future"
        await life.disk.write_atomic("logs/t-0-0/custody.json", b"{")
        assert read_log(life.disk, "logs/t-0-0", 60) == Claim(0, 60)
        assert Claim(10, 10).and_also(Claim(0, 30)) == Claim(10, 30)

    lived(story)


def test_a_full_disk_keeps_a_killed_process_from_nothing_since_the_file_says_the_same() -> None:
    async def story(life: Life) -> None:
        await life.start(10)
        life.kill()
        life.disk.capacity = life.disk.used()
        custody = Custody(life.disk, "logs", Random(1))
        await custody.open()
        assert custody.adopted(20)
        assert custody.claim == Claim(10, 10)

    lived(story)


@pytest.mark.parametrize("seed", range(8))
def test_what_a_killed_process_has_renamed_and_not_synced_is_made_durable_by_the_next_one(seed: int) -> None:
    """Else a power cut brings the file of the clean stop back, and it vouches for what this process may have lost."""

    async def story(life: Life) -> None:
        await life.start(10)
        await life.custody.close()
        life.kill()
        before = life.disk.read_file(FILE)

        async def never(_path: str) -> None:
            await asyncio.Event().wait()

        life.disk.sync_dir = never  # type: ignore[method-assign]
        opening = asyncio.ensure_future(Custody(life.disk, "logs", Random(1)).open())
        while life.disk.read_file(FILE) == before:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        opening.cancel()
        life.kill()
        await Custody(life.disk, "logs", Random(1)).open()
        life.power_cut()
        assert (await life.start(20)).intact_since == 20

    lived(story, seed)


def test_a_log_that_was_set_aside_keeps_no_directory_from_a_clean_stop() -> None:
    async def story(life: Life) -> None:
        await life.start(10)
        aside = f"logs/t-{'a' * 32}-0.quarantined-1"
        life.disk.make_dirs(aside)
        await life.disk.write_atomic(f"{aside}/{IDENTITY}", b"")
        await life.custody.close()
        life.power_cut()
        assert await life.start(20) == Claim(10, 10)

    lived(story)


@pytest.mark.parametrize("is_marked", [False, True])
def test_a_clean_stop_vouches_for_no_log_without_a_mark_of_its_clean_end(is_marked: bool) -> None:
    """A process was killed with an unsynced tail, and the next one was stopped before it had opened that log."""

    async def story(life: Life) -> None:
        await life.start(10)
        for name in ("logs/t-id-0", "logs/u-id-0"):
            life.disk.make_dirs(name)
            await life.disk.write_atomic(f"{name}/{IDENTITY}", b"")
        await life.disk.write_atomic(f"logs/u-id-0/{CLEAN_SHUTDOWN}", b"")
        if is_marked:
            await life.disk.write_atomic(f"logs/t-id-0/{CLEAN_SHUTDOWN}", b"")
        life.kill()
        await life.start(20)
        await life.custody.close()
        life.power_cut()
        assert await life.start(30) == Claim(10, 10 if is_marked else 30)

    lived(story)


def test_a_directory_that_was_not_taken_over_is_not_vouched_for() -> None:
    async def story(life: Life) -> None:
        await life.start(10)
        life.power_cut()
        life.disk.capacity = life.disk.used()
        custody = Custody(life.disk, "logs", Random(1))
        with pytest.raises(StorageError, match="full"):
            await custody.open()
        life.disk.capacity = None
        before = life.disk.read_file(FILE)
        await custody.close()
        assert life.disk.read_file(FILE) == before
        assert (await life.start(20)).intact_since == 20

    lived(story)


@pytest.mark.parametrize("end", ["power cut", "clean stop"])
def test_a_claim_is_not_lowered_in_memory_alone(end: str) -> None:
    """On a full disk: nothing may be acknowledged before the file says less than it does."""

    async def story(life: Life) -> None:
        await life.start(10)
        if end == "clean stop":
            await life.custody.close()
            life.kill()
        else:
            life.power_cut()
        life.disk.capacity = life.disk.used()
        custody = Custody(life.disk, "logs", Random(1))
        for _ in range(2):
            with pytest.raises(StorageError, match="full"):
                await custody.open()
        life.disk.capacity = None
        await custody.open()

    lived(story)


# ---------------------------------------------------------------- an older image of the disk (S24)


def test_an_image_that_lacks_an_incarnation_is_recognised_though_it_was_taken_after_a_clean_stop() -> None:
    async def story(life: Life) -> None:
        await life.start(10)
        await life.custody.close()
        image = life.disk.read_file(FILE)
        await life.start(20)
        await life.custody.close()
        await life.disk.write_atomic(FILE, image)
        assert await life.start(30) == Claim(10, 10), "by itself it looks whole"
        assert life.custody.is_older_than(20), "and etcd names an incarnation that it never heard of"
        assert not life.custody.is_older_than(10)
        assert not life.custody.is_older_than(30), "its own"

    lived(story)


def test_a_directory_that_nobody_exchanged_is_no_image() -> None:
    async def story(life: Life) -> None:
        for incarnation, ends in ((10, life.kill), (20, life.power_cut), (30, life.kill)):
            await life.start(incarnation)
            ends()
        await life.start(40)
        assert not any(life.custody.is_older_than(named) for named in (0, 5, 10, 20, 30, 40, 50))
        life.custody.adopted(60)
        assert not life.custody.is_older_than(40), "this process had it before its lease ran out"

    lived(story)


def test_a_directory_of_an_older_version_does_not_say_who_used_it() -> None:
    async def story(life: Life) -> None:
        old = {"version": 1, "directory_id": "a", "boot_id": life.disk.boot_id, "clean": False}
        await life.disk.write_atomic(FILE, json.dumps({**old, "known_since": 10, "intact_since": 10}).encode())
        assert await life.start(30) == Claim(10, 10)
        assert not life.custody.is_older_than(20)
        life.kill()
        await life.start(40)
        assert life.custody.is_older_than(35), "from now on it says"

    lived(story)


def test_a_turned_bit_cannot_raise_a_claim() -> None:
    async def story(life: Life) -> None:
        await life.start(10)
        life.power_cut()
        assert await life.start(20) == Claim(10, 20)
        whole = life.disk.read_file(FILE)
        for position in range(len(whole)):
            await life.disk.write_atomic(FILE, whole[:position] + bytes([whole[position] ^ 1]) + whole[position + 1 :])
            life.kill()
            assert (await life.start(30)).intact_since >= 20

    lived(story)
