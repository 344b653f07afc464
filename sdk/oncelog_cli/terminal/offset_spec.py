"""From a place that a person names (`start`, `@TIME`, `-5`) to an offset per partition. Imported when a verb runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncelog.errors import UnknownTopicError
from oncelog_cli.terminal.argument_types import Place

if TYPE_CHECKING:
    from oncelog.client.client import Client

Where = tuple[str, int]


async def offsets_at(
    client: Client, partitions: list[Where], place: Place, isolation_level: str = "read_committed"
) -> dict[Where, int]:
    """Offset of the place in each partition; the end is that of what may be read at this isolation level.

    A time after the last record is the end. Raises `UnknownTopicError`.
    """
    await _require(client, partitions)
    async with client.consumer(isolation_level=isolation_level) as consumer:
        starts = await consumer.beginning_offsets(partitions)
        ends = await consumer.end_offsets(partitions)
        times = {}
        if place.kind == "timestamp":
            times = await consumer.offsets_for_times(dict.fromkeys(partitions, place.value))
    found: dict[Where, int] = {}
    for where, start, end in ((w, starts[w], ends[w]) for w in starts):
        at = times.get(where)
        offset = {
            "start": start,
            "end": end,
            "offset": place.value,
            "timestamp": end if at is None else at.offset,
            "relative": start + place.value if place.value >= 0 else end + place.value,
        }[place.kind]
        bounded = offset if place.kind == "offset" else min(max(offset, start), end)
        found[where[0], where[1]] = bounded
    return found


async def _require(client: Client, partitions: list[Where]) -> None:
    for topic in dict.fromkeys(topic for topic, _ in partitions):
        count = len((await client.admin.describe_topic(topic)).partitions)
        for _, partition in (where for where in partitions if where[0] == topic):
            if not 0 <= partition < count:
                raise UnknownTopicError(f"{topic} has the partitions 0 to {count - 1}", partition=partition)
