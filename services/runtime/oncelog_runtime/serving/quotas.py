"""The quotas in force in this process: each caller's use, and how long its requests wait.

Rule 1: only callers at the client and the external listener are counted. Calls between services never wait, so a
        forwarded request is counted once, where the client sent it.
Rule 2: while no quota is set, a request costs one look at `is_active`.
Rule 3: a delay or refusal is reported: in the frame (`throttle_ms`) or in the error (`retry_after_ms`).
Rule 4: while etcd is away the last quotas apply; before the first listing there are none.
"""

from __future__ import annotations

import asyncio
import ipaddress
import math
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Final
from urllib.parse import unquote

from oncelog.errors import ThrottlingQuotaExceededError
from oncelog_runtime.core.listeners import INTERNAL
from oncelog_runtime.core.quota import Account, QuotaKind
from oncelog_runtime.core.security.acl import ANONYMOUS
from oncelog_runtime.core.security.quotas import ADDRESS, Quota, QuotaTable
from oncelog_runtime.observability import metric_names as names
from oncelog_runtime.observability.metrics import NodeMetrics
from oncelog_runtime.serving.call_context import CALL, CallInfo

DELAY_MAX_MS: Final = 1_000
"""A request that would wait longer is refused, so no more requests of a caller wait here than it may send in this time."""
ACCOUNTS_MAX: Final = 10_000
"""Callers that are remembered; above it, one of the longest idle ones is dropped."""
_DELAYING: Final = (QuotaKind.PRODUCE_BYTES, QuotaKind.FETCH_BYTES, QuotaKind.REQUESTS)
_BYTES_OF: Final = {
    "PartitionLeader.Produce": QuotaKind.PRODUCE_BYTES,
    "PartitionLeader.ProduceRecords": QuotaKind.PRODUCE_BYTES,
    "PartitionLeader.Fetch": QuotaKind.FETCH_BYTES,
    "PartitionLeader.FetchRecords": QuotaKind.FETCH_BYTES,
}


def subject_of(caller: CallInfo) -> str:
    """Returns the subject whose quotas apply; empty for the cluster's own services, which have none."""
    if caller.listener == INTERNAL:
        return ""
    if caller.principal not in ("", ANONYMOUS):
        return caller.principal
    return ADDRESS + _address_of(caller.peer)


def _address_of(peer: str) -> str:
    """Returns `10.0.0.7` for `ipv4:10.0.0.7:41234`; any other text unchanged."""
    host = unquote(peer).partition(":")[2].rpartition(":")[0].strip("[]").partition("%")[0]
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return peer
    return str(getattr(address, "ipv4_mapped", None) or address)


class Pass:
    """An admitted request, until its answer. `delay_ms`: how long to wait before it starts."""

    __slots__ = ("_account", "_kind", "_open", "delay_ms")

    def __init__(self, account: Account, kind: QuotaKind | None, delay_ms: float) -> None:
        self._account = account
        self._kind = kind
        self._open = True
        self.delay_ms = delay_ms

    def answered(self, size: int) -> int:
        """Charges the answer; returns for how long the caller should not send this method again."""
        if not self._open:
            return 0
        self._open = False
        return math.ceil(self._account.answered(self._kind, size, _now_ms()))

    @property
    def answer_bytes_max(self) -> int | None:
        """The largest size of one answer, so that a single one causes no long debt; None = no limit."""
        return self._account.limits.get(QuotaKind.FETCH_BYTES) if self._kind is QuotaKind.FETCH_BYTES else None

    def close(self) -> None:
        """Ends a request without an answer. May be called repeatedly, and after `answered`."""
        if self._open:
            self._open = False
            self._account.abandoned()


