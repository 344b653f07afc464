"""The metadata store on etcd: every failure has a name that says whether anything may have been written."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import grpc
import pytest

from oncelog.errors import MetadataUnavailableError
from oncelog_runtime.adapters.etcd import lease_call, metadata_store
from oncelog_runtime.adapters.etcd.metadata_store import EtcdMetadata
from oncelog_runtime.etcd_wire import kv_pb2, rpc_pb2
from oncelog_runtime.ports import CommitResult, Compare, KeyValue, Listing, Put


class Refused(grpc.RpcError, grpc.Call):
    """What a stub raises."""

    def __init__(self, code: grpc.StatusCode) -> None:
        self._code = code

    def code(self) -> grpc.StatusCode:
        return self._code

    def details(self) -> str:
        return "no"

    def _nothing(self, *_args: Any) -> Any:
        return None

    initial_metadata = trailing_metadata = is_active = time_remaining = cancel = add_callback = _nothing


class Client:
    """Stands in for etcd3's: answers with the same thing, or raises it."""

    timeout, call_credentials, metadata = 1.5, None, None

    def __init__(self, target: str, etcd: Etcd) -> None:
        self.target, self.etcd, self.is_closed = target, etcd, False
        self.kvstub = SimpleNamespace(Range=self._ask, Txn=self._ask, Compact=self._ask)

    def _ask(self, *request: Any, **more: Any) -> Any:
        self.etcd.asked.append(request[0] if request else None)
        answer = self.etcd.says
        if isinstance(answer, threading.Event):
            answer.wait()
        if isinstance(answer, Exception):
            raise answer
        return answer

    get_response = lease = revoke_lease = _ask

    def close(self) -> None:
        self.is_closed = True


class Renewal:
    """Stands in for one call of the lease's stub."""

    def __init__(self, etcd: Etcd) -> None:
        self.etcd, self.is_cancelled = etcd, False
        etcd.renewals.append(self)

    async def write(self, request: Any) -> None:
        self.etcd.asked.append(request.ID)

    async def read(self) -> Any:
        says = self.etcd.says
        if isinstance(says, threading.Event):
            await asyncio.sleep(60)
        if isinstance(says, Exception):
            raise says
        return grpc.aio.EOF if says is None else says

    def done(self) -> bool:
        return False

    def cancel(self) -> None:
        self.is_cancelled = True


class Etcd:
    """What all clients ask, and the clients that were made."""

    def __init__(self) -> None:
        self.says: Any = None
        self.asked: list[Any] = []
        self.clients: list[Client] = []
        self.renewals: list[Renewal] = []
        self.was_dialled_anew = asyncio.Event()
        self.target_of: Callable[[Any], str] = ",".join

    def connect(self, target: str, _timeout_ms: int, _pem: Any) -> Client:
        self.clients.append(Client(target, self))
        if len(self.clients) > 1:
            self.was_dialled_anew.set()
        return self.clients[-1]


@pytest.fixture
def etcd(monkeypatch: pytest.MonkeyPatch) -> Etcd:
    etcd = Etcd()
    monkeypatch.setattr(metadata_store, "connect", etcd.connect)
    leases = SimpleNamespace(LeaseKeepAlive=lambda metadata: Renewal(etcd))
    monkeypatch.setattr(lease_call, "_STUB", lambda _channel: leases)
    monkeypatch.setattr(metadata_store, "target_of", lambda endpoints: etcd.target_of(endpoints))
    return etcd


def on(etcd: Etcd, test: Callable[[EtcdMetadata], Awaitable[None]], *endpoints: str, **more: Any) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(20):
            store = EtcdMetadata(endpoints or ["a:1"], **more)
            await test(store)
            await store.close()

    asyncio.run(bounded())


def answer(*items: kv_pb2.KeyValue, revision: int = 9, **more: Any) -> Any:
    return SimpleNamespace(kvs=items, header=rpc_pb2.ResponseHeader(revision=revision), **more)


