"""The metadata store on etcd.

Keys, values, leases and transactions go through the etcd3 package, whose calls block, in two small thread pools (a lease must
not wait behind slow writes). Watches (`etcd_watch`) and renewals of leases (`lease_call`) are calls on the event loop.

Rule 1: every call has a deadline and every failure is a `MetadataUnavailableError`. A commit whose outcome is unknown
        has unknown="true" in the context; a commit under a lease that is gone has reason="lease_gone", and wrote
        nothing.
Rule 2: reads are linearizable.
Rule 3: where several endpoints are names, they are resolved again after a failure: in Kubernetes a restarted member has
        a new address. That must take less time than a lease lasts: after a rolling restart of etcd, all addresses are
        new.
Rule 4: with TLS one endpoint at a time is used, because a certificate is compared with one name; after a failure the
        next one, with the newest certificates.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

import grpc
from google.protobuf.message import Message

from oncelog.errors import MetadataUnavailableError
from oncelog.link.grpc_tls import TlsHints, explain_handshake
from oncelog.link.tls_files import TlsFiles
from oncelog_runtime.adapters.etcd.etcd_client import connect, etcd3_module, prefix_end, stream_channel, target_of
from oncelog_runtime.adapters.etcd.etcd_watch import EtcdWatch
from oncelog_runtime.adapters.etcd.lease_call import LeaseCall
from oncelog_runtime.etcd_wire import kv_pb2, rpc_pb2
from oncelog_runtime.ports import RENEWAL_MS, Change, CommitResult, Compare, KeyValue, Listing, Put

T = TypeVar("T")
MAX_OPERATIONS: Final = 128
"""etcd's default bound on the conditions, and on the writes, of one transaction."""
_LOOKUP_INTERVAL_S: Final = 0.25
_RENEWAL_S: Final = RENEWAL_MS / 1000
_ANSWERED: Final = (grpc.Call, grpc.aio.AioRpcError)
"""Errors that have a status, of blocking calls and of those on the event loop."""
_HINTS: Final = TlsHints("set etcd_tls_ca_file", "unset etcd_tls_ca_file")
_CERTAINLY_NOT_WRITTEN: Final = (
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.PERMISSION_DENIED,
    grpc.StatusCode.UNAUTHENTICATED,
)


