"""The port for observers of a consumer: it reports polls, the work on records, and commits of offsets.

Rule: this class does nothing, and a consumer without tracing has one. An implementation overrides what it wants to know
      (`ReadTraces` makes spans), so the code that reads never asks whether it is observed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import ClassVar

from oncelog.client.consume.fetched_records import ConsumerRecord
from oncelog.client.consume.offsets import Offsets


class ReadObserver:
    """See the module. One per consumer."""

    sees_each_poll: ClassVar[bool] = False
    """True: no record may be returned without a poll of its own, as a loop over records does otherwise."""

    def poll_begins(self) -> int:
        """A poll begins; `polled` gets what this returns."""
        return 0

    def polled(self, records: Sequence[ConsumerRecord], begun: int) -> None:
        """The poll has returned these records, maybe none. A poll that raised is not reported."""

    def processing(self, record: ConsumerRecord) -> contextlib.AbstractContextManager[None]:
        """The caller works on this record while the context manager is open. See `Consumer.processing`."""
        return contextlib.nullcontext()

    def committing(self, offsets: Offsets) -> contextlib.AbstractContextManager[None]:
        """These offsets are being committed while the context manager is open; it sees what the commit raises."""
        return contextlib.nullcontext()
