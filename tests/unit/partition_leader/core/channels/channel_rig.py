"""A channel on one partition, for tests: it is told of records 0 to 9, and its clock starts at 1,000 ms."""

from __future__ import annotations

from typing import Any

from oncelog_partition_leader.core.channels.delivery import Delivery
from oncelog_partition_leader.core.channels.settlement import Refused, Settlement, Verdict
from oncelog_partition_leader.core.channels.stored_state import Stored, Write
from oncelog_runtime.metadata.channel_values import ChannelOptions

NOW = 1_000
WAIT = 30_000


def channel(stored: Stored | None = None, records: int = 10, **options: Any) -> Delivery:
    """A channel without an order of keys."""
    delivery = Delivery(ChannelOptions(**options), stored or Stored(0), NOW)
    if records:
        delivery.supply(0, records, [(0, records - 1)])
    return delivery


def ordered(keys: list[int], stored: Stored | None = None, **options: Any) -> Delivery:
    """A channel with the order of keys; record n has the n-th key."""
    delivery = Delivery(ChannelOptions(order_by_key=True, **options), stored or Stored(0), NOW)
    delivery.supply(0, len(keys), [(0, len(keys) - 1)], keys)
    return delivery


def say(
    delivery: Delivery,
    verdict: Verdict,
    offset: int,
    number: int = 1,
    worker: str = "ann",
    now_ms: int = NOW,
    **more: Any,
) -> list[Refused]:
    """A worker's word about one record."""
    return delivery.settle(worker, Settlement(offset, offset, number, verdict, **more), now_ms)


def write(delivery: Delivery, now_ms: int = NOW) -> Write:
    """The next write, which is there, and confirmed."""
    made = delivery.next_write(now_ms)
    assert made is not None, "there is something to write"
    delivery.written(made.write_no)
    delivery.check()
    return made
