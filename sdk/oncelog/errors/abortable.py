"""Errors after which the transaction is aborted, and the next one may go on."""

from __future__ import annotations

from oncelog.error_codes import ErrorCode
from oncelog.errors.base import AbortableTransactionError


class IllegalGenerationError(AbortableTransactionError):
    """The offset commit comes from an older generation of the group."""

    code = ErrorCode.ILLEGAL_GENERATION


class UnknownMemberError(AbortableTransactionError):
    """The group does not know this member."""

    code = ErrorCode.UNKNOWN_MEMBER_ID


class OutOfOrderSequenceError(AbortableTransactionError):
    """A gap or a partial overlap in the producer's sequence."""

    code = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


class InvalidProducerEpochError(AbortableTransactionError):
    """A newer session of this producer exists."""

    code = ErrorCode.INVALID_PRODUCER_EPOCH


class InvalidPidMappingError(AbortableTransactionError):
    """This producer id does not belong to that transactional id."""

    code = ErrorCode.INVALID_PRODUCER_ID_MAPPING


class UnknownProducerIdError(AbortableTransactionError):
    """The partition has no state of this producer, and the sequence is not 0."""

    code = ErrorCode.UNKNOWN_PRODUCER_ID


class FencedMemberEpochError(AbortableTransactionError):
    """The member's epoch is not the one that the group knows: join again under a new member id."""

    code = ErrorCode.FENCED_MEMBER_EPOCH


class StaleMemberEpochError(AbortableTransactionError):
    """The member does not own the partition in this epoch; nothing was committed for it."""

    code = ErrorCode.STALE_MEMBER_EPOCH


class TransactionAbortableError(AbortableTransactionError):
    """Abort this transaction and go on."""

    code = ErrorCode.TRANSACTION_ABORTABLE


class TxnEndedError(AbortableTransactionError):
    """The named transaction is decided; nothing can join or change it."""

    code = ErrorCode.TXN_ENDED


class TxnAbortedError(AbortableTransactionError):
    """The named transaction was aborted."""

    code = ErrorCode.TXN_ABORTED


class UnknownParticipantError(AbortableTransactionError):
    """A winner never joined this transaction."""

    code = ErrorCode.UNKNOWN_PARTICIPANT


class DeliveryTimedOutError(AbortableTransactionError):
    """delivery_timeout_ms passed; the outcome is unknown."""

    code = ErrorCode.DELIVERY_TIMED_OUT
