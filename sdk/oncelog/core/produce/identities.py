"""The identity under which a producer writes, and when it needs another one.

Rule 1: a partition never goes on under an identity that a definite refusal ended there: its sequence has a hole (hole 25).
Rule 2: one renewal runs at a time, and all partitions that wait for a new identity wait for that one.
Rule 3: where identities cannot be renewed (in a transaction), the partition waits for the end of the transaction.
"""

from __future__ import annotations

from oncelog.core.batch.identity import NOBODY, Identity
from oncelog.core.produce.producer_window import ProducerWindow
from oncelog.errors import OncelogError
from oncelog.types import PartitionId


class Identities:
    """See the module. One per producer or participant."""

    def __init__(self, is_idempotent: bool, can_renew: bool) -> None:
        self.current: Identity | None = None if is_idempotent else NOBODY
        """None = not known yet."""
        self.error: OncelogError | None = None
        """Why the last renewal failed."""
        self._can_renew = can_renew
        self._is_renewing = False
        self._waiting: dict[PartitionId, None] = {}

    @property
    def is_in_transaction(self) -> bool:
        """All batches belong to a transaction."""
        return self.current is not None and self.current.is_transactional

    def give(self, partition: PartitionId, window: ProducerWindow) -> bool:
        """The partition goes on under the current identity. False: it waits for another one."""
        identity = self.current
        if identity is not None and (identity != window.burnt or not identity.is_idempotent):
            window.adopt(identity)
            return True
        self._waiting[partition] = None
        return False

    def begin_renewal(self) -> bool:
        """True: a renewal has to be started now."""
        if not self._can_renew or self._is_renewing:
            return False
        self._is_renewing = True
        return True

    def end_renewal(self) -> list[PartitionId]:
        """The renewal ended, whichever way. The partitions that waited for it."""
        self._is_renewing = False
        waiting, self._waiting = self._waiting, {}
        return list(waiting)

    def obstacle(self, partition: PartitionId) -> OncelogError | None:
        """Why the partition still waits for an identity; None when it does not, or no renewal has failed."""
        return self.error if partition in self._waiting else None
