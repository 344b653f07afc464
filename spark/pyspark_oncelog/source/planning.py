"""Which offset range each Spark task reads, and how far a micro-batch goes. Pure.

Rule 1: a plan depends only on its arguments, so a replayed micro-batch reads the same ranges.
Rule 2: one task costs Spark some 40 ms, so small partitions share one task.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class OffsetRange:
    """Offsets `start` (inclusive) to `end` (exclusive) of a partition."""

    topic: str
    partition: int
    topic_id: str
    start: int
    end: int

    @property
    def size(self) -> int:
        """Offsets in the range; markers and aborted records count."""
        return self.end - self.start


def plan_tasks(
    ranges: Sequence[OffsetRange], min_partitions: int, min_rows_per_task: int, max_rows_per_task: int = 0
) -> list[list[OffsetRange]]:
    """Groups and splits ranges into tasks.

    No task has more than `max_rows_per_task` (0 = no limit). With `min_partitions` above the number of ranges, big
    ranges are split in proportion to their size. Otherwise small ranges are put together until a task has
    `min_rows_per_task`. Empty ranges are left out.
    """
    filled = sorted(r for r in ranges if r.size > 0)
    if max_rows_per_task:
        filled = [piece for r in filled for piece in _cut(r, -(-r.size // max_rows_per_task))]
    if min_partitions > len(filled):
        return [[piece] for r in filled for piece in _split(r, filled, min_partitions)]
    return _group(filled, max(min_rows_per_task, 1), min_partitions, max_rows_per_task)


def _split(whole: OffsetRange, ranges: Sequence[OffsetRange], min_partitions: int) -> list[OffsetRange]:
    total = sum(r.size for r in ranges)
    return _cut(whole, min(whole.size, max(1, round(min_partitions * whole.size / total))))


def _cut(whole: OffsetRange, pieces: int) -> list[OffsetRange]:
    """Pieces of about the same size."""
    borders = [whole.start + whole.size * i // pieces for i in range(pieces + 1)]
    return [
        OffsetRange(whole.topic, whole.partition, whole.topic_id, a, b)
        for a, b in zip(borders, borders[1:], strict=False)
    ]


def _group(ranges: Sequence[OffsetRange], min_rows: int, min_partitions: int, max_rows: int) -> list[list[OffsetRange]]:
    tasks: list[list[OffsetRange]] = []
    open_rows = 0
    for index, r in enumerate(ranges):
        must_split = len(tasks) + (len(ranges) - index) <= min_partitions
        fits = not max_rows or open_rows + r.size <= max_rows
        if tasks and open_rows < min_rows and fits and not must_split:
            tasks[-1].append(r)
            open_rows += r.size
        else:
            tasks.append([r])
            open_rows = r.size
    return tasks


def limit_rows(
    start: Mapping[tuple[str, int], int], end: Mapping[tuple[str, int], int], max_rows: int
) -> dict[tuple[str, int], int]:
    """The end of a micro-batch of `max_rows` offsets, if there are so many, shared in proportion to each partition's lag.

    A partition with lag gets at least one offset, so none starves; only where more partitions than `max_rows` have lag
    are there more offsets than that.
    """
    lag = {key: last - start.get(key, last) for key, last in end.items() if last > start.get(key, last)}
    if sum(lag.values()) <= max_rows:
        return dict(end)
    shares = _shares({key: rest - 1 for key, rest in lag.items()}, max(0, max_rows - len(lag)))
    return {key: start.get(key, last) + (1 + shares[key] if key in lag else 0) for key, last in end.items()}


def _shares(weights: Mapping[tuple[str, int], int], total: int) -> dict[tuple[str, int], int]:
    """`total` in proportion to weights that sum up to more, or all are 0: rounded down, the rest to the largest remainders."""
    whole = sum(weights.values()) or 1
    parts = {key: divmod(total * weight, whole) for key, weight in weights.items()}
    rest = total - sum(part for part, _ in parts.values())
    lucky = set(sorted(parts, key=lambda key: (-parts[key][1], key))[:rest])
    return {key: part + (key in lucky) for key, (part, _) in parts.items()}
