"""Records what a process does to its files, and makes the folder again as a crash at any moment would have left it.

The real adapter runs over real files; its system calls are noted on their way. From one recorded run every crash is made
afterwards, so nothing has to be killed, and each crash can be looked at as often as one likes.

Rule 1: a killed process loses nothing that it wrote: the page cache belongs to the kernel (`Crash.KILL`).
Rule 2: a power cut keeps what a sync has promised: bytes by a sync of the file, names by a sync of the folder. What else it
        keeps is up to the file system, so three answers are tried: nothing (`LOST`), all names and no bytes (`NAMES`), and a
        random part of each, in order (`SOME`).
Rule 3: a write may be half done, in either case (`HALF`): its process died, or the disk took some of its sectors.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple, TypeVar

T = TypeVar("T")
_SECTOR_BYTES: Final = 512


class Crash(Enum):
    """What is left after the crash; see the rules above."""

    KILL = "killed"
    HALF = "killed within a write"
    LOST = "power cut, nothing but what was synced"
    NAMES = "power cut, all names and synced bytes"
    SOME = "power cut, synced and some of the rest"

    @property
    def is_power_cut(self) -> bool:
        """True when the kernel's memory is gone, too."""
        return self in (Crash.LOST, Crash.NAMES, Crash.SOME)


class Op(NamedTuple):
    """One step. `path`, and `inode` for what is done to bytes; `data` of a write at `position`; `to` of a rename."""

    kind: str
    path: str
    inode: int = 0
    position: int = 0
    data: bytes = b""
    to: str = ""


_OF_BYTES: Final = ("write", "truncate", "sync")
_OF_NAMES: Final = ("create", "mkdir", "rename", "remove")


