"""Errors after which this producer, or client, can do nothing more."""

from __future__ import annotations

from oncelog.error_codes import ErrorCode
from oncelog.errors.base import FatalProducerError


class UnsupportedVersionError(FatalProducerError):
    """The two sides have no protocol version in common."""

    code = ErrorCode.UNSUPPORTED_VERSION


class DuplicateSequenceError(FatalProducerError):
    """The same sequence was used before for other content."""

    code = ErrorCode.DUPLICATE_SEQUENCE_NUMBER


class InvalidTxnStateError(FatalProducerError):
    """The transaction is not in a state that allows this."""

    code = ErrorCode.INVALID_TXN_STATE


class CoordinatorFencedError(FatalProducerError):
    """A newer coordinator owns the shard."""

    code = ErrorCode.TRANSACTION_COORDINATOR_FENCED


class TransactionalIdAuthorizationError(FatalProducerError):
    """Without the token of the session, or this principal may not use the transactional id; see `oncelog acl check`."""

    code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


class ProducerFencedError(FatalProducerError):
    """A newer session of this transactional id exists; this one is finished."""

    code = ErrorCode.PRODUCER_FENCED


class WrongClusterError(FatalProducerError):
    """The peer belongs to another cluster."""

    code = ErrorCode.WRONG_CLUSTER


class IdSpaceExhaustedError(FatalProducerError):
    """The space of producer ids is used up."""

    code = ErrorCode.ID_SPACE_EXHAUSTED


class AllocatorRolledBackError(FatalProducerError):
    """The id block in etcd lies below ids in use: etcd was restored from an older backup."""

    code = ErrorCode.ALLOCATOR_ROLLED_BACK
