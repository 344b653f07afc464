"""Where a delayed record is written: to the waiting topic of its topic, with the time at which it is due as its timestamp.

Rule: whatever is wrong with a delay is said before anything is queued, and nothing is changed then.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from oncelog.client.home.context import Context
from oncelog.client.routing.calls import Caller
from oncelog.client.routing.metadata import Metadata
from oncelog.core.batch.record import check_ttl
from oncelog.core.names import waiting_topic
from oncelog.errors import InvalidDelayError
from oncelog.v1 import partition_pb2 as pb
from oncelog.wire import methods

DELAY_MAX_MS: Final = 365 * 86_400_000
_TIMEOUT_MS: Final = 30_000
_MS: Final = timedelta(milliseconds=1)
_1970: Final = datetime(1970, 1, 1, tzinfo=UTC)


class DelayedRecords:
    """Finds, for one producer, where delayed records go."""

    def __init__(self, context: Context, metadata: Metadata, caller: Caller) -> None:
        self._context = context
        self._metadata = metadata
        self._caller = caller

    async def place(
        self, topic: str, deliver_at: datetime | timedelta | int, ttl_ms: int | None
    ) -> tuple[str, int, int | None]:
        """Returns the waiting topic, the timestamp and the time to live of a record that is due at `deliver_at`; the time to
        live is counted from now, and begins when the record is due.

        The waiting topic is made at its first use. Raises `InvalidDelayError`, `UnknownTopicError` or `InvalidTopicError`.
        """
        now_ms = self._context.clock.now_ms()
        due_ms = due_at_ms(now_ms, deliver_at)
        alive_ms = None if ttl_ms is None else check_ttl(ttl_ms) + due_ms - now_ms
        name = waiting_topic(topic)
        if self._metadata.known_topic(name) is None:
            request = pb.CreateTopicRequest(topic=name, if_not_exists=True, timeout_ms=_TIMEOUT_MS)
            await self._caller.to_controller(methods.CREATE_TOPIC, request)
        return name, due_ms, alive_ms


def due_at_ms(now_ms: int, deliver_at: datetime | timedelta | int) -> int:
    """Returns when a record is due, in milliseconds since 1970, and not before that time. Raises `InvalidDelayError`."""
    if isinstance(deliver_at, timedelta):
        due_ms = now_ms + _rounded_up_ms(deliver_at)
    elif isinstance(deliver_at, datetime):
        if deliver_at.tzinfo is None:
            raise InvalidDelayError("deliver_at has no time zone: use datetime.now(UTC) + timedelta(...)")
        due_ms = _rounded_up_ms(deliver_at - _1970)
    elif isinstance(deliver_at, int):
        due_ms = deliver_at
    else:
        raise InvalidDelayError("deliver_at is a timedelta, a time with its zone, or milliseconds", given=deliver_at)
    if not 0 <= due_ms - now_ms <= DELAY_MAX_MS:
        raise InvalidDelayError(
            "a record is due between now and a year from now; a number is milliseconds since 1970, a timedelta is from now",
            due_ms=due_ms,
            now_ms=now_ms,
            limit_ms=DELAY_MAX_MS,
        )
    return due_ms


def _rounded_up_ms(time: timedelta) -> int:
    """Returns whole milliseconds, so that no record is early; what is negative is rounded down, and stays in the past."""
    whole, rest = divmod(time, _MS)
    return whole + (1 if rest and whole >= 0 else 0)
