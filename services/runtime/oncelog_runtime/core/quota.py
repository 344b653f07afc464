"""Quotas of one caller: token buckets that may go into debt, and what each kind of quota counts.

Rule 1: requests above a rate are delayed first, in the order in which they came: a request starts when everything
        admitted before it is paid for. So over any time no more is admitted than the rate, plus one interval's worth,
        plus one request.
Rule 2: a request that would have to wait longer than its patience is refused, and costs nothing.
Rule 3: a size that is known only afterwards (an answer's) is charged afterwards: the debt delays the next request.
Rule 4: every operation takes constant time, however many principals there are. Time is passed in, never read.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from oncelog.errors import ThrottlingQuotaExceededError

UNLIMITED: Final = -1
_RETRY_IN_FLIGHT_MS: Final = 50
_RETRY_LATER_MS: Final = 1_000


class QuotaKind(StrEnum):
    """The kinds of quotas, each counted for one principal and one process."""

    PRODUCE_BYTES = "produce_bytes_per_s"
    FETCH_BYTES = "fetch_bytes_per_s"
    REQUESTS = "requests_per_s"
    REQUESTS_IN_FLIGHT = "requests_in_flight"
    CONNECTIONS = "connections"
    PARTITION_CHANGES = "partition_changes_per_min"
    TRANSACTIONAL_IDS = "transactional_ids_per_h"


_K = QuotaKind
INTERVAL_MS: Final = {_K.PRODUCE_BYTES: 1_000, _K.FETCH_BYTES: 1_000, _K.REQUESTS: 1_000, _K.PARTITION_CHANGES: 60_000}
"""The interval of each rate."""
TRANSACTIONAL_IDS_MS: Final = 3_600_000
"""How long a transactional id counts after its last session."""

Limits = Mapping[QuotaKind, int]
"""The limits that are set, each at least 1."""


class TokenBucket:
    """A rate of `limit` in `interval_ms`; after a rest, one interval's worth may be used at once."""

    __slots__ = ("_free_at_ms", "_interval_ms", "_per_ms", "limit")

    def __init__(self, limit: int, interval_ms: int, now_ms: float) -> None:
        self.limit = limit
        self._interval_ms = interval_ms
        self._per_ms = limit / interval_ms
        self._free_at_ms = now_ms - interval_ms

    def delay_ms(self, now_ms: float) -> float:
        """Returns the time until the debt is paid; 0 = no debt."""
        return max(self._free_at_ms - now_ms, 0.0)

    def take(self, amount: int, now_ms: float) -> None:
        """Takes this amount, and goes into debt for what is missing."""
        self._free_at_ms = max(self._free_at_ms, now_ms - self._interval_ms) + amount / self._per_ms

    def change(self, limit: int, now_ms: float) -> None:
        """Changes the limit; the debt stays the same, in tokens."""
        debt = (self._free_at_ms - now_ms) * self._per_ms
        self.limit = limit
        self._per_ms = limit / self._interval_ms
        self._free_at_ms = now_ms + max(debt / self._per_ms, -self._interval_ms)

    def is_full(self, now_ms: float) -> bool:
        """True when it equals a new bucket."""
        return self._free_at_ms <= now_ms - self._interval_ms


