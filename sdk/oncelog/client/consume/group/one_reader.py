"""Refuses a read while another one of the same consumer is under way, where the promise of a preset rests on one reader.

With `delivery="at_least_once"` a read says that what the read before it returned is processed, and with "exactly_once" the
offsets of a batch say so of all that lies before it. Of two tasks that read in turn, each would say it of the other's records.
With "at_most_once" records are committed before they are returned, and without a preset the caller says what is processed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from oncelog import errors
from oncelog.delivery_presets import AT_LEAST_ONCE, EXACTLY_ONCE


class OneReader:
    """See the module. One per consumer."""

    def __init__(self, delivery: str) -> None:
        self._delivery = delivery if delivery in (AT_LEAST_ONCE, EXACTLY_ONCE) else ""
        self._is_reading = False

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """A read is under way inside. Raises `IllegalStateError` when one is already."""
        if not self._delivery:
            yield
            return
        if self._is_reading:
            raise errors.IllegalStateError(
                f"another task reads from this consumer: with delivery={self._delivery!r} one task reads, works, and reads on."
                " Give each task a consumer of its own with the same group_id: the group shares the partitions among them"
            )
        self._is_reading = True
        try:
            yield
        finally:
            self._is_reading = False