KV = kv_pb2.KeyValue(key=b"/a", value=b"1", mod_revision=7, lease=3)


def test_what_stands_in_etcd_is_read(etcd: Etcd) -> None:
    async def test(store: EtcdMetadata) -> None:
        etcd.says = answer(KV)
        assert await store.get("/a") == KeyValue("/a", b"1", 7, 3)
        assert await store.list("/a") == Listing((KeyValue("/a", b"1", 7, 3),), 9)
        assert (etcd.asked[1].key, etcd.asked[1].range_end, etcd.asked[1].serializable) == (b"/a", b"/b", False)
        etcd.says = answer()
        assert await store.get("/a") is None
        await store.list("")
        assert (etcd.asked[-1].key, etcd.asked[-1].range_end) == (b"\0", b"\0"), "everything"

    on(etcd, test)


def test_a_commit_is_one_transaction_of_conditions_and_writes(etcd: Etcd) -> None:
    async def test(store: EtcdMetadata) -> None:
        etcd.says = answer(succeeded=False)
        done = await store.commit([Compare("/a", 7)], [Put("/b", b"2", 3)], ["/c"])
        assert done == CommitResult(False, 9)
        [asked] = etcd.asked
        assert [(c.key, c.mod_revision, c.target, c.result) for c in asked.compare] == [(b"/a", 7, 2, 0)]
        put, removed = asked.success
        assert (put.request_put.key, put.request_put.value, put.request_put.lease) == (b"/b", b"2", 3)
        assert removed.request_delete_range.key == b"/c"
        assert not asked.failure

    on(etcd, test)


@pytest.mark.parametrize(
    ("code", "is_unknown"),
    [
        (grpc.StatusCode.UNAVAILABLE, True),
        (grpc.StatusCode.DEADLINE_EXCEEDED, True),
        (grpc.StatusCode.INTERNAL, True),
        (grpc.StatusCode.INVALID_ARGUMENT, False),
        (grpc.StatusCode.PERMISSION_DENIED, False),
        (grpc.StatusCode.UNAUTHENTICATED, False),
    ],
)
def test_a_commit_that_failed_says_unknown_unless_it_was_certainly_not_written(
    etcd: Etcd, code: grpc.StatusCode, is_unknown: bool
) -> None:
    async def test(store: EtcdMetadata) -> None:
        etcd.says = Refused(code)
        with pytest.raises(MetadataUnavailableError) as caught:
            await store.commit(puts=[Put("/a", b"")])
        assert caught.value.context == {"reason": code.name.lower(), **({"unknown": "true"} if is_unknown else {})}
        with pytest.raises(MetadataUnavailableError) as caught:
            await store.get("/a")
        assert "unknown" not in caught.value.context, "a read writes nothing"

    on(etcd, test)


def test_a_commit_under_a_lease_that_is_gone_wrote_nothing_and_moves_nobody(etcd: Etcd) -> None:
    async def test(store: EtcdMetadata) -> None:
        etcd.says = Refused(grpc.StatusCode.NOT_FOUND)
        with pytest.raises(MetadataUnavailableError) as caught:
            await store.commit(puts=[Put("/a", b"", 3)])
        assert caught.value.context == {"reason": "lease_gone"}
        await store.revoke_lease(3)
        assert store._lookup is None, "that is an answer"

    on(etcd, test, "a:1", "b:1")


def test_leases_live_whole_seconds_and_one_that_is_gone_has_none_left(etcd: Etcd) -> None:
    async def test(store: EtcdMetadata) -> None:
        etcd.says = SimpleNamespace(id=3, ID=3, TTL=0)
        for ttl_ms in (1, 2_000, 2_001):
            assert await store.grant_lease(ttl_ms) == 3
        assert etcd.asked == [2, 2, 3]
        assert await store.keep_alive(3) == 0
        etcd.says = SimpleNamespace(ID=3, TTL=6)
        assert await store.keep_alive(3) == 6_000
        etcd.says = Refused(grpc.StatusCode.UNAVAILABLE)
        with pytest.raises(MetadataUnavailableError):
            await store.revoke_lease(3)

    on(etcd, test)