class Account:
    """Keeps what one caller has used of its quotas."""

    __slots__ = ("_buckets", "_ids", "generation", "in_flight", "limits", "subject")

    def __init__(self, subject: str) -> None:
        self.subject = subject
        self.generation = -1
        self.limits: Limits = {}
        self.in_flight = 0
        self._buckets: dict[QuotaKind, TokenBucket] = {}
        self._ids: OrderedDict[str, float] = OrderedDict()  # transactional id -> when a session of it began last

    def limit_by(self, limits: Limits, generation: int, now_ms: float) -> None:
        """Applies other limits from now on."""
        self.limits, self.generation = limits, generation
        for kind, interval_ms in INTERVAL_MS.items():
            limit, bucket = limits.get(kind), self._buckets.get(kind)
            if limit is None:
                self._buckets.pop(kind, None)
            elif bucket is None:
                self._buckets[kind] = TokenBucket(limit, interval_ms, now_ms)
            elif bucket.limit != limit:
                bucket.change(limit, now_ms)

    def is_idle(self, now_ms: float) -> bool:
        """True when dropping it would change nothing."""
        return not self.in_flight and not self._ids and all(b.is_full(now_ms) for b in self._buckets.values())

    # ------------------------------------------------------------ requests

    def admit(self, kind: QuotaKind | None, size: int, now_ms: float, patience_ms: float) -> float:
        """Admits a request and returns how long it waits before it starts. `kind`: the quota for the bytes that it
        moves.

        Raises `ThrottlingQuotaExceededError` for a request that would wait longer than `patience_ms`.
        """
        most = self.limits.get(_K.REQUESTS_IN_FLIGHT)
        if most is not None and self.in_flight >= most:
            raise self._refusal(_K.REQUESTS_IN_FLIGHT, _RETRY_IN_FLIGHT_MS)
        delay_ms = 0.0
        for asked in (_K.REQUESTS, kind):
            bucket = self._buckets.get(asked) if asked is not None else None
            if bucket is not None and asked is not None:
                delay_ms = max(delay_ms, bucket.delay_ms(now_ms))
                if delay_ms > patience_ms:
                    raise self._refusal(asked, delay_ms)
        self._take(_K.REQUESTS, 1, now_ms)
        if kind is _K.PRODUCE_BYTES:
            self._take(kind, size, now_ms)
        self.in_flight += 1
        return delay_ms

    def answered(self, kind: QuotaKind | None, size: int, now_ms: float) -> float:
        """Charges a request's answer; returns how long its caller should wait before the next one of this kind."""
        self.in_flight -= 1
        if kind is _K.FETCH_BYTES:
            self._take(kind, size, now_ms)
        return max(self._delay_ms(_K.REQUESTS, now_ms), self._delay_ms(kind, now_ms))

    def abandoned(self) -> None:
        """Ends a request that gets no answer."""
        self.in_flight -= 1

    def _take(self, kind: QuotaKind, amount: int, now_ms: float) -> None:
        bucket = self._buckets.get(kind)
        if bucket is not None:
            bucket.take(amount, now_ms)

    def _delay_ms(self, kind: QuotaKind | None, now_ms: float) -> float:
        bucket = self._buckets.get(kind) if kind is not None else None
        return 0.0 if bucket is None else bucket.delay_ms(now_ms)

    # ------------------------------------------------------------ what cannot be delayed

    def connect(self, connections: int) -> None:
        """Admits one more connection beside this many. Raises `ThrottlingQuotaExceededError`."""
        most = self.limits.get(_K.CONNECTIONS)
        if most is not None and connections >= most:
            raise self._refusal(_K.CONNECTIONS, _RETRY_LATER_MS)

    def change_partitions(self, count: int, now_ms: float) -> None:
        """Admits a change of partitions: a large topic is admitted, and delays the next. Raises
        `ThrottlingQuotaExceededError`.
        """
        delay_ms = self._delay_ms(_K.PARTITION_CHANGES, now_ms)
        if delay_ms > 0:
            raise self._refusal(_K.PARTITION_CHANGES, delay_ms)
        self._take(_K.PARTITION_CHANGES, count, now_ms)

    def use_transactional_id(self, transactional_id: str, now_ms: float) -> None:
        """Admits a session of this id. Raises `ThrottlingQuotaExceededError` for one id too many in an hour."""
        most = self.limits.get(_K.TRANSACTIONAL_IDS)
        if most is None:
            self._ids.clear()
            return
        while self._ids and next(iter(self._ids.values())) <= now_ms - TRANSACTIONAL_IDS_MS:
            self._ids.popitem(last=False)
        if transactional_id not in self._ids and len(self._ids) >= most:
            oldest_ms = next(iter(self._ids.values()))
            raise self._refusal(_K.TRANSACTIONAL_IDS, oldest_ms + TRANSACTIONAL_IDS_MS - now_ms)
        self._ids[transactional_id] = now_ms
        self._ids.move_to_end(transactional_id)

    def _refusal(self, kind: QuotaKind, delay_ms: float) -> ThrottlingQuotaExceededError:
        return ThrottlingQuotaExceededError(
            f"above the quota {kind} = {self.limits[kind]}: send less, or ask for more (`oncelog quota describe`)",
            retry_after_ms=max(int(delay_ms), 1),
            quota=str(kind),
            limit=self.limits[kind],
        )
