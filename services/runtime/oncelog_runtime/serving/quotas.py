"""Quotas in force in this process: who asks, what he has used, how long he waits.

Rule 1: only callers at the client and the external listener are counted. What services ask of each other never waits, so what
        a broker passes on is counted once, where the client asked.
Rule 2: while nobody has a quota, that costs one look at `is_active`.
Rule 3: who waits and who is refused is told: in the frame (`throttle_ms`) or in the error (`retry_after_ms`).
Rule 4: while etcd is away the last quotas count; before the first listing there are none.
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
"""A request that would wait longer is refused, so a caller keeps no more waiting here than he may send in this time."""
ACCOUNTS_MAX: Final = 10_000
"""Callers that are remembered; above it, those go that have rested longest."""
_DELAYING: Final = (QuotaKind.PRODUCE_BYTES, QuotaKind.FETCH_BYTES, QuotaKind.REQUESTS)
_BYTES_OF: Final = {
    "PartitionLeader.Produce": QuotaKind.PRODUCE_BYTES,
    "PartitionLeader.ProduceRecords": QuotaKind.PRODUCE_BYTES,
    "PartitionLeader.Fetch": QuotaKind.FETCH_BYTES,
    "PartitionLeader.FetchRecords": QuotaKind.FETCH_BYTES,
}


def subject_of(caller: CallInfo) -> str:
    """Whose quotas count; empty for the cluster's own services, who have none."""
    if caller.listener == INTERNAL:
        return ""
    if caller.principal not in ("", ANONYMOUS):
        return caller.principal
    return ADDRESS + _address_of(caller.peer)


def _address_of(peer: str) -> str:
    """`10.0.0.7` of `ipv4:10.0.0.7:41234`; what is no such address, as it is."""
    host = unquote(peer).partition(":")[2].rpartition(":")[0].strip("[]").partition("%")[0]
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return peer
    return str(getattr(address, "ipv4_mapped", None) or address)


class Pass:
    """A request that was let in, from then until its answer. `delay_ms`: when it may start."""

    __slots__ = ("_account", "_kind", "_open", "delay_ms")

    def __init__(self, account: Account, kind: QuotaKind | None, delay_ms: float) -> None:
        self._account = account
        self._kind = kind
        self._open = True
        self.delay_ms = delay_ms

    def answered(self, size: int) -> int:
        """The answer is made. How long the caller should send no more of this method."""
        if not self._open:
            return 0
        self._open = False
        return math.ceil(self._account.answered(self._kind, size, _now_ms()))

    @property
    def answer_bytes_max(self) -> int | None:
        """What one answer may hold, so that one alone makes no long debt; None = anything."""
        return self._account.limits.get(QuotaKind.FETCH_BYTES) if self._kind is QuotaKind.FETCH_BYTES else None

    def close(self) -> None:
        """There will be no answer. Any number of times, and after `answered` too."""
        if self._open:
            self._open = False
            self._account.abandoned()


class Quotas:
    """One per process."""

    def __init__(self, metrics: NodeMetrics | None = None) -> None:
        metrics = metrics or NodeMetrics()
        self.is_active = False
        """Somebody has a quota."""
        self.table = QuotaTable()
        self._generation = 0
        self._accounts: OrderedDict[str, Account] = OrderedDict()
        self._delays = {kind: metrics.histogram(names.QUOTA_DELAY_SECONDS, str(kind)) for kind in _DELAYING}
        self._refused = {kind: metrics.counter(names.QUOTA_REFUSED, str(kind)) for kind in QuotaKind}

    def replace(self, quotas: Iterable[Quota]) -> None:
        """Other quotas count from here on; what was used stays used."""
        self.table = QuotaTable(quotas)
        self._generation += 1
        self.is_active = bool(self.table)
        if not self.is_active:
            self._accounts.clear()

    # ------------------------------------------------------------ requests

    def admit(self, subject: str, method: str, size: int, timeout_ms: int) -> Pass:
        """Lets a request of `size` bytes in. Raises `ThrottlingQuotaExceededError` when it would wait too long."""
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
        """One more connection beside so many. Raises `ThrottlingQuotaExceededError`."""
        if self.is_active and subject:
            self._refusing(lambda account, _: account.connect(connections), subject)

    def change_partitions(self, count: int) -> None:
        """The running handler's caller makes or removes partitions. Raises `ThrottlingQuotaExceededError`."""
        if self.is_active and count and (subject := _caller_now()):
            self._refusing(lambda account, now_ms: account.change_partitions(count, now_ms), subject)

    def use_transactional_id(self, transactional_id: str) -> None:
        """The running handler's caller begins a session under this id. Raises `ThrottlingQuotaExceededError`."""
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
        """Of those that have rested longest one that loses nothing by it, else the first of them."""
        resting = [subject for subject, _ in zip(self._accounts, range(_LOOKED_AT), strict=False)]
        idle = (subject for subject in resting if self._accounts[subject].is_idle(now_ms))
        del self._accounts[next(idle, resting[0])]


_LOOKED_AT: Final = 16


def _caller_now() -> str:
    call = CALL.get()
    return "" if call is None else subject_of(call)


def _now_ms() -> float:
    """The running loop's clock: virtual in the simulation, and the one of its timers."""
    return asyncio.get_running_loop().time() * 1000