class Quotas:
    """Applies the quotas of one process."""

    def __init__(self, metrics: NodeMetrics | None = None) -> None:
        metrics = metrics or NodeMetrics()
        self.is_active = False
        """True when any quota is set."""
        self.table = QuotaTable()
        self._generation = 0
        self._accounts: OrderedDict[str, Account] = OrderedDict()
        self._delays = {kind: metrics.histogram(names.QUOTA_DELAY_SECONDS, str(kind)) for kind in _DELAYING}
        self._refused = {kind: metrics.counter(names.QUOTA_REFUSED, str(kind)) for kind in QuotaKind}

    def replace(self, quotas: Iterable[Quota]) -> None:
        """Applies other quotas from now on; what was used stays counted."""
        self.table = QuotaTable(quotas)
        self._generation += 1
        self.is_active = bool(self.table)
        if not self.is_active:
            self._accounts.clear()

    # ------------------------------------------------------------ requests

    def admit(self, subject: str, method: str, size: int, timeout_ms: int) -> Pass:
        """Admits a request of `size` bytes. Raises `ThrottlingQuotaExceededError` when it would wait too long."""
        kind = _BYTES_OF.get(method)
        account = self._account(subject)
        try:
            delay_ms = account.admit(kind, size, _now_ms(), min(DELAY_MAX_MS, timeout_ms / 2))
        except ThrottlingQuotaExceededError as error:
            self._count(error)
            raise
        if delay_ms > 0:
            counted = kind if kind is not None and kind in account.limits else QuotaKind.REQUESTS
            self._delays[counted].observe(delay_ms / 1000)
        return Pass(account, kind, delay_ms)

    # ------------------------------------------------------------ what cannot be delayed

    def connect(self, subject: str, connections: int) -> None:
        """Admits one more connection beside this many. Raises `ThrottlingQuotaExceededError`."""
        if self.is_active and subject:
            self._refusing(lambda account, _: account.connect(connections), subject)

    def change_partitions(self, count: int) -> None:
        """Admits that the running handler's caller creates or deletes partitions. Raises `ThrottlingQuotaExceededError`."""
        if self.is_active and count and (subject := _caller_now()):
            self._refusing(lambda account, now_ms: account.change_partitions(count, now_ms), subject)

    def use_transactional_id(self, transactional_id: str) -> None:
        """Admits a session of the running handler's caller under this id. Raises `ThrottlingQuotaExceededError`."""
        if self.is_active and (subject := _caller_now()):
            self._refusing(lambda account, now_ms: account.use_transactional_id(transactional_id, now_ms), subject)

    def _refusing(self, use: Callable[[Account, float], None], subject: str) -> None:
        try:
            use(self._account(subject), _now_ms())
        except ThrottlingQuotaExceededError as error:
            self._count(error)
            raise

    def _count(self, error: ThrottlingQuotaExceededError) -> None:
        self._refused[QuotaKind(error.context["quota"])].inc()

    # ------------------------------------------------------------ accounts

    def _account(self, subject: str) -> Account:
        account = self._accounts.get(subject)
        if account is None:
            account = self._accounts[subject] = Account(subject)
            if len(self._accounts) > ACCOUNTS_MAX:
                self._forget_one(_now_ms())
        else:
            self._accounts.move_to_end(subject)
        if account.generation != self._generation:
            account.limit_by(self.table.limits_of(subject), self._generation, _now_ms())
        return account

    def _forget_one(self, now_ms: float) -> None:
        """Drops one of the longest unused accounts: one that is idle if possible, otherwise the first."""
        resting = [subject for subject, _ in zip(self._accounts, range(_LOOKED_AT), strict=False)]
        idle = (subject for subject in resting if self._accounts[subject].is_idle(now_ms))
        del self._accounts[next(idle, resting[0])]


_LOOKED_AT: Final = 16


def _caller_now() -> str:
    call = CALL.get()
    return "" if call is None else subject_of(call)


def _now_ms() -> float:
    """Returns the running loop's time: virtual in the simulation, and the same clock as its timers."""
    return asyncio.get_running_loop().time() * 1000