@dataclass
class Journal:
    """All steps below `root`, in order. Use `recording` around the code that is to be watched."""

    root: Path
    ops: list[Op] = field(default_factory=list)
    _inodes: dict[str, int] = field(default_factory=dict)
    _sizes: dict[int, bytes] = field(default_factory=dict)
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _made: int = 0

    def inside(self, path: Any) -> str | None:
        """Returns a path relative to the root; None for one that lies elsewhere."""
        if isinstance(path, int):
            path = os.readlink(f"/proc/self/fd/{path}")
        full = os.path.abspath(os.fspath(path))
        return full[len(str(self.root)) + 1 :] if full.startswith(f"{self.root}/") else None

    def note(self, kind: str, path: str, **changes: Any) -> None:
        """Adds a step."""
        with self._lock:
            self.ops.append(Op(kind, path, self._inodes.get(path, 0), **changes))

    def made(self, path: str) -> None:
        """Notes a file that was not there before."""
        with self._lock:
            self._made += 1
            self._inodes[path] = self._made
            self._sizes[self._made] = b""
            self.note("create", path)

    def moved(self, old: str, new: str) -> None:
        """Notes a rename of a file or folder."""
        with self._lock:
            self.ops.append(Op("rename", old, self._inodes.get(old, 0), to=new))
            self._inodes.pop(new, None)
            for path in [path for path in self._inodes if path == old or path.startswith(f"{old}/")]:
                self._inodes[new + path[len(old) :]] = self._inodes.pop(path)

    def observe(self, path: str) -> None:
        """Notes bytes that came into a file on a way that is not watched (`file.write`)."""
        inode = self._inodes.get(path)
        full = self.root / path
        if inode is None or not full.is_file():
            return
        with self._lock:
            written = self._written(inode)
            found = full.read_bytes()
            if found != written:
                assert found.startswith(written), f"{path} was changed where nobody looked"
                self.note("write", path, position=len(written), data=found[len(written) :])

    def _written(self, inode: int) -> bytes:
        return _bytes_of([op for op in self.ops if op.inode == inode])

    # ------------------------------------------------------------ crashes

    def crash(self, count: int, how: Crash, random: Random) -> dict[str, bytes | None]:
        """Returns what is left when the machine or the process ends after `count` steps: path -> bytes, None for a folder."""
        ops = self.ops[:count]
        contents = self._contents(ops, how, random)
        if how is Crash.HALF and count < len(self.ops) and self.ops[count].kind == "write":
            op = self.ops[count]
            contents[op.inode] = contents.get(op.inode, b"")[: op.position] + op.data[: len(op.data) // 2]
        names = self._names(ops, how, random)
        return {path: None if inode is None else contents.get(inode, b"") for path, inode in names.items()}

    def _contents(self, ops: Sequence[Op], how: Crash, random: Random) -> dict[int, bytes]:
        """The bytes of each inode that are left."""
        steps: dict[int, list[Op]] = {}
        for op in ops:
            if op.kind in _OF_BYTES and op.inode:
                steps.setdefault(op.inode, []).append(op)
        return {inode: _left(found, how, random) for inode, found in steps.items()}

    def _names(self, ops: Sequence[Op], how: Crash, random: Random) -> dict[str, int | None]:
        """The names that are left, each with its inode, None for a folder."""
        names: dict[str, int | None] = {}
        waiting: dict[str, list[Op]] = {}
        for op in ops:
            if not how.is_power_cut:
                _rename(names, op)
            elif op.kind in _OF_NAMES:
                if op.kind == "rename" and not op.inode and op.path in waiting:
                    waiting[op.to] = [_below(op.path, op.to, step) for step in waiting.pop(op.path)]
                waiting.setdefault(_folder(op.to or op.path), []).append(op)
            elif op.kind == "sync folder":
                for durable in waiting.pop(op.path, []):
                    _rename(names, durable)
        for folder in sorted(waiting):
            count = {Crash.LOST: 0, Crash.NAMES: len(waiting[folder])}.get(how, random.randint(0, len(waiting[folder])))
            for op in waiting[folder][:count]:
                _rename(names, op)
        return {path: inode for path, inode in names.items() if _has_folder(names, path)}


def _left(steps: Sequence[Op], how: Crash, random: Random) -> bytes:
    """The bytes of one file that are left."""
    if not how.is_power_cut:
        return _bytes_of(steps)
    synced = max((number + 1 for number, op in enumerate(steps) if op.kind == "sync"), default=0)
    kept = random.randint(synced, len(steps)) if how is Crash.SOME else synced
    data = _bytes_of(steps[:kept])
    if how is Crash.SOME and kept < len(steps) and steps[kept].kind == "write":
        op = steps[kept]
        data = data[: op.position] + op.data[: random.randint(0, len(op.data) // _SECTOR_BYTES) * _SECTOR_BYTES]
    return data


def _bytes_of(steps: Sequence[Op]) -> bytes:
    data = bytearray()
    for op in steps:
        if op.kind == "write":
            data[op.position : op.position + len(op.data)] = op.data
        elif op.kind == "truncate":
            del data[op.position :]
    return bytes(data)


def _rename(names: dict[str, int | None], op: Op) -> None:
    """Does one step to the names; a step whose file is not there is void."""
    if op.kind == "create":
        names[op.path] = op.inode
    elif op.kind == "mkdir":
        names[op.path] = None
    elif op.kind == "remove":
        for path in [path for path in names if path == op.path or path.startswith(f"{op.path}/")]:
            del names[path]
    elif op.kind == "rename":
        if op.inode:
            names.pop(op.path, None)
            names[op.to] = op.inode
            return
        for path in [path for path in names if path == op.path or path.startswith(f"{op.path}/")]:
            names[op.to + path[len(op.path) :]] = names.pop(path)


def _below(old: str, new: str, op: Op) -> Op:
    """The same step in a folder that was renamed."""
    return op._replace(path=new + op.path[len(old) :], to=op.to and new + op.to[len(old) :])


def _folder(path: str) -> str:
    return path.rpartition("/")[0]


def _has_folder(names: dict[str, int | None], path: str) -> bool:
    while path := _folder(path):
        if path not in names:
            return False
    return True


def build(root: Path, left: dict[str, bytes | None]) -> None:
    """Makes the folder as the next process finds it."""
    root.mkdir(parents=True)
    for path in sorted(left):
        data = left[path]
        if data is None:
            (root / path).mkdir(parents=True, exist_ok=True)
        else:
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_bytes(data)


# ---------------------------------------------------------------- the system calls


@contextmanager
def recording(journal: Journal) -> Iterator[None]:
    """Notes what this process does below the journal's root, through the functions of `os`. Syncs are noted, not done."""
    real = {name: getattr(os, name) for name in _WATCHED}
    for name, wrapped in _WATCHED.items():
        setattr(os, name, wrapped(journal, real[name]))
    try:
        yield
    finally:
        for name, function in real.items():
            setattr(os, name, function)


@contextmanager
def unsynced() -> Iterator[None]:
    """Leaves syncs out: for folders that are thrown away."""
    real = os.fsync, os.fdatasync
    os.fsync = os.fdatasync = lambda _fd: None  # type: ignore[assignment]
    try:
        yield
    finally:
        os.fsync, os.fdatasync = real


def _open(journal: Journal, real: Callable[..., int]) -> Callable[..., int]:
    def opened(path: Any, flags: int, mode: int = 0o777, **options: Any) -> int:
        inside = None if isinstance(path, int) else journal.inside(path)
        if inside is None:
            return real(path, flags, mode, **options)
        was_there = os.path.exists(path)
        fd = real(path, flags, mode, **options)
        if not was_there:
            journal.made(inside)
        elif flags & os.O_TRUNC:
            journal.note("truncate", inside)
        return fd

    return opened


def _pwritev(journal: Journal, real: Callable[..., int]) -> Callable[..., int]:
    def written(fd: int, buffers: Any, position: int) -> int:
        done = real(fd, buffers, position)
        inside = journal.inside(fd)
        if inside is not None:
            data = buffers if isinstance(buffers, bytes | memoryview) else b"".join(buffers)
            journal.note("write", inside, position=position, data=bytes(data)[:done])
        return done

    return written


def _ftruncate(journal: Journal, real: Callable[..., None]) -> Callable[..., None]:
    def truncated(fd: int, size: int) -> None:
        real(fd, size)
        inside = journal.inside(fd)
        if inside is not None:
            journal.note("truncate", inside, position=size)

    return truncated


def _fsync(journal: Journal, real: Callable[..., None]) -> Callable[..., None]:
    def synced(fd: int) -> None:
        inside = journal.inside(fd)
        if inside is None:
            if os.readlink(f"/proc/self/fd/{fd}") == str(journal.root):
                journal.note("sync folder", "")
            else:
                real(fd)
        elif (journal.root / inside).is_dir():
            journal.note("sync folder", inside)
        else:
            journal.observe(inside)
            journal.note("sync", inside)

    return synced


def _renamed(journal: Journal, real: Callable[..., None]) -> Callable[..., None]:
    def renamed(old: Any, new: Any, **options: Any) -> None:
        before, after = journal.inside(old), journal.inside(new)
        if before is not None:
            journal.observe(before)
        real(old, new, **options)
        if before is not None and after is not None:
            journal.moved(before, after)

    return renamed


def _removed(journal: Journal, real: Callable[..., None]) -> Callable[..., None]:
    def removed(path: Any, *, dir_fd: int | None = None) -> None:
        full = path if dir_fd is None else os.path.join(os.readlink(f"/proc/self/fd/{dir_fd}"), os.fspath(path))
        inside = journal.inside(full)
        real(path, dir_fd=dir_fd)
        if inside is not None:
            journal.note("remove", inside)

    return removed


def _mkdir(journal: Journal, real: Callable[..., None]) -> Callable[..., None]:
    def made(path: Any, mode: int = 0o777, **options: Any) -> None:
        real(path, mode, **options)
        inside = journal.inside(path)
        if inside is not None:
            journal.note("mkdir", inside)

    return made


_WATCHED: Final[dict[str, Callable[[Journal, Any], Callable[..., Any]]]] = {
    "open": _open,
    "pwritev": _pwritev,
    "pwrite": _pwritev,
    "ftruncate": _ftruncate,
    "fsync": _fsync,
    "fdatasync": _fsync,
    "rename": _renamed,
    "replace": _renamed,
    "unlink": _removed,
    "rmdir": _removed,
    "mkdir": _mkdir,
}
