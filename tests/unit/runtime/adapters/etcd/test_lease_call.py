"""Renewals of leases share one call, until anything but an answer comes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import grpc
import pytest

from oncelog_runtime.adapters.etcd import lease_call
from oncelog_runtime.adapters.etcd.lease_call import LeaseCall


class Call:
    """One call of the stub. It answers with the newest request's id and `Etcd.ttl_s`, or as `Etcd.says`."""

    def __init__(self, etcd: Etcd) -> None:
        self.etcd, self.asked, self.is_ended, self.is_done = etcd, 0, False, False
        etcd.calls.append(self)

    async def write(self, request: Any) -> None:
        if self.is_done or self.etcd.ends_now:
            self.is_done = True
            raise asyncio.InvalidStateError("RPC already finished.")
        self.asked = request.ID

    def done(self) -> bool:
        return self.is_done

    async def read(self) -> Any:
        asked = self.asked
        await asyncio.sleep(0)
        if isinstance(self.etcd.says, Exception):
            raise self.etcd.says
        return SimpleNamespace(ID=asked, TTL=3) if self.etcd.says is None else self.etcd.says

    def cancel(self) -> None:
        self.is_ended = True


class Etcd:
    """Gives out calls; `channel` is the one to use now."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.says: Any = None
        self.ends_now = False
        """The call ends at the moment at which the next request is written."""
        self.channel: Any = object()
        self.leases = LeaseCall(lambda: (self.channel, (("token", "x"),)))


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Etcd], Awaitable[None]]], None]:
    def run(test: Callable[[Etcd], Awaitable[None]]) -> None:
        async def bounded() -> None:
            etcd = Etcd()
            stub = SimpleNamespace(LeaseKeepAlive=lambda metadata: Call(etcd) if metadata else None)
            monkeypatch.setattr(lease_call, "_STUB", lambda _channel: stub)
            async with asyncio.timeout(10):
                await test(etcd)

        asyncio.run(bounded())

    return run


Run = Callable[[Callable[[Etcd], Awaitable[None]]], None]


def test_renewals_share_one_call_and_each_gets_its_own_answer(run: Run) -> None:
    async def test(etcd: Etcd) -> None:
        assert await asyncio.gather(*(etcd.leases.renew(lease_id) for lease_id in (7, 8, 9))) == [3, 3, 3]
        assert await etcd.leases.renew(7) == 3
        assert len(etcd.calls) == 1
        etcd.leases.end()
        etcd.leases.end()
        assert etcd.calls[0].is_ended

    run(test)


@pytest.mark.parametrize("says", [grpc.RpcError(), grpc.aio.EOF, SimpleNamespace(ID=8, TTL=3)])
def test_after_anything_but_an_answer_the_next_renewal_has_a_call_of_its_own(run: Run, says: Any) -> None:
    async def test(etcd: Etcd) -> None:
        await etcd.leases.renew(7)
        etcd.says = says
        with pytest.raises((grpc.RpcError, ValueError)):
            await etcd.leases.renew(7)
        assert etcd.calls[0].is_ended
        etcd.says = None
        assert await etcd.leases.renew(7) == 3
        assert len(etcd.calls) == 2

    run(test)


def test_a_renewal_that_is_given_up_leaves_no_answer_to_the_next_one(run: Run) -> None:
    async def test(etcd: Etcd) -> None:
        renewing = asyncio.create_task(etcd.leases.renew(7))
        await asyncio.sleep(0)  # until it waits for the answer
        assert etcd.calls[0].asked == 7
        renewing.cancel()
        await asyncio.wait([renewing])
        assert await etcd.leases.renew(8) == 3
        assert [call.is_ended for call in etcd.calls] == [True, False]

    run(test)


def test_a_new_channel_means_a_new_call(run: Run) -> None:
    async def test(etcd: Etcd) -> None:
        await etcd.leases.renew(7)
        etcd.channel = object()
        await etcd.leases.renew(7)
        assert [call.is_ended for call in etcd.calls] == [True, False]

    run(test)


def test_a_call_that_etcd_has_ended_meanwhile_is_replaced(run: Run) -> None:
    """Its process died, for one: gRPC raises `InvalidStateError` for a write to such a call, which ended a service's task."""

    async def test(etcd: Etcd) -> None:
        await etcd.leases.renew(7)
        etcd.calls[0].is_done = True
        assert await etcd.leases.renew(7) == 3
        etcd.ends_now = True
        with pytest.raises(ValueError, match="etcd ended the call"):
            await etcd.leases.renew(7)
        etcd.ends_now = False
        assert await etcd.leases.renew(7) == 3
        assert len(etcd.calls) == 3

    run(test)
