"""The errors of work that happens once: each says whether the work counts, and what to do next.

They never travel between processes of the cluster, so they share the codes of the errors that they are kinds of.
"""

from __future__ import annotations

from oncelog import errors


class LeaseHeldError(errors.ConcurrentTransactionsError):
    """Another worker has the lease of this record's partition or id: wait until it ends, and try the record again."""


class WorkFencedError(errors.StaleMemberEpochError):
    """Another worker took over; nothing of this work was committed. Go on with what the group assigns now."""


class OnceTableError(errors.ConfigError):
    """The database has no table of done work: create it with `once.create_table()`."""


class OnceTopicError(errors.ConfigError):
    """The topic that remembers ids is not there, or would forget them too early: the message says what to change."""
