"""The interfaces through which a service uses the outside world, beside `oncelog.ports`.

Rule 1: nothing here is an implementation; `adapters/` and `sim/` hold one each, tested by the same contract tests.
Rule 2: small writes are synchronous (an executor hop costs twenty times a small write); everything that may block
        for long (sync, recovery, directories) is awaited.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeVar

from oncelog.ports import Handler, Transport, WallClock
from oncelog.types import Buffer

__all__ = ["Handler", "Transport", "WallClock"]

T = TypeVar("T")


# ---------------------------------------------------------------- server


class RpcServer(Protocol):
    """Listens on one address or more and hands requests to handlers, by links and by unary gRPC alike.

    `oncelog_runtime.core.listeners` says what differs between the listeners.
    """

    @property
    def listening(self) -> Mapping[str, str]:
        """Maps listener names to addresses (host:port) with the real port; empty before `start`."""
        ...

    def register(self, method: str, handler: Handler) -> None:
        """Registers the handler of `method`, which is `Service.Method`. Before `start` only."""
        ...

    async def start(self) -> str:
        """Begins to listen; returns the internal listener's address (host:port) with the real port.

        Raises `AddressInUseError` when the port is taken.
        """
        ...

    async def stop(self, grace_ms: int) -> None:
        """Refuses new calls with `ShuttingDownError`, lets running ones finish for `grace_ms`, then ends them."""
        ...


# ---------------------------------------------------------------- disk


class DiskFile(Protocol):
    """An append-only file, kept open."""

    @property
    def size(self) -> int:
        """Bytes in the file as this process sees it, synced or not."""
        ...

    def append(self, buffers: Sequence[Buffer]) -> None:
        """Writes all buffers at the end with one call.

        Raises `oncelog.errors.StorageError` (context reason: full, io, short); the file then has its former size again
        (a short write is cut off), or, where even that failed, is `broken` and refuses everything.
        """
        ...

    def read(self, position: int, length: int) -> bytes:
        """Returns up to `length` bytes; fewer only at the end. Raises `StorageError` on an I/O error."""
        ...

    async def sync(self) -> None:
        """Returns when everything appended before this call is on disk (fdatasync, off the loop).

        Raises `StorageError`: then nothing may be assumed of unsynced bytes, and no second sync helps.
        """
        ...

    def truncate(self, size: int) -> None:
        """Cuts the file to `size` bytes."""
        ...

    def close(self) -> None:
        """Closes without syncing."""
        ...


@dataclass(frozen=True, slots=True)
class DiskSpace:
    """Bytes of a volume: what this process may still write, and all of it."""

    free_bytes: int
    total_bytes: int


class Disk(Protocol):
    """A directory tree. Paths are relative, with `/`."""

    @property
    def boot_id(self) -> str:
        """Names the boot of the machine, whose memory holds data that was written and not synced.

        If two processes see the same one, all writes of the first are there. If not, data that was not synced may be
        lost.
        """
        ...

    def open(self, path: str, *, create: bool = False) -> DiskFile:
        """Opens for append and read. Raises `StorageError` when absent and not `create`."""
        ...

    def exists(self, path: str) -> bool:
        """True for a file or a directory."""
        ...

    def list(self, path: str) -> list[str]:
        """Returns the names in a directory, sorted; empty when it does not exist."""
        ...

    def make_dirs(self, path: str) -> None:
        """Creates a directory and its parents."""
        ...

    def remove(self, path: str) -> None:
        """Removes a file or a whole directory; a missing one is no error."""
        ...

    def rename(self, old: str, new: str) -> None:
        """Renames atomically; durable after `sync_dir` of the parent."""
        ...

    def read_file(self, path: str) -> bytes:
        """Returns the whole file. Raises `StorageError` when absent."""
        ...

    def space(self) -> DiskSpace:
        """Returns the space on the volume. Raises `StorageError` on an I/O error."""
        ...

    async def write_atomic(self, path: str, data: bytes) -> None:
        """Replaces a small file: temporary file, sync, rename, sync of the directory."""
        ...

    async def sync_dir(self, path: str) -> None:
        """Makes created, renamed and removed names of a directory durable."""
        ...

    async def run(self, work: Callable[[], T]) -> T:
        """Runs blocking work (recovery, cold reads) off the loop; inline in the simulation."""
        ...


class Threads(Protocol):
    """Runs work that takes milliseconds of a processor and waits for nothing: no disk that hangs delays it."""

    async def run(self, work: Callable[[], T]) -> T:
        """Runs it beside the loop, and raises what it raises; on the loop in the simulation, a little later."""
        ...


# ---------------------------------------------------------------- helpers


class HelperGoneError(Exception):
    """The helper process died, was killed, or could not be started. What it was asked for is not done: start another one."""


class Channel(Protocol):
    """The way between a process and its helper: whole messages, in order. Either end has one."""

    async def send(self, message: bytes) -> None:
        """Sends a message. Raises `HelperGoneError`."""
        ...

    async def receive(self) -> bytes:
        """Returns the next message of the other end. Raises `HelperGoneError`; a helper itself just ends then."""
        ...


class Helper(Channel, Protocol):
    """A helper process, as the process sees it that started it."""

    def kill(self) -> None:
        """Ends it at once, like kill -9: it cleans nothing up. Any number of times."""
        ...


HelperWork = Callable[[Disk, Channel, str], Awaitable[None]]
"""The work of a helper: an async function of a module. It gets the disk of the process that started it, the channel to it, and
a name that no other helper ever has. It may die at any moment."""


class Helpers(Protocol):
    """Starts processes for long work, which would hold up the event loop of this one, also in threads.

    A helper has the lowest priority, works on the same disk, and ends with the process that started it.
    """

    async def start(self, work: HelperWork) -> Helper:
        """Starts a helper. Raises `HelperGoneError` when that is not possible."""
        ...


# ---------------------------------------------------------------- metadata


@dataclass(frozen=True, slots=True)
class KeyValue:
    """One key of the metadata store."""

    key: str
    value: bytes
    mod_revision: int
    lease_id: int = 0


@dataclass(frozen=True, slots=True)
class Compare:
    """A condition of a commit: the key's mod revision equals `mod_revision` (0 = the key does not exist)."""

    key: str
    mod_revision: int


