"""Every way in which oncelog says no, in one hierarchy.

Rule 1: each wire code of `errors.proto` has exactly one class here; `error_for(code)` finds it.
Rule 2: a class says what the client does next (`action`); no program has to parse message text.
Rule 3: nothing here imports grpc or protobuf: the server looks its status up elsewhere.
Rule 4: each family has a file here; code that raises, catches or pickles one finds it in `oncelog.errors`.

    OncelogError
    |-- RetriableError               the same request again          action RETRY / REFRESH
    |-- AbortableTransactionError    abort the transaction, go on    action ABORT
    |-- FatalProducerError           this producer is finished       action FATAL
    `-- CallerError                  the caller's mistake            action CALLER

An error that came without an `ErrorDetail` is the network's (`NetworkError`): the outcome of the call is
unknown, and only idempotent requests may be repeated.
"""

from __future__ import annotations

from typing import Final

from oncelog.error_codes import ErrorAction as ErrorAction
from oncelog.error_codes import ErrorCode as ErrorCode
from oncelog.errors.abortable import DeliveryTimedOutError as DeliveryTimedOutError
from oncelog.errors.abortable import FencedMemberEpochError as FencedMemberEpochError
from oncelog.errors.abortable import IllegalGenerationError as IllegalGenerationError
from oncelog.errors.abortable import InvalidPidMappingError as InvalidPidMappingError
from oncelog.errors.abortable import InvalidProducerEpochError as InvalidProducerEpochError
from oncelog.errors.abortable import OutOfOrderSequenceError as OutOfOrderSequenceError
from oncelog.errors.abortable import StaleMemberEpochError as StaleMemberEpochError
from oncelog.errors.abortable import TransactionAbortableError as TransactionAbortableError
from oncelog.errors.abortable import TxnAbortedError as TxnAbortedError
from oncelog.errors.abortable import TxnEndedError as TxnEndedError
from oncelog.errors.abortable import UnknownMemberError as UnknownMemberError
from oncelog.errors.abortable import UnknownParticipantError as UnknownParticipantError
from oncelog.errors.abortable import UnknownProducerIdError as UnknownProducerIdError
from oncelog.errors.base import AbortableTransactionError as AbortableTransactionError
from oncelog.errors.base import CallerError as CallerError
from oncelog.errors.base import FatalProducerError as FatalProducerError
from oncelog.errors.base import OncelogError as OncelogError
from oncelog.errors.base import RetriableError as RetriableError
from oncelog.errors.base import printable as printable
from oncelog.errors.caller import AuthenticationError as AuthenticationError
from oncelog.errors.caller import BatchRolledBackError as BatchRolledBackError
from oncelog.errors.caller import ChannelExistsError as ChannelExistsError
from oncelog.errors.caller import ClusterAuthorizationError as ClusterAuthorizationError
from oncelog.errors.caller import ConfigError as ConfigError
from oncelog.errors.caller import CorruptMessageError as CorruptMessageError
from oncelog.errors.caller import FencedInstanceIdError as FencedInstanceIdError
from oncelog.errors.caller import ForkedClientError as ForkedClientError
from oncelog.errors.caller import GroupAuthorizationError as GroupAuthorizationError
from oncelog.errors.caller import GroupMaxSizeReachedError as GroupMaxSizeReachedError
from oncelog.errors.caller import GroupSubscribedToTopicError as GroupSubscribedToTopicError
from oncelog.errors.caller import IllegalStateError as IllegalStateError
from oncelog.errors.caller import InternalServerError as InternalServerError
from oncelog.errors.caller import InvalidDelayError as InvalidDelayError
from oncelog.errors.caller import InvalidGroupIdError as InvalidGroupIdError
from oncelog.errors.caller import InvalidPartitionsError as InvalidPartitionsError
from oncelog.errors.caller import InvalidRecordError as InvalidRecordError
from oncelog.errors.caller import InvalidRegularExpressionError as InvalidRegularExpressionError
from oncelog.errors.caller import InvalidReplicaAssignmentError as InvalidReplicaAssignmentError
from oncelog.errors.caller import InvalidReplicationFactorError as InvalidReplicationFactorError
from oncelog.errors.caller import InvalidRequestError as InvalidRequestError
from oncelog.errors.caller import InvalidRequiredAcksError as InvalidRequiredAcksError
from oncelog.errors.caller import InvalidTimestampError as InvalidTimestampError
from oncelog.errors.caller import InvalidTopicError as InvalidTopicError
from oncelog.errors.caller import InvalidTransactionTimeoutError as InvalidTransactionTimeoutError
from oncelog.errors.caller import MessageTooLargeError as MessageTooLargeError
from oncelog.errors.caller import MisdirectedBatchError as MisdirectedBatchError
from oncelog.errors.caller import NonEmptyGroupError as NonEmptyGroupError
from oncelog.errors.caller import NotOwnerError as NotOwnerError
from oncelog.errors.caller import NotScheduledError as NotScheduledError
from oncelog.errors.caller import OffsetCommitStaleError as OffsetCommitStaleError
from oncelog.errors.caller import OffsetMetadataTooLargeError as OffsetMetadataTooLargeError
from oncelog.errors.caller import OffsetOutOfRangeError as OffsetOutOfRangeError
from oncelog.errors.caller import OutcomeForgottenError as OutcomeForgottenError
from oncelog.errors.caller import PolicyViolationError as PolicyViolationError
from oncelog.errors.caller import ProcessingError as ProcessingError
from oncelog.errors.caller import RecordListTooLargeError as RecordListTooLargeError
from oncelog.errors.caller import ReplayMismatchError as ReplayMismatchError
from oncelog.errors.caller import TopicAuthorizationError as TopicAuthorizationError
from oncelog.errors.caller import TopicExistsError as TopicExistsError
from oncelog.errors.caller import TransactionDataLossError as TransactionDataLossError
from oncelog.errors.caller import UnknownChannelError as UnknownChannelError
from oncelog.errors.caller import UnknownTopicError as UnknownTopicError
from oncelog.errors.caller import UnsupportedAssignorError as UnsupportedAssignorError
from oncelog.errors.caller import UnsupportedCompressionError as UnsupportedCompressionError
from oncelog.errors.caller import UnsupportedMessageFormatError as UnsupportedMessageFormatError
from oncelog.errors.fatal import AllocatorRolledBackError as AllocatorRolledBackError
from oncelog.errors.fatal import CoordinatorFencedError as CoordinatorFencedError
from oncelog.errors.fatal import DuplicateSequenceError as DuplicateSequenceError
from oncelog.errors.fatal import IdSpaceExhaustedError as IdSpaceExhaustedError
from oncelog.errors.fatal import InvalidTxnStateError as InvalidTxnStateError
from oncelog.errors.fatal import ProducerFencedError as ProducerFencedError
from oncelog.errors.fatal import TransactionalIdAuthorizationError as TransactionalIdAuthorizationError
from oncelog.errors.fatal import UnsupportedVersionError as UnsupportedVersionError
from oncelog.errors.fatal import WrongClusterError as WrongClusterError
from oncelog.errors.retriable import BufferExhaustedError as BufferExhaustedError
from oncelog.errors.retriable import ClusterUnreachableError as ClusterUnreachableError
from oncelog.errors.retriable import CommitOutcomeUnknownError as CommitOutcomeUnknownError
from oncelog.errors.retriable import ConcurrentTransactionsError as ConcurrentTransactionsError
from oncelog.errors.retriable import CoordinatorLoadInProgressError as CoordinatorLoadInProgressError
from oncelog.errors.retriable import CoordinatorNotAvailableError as CoordinatorNotAvailableError
from oncelog.errors.retriable import DrainingElsewhereError as DrainingElsewhereError
from oncelog.errors.retriable import FencedLeaderEpochError as FencedLeaderEpochError
from oncelog.errors.retriable import IneligibleReplicaError as IneligibleReplicaError
from oncelog.errors.retriable import InvalidResponseError as InvalidResponseError
from oncelog.errors.retriable import LeaderNotAvailableError as LeaderNotAvailableError
from oncelog.errors.retriable import MetadataUnavailableError as MetadataUnavailableError
from oncelog.errors.retriable import NetworkError as NetworkError
from oncelog.errors.retriable import NotControllerError as NotControllerError
from oncelog.errors.retriable import NotCoordinatorError as NotCoordinatorError
from oncelog.errors.retriable import NotEnoughReplicasAfterAppendError as NotEnoughReplicasAfterAppendError
from oncelog.errors.retriable import NotEnoughReplicasError as NotEnoughReplicasError
from oncelog.errors.retriable import NotLeaderError as NotLeaderError
from oncelog.errors.retriable import OffsetNotAvailableError as OffsetNotAvailableError
from oncelog.errors.retriable import ReassignmentInProgressError as ReassignmentInProgressError
from oncelog.errors.retriable import RequestTimedOutError as RequestTimedOutError
from oncelog.errors.retriable import ResourceExhaustedError as ResourceExhaustedError
from oncelog.errors.retriable import ShuttingDownError as ShuttingDownError
from oncelog.errors.retriable import StaleBrokerEpochError as StaleBrokerEpochError
from oncelog.errors.retriable import StaleControllerEpochError as StaleControllerEpochError
from oncelog.errors.retriable import StorageError as StorageError
from oncelog.errors.retriable import ThrottlingQuotaExceededError as ThrottlingQuotaExceededError
from oncelog.errors.retriable import TokenExpiredError as TokenExpiredError
from oncelog.errors.retriable import UnknownLeaderEpochError as UnknownLeaderEpochError
from oncelog.errors.retriable import UnknownServerError as UnknownServerError
from oncelog.errors.retriable import UnreleasedInstanceIdError as UnreleasedInstanceIdError
from oncelog.errors.retriable import UnstableOffsetCommitError as UnstableOffsetCommitError


def _all_subclasses(root: type[OncelogError]) -> list[type[OncelogError]]:
    found: list[type[OncelogError]] = []
    for child in root.__subclasses__():
        found.append(child)
        found.extend(_all_subclasses(child))
    return found


_ALL: Final[tuple[type[OncelogError], ...]] = (OncelogError, *_all_subclasses(OncelogError))
for _kind in _ALL:
    _kind.__module__ = __name__  # the module that a traceback names, and where a pickle looks it up

_ABSTRACT = (OncelogError, RetriableError, AbortableTransactionError, FatalProducerError, CallerError)
BY_CODE: dict[int, type[OncelogError]] = {int(cls.code): cls for cls in _ALL if cls not in _ABSTRACT}


def error_for(code: int, message: str, retry_after_ms: int = 0, context: dict[str, str] | None = None) -> OncelogError:
    """The error object of a wire code; an unknown number becomes `UnknownServerError`."""
    cls = BY_CODE.get(code, UnknownServerError)
    error = cls(message, retry_after_ms=retry_after_ms)
    # Not as keyword arguments: a peer may name one `message`.
    error.context = {printable(name): printable(value) for name, value in sorted((context or {}).items())}
    return error