class EtcdMetadata:
    """Implements `oncelog_runtime.ports.MetadataStore`. `timeout_ms` is the deadline of every call."""

    def __init__(self, endpoints: Sequence[str], timeout_ms: int = 3_000, tls: TlsFiles | None = None) -> None:
        self._endpoints = tuple(endpoints)
        self._timeout_ms = timeout_ms
        self._tls = tls
        self._pem = tls.current() if tls is not None else None
        self._turn = 0
        self._target = target_of(self._wanted())
        self._client = connect(self._target, timeout_ms, self._pem)
        self._streams: grpc.aio.Channel | None = None
        self._renewals = LeaseCall(lambda: (self.streams(), self._client.metadata))
        self._lookup: asyncio.Task[None] | None = None
        self._closed = False
        self._pool = ThreadPoolExecutor(4, thread_name_prefix="etcd")
        self._lease_pool = ThreadPoolExecutor(2, thread_name_prefix="etcd-lease")
        self._watches: list[EtcdWatch] = []
        self._ending: dict[asyncio.Task[None], None] = {}

    async def get(self, key: str) -> KeyValue | None:
        """Reads one key, linearizably."""
        answer = await self._call(self._pool, lambda: self._client.get_response(key))
        return _key_value(answer.kvs[0]) if answer.kvs else None

    async def list(self, prefix: str) -> Listing:
        """Reads all keys that begin with `prefix`, linearizably, sorted by key."""
        start = prefix.encode()
        request = rpc_pb2.RangeRequest(key=start or b"\0", range_end=prefix_end(start))
        answer = await self._call(self._pool, lambda: self._stub_call("kvstub", "Range", request))
        return Listing(tuple(_key_value(kv) for kv in answer.kvs), answer.header.revision)

    async def commit(
        self, compares: Sequence[Compare] = (), puts: Sequence[Put] = (), deletes: Sequence[str] = ()
    ) -> CommitResult:
        """Writes all or nothing, if every condition holds. Raises `ValueError` for a commit that etcd would refuse."""
        request = _transaction(compares, puts, deletes)
        answer = await self._call(self._pool, lambda: self._stub_call("kvstub", "Txn", request), unknown=True)
        return CommitResult(answer.succeeded, answer.header.revision)

    def watch(self, prefix: str) -> AsyncIterator[Listing | Change]:
        """See `MetadataStore.watch`."""
        watch = EtcdWatch(lambda: (self.streams(), self._client.metadata), lambda: self.list(prefix), prefix)
        self._watches.append(watch)
        return watch

    def streams(self) -> grpc.aio.Channel:
        """Returns the channel of calls that stay open, which is made when it is needed, on the running event loop."""
        if self._streams is None:
            self._streams = stream_channel(self._target, self._pem)
        return self._streams

    async def grant_lease(self, ttl_ms: int) -> int:
        """Grants a lease and returns its id; the time is rounded up to whole seconds, at least two."""
        seconds = max(2, -(-ttl_ms // 1000))
        lease = await self._call(self._lease_pool, lambda: self._client.lease(seconds))
        return int(lease.id)

    async def keep_alive(self, lease_id: int) -> int:
        """Renews once; returns the new time to live in ms, 0 when the lease is gone.

        It waits for `RENEWAL_MS` at most where there is another member of etcd to go to next, else as long as any call.

        On the event loop: etcd3 starts a thread for each renewal, and there is one every second.
        """
        if self._closed:
            raise MetadataUnavailableError("the metadata client is closed")
        client, wait_s = self._client, self._timeout_ms / 1000
        if len(self._endpoints) > 1:
            wait_s = min(wait_s, _RENEWAL_S)
        try:
            async with asyncio.timeout(wait_s):
                return await self._renewals.renew(lease_id) * 1000
        except TimeoutError as error:
            self._failed(client)  # a member that hangs: the next renewal goes to another one
            raise _doubt("no answer in time", unknown=False) from error
        except (grpc.RpcError, ValueError) as error:
            explained = self._explained(error, unknown=False)
            self._failed(client)
            raise explained from error

    async def revoke_lease(self, lease_id: int) -> None:
        """Ends a lease and deletes its keys; an unknown lease is no error."""
        try:
            await self._call(self._lease_pool, lambda: self._client.revoke_lease(lease_id))
        except MetadataUnavailableError as error:
            if error.context.get("reason") != "lease_gone":
                raise

    async def compact(self, revision: int) -> None:
        """Drops the history below `revision`. For operators and tests."""
        request = rpc_pb2.CompactionRequest(revision=revision)
        await self._call(self._pool, lambda: self._stub_call("kvstub", "Compact", request))

    async def close(self) -> None:
        """Ends watches and connections; calls in progress end by their deadline."""
        self._closed = True
        if self._lookup is not None:
            self._lookup.cancel()
            await asyncio.gather(self._lookup, return_exceptions=True)
        for watch in self._watches:
            await watch.aclose()
        self._watches.clear()
        self._renewals.end()
        if self._streams is not None:
            await self._streams.close()
        self._client.close()
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._lease_pool.shutdown(wait=False, cancel_futures=True)

    # ------------------------------------------------------------ calls that block, in threads

    def _stub_call(self, stub: str, method: str, request: Message) -> Any:
        """Calls etcd's stub, for answers that etcd3's own methods return only in part (for example the revision of a
        transaction).
        """
        client = self._client
        return getattr(getattr(client, stub), method)(
            request, client.timeout, credentials=client.call_credentials, metadata=client.metadata
        )

    async def _call(self, pool: ThreadPoolExecutor, work: Callable[[], T], *, unknown: bool = False) -> T:
        if self._closed:
            raise MetadataUnavailableError("the metadata client is closed")
        loop = asyncio.get_running_loop()
        client = self._client
        try:
            # Twice the deadline, for the time that the call waits for a thread.
            async with asyncio.timeout(2 * self._timeout_ms / 1000):
                answer = await loop.run_in_executor(pool, work)
        except TimeoutError as error:
            raise _doubt("no answer in time", unknown) from error
        except (grpc.RpcError, etcd3_module().Etcd3Exception, ValueError) as error:
            explained = self._explained(error, unknown)
            if explained.context.get("reason") != "lease_gone":  # etcd has answered
                self._failed(client)
            raise explained from error
        return answer

    def _wanted(self) -> tuple[str, ...]:
        """Returns all endpoints; with TLS only the one in use."""
        return self._endpoints if self._tls is None else (self._endpoints[self._turn % len(self._endpoints)],)

    def _failed(self, client: object) -> None:
        if self._closed or client is not self._client:
            return  # another call was faster
        if self._tls is not None:
            before, self._pem = self._pem, self._tls.current()
            if len(self._endpoints) > 1 or self._pem is not before:
                self._turn += 1
                self._reconnect(target_of(self._wanted()))
        elif len(self._endpoints) > 1 and (self._lookup is None or self._lookup.done()):
            self._lookup = asyncio.get_running_loop().create_task(self._look_up())

    async def _look_up(self) -> None:
        """Reconnects if a name has another address now. In a thread, since a look-up may take seconds."""
        target = await asyncio.get_running_loop().run_in_executor(self._pool, target_of, self._endpoints)
        if target != self._target and not self._closed:
            self._reconnect(target)
        await asyncio.sleep(_LOOKUP_INTERVAL_S)

    def _reconnect(self, target: str) -> None:
        self._target = target
        old, self._client = self._client, connect(target, self._timeout_ms, self._pem)
        loop, delay_s = asyncio.get_running_loop(), 2 * self._timeout_ms / 1000
        loop.call_later(delay_s, old.close)
        streams, self._streams = self._streams, None
        if streams is not None:
            loop.call_later(delay_s, self._end_streams, streams)

    def _end_streams(self, streams: grpc.aio.Channel) -> None:
        ending = asyncio.get_running_loop().create_task(streams.close(), name="etcd-old-streams")
        self._ending[ending] = None
        ending.add_done_callback(self._ending.pop)

    def _explained(self, error: Exception, unknown: bool) -> MetadataUnavailableError:
        explained = _unavailable(error, unknown)
        details = _details_of(error if isinstance(error, _ANSWERED) else error.__context__)
        paths = self._tls.paths if self._tls is not None else None
        failure = explain_handshake("etcd", details, paths, _HINTS)
        if failure is not None:
            explained.message = failure.sentence
            explained.context["tls"] = "refused" if failure.certain else "perhaps"
        return explained


def _doubt(message: str, unknown: bool, **context: str) -> MetadataUnavailableError:
    error = MetadataUnavailableError(message)
    error.context.update(context, **({"unknown": "true"} if unknown else {}))
    return error


def _unavailable(error: Exception, unknown: bool) -> MetadataUnavailableError:
    """Translates an error. etcd3 wraps some statuses in its own exceptions; the status is then in their context."""
    source = error if isinstance(error, grpc.RpcError) else error.__context__
    code = source.code() if isinstance(source, _ANSWERED) else None
    if code is grpc.StatusCode.NOT_FOUND:
        return MetadataUnavailableError("the lease is gone", reason="lease_gone")
    reason = code.name.lower() if code is not None else type(error).__name__
    return _doubt("etcd does not answer", unknown and code not in _CERTAINLY_NOT_WRITTEN, reason=reason)


def _details_of(cause: BaseException | None) -> str:
    return str(cause.details() or "") if isinstance(cause, _ANSWERED) else ""


def _key_value(kv: kv_pb2.KeyValue) -> KeyValue:
    return KeyValue(kv.key.decode(), kv.value, kv.mod_revision, kv.lease)


def _transaction(compares: Sequence[Compare], puts: Sequence[Put], deletes: Sequence[str]) -> rpc_pb2.TxnRequest:
    keys = [put.key for put in puts] + list(deletes)
    if len(set(keys)) != len(keys):
        raise ValueError(f"a key is written twice in one commit: {sorted(keys)}")
    if len(keys) > MAX_OPERATIONS or len(compares) > MAX_OPERATIONS:
        raise ValueError(f"at most {MAX_OPERATIONS} conditions and writes in one commit")
    conditions = [
        rpc_pb2.Compare(
            result=rpc_pb2.Compare.EQUAL,
            target=rpc_pb2.Compare.MOD,
            key=compare.key.encode(),
            mod_revision=compare.mod_revision,
        )
        for compare in compares
    ]
    writes = [
        rpc_pb2.RequestOp(request_put=rpc_pb2.PutRequest(key=put.key.encode(), value=put.value, lease=put.lease_id))
        for put in puts
    ]
    removals = [rpc_pb2.RequestOp(request_delete_range=rpc_pb2.DeleteRangeRequest(key=key.encode())) for key in deletes]
    return rpc_pb2.TxnRequest(compare=conditions, success=writes + removals)
