"""The incarnation since which nothing that was written to this broker's data directory was lost: its claim.

    <log_dir>/directory.json        the claim of the whole directory: `Custody`
    <log_dir>/<log>/custody.json    the claim of one log, once it was created or has lost records by itself: `read_log`

Rule 1: kill -9 and a lease that ran out lose nothing (the kernel keeps written pages: same boot id), nor does a clean
        stop. After a power cut everything that was not synced may be gone, so the directory vouches for the new incarnation
        and later ones only. A directory without the file is a new one: it vouches for no earlier incarnation (KIP-858).
Rule 2: a claim is lowered on disk before this process acts, and raised only after all logs were closed cleanly. So a crash at
        any point makes the directory claim less than it could, never more.
        Both files have a checksum, so a turned bit cannot raise a claim either.
Rule 3: no claim lies in the future: when the metadata store was restored and its revisions went back, claims go back with it.
Rule 4: the file names the newest incarnation that used the directory. When etcd names a later one that is not of this
        process, the directory is an older image of the disk that was used since (S24), and it vouches for nothing from before.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from random import Random
from typing import Final

from oncelog.core.malformed import MALFORMED
from oncelog.errors import StorageError
from oncelog_partition_leader.core.log.folders import parse_folder
from oncelog_partition_leader.log.checkpoints import CLEAN_SHUTDOWN, CUSTODY, IDENTITY
from oncelog_runtime.core.checked_json import pack, unpack
from oncelog_runtime.ports import Disk

_DIRECTORY: Final = "directory.json"


@dataclass(frozen=True, slots=True)
class Claim:
    """The first incarnations for which a directory, or a log, vouches. 0 = for all; see `ReplicaState`."""

    known_since: int = 0
    intact_since: int = 0

    def within(self, newest: int) -> Claim:
        """Returns the claim lowered to `newest`, since no incarnation above it can exist yet (rule 3)."""
        return Claim(min(self.known_since, newest), min(self.intact_since, newest))

    def and_also(self, other: Claim) -> Claim:
        """Returns the claim that both support: the later incarnation of each."""
        return Claim(max(self.known_since, other.known_since), max(self.intact_since, other.intact_since))

    def lost_before(self, incarnation: int) -> Claim:
        """Returns the claim of a log whose newest records from before this incarnation may be gone."""
        return Claim(self.known_since, max(self.intact_since, incarnation))


_UNKNOWN: Final = 1 << 62
"""An older version did not note which incarnations used the directory."""
_PENDING: Final = -1
"""The value in the file for the first incarnation of the process that wrote it, which did not know it yet."""


def _is_aside(name: str) -> bool:
    folder = parse_folder(name)
    return folder is not None and folder.aside


class Custody:
    """The directory's claim: `open` before the broker registers, `adopted` with each incarnation, `close` at a clean stop."""

    def __init__(self, disk: Disk, log_dir: str, random: Random) -> None:
        self._disk = disk
        self._log_dir = log_dir
        self._path = f"{log_dir}/{_DIRECTORY}"
        self._random = random
        self._claim = Claim(_PENDING, _PENDING)
        self._used_until = _UNKNOWN
        """The newest incarnation that used the directory before this process."""
        self._is_taken = False
        self._stored = b""
        """The content of the file, as far as this process knows it."""
        self._first = self._newest = 0
        """The first and the newest incarnation of this process."""
        self.directory_id = ""

    @property
    def claim(self) -> Claim:
        """The directory's claim. Only after `adopted`."""
        assert min(self._claim.known_since, self._claim.intact_since) >= 0, "an incarnation is known"
        return self._claim

    async def open(self) -> None:
        """Reads the last process's claim, and takes the directory over. Raises `StorageError`; it may be called again then."""
        self._claim, self._used_until = Claim(_PENDING, _PENDING), _UNKNOWN
        if not self._read():
            self.directory_id = f"{self._random.getrandbits(128):032x}"
            if self._holds_logs():  # an older version, which had no such file: not new, and its tail may be lost
                self._claim = Claim(0, _PENDING)
        await self._write(clean=False)
        self._is_taken = True

    def adopted(self, incarnation: int) -> bool:
        """Notes that this process is registered under this incarnation. True when the file has changed and needs `store`."""
        before = self._claim, self._newest
        known, intact = self._claim.known_since, self._claim.intact_since
        self._claim = Claim(
            incarnation if known == _PENDING else known, incarnation if intact == _PENDING else intact
        ).within(incarnation)
        self._first, self._newest = self._first or incarnation, incarnation
        return (self._claim, self._newest) != before

    def is_older_than(self, incarnation: int) -> bool:
        """Returns True when an earlier process of this broker used another state of the directory under this incarnation."""
        return self._used_until < incarnation < self._first

    async def store(self) -> None:
        """Writes the claim to disk. Until then a crash only makes the next process claim less. Raises `StorageError`."""
        await self._write(clean=False)

    async def close(self) -> None:
        """Notes that every log was closed cleanly: the next process finds everything, whatever happens to the machine.

        Does nothing when the directory was never taken over, because the start failed before, or when a log has no mark of its
        own clean end. This process has not opened such a log, and one that was killed may have left it unsynced; to sync it
        here would prove nothing, since an earlier sync may have failed (docs/decisions/0006). Of a log that was set aside
        nothing is said. Raises `StorageError`.
        """
        if self._is_taken and not self._unclosed():
            await self._write(clean=True)

    def _unclosed(self) -> list[str]:
        names = [name for name in self._disk.list(self._log_dir) if not _is_aside(name)]
        return [name for name in names if self._holds(name, IDENTITY) and not self._holds(name, CLEAN_SHUTDOWN)]

    def _holds_logs(self) -> bool:
        return any(self._holds(name, IDENTITY) for name in self._disk.list(self._log_dir))

    def _holds(self, log: str, file: str) -> bool:
        return self._disk.exists(f"{self._log_dir}/{log}/{file}")

    def _read(self) -> bool:
        """Loads the claim from the file. False without one, or when it cannot be parsed."""
        if not self._disk.exists(self._path):
            return False
        try:
            stored = self._disk.read_file(self._path)
            found = unpack(stored)
            kept = bool(found["clean"]) or found["boot_id"] == self._disk.boot_id
            claim = Claim(int(found["known_since"]), int(found["intact_since"]) if kept else _PENDING)
            self.directory_id, self._claim = str(found["directory_id"]), claim
            self._used_until = self._newest = int(found.get("used_until", _UNKNOWN))
        except MALFORMED:
            return False
        self._stored = stored
        return True

    async def _write(self, *, clean: bool) -> None:
        value = {
            "directory_id": self.directory_id,
            "boot_id": self._disk.boot_id,
            "clean": clean,
            "used_until": self._newest,
            **asdict(self._claim),
        }
        packed = pack(value)
        if packed == self._stored:  # after a kill it says the same, and the disk may be full
            await self._disk.sync_dir(self._log_dir)  # the process before may have died between its rename and this
            return
        self._stored = b""
        await self._disk.write_atomic(self._path, packed)
        self._stored = packed


def read_log(disk: Disk, directory: str, newest: int) -> Claim:
    """Reads one log's own claim. A file that cannot be read vouches for the newest incarnation and later ones only."""
    path = f"{directory}/{CUSTODY}"
    if not disk.exists(path):
        return Claim()
    try:
        found = unpack(disk.read_file(path))
        return Claim(int(found["known_since"]), int(found["intact_since"])).within(newest)
    except (*MALFORMED, StorageError):
        return Claim(0, newest)


async def write_log(disk: Disk, directory: str, claim: Claim) -> None:
    """Writes a log's own claim, durably. Raises `StorageError`."""
    await disk.write_atomic(f"{directory}/{CUSTODY}", pack(asdict(claim)))
