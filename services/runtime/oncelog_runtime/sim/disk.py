"""A simulated disk: what was written, and what would survive a power cut, for each file and each directory entry.

Rule 1: a power cut keeps, per file, what was synced and a random prefix (whole sectors) of what was appended since;
        per directory, a random prefix of the creations, renames and removals since its last `sync_dir`.
Rule 2: a killed process loses nothing that it wrote: the page cache belongs to the kernel.
Rule 3: after a failed sync the file's unsynced bytes never become durable, whatever later syncs say (fsyncgate).
Rule 4: after a crash the old `SimDisk` is unplugged: every call raises `CancelledError`, and changes nothing. The next
        process gets a successor (`after_kill`, `after_power_cut`).
Rule 5: a hung disk (`hang`) raises nothing and completes nothing: awaited calls wait until `thaw`, and syncs in
        progress are then durable. A process that replaces a killed one finds the disk still hung; a power cut ends the
        hang.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final, TypeVar
from zlib import crc32

from oncelog.errors import StorageError
from oncelog.types import Buffer
from oncelog_runtime.ports import DiskSpace
from oncelog_runtime.sim.faults import FaultPlan
from oncelog_runtime.sim.loop import SimLoop

T = TypeVar("T")
SECTOR_BYTES: Final = 512
_ROOMY_BYTES: Final = 1 << 40


class _Hang:
    """Whether a disk answers; shared with the disk of the next process after a kill."""

    __slots__ = ("active", "on_append", "waiting")

    def __init__(self) -> None:
        self.active = False
        self.on_append: Callable[[], None] | None = None
        self.waiting: list[asyncio.Future[None]] = []

    def end(self) -> None:
        self.active, self.on_append = False, None
        waiting, self.waiting = self.waiting, []
        for thawed in waiting:
            if not thawed.done():
                thawed.set_result(None)

    async def over(self) -> None:
        """Returns when the disk answers."""
        while self.active:
            thawed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self.waiting.append(thawed)
            await thawed


class _Inode:
    """The bytes of one file. `cut_tail` holds durable bytes that an unsynced truncation has removed."""

    __slots__ = ("cut_tail", "data", "frozen", "synced")

    def __init__(self) -> None:
        self.data = bytearray()
        self.synced = 0
        self.cut_tail = b""
        self.frozen = False

    def after_power_cut(self, random: Random, plan: FaultPlan) -> _Inode:
        """Returns the content on the platter, as a new inode where everything is durable."""
        kept = _Inode()
        if self.cut_tail and random.random() < 0.5:
            kept.data = self.data[: self.synced] + self.cut_tail  # the truncation never happened
        else:
            kept.data = self.data[: self.synced] + self._survivors(random, plan)
        kept.synced = len(kept.data)
        return kept

    def _survivors(self, random: Random, plan: FaultPlan) -> bytes:
        rest = len(self.data) - self.synced
        if not rest or self.frozen:
            return b""
        kept = _sector_prefix(self.synced, rest, random)
        tail = bytearray(self.data[self.synced : self.synced + kept])
        if tail and random.random() < plan.torn_noise:
            start = max(0, len(tail) - SECTOR_BYTES)
            tail[start:] = random.randbytes(len(tail) - start)
        if random.random() < plan.zero_tail:
            tail += bytes(rest - kept)
        return bytes(tail)


def _sector_prefix(start: int, length: int, random: Random) -> int:
    """Returns a random number of bytes from `start` that ends at a sector's border, or all of them."""
    first = -start % SECTOR_BYTES
    borders = 0 if length < first else 1 + (length - first) // SECTOR_BYTES
    pick = random.randint(0, borders + 1)
    if pick == 0:
        return 0
    return length if pick == borders + 1 else first + (pick - 1) * SECTOR_BYTES


