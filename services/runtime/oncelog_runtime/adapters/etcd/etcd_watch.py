"""One watch on etcd that never loses a change: a listing, then changes, and a new listing where the history was
compacted.

The watcher of etcd3 0.12 drops all callbacks at the first error, reports nothing, and never resumes (tried). So this
module drives etcd's own Watch stub, and only keys, values, leases and transactions go through etcd3.

Rule 1: the stream is read on the event loop: a thread of gRPC's that waits for an answer wakes up fifteen times a second.
Rule 2: the position is the revision of the last change that was delivered. After any error the stream is opened again
        at position + 1; after a compaction above it, everything is listed again. A store whose revision is below the
        position was restored from a backup: everything is listed again.
Rule 3: a member that has lost its leader ends the stream (`hasleader`), so that another member is asked.
Rule 4: at most `MAX_WAITING` answers wait for a slow reader; then the watch starts again with a listing.
Rule 5: silence is no proof that nothing has changed: a stream on which nothing came for `QUIET_S` is asked for its progress,
        and opened again when nothing comes for as long again. One may stay quiet on a connection that answers others.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Final

import grpc

from oncelog.errors import MetadataUnavailableError
from oncelog_runtime.adapters.etcd.etcd_client import Connection, prefix_end
from oncelog_runtime.etcd_wire import kv_pb2, rpc_pb2, rpc_pb2_grpc
from oncelog_runtime.ports import Change, Listing

_log = logging.getLogger(__name__)
_MAX_BACKOFF_S: Final = 1.0
MAX_WAITING: Final = 10_000
QUIET_S: Final = 3.0
_PROGRESS: Final = rpc_pb2.WatchRequest(progress_request=rpc_pb2.WatchProgressRequest())
_ASKED: Final = -1
"""The watch id of an answer to `_PROGRESS`. Its revision says nothing: etcd before 3.5.8 sends it ahead of changes below it."""
_STUB: Any = rpc_pb2_grpc.WatchStub  # generated, untyped
Raw = rpc_pb2.WatchResponse | None
"""An answer; None = the stream has ended."""


class _Stream:
    """One Watch call and the task that reads it. `post` is called in order; finally with None."""

    def __init__(self, connection: Connection, request: rpc_pb2.WatchRequest, post: Callable[[Raw], None]) -> None:
        channel, metadata = connection()
        self._request = request
        self._post = post
        self._call = _STUB(channel).Watch(metadata=(*(metadata or ()), ("hasleader", "true")))
        self._task = asyncio.create_task(self._read(), name="etcd-watch-stream")
        self._asking: asyncio.Task[None] | None = None

    async def _read(self) -> None:
        try:
            await self._call.write(self._request)
            while (answer := await self._call.read()) is not grpc.aio.EOF:
                self._post(answer)
        except grpc.RpcError as error:
            _log.info("etcd watch ended: %s", error.code())
        except asyncio.InvalidStateError:
            _log.info("etcd watch ended")  # before anything was written
        finally:
            self._post(None)

    def ask(self) -> None:
        """Asks for a sign of life, unless it is being asked. Only for a stream that has answered: one write at a time."""
        if self._asking is not None and not self._asking.done():
            return
        self._asking = asyncio.create_task(self._ask(), name="etcd-watch-progress")

    async def _ask(self) -> None:
        with contextlib.suppress(grpc.RpcError, asyncio.InvalidStateError):  # the reader sees the end
            await self._call.write(_PROGRESS)

    def close(self) -> None:
        """Ends the call."""
        for task in (self._task, self._asking):
            if task is not None:
                task.cancel()
        self._call.cancel()


class EtcdWatch:
    """An async iterator of `Listing` and `Change`. A cancelled wait loses nothing: the iteration can be continued."""

    def __init__(self, connection: Connection, listing: Callable[[], Awaitable[Listing]], prefix: str) -> None:
        self._connection = connection
        self._listing = listing
        self._prefix = prefix
        self._position = 0
        self._items: deque[Listing | Change] = deque()
        self._wake = asyncio.Event()
        self._raw: asyncio.Queue[tuple[_Stream, Raw]] = asyncio.Queue()
        self._stream: _Stream | None = None
        self._closed = False
        self._task = asyncio.create_task(self._pump(), name=f"etcd-watch {prefix}")

    def __aiter__(self) -> EtcdWatch:
        return self

    async def __anext__(self) -> Listing | Change:
        while not self._items:
            if self._closed:
                raise StopAsyncIteration
            if self._task.done():
                await self._task  # a bug in the pump must not look like silence
            self._wake.clear()
            await self._wake.wait()
        return self._items.popleft()

    async def aclose(self) -> None:
        """Ends the watch; a waiting reader gets the end of the iteration."""
        self._closed = True
        self._task.cancel()
        await asyncio.wait([self._task])
        self._wake.set()

    async def _pump(self) -> None:
        failures = 0
        try:
            while True:
                try:
                    if not self._position:
                        await self._list()
                    failures = 0 if await self._follow() else failures + 1
                except MetadataUnavailableError as error:
                    failures += 1
                    _log.info("etcd watch of %s cannot list: %s", self._prefix, error)
                if failures:
                    await asyncio.sleep(min(0.05 * 2**failures, _MAX_BACKOFF_S))
        finally:
            self._end_stream()
            self._wake.set()

    async def _list(self) -> None:
        listing = await self._listing()
        self._items.clear()  # the listing covers them
        self._push(listing)
        self._position = listing.revision

    async def _follow(self) -> bool:
        """Reads one stream to its end. Returns True if it delivered anything."""
        stream_now = self._open_stream()
        healthy = is_asked = False
        while True:
            try:
                async with asyncio.timeout(QUIET_S):
                    stream, raw = await self._raw.get()
            except TimeoutError:
                if is_asked:
                    _log.warning("etcd says nothing on the watch of %s: it is opened again", self._prefix)
                    self._end_stream()
                    return healthy
                if healthy:
                    stream_now.ask()
                is_asked = True
                continue
            if stream is not stream_now:
                continue  # left over from an older stream
            is_asked = False
            if raw is None or raw.canceled:
                if raw is not None and raw.compact_revision > self._position:
                    _log.info("etcd has compacted what the watch of %s still needs", self._prefix)
                    self._position = 0
                self._end_stream()
                return healthy
            healthy = True
            if raw.created and raw.header.revision < self._position:
                _log.warning("etcd is behind the watch of %s: it went back", self._prefix)
                self._position = 0
                self._end_stream()
                return True
            self._take(raw)
            if len(self._items) > MAX_WAITING:
                self._position = 0
                self._end_stream()
                return True

    def _open_stream(self) -> _Stream:
        key = self._prefix.encode()
        create = rpc_pb2.WatchCreateRequest(
            key=key or b"\0", range_end=prefix_end(key), start_revision=self._position + 1, progress_notify=True
        )

        def post(raw: Raw) -> None:
            self._raw.put_nowait((stream, raw))

        stream = _Stream(self._connection, rpc_pb2.WatchRequest(create_request=create), post)
        self._stream = stream
        return stream

    def _end_stream(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.close()

    def _take(self, raw: rpc_pb2.WatchResponse) -> None:
        """Delivers the changes of one answer, which holds whole revisions. An answer without events (after the first)
        is a progress notification.
        """
        last = len(raw.events) - 1
        for number, event in enumerate(raw.events):
            kv = event.kv
            value = None if event.type == kv_pb2.Event.DELETE else kv.value
            self._push(Change(kv.key.decode(), value, kv.mod_revision, has_more=number < last))
            self._position = kv.mod_revision
        if not raw.events and not raw.created and raw.watch_id != _ASKED:
            self._position = max(self._position, raw.header.revision)

    def _push(self, item: Listing | Change) -> None:
        self._items.append(item)
        self._wake.set()
