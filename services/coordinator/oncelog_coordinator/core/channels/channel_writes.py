"""Decides about the state of a channel on a partition: what a leader gets to know, and which records a write or a marker makes.

Rule 1: `settled_before` moves over everything behind it that is settled, so no block begins with what the head could say.
Rule 2: only blocks that change are written. Tombstones for a few that count no more go along, so that a channel that flows
        needs no append for them.
Rule 3: no more than `max_channel_retried` retried records are remembered. The deliveries of others count from zero after a
        fail-over; nothing is lost by that, nor delivered after it was settled.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain, islice
from typing import Final, NamedTuple

from oncelog.errors import InvalidRequestError
from oncelog_coordinator.core.channels.channel_commands import BlockView, ChannelView, WriteChannelState
from oncelog_coordinator.core.channels.channel_partition import ChannelPartition
from oncelog_coordinator.core.channels.channel_records import (
    UNKNOWN,
    ChannelHead,
    RetriedBlock,
    Retry,
    SettledBlock,
)
from oncelog_coordinator.core.channels.lost_records import forgotten
from oncelog_coordinator.core.channels.offset_ranges import (
    BLOCK,
    OffsetRange,
    bits_of,
    first_unsettled,
    is_set,
    union,
)
from oncelog_coordinator.core.decision import LogRecord
from oncelog_coordinator.core.limits import Limits
from oncelog_coordinator.core.transactions.records import Tombstone

OFFSET_MAX: Final = (1 << 62) - 1
_DELIVERIES_MAX: Final = (1 << 31) - 1
_REMOVED_ALONG: Final = 100
"""At most so many tombstones go along with a write."""


# ---------------------------------------------------------------- answers to a leader


def view_of(here: ChannelPartition, first_offsets: tuple[int, ...]) -> ChannelView:
    """Returns the state; `first_offsets`: only of these blocks, empty = of all."""
    head = here.head
    if head is None:
        return ChannelView(known=False, settled_before=0, write_no=0, seeks=0)
    numbers = sorted({first // BLOCK for first in first_offsets} or {*here.settled, *here.retried})
    blocks = (BlockView(n * BLOCK, here.settled_bits(n), tuple(here.retries(n))) for n in numbers)
    return ChannelView(
        known=head.settled_before != UNKNOWN,
        settled_before=max(head.settled_before, 0),
        write_no=head.write_no,
        seeks=head.seeks,
        blocks=tuple(block for block in blocks if block.settled or block.retried),
        pending=tuple(here.pending[key] for key in sorted(here.pending)),
        written_epoch=head.written_epoch,
    )


def check_blocks(first_offsets: tuple[int, ...], limits: Limits) -> None:
    """Raises `InvalidRequestError` unless these are first offsets of blocks."""
    if len(first_offsets) > limits.max_channel_ranges or any(n < 0 or n % BLOCK for n in first_offsets):
        raise InvalidRequestError(f"a block is named by its first offset, a multiple of {BLOCK}")


# ---------------------------------------------------------------- what is settled


class Settled(NamedTuple):
    """The state after a union: where the head stands, all bit maps, and those that have changed."""

    before: int
    bits: dict[int, int]
    changed: dict[int, int]

    def records(self, head: ChannelHead) -> Iterator[SettledBlock]:
        """Yields the blocks that have changed and still count."""
        for block in sorted(self.changed):
            if (block + 1) * BLOCK > self.before:
                yield SettledBlock(head.id, block, head.seeks, self.changed[block])


def settle(bits: dict[int, int], before: int, ranges: Iterable[OffsetRange]) -> Settled:
    """Adds ranges to what is settled: everything before `before`, and what is set in `bits`."""
    added = bits_of(union(ranges), before)
    changed = {n: bits.get(n, 0) | more for n, more in added.items() if more & ~bits.get(n, 0)}
    after = {**bits, **changed}
    return Settled(first_unsettled(before, after), after, changed)


def committed(here: ChannelPartition, ranges: Iterable[OffsetRange]) -> list[LogRecord]:
    """Returns the records of acknowledgements whose transaction has committed."""
    head = here.head
    assert head is not None, "acknowledgements are forgotten with their head"
    settled = settle(here.bits(), head.settled_before, ranges)
    moved = [] if settled.before == head.settled_before else [replace(head, settled_before=settled.before)]
    return [*moved, *settled.records(head)]


# ---------------------------------------------------------------- writes of a leader


def check_write(command: WriteChannelState, known_before: int, limits: Limits) -> None:
    """Raises `InvalidRequestError` for a write that no leader makes, or that is too much at once."""
    if not 0 <= command.settled_before <= OFFSET_MAX:
        raise InvalidRequestError("settled_before is an offset", given=command.settled_before)
    if command.seek and (command.settled or command.retried):
        raise InvalidRequestError("a seek forgets everything: what is settled after it goes with the next write")
    if command.forget_from is not None:
        _check_forgetting(command, command.forget_from)
    if len(command.retried) > limits.max_channel_ranges:
        raise InvalidRequestError("too many retried records in one write", limit=limits.max_channel_ranges)
    highest = max(command.settled_before, known_before) + limits.max_channel_window
    check_ranges(command.settled, highest, limits)
    for item in command.retried:
        is_legal = 0 <= item.offset <= highest and 1 <= item.deliveries <= _DELIVERIES_MAX
        if not is_legal or not 0 <= item.not_before_ms <= OFFSET_MAX:
            raise InvalidRequestError("a retried record has an offset, deliveries and a time", offset=item.offset)


def _check_forgetting(command: WriteChannelState, from_offset: int) -> None:
    if command.seek or command.settled or command.retried:
        raise InvalidRequestError("a write that forgets lost records does nothing else")
    if not 0 <= from_offset <= OFFSET_MAX:
        raise InvalidRequestError("forget_from is an offset", given=from_offset)


def check_ranges(ranges: tuple[OffsetRange, ...], highest: int, limits: Limits) -> None:
    """Raises `InvalidRequestError` for too many ranges, or one that is none or ends above `highest`."""
    if len(ranges) > limits.max_channel_ranges:
        raise InvalidRequestError("too many ranges of offsets in one request", limit=limits.max_channel_ranges)
    for first, last in ranges:
        if not 0 <= first <= last:
            raise InvalidRequestError("a range has a first and a last offset", first_offset=first, last_offset=last)
        if last > highest:
            raise InvalidRequestError(
                "the range lies too far above what is settled: write `settled_before` first",
                last_offset=last,
                highest=highest,
            )


def written(here: ChannelPartition, head: ChannelHead, command: WriteChannelState, limits: Limits) -> list[LogRecord]:
    """Returns the records of the next write of a leader."""
    head = replace(head, write_no=command.write_no, written_epoch=head.leader_epoch)
    if command.seek:
        return [replace(head, settled_before=command.settled_before, seeks=head.seeks + 1)]
    if command.forget_from is not None:
        return list(forgotten(here, head, command.forget_from))
    settled = settle(here.bits(), max(head.settled_before, command.settled_before), command.settled)
    new = replace(head, settled_before=settled.before)
    records: list[LogRecord] = [new, *settled.records(head), *_retried(here, new, settled, command.retried, limits)]
    return [*records, *_removed(here, settled.before, {record.key for record in records})]


def _retried(
    here: ChannelPartition, head: ChannelHead, settled: Settled, added: tuple[Retry, ...], limits: Limits
) -> Iterator[LogRecord]:
    """Yields the blocks of retried records that change, without what is settled."""
    by_block: dict[int, dict[int, Retry]] = {n: {} for n in settled.changed if n in here.retried}
    for item in added:
        by_block.setdefault(item.offset // BLOCK, {})[item.offset] = item
    room = limits.max_channel_retried - here.remembered_retries()
    for block in sorted(by_block):
        if (block + 1) * BLOCK <= settled.before:
            continue
        known = here.retried.get(block)
        found = {item.offset: item for item in here.retries(block)}
        for offset, item in by_block[block].items():
            if offset in found or room > 0:
                room -= offset not in found
                found[offset] = item
        left = [
            item for item in found.values() if item.offset >= settled.before and not is_set(item.offset, settled.bits)
        ]
        new = RetriedBlock.of(head.id, block, head.seeks, left)
        if left and new != known:
            yield new
        elif not left and known is not None:
            yield Tombstone(known.key)


def _removed(here: ChannelPartition, before: int, written_keys: set[str]) -> list[LogRecord]:
    """Returns tombstones for a few records that count no more from now on."""
    blocks: Iterable[SettledBlock | RetriedBlock] = chain(here.settled.values(), here.retried.values())
    old = (record.key for record in blocks if (record.block + 1) * BLOCK <= before)
    keys = (key for key in chain(here.outdated, old) if key not in written_keys)
    return [Tombstone(key) for key in islice(keys, _REMOVED_ALONG)]
