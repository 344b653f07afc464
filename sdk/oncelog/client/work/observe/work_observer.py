"""The port for observers of a worker: it reports deliveries, the work on messages, and settlements.

Rule: this class does nothing, and a worker without tracing has one. An implementation overrides what it wants to know
      (`WorkTraces` makes spans), so the code that works never asks whether it is observed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from oncelog.client.work.message import ChannelMessage
from oncelog.core.work.settlements import Verdict


class WorkObserver:
    """See the module. One per worker."""

    def poll_begins(self) -> int:
        """A poll begins; `polled` gets what this returns."""
        return 0

    def polled(self, messages: Sequence[ChannelMessage], begun: int) -> None:
        """The poll has returned these messages, maybe none. A poll that raised is not reported."""

    def processing(self, message: ChannelMessage) -> contextlib.AbstractContextManager[None]:
        """The caller works on this message while the context manager is open. See `Worker.processing`."""
        return contextlib.nullcontext()

    def settling(self, messages: Sequence[ChannelMessage], verdict: Verdict) -> contextlib.AbstractContextManager[None]:
        """These messages are being settled while the context manager is open; it sees what that raises."""
        return contextlib.nullcontext()
