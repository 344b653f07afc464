"""Says what a failure means for `Client.process`: to go on with the batch after a pause, or to raise it.

Rule 1: what the cluster may get over is no reason to stop: a leader that moves, a time-out, an aborted transaction.
Rule 2: neither is a fence of the group or of the session: another member has the partitions now, or a new session begins.
Rule 3: a producer that has the name of a static member is fenced by the next process of that name, and gives way to it.
"""

from __future__ import annotations

from oncelog.errors import AbortableTransactionError, OncelogError, ProducerFencedError


def can_go_on(error: OncelogError, is_static: bool) -> bool:
    """True: the same batch may be tried again. `is_static`: the transactional id comes from a `group_instance_id`."""
    if isinstance(error, ProducerFencedError):
        return not is_static
    return error.retriable or isinstance(error, AbortableTransactionError)