def test_a_renewal_that_etcd_ends_without_an_answer_is_a_failure_at_once(etcd: Etcd) -> None:
    async def test(store: EtcdMetadata) -> None:
        etcd.says = None
        with pytest.raises(MetadataUnavailableError, match="etcd does not answer"):
            await store.keep_alive(3)
        assert etcd.renewals[0].is_cancelled, "the call is not left open"

    on(etcd, test)


def test_a_renewal_that_fails_says_why_and_one_without_an_answer_ends_by_its_deadline(etcd: Etcd) -> None:
    async def test(store: EtcdMetadata) -> None:
        etcd.says = grpc.aio.AioRpcError(grpc.StatusCode.UNAVAILABLE, grpc.aio.Metadata(), grpc.aio.Metadata(), "no")
        with pytest.raises(MetadataUnavailableError) as caught:
            await store.keep_alive(3)
        assert caught.value.context == {"reason": "unavailable"}
        etcd.says = threading.Event()
        with pytest.raises(MetadataUnavailableError, match="in time"):
            await store.keep_alive(3)
        assert all(call.is_cancelled for call in etcd.renewals)

    on(etcd, test, timeout_ms=10)


def test_a_call_without_an_answer_ends_by_its_deadline_in_doubt(etcd: Etcd) -> None:
    async def test(store: EtcdMetadata) -> None:
        etcd.says = silent = threading.Event()
        with pytest.raises(MetadataUnavailableError, match="in time") as caught:
            await store.commit(puts=[Put("/a", b"")])
        assert caught.value.context == {"unknown": "true"}
        silent.set()

    on(etcd, test, timeout_ms=10)


def test_a_closed_store_says_so(etcd: Etcd) -> None:
    async def test(store: EtcdMetadata) -> None:
        await store.close()
        with pytest.raises(MetadataUnavailableError, match="closed"):
            await store.get("/a")
        assert etcd.clients[0].is_closed

    on(etcd, test)


def test_names_are_looked_up_again_after_a_failure(etcd: Etcd) -> None:
    async def test(store: EtcdMetadata) -> None:
        etcd.says = Refused(grpc.StatusCode.UNAVAILABLE)
        etcd.target_of = lambda _endpoints: "elsewhere"
        for _ in range(2):
            with pytest.raises(MetadataUnavailableError):
                await store.get("/a")
        await etcd.was_dialled_anew.wait()
        assert [client.target for client in etcd.clients] == ["a:1,b:1", "elsewhere"]
        etcd.says = answer(KV)
        assert await store.get("/a") is not None

    on(etcd, test, "a:1", "b:1")


class Tls:
    """Stands in for `TlsFiles`."""

    paths = None

    def __init__(self) -> None:
        self.pem = object()

    def current(self) -> Any:
        return self.pem


def test_with_certificates_one_endpoint_at_a_time_is_used_and_after_a_failure_the_next_one(etcd: Etcd) -> None:
    async def test(store: EtcdMetadata) -> None:
        etcd.says = Refused(grpc.StatusCode.UNAVAILABLE)
        for _ in range(2):
            with pytest.raises(MetadataUnavailableError):
                await store.get("/a")
        assert [client.target for client in etcd.clients] == ["a:1", "b:1", "a:1"]

    on(etcd, test, "a:1", "b:1", tls=Tls())


def test_a_single_endpoint_is_dialled_anew_when_the_certificates_are_others(etcd: Etcd) -> None:
    tls = Tls()

    async def test(store: EtcdMetadata) -> None:
        etcd.says = Refused(grpc.StatusCode.UNAVAILABLE)
        for made in (1, 2):
            with pytest.raises(MetadataUnavailableError):
                await store.get("/a")
            assert len(etcd.clients) == made
            tls.pem = object()

    on(etcd, test, "a:1", tls=tls)