class SimFile:
    """Implements `oncelog_runtime.ports.DiskFile`."""

    def __init__(self, disk: SimDisk, path: str, inode: _Inode) -> None:
        self._disk = disk
        self._inode = inode
        self._broken = False
        self._closed = False
        self.path = path

    @property
    def size(self) -> int:
        """Bytes in the file as this process sees it."""
        return len(self._inode.data)

    def append(self, buffers: Sequence[Buffer]) -> None:
        """See `DiskFile.append`: on an error the file has its former size again."""
        self._usable()
        data = b"".join(buffers)
        self._disk.before_append(self.path, len(data))
        self._inode.data += data

    def read(self, position: int, length: int) -> bytes:
        """Returns up to `length` bytes."""
        self._open()
        self._disk.before_read(self.path)
        return bytes(self._inode.data[position : position + length])

    async def sync(self) -> None:
        """Takes virtual time; everything appended before the call is then durable."""
        self._usable()
        inode, end = self._inode, len(self._inode.data)
        failed = await self._disk.sync_time(self.path)
        if failed:
            self._broken = True
            inode.frozen = True
            raise StorageError("the disk did not take the data", reason="io", path=self.path)
        if not inode.frozen:
            inode.cut_tail = b""
            inode.synced = max(inode.synced, min(end, len(inode.data)))

    def truncate(self, size: int) -> None:
        """Truncates the file; durable at the next sync."""
        self._usable()
        inode = self._inode
        if not 0 <= size <= len(inode.data):
            raise ValueError(f"cannot cut {len(inode.data)} bytes to {size}")
        if size < inode.synced:
            inode.cut_tail = bytes(inode.data[size : inode.synced]) + inode.cut_tail
            inode.synced = size
        del inode.data[size:]

    def close(self) -> None:
        """Closes without syncing."""
        self._closed = True

    def _open(self) -> None:
        self._disk.plugged()
        if self._closed:
            raise StorageError("the file is closed", reason="closed", path=self.path)

    def _usable(self) -> None:
        self._open()
        if self._broken:
            raise StorageError("the file is broken since a failed sync", reason="broken", path=self.path)


@dataclass(frozen=True, slots=True)
class Rot:
    """A byte that differs from the one that was written."""

    disk: SimDisk
    path: str
    position: int
    byte: int

    @property
    def is_there(self) -> bool:
        """True until the byte was truncated, removed or replaced."""
        file = self.disk._files.get(self.path)
        return file is not None and self.position < len(file.data) and file.data[self.position] == self.byte