@dataclass(frozen=True, slots=True)
class Put:
    """A write of a commit; `lease_id` 0 = the key stays until it is deleted."""

    key: str
    value: bytes
    lease_id: int = 0


@dataclass(frozen=True, slots=True)
class CommitResult:
    """`succeeded` False: a condition did not hold, nothing was written. `revision` of the write, or current."""

    succeeded: bool
    revision: int


@dataclass(frozen=True, slots=True)
class Listing:
    """All keys under a prefix at a revision. A watch begins with one, and sends one again after a gap."""

    items: tuple[KeyValue, ...]
    revision: int


@dataclass(frozen=True, slots=True)
class Change:
    """One key changed; `value` None = deleted. Changes come in revision order.

    `has_more`: the next change belongs to the same answer of the store, and is there already.
    """

    key: str
    value: bytes | None
    mod_revision: int
    has_more: bool = field(default=False, compare=False)


RENEWAL_MS: Final = 1_000
"""How long one renewal waits for its answer: a third of the default lease, so that another one can follow in time."""


class MetadataStore(Protocol):
    """A linearizable key-value store with leases: etcd, or a simulated one.

    Every call has a deadline and raises `MetadataUnavailableError`. For `commit` its context says `unknown="true"` when the
    write may have happened: then read (linearizably) before you act on either answer.
    """

    async def get(self, key: str) -> KeyValue | None:
        """Reads one key, linearizably."""
        ...

    async def list(self, prefix: str) -> Listing:
        """Reads all keys that begin with `prefix`, linearizably, sorted by key."""
        ...

    async def commit(
        self, compares: Sequence[Compare] = (), puts: Sequence[Put] = (), deletes: Sequence[str] = ()
    ) -> CommitResult:
        """Writes all or nothing, if every condition holds."""
        ...

    def watch(self, prefix: str) -> AsyncIterator[Listing | Change]:
        """Yields first a `Listing`, then every later `Change`; after a lost position or a compaction a new `Listing`.

        Never ends by itself; reconnects forever with back-off.
        """
        ...

    async def grant_lease(self, ttl_ms: int) -> int:
        """Grants a lease and returns its id; etcd rounds the time up to whole seconds, at least two."""
        ...

    async def keep_alive(self, lease_id: int) -> int:
        """Renews once; returns the new time to live in ms, 0 when the lease is gone.

        Where the store has several members, a call that one of them does not answer within `RENEWAL_MS` fails.
        """
        ...

    async def revoke_lease(self, lease_id: int) -> None:
        """Ends a lease and deletes its keys; an unknown lease is no error."""
        ...

    async def close(self) -> None:
        """Ends watches and connections."""
        ...
