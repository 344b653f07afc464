"""The producer identity of a batch: the owner of the sequence, and the transaction that the batch belongs to."""

from __future__ import annotations

from typing import NamedTuple

from oncelog.core.batch.header import NO_PRODUCER_ID, NO_SHARD
from oncelog.errors import InvalidResponseError


class Identity(NamedTuple):
    """The identity that a producer puts into every batch header.

    For an ordinary transactional producer `producer_id` and `txn_producer_id` are one number; a participant of a
    shared transaction has a producer id of its own. `transactional_id` travels beside the batch, for the enrolment.
    """

    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = -1
    txn_producer_id: int = NO_PRODUCER_ID
    txn_no: int = 0
    txn_shard: int = NO_SHARD
    transactional_id: str = ""
    session_token: bytes = b""
    """A secret, beside the batch: who was given this identity shows it with what he writes, settles and ends."""

    def __repr__(self) -> str:
        return f"Identity{(*self[:-1],)}"

    @property
    def is_idempotent(self) -> bool:
        """Batches carry sequences."""
        return self.producer_id != NO_PRODUCER_ID

    @property
    def is_transactional(self) -> bool:
        """Batches belong to a transaction."""
        return self.txn_producer_id != NO_PRODUCER_ID


NOBODY = Identity()
"""A producer without idempotence."""


def believed(identity: Identity) -> Identity:
    """An identity as a coordinator told it. Raises `InvalidResponseError` for one that would break what batches say: a
    producer id below 0, for example, would be a producer without idempotence.
    """
    ids = [identity.producer_id, identity.producer_epoch]
    if identity.is_transactional or identity.transactional_id:
        ids += [identity.txn_producer_id, identity.txn_no, identity.txn_shard]
    if min(ids) < 0 or identity.txn_shard > NO_SHARD or identity.producer_epoch >= 1 << 31:
        raise InvalidResponseError("the coordinator told a producer id, epoch, number or shard that cannot be")
    return identity