class SimDisk:
    """Implements `oncelog_runtime.ports.Disk`. `capacity` is in bytes, and a full disk takes no new folder; `plan` may be
    replaced while running.

    It has some 40 methods: those of the port, one for each fault of a disk, and questions for checkers.
    """

    def __init__(self, loop: SimLoop, random: Random, plan: FaultPlan | None = None, name: str = "disk") -> None:
        self.loop = loop
        self.plan = plan or FaultPlan()
        self.capacity: int | None = None
        self.name = name
        self.dead = False
        self.fails_sync_of = ""
        """The next sync of a log file whose path contains this text fails; empty = none does."""
        self._random = random
        self._files: dict[str, _Inode] = {}
        self._dirs: dict[str, None] = {"": None}
        self._durable_files: dict[str, _Inode] = {}
        self._durable_dirs: dict[str, None] = {"": None}
        self._atomic: dict[str, asyncio.Lock] = {}
        self._pending: list[tuple[str, Callable[[], None]]] = []
        self._hang = _Hang()
        self._boot = 1

    # ------------------------------------------------------------ the port

    @property
    def boot_id(self) -> str:
        """Changes with each power cut."""
        return f"{self.name}-{self._boot}"

    def open(self, path: str, *, create: bool = False) -> SimFile:
        """Opens for append and read. Raises `StorageError` when absent and not `create`."""
        self.plugged()
        inode = self._files.get(path)
        if inode is None:
            if not create or path in self._dirs:
                raise StorageError("no such file", reason="absent", path=path)
            self._need_parent(path)
            inode = self._files[path] = _Inode()
            self._link(path, inode)
        return SimFile(self, path, inode)

    def exists(self, path: str) -> bool:
        """True for a file or a directory."""
        self.plugged()
        return path in self._files or path.rstrip("/") in self._dirs

    def list(self, path: str) -> list[str]:
        """Returns the names in a directory, sorted."""
        self.plugged()
        prefix = f"{path.rstrip('/')}/" if path.strip("/.") else ""
        names = {name[len(prefix) :] for name in (*self._files, *self._dirs) if name.startswith(prefix)}
        return sorted(name for name in names if name and "/" not in name)

    def make_dirs(self, path: str) -> None:
        """Creates a directory and its parents."""
        self.plugged()
        path = path.strip("/")
        made = ""
        for part in path.split("/"):
            made = f"{made}/{part}" if made else part
            if made in self._files:
                raise StorageError("a file is in the way", reason="io", path=made)
            if made not in self._dirs:
                if self.capacity is not None and self.used() >= self.capacity:
                    raise StorageError("the disk is full", reason="full", path=path)
                self._dirs[made] = None
                self._later(made, lambda made=made: self._durable_dirs.setdefault(made))  # type: ignore[misc]

    def remove(self, path: str) -> None:
        """Removes a file or a whole directory; a missing one is no error."""
        self.plugged()
        path = path.rstrip("/")
        if path in self._files:
            del self._files[path]
            self._later(path, lambda: _drop_file(self._durable_files, path))
        elif path in self._dirs:
            _drop(self._files, self._dirs, path)
            self._later(path, lambda: _drop(self._durable_files, self._durable_dirs, path))

    def rename(self, old: str, new: str) -> None:
        """Renames a file or a directory atomically. Raises `StorageError` when `new` is a directory."""
        self.plugged()
        old, new = old.strip("/"), new.strip("/")
        if new in self._dirs:
            raise StorageError("a directory is in the way", reason="io", path=new)
        if not self.exists(old):
            raise StorageError("no such file", reason="absent", path=old)
        self._need_parent(new)
        if old in self._files:
            self._rename_file(old, new)
            return
        moved = {name: inode for name, inode in self._files.items() if _inside(name, old)}
        dirs = [name for name in self._dirs if _inside(name, old)]
        _move(self._files, self._dirs, moved, dirs, old, new)
        self._later(new, lambda: _move(self._durable_files, self._durable_dirs, moved, dirs, old, new))

    def _rename_file(self, old: str, new: str) -> None:
        """Renames a file, which is simpler than a directory, and the most frequent rename."""
        inode = self._files[old]

        def move(files: dict[str, _Inode]) -> None:
            files.pop(old, None)
            files.pop(new, None)  # a new name comes last, here and on the platter
            files[new] = inode

        move(self._files)
        self._later(new, lambda: move(self._durable_files))

    def read_file(self, path: str) -> bytes:
        """Returns the whole file. Raises `StorageError` when absent."""
        file = self.open(path)
        return file.read(0, file.size)

    def space(self) -> DiskSpace:
        """Returns what `capacity` leaves; 1 TiB without one."""
        total = _ROOMY_BYTES if self.capacity is None else self.capacity
        return DiskSpace(max(0, total - self.used()), total)

    async def write_atomic(self, path: str, data: bytes) -> None:
        """Replaces a small file; a crash leaves the old or the new content."""
        temporary = f"{path}.tmp"
        async with self._atomic.setdefault(path, asyncio.Lock()):
            self.remove(temporary)
            file = self.open(temporary, create=True)
            file.append([data])
            await file.sync()
            self.rename(temporary, path)
            await self.sync_dir(_parent(path))

    async def sync_dir(self, path: str) -> None:
        """Makes created, renamed and removed names of a directory durable."""
        path = path.strip("/")
        if path not in self._dirs:
            raise StorageError("no such directory", reason="absent", path=path)
        count = len(self._pending)
        if await self.sync_time(path):
            raise StorageError("the disk did not take the directory", reason="io", path=path)
        done, rest = self._pending[:count], self._pending[count:]
        self._pending = [entry for entry in done if entry[0] != path] + rest
        for parent, apply in done:
            if parent == path:
                apply()

    async def run(self, work: Callable[[], T]) -> T:
        """Runs the work at once, after a little virtual time in which others run."""
        self.plugged()
        await asyncio.sleep(self._random.random() * self.plan.sync_min_ms / 1000)
        await self._hang.over()
        self.plugged()
        return work()

    # ------------------------------------------------------------ hangs

    @property
    def is_hung(self) -> bool:
        """True from `hang` until `thaw`."""
        return self._hang.active

    def hang(self, on_append: Callable[[], None] | None = None) -> None:
        """From now on no awaited call completes: syncs, small files, directories, work in threads.

        Appends continue into the page cache as long as `on_append` is None; otherwise each of them calls it, to stop
        the process as a blocked write does (`SimNode.hang_disk`).
        """
        self.loop.trace(f"hang {self.name} {on_append is not None}")
        self._hang.active, self._hang.on_append = True, on_append

    def thaw(self) -> None:
        """Answers again, including the calls that wait."""
        if self._hang.active:
            self.loop.trace(f"thaw {self.name}")
            self._hang.end()

    # ------------------------------------------------------------ crashes

    def after_kill(self) -> SimDisk:
        """Returns the disk as the next process finds it: everything written is there, synced or not."""
        heir = SimDisk(self.loop, self._random, self.plan, self.name)
        heir.capacity = self.capacity
        heir._files, heir._dirs = self._files, self._dirs
        heir._durable_files, heir._durable_dirs = self._durable_files, self._durable_dirs
        heir._pending = self._pending
        heir._hang = self._hang
        heir._boot = self._boot
        self.dead = True
        return heir

    def after_power_cut(self) -> SimDisk:
        """Returns the disk as the next process finds it: synced data, and a random part of the rest."""
        random = self._random
        surviving = {
            parent: random.randint(0, self._count(parent)) for parent in sorted({parent for parent, _ in self._pending})
        }
        for parent, apply in self._pending:
            if surviving[parent] > 0:
                surviving[parent] -= 1
                apply()
        heir = SimDisk(self.loop, random, self.plan, self.name)
        heir.capacity = self.capacity
        heir._boot = self._boot + 1
        heir._dirs = {path: None for path in self._durable_dirs if self._rooted(path)}
        for path, inode in self._durable_files.items():
            if self._rooted(_parent(path)):
                heir._files[path] = inode.after_power_cut(random, self.plan)
        heir._durable_files = heir._files.copy()
        heir._durable_dirs = heir._dirs.copy()
        self.dead = True
        self.loop.trace(f"power cut {self.name} {heir.checksum()}")
        return heir

    def checksum(self) -> int:
        """Returns a checksum of all names and bytes, for traces."""
        total = 0
        for path in sorted(self._files):
            total = crc32(bytes(self._files[path].data), crc32(path.encode(), total))
        return total

    def platter(self, path: str) -> bytes | None:
        """Returns the part of a file that every power cut would keep now; None when none may be kept under this name."""
        inode = self._files.get(path)
        if inode is None or self._durable_files.get(path) is not inode or not self._rooted(_parent(path)):
            return None
        return bytes(inode.data[: inode.synced])

    def platters(self, path: str) -> tuple[bytes, ...]:
        """Returns the contents that power cuts may leave of a file now: also the replaced one while the new name is not
        synced.
        """
        replaced = self._durable_files.get(path)
        if replaced is None or not self._rooted(_parent(path)):
            return (b"",)
        inodes = [
            replaced,
            *(inode for inode in (self._files.get(path),) if inode is not None and inode is not replaced),
        ]
        return tuple(bytes(inode.data[: inode.synced]) for inode in inodes)

    def in_cache(self, path: str) -> bytes:
        """Returns a file as its process sees it, for checkers: it neither fails nor counts as a read."""
        return bytes(self._files[path].data)

    def is_named(self, path: str) -> bool:
        """True when the file exists now, or may exist after a power cut."""
        return path in self._files or path in self._durable_files

    def drop_unsynced(self, path: str) -> None:
        """Simulates a kernel that drops the pages of a file which it could not write."""
        inode = self._files[path]
        del inode.data[inode.synced :]

    def flip_bit(self, path: str, position: int, bit: int = 0) -> None:
        """Simulates bit rot: the platter holds another byte than was written."""
        self._files[path].data[position] ^= 1 << bit
        self.loop.trace(f"flip {self.name} {path} {position} {bit}")

    def flip_some_bit(self, random: Random, within: str = "", suffix: str = "") -> Rot | None:
        """Flips a bit of a synced byte in some file with such a path; None when there is none."""
        paths = [
            path
            for path in sorted(self._files)
            if self._files[path].synced and within in path and path.endswith(suffix)
        ]
        if not paths:
            return None
        path = random.choice(paths)
        position = random.randrange(self._files[path].synced)
        self.flip_bit(path, position, random.randrange(8))
        return Rot(self, path, position, self._files[path].data[position])

    # ------------------------------------------------------------ called by files

    def before_append(self, path: str, length: int) -> None:
        """Raises `StorageError` if this append is to fail; nothing was written then."""
        if self.capacity is not None and self.used() + length > self.capacity:
            raise StorageError("the disk is full", reason="full", path=path)
        if self._hits("disk_full"):
            raise StorageError("the disk is full", reason="full", path=path)
        if self._hits("append_error"):
            raise StorageError("the disk did not take the data", reason="io", path=path)
        if self._hits("short_write"):
            raise StorageError("the disk took only a part, which was cut off again", reason="short", path=path)
        if self._hang.on_append is not None:
            self._hang.on_append()

    def before_read(self, path: str) -> None:
        """Raises `StorageError` if this read is to fail."""
        if self._hits("read_error"):
            raise StorageError("the disk did not give the data", reason="io", path=path)

    def plugged(self) -> None:
        """Raises `CancelledError` after a crash: only code that is being cancelled gets here."""
        if self.dead:
            raise asyncio.CancelledError

    async def sync_time(self, path: str) -> bool:
        """Waits as long as a sync takes; True if it is to fail."""
        self.plugged()
        plan, random = self.plan, self._random
        ms = plan.sync_min_ms + (plan.sync_max_ms - plan.sync_min_ms) * random.random()
        if self._hits("slow_sync"):
            ms += plan.slow_sync_ms * random.random()
        await asyncio.sleep(ms / 1000)
        await self._hang.over()
        self.plugged()
        self.loop.trace(f"sync {self.name} {path}")
        if self.fails_sync_of and self.fails_sync_of in path and path.endswith(".log"):
            self.fails_sync_of = ""
            return True
        return self._hits("sync_error")

    def used(self) -> int:
        """Returns the bytes in all files."""
        return sum(len(inode.data) for inode in self._files.values())

    # ------------------------------------------------------------ names

    def _link(self, path: str, inode: _Inode) -> None:
        self._later(path, lambda: self._durable_files.__setitem__(path, inode))

    def _later(self, path: str, apply: Callable[[], None]) -> None:
        self._pending.append((_parent(path), apply))

    def _need_parent(self, path: str) -> None:
        if _parent(path) not in self._dirs:
            raise StorageError("no such directory", reason="absent", path=_parent(path))

    def _count(self, parent: str) -> int:
        return sum(1 for other, _ in self._pending if other == parent)

    def _rooted(self, path: str) -> bool:
        while path:
            if path not in self._durable_dirs:
                return False
            path = _parent(path)
        return True

    def _hits(self, name: str) -> bool:
        probability: float = getattr(self.plan, name)
        if probability <= 0 or self._random.random() >= probability:
            return False
        self.loop.note_fault(name)
        return True


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


def _inside(name: str, path: str) -> bool:
    return name == path or name.startswith(f"{path}/")


def _drop_file(files: dict[str, _Inode], path: str) -> None:
    files.pop(path, None)


def _drop(files: dict[str, _Inode], dirs: dict[str, None], path: str) -> None:
    for name in [name for name in files if _inside(name, path)]:
        del files[name]
    for name in [name for name in dirs if _inside(name, path)]:
        del dirs[name]


def _move(
    files: dict[str, _Inode], dirs: dict[str, None], moved: dict[str, _Inode], moved_dirs: list[str], old: str, new: str
) -> None:
    """Renames a directory, in the written and in the durable view alike; `moved` is what the rename found."""
    _drop(files, dirs, old)
    _drop(files, dirs, new)
    for name in moved_dirs:
        dirs[new + name[len(old) :]] = None
    for name, inode in moved.items():
        files[new + name[len(old) :]] = inode
