"""Every way in which oncelog says no, in one hierarchy.

Rule 1: each wire code of `errors.proto` has exactly one class here; `error_for(code)` finds it.
Rule 2: a class says what the client does next (`action`); nobody parses message text.
Rule 3: this file imports neither grpc nor protobuf: the server looks its status up elsewhere.
Rule 4: `context` may hold what a stranger chose: it is bounded, and what cannot be printed is escaped (`printable`).

    OncelogError
    |-- RetriableError               the same request again          action RETRY / REFRESH
    |-- AbortableTransactionError    abort the transaction, go on    action ABORT
    |-- FatalProducerError           this producer is finished       action FATAL
    `-- CallerError                  the caller's mistake            action CALLER

An error that came without an `ErrorDetail` is the network's (`NetworkError`): the outcome of the call is
unknown, and only idempotent requests may be repeated.
"""

from __future__ import annotations

from typing import ClassVar, Final

from oncelog.error_codes import ErrorAction as ErrorAction
from oncelog.error_codes import ErrorCode as ErrorCode

_CONTEXT_CHARACTERS_MAX: Final = 1_000


def printable(text: str, limit: int = _CONTEXT_CHARACTERS_MAX) -> str:
    """The text as one line that no terminal and no log obeys: control characters are escaped, and a long text is cut."""
    shown = text[: limit + 1]
    if not shown.isprintable():
        shown = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in shown)
    return shown if len(shown) <= limit else f"{shown[:limit]}..."


class OncelogError(Exception):
    """The root. `message` is one sentence for a person; `context` holds named values (always text).

    `retry_after_ms`: wait at least this long before the next try; 0 = the caller's own back-off.
    `go_to`: host:port of who can serve the call, as a server tells its caller; empty = not known, and always in what our own
    client receives, which finds its way by metadata.
    """

    code: ClassVar[ErrorCode] = ErrorCode.UNKNOWN_ERROR
    action: ClassVar[ErrorAction] = ErrorAction.FATAL

    def __init__(self, message: str = "", *, retry_after_ms: int = 0, go_to: str = "", **context: object) -> None:
        self.message = message or (type(self).__doc__ or type(self).__name__).strip().splitlines()[0]
        self.retry_after_ms = retry_after_ms
        self.go_to = go_to
        self.context = {name: printable(str(value)) for name, value in sorted(context.items())}
        super().__init__(self.message)

    def __str__(self) -> str:
        if not self.context:
            return self.message
        return f"{self.message} ({', '.join(f'{name}={value}' for name, value in self.context.items())})"

    @property
    def retriable(self) -> bool:
        """True: the same request may be sent again."""
        return self.action in (ErrorAction.RETRY, ErrorAction.REFRESH)

    @property
    def requires_abort(self) -> bool:
        """True: abort the transaction, then go on with a new one."""
        return self.action is ErrorAction.ABORT

    @property
    def fatal(self) -> bool:
        """True: this producer or client can do nothing more."""
        return self.action is ErrorAction.FATAL


class RetriableError(OncelogError):
    """The same request may be sent again."""

    action = ErrorAction.RETRY


class AbortableTransactionError(OncelogError):
    """Abort this transaction and go on with the next one."""

    action = ErrorAction.ABORT


class FatalProducerError(OncelogError):
    """This producer is finished; create a new one."""

    action = ErrorAction.FATAL


class CallerError(OncelogError):
    """The caller's mistake; the same request will always fail."""

    action = ErrorAction.CALLER


class OffsetOutOfRangeError(CallerError):
    """The offset is below the log start or above what may be read."""

    code = ErrorCode.OFFSET_OUT_OF_RANGE


class CorruptMessageError(CallerError):
    """The batch's bytes do not agree with its checksum or its lengths."""

    code = ErrorCode.CORRUPT_MESSAGE


class UnknownTopicError(CallerError):
    """No such topic or partition; create it with `oncelog topic create`."""

    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class LeaderNotAvailableError(RetriableError):
    """The partition has no leader at the moment."""

    code = ErrorCode.LEADER_NOT_AVAILABLE
    action = ErrorAction.REFRESH


class NotLeaderError(RetriableError):
    """This broker does not lead the partition."""

    code = ErrorCode.NOT_LEADER_OR_FOLLOWER
    action = ErrorAction.REFRESH


class RequestTimedOutError(RetriableError):
    """The deadline passed; the outcome is unknown."""

    code = ErrorCode.REQUEST_TIMED_OUT


class MessageTooLargeError(CallerError):
    """The batch is above max_message_bytes."""

    code = ErrorCode.MESSAGE_TOO_LARGE


class StaleControllerEpochError(RetriableError):
    """The controller that spoke was deposed."""

    code = ErrorCode.STALE_CONTROLLER_EPOCH
    action = ErrorAction.REFRESH


class OffsetMetadataTooLargeError(CallerError):
    """The metadata beside the offset is above 4096 bytes."""

    code = ErrorCode.OFFSET_METADATA_TOO_LARGE


class CoordinatorLoadInProgressError(RetriableError):
    """The shard is replaying its log."""

    code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


class CoordinatorNotAvailableError(RetriableError):
    """The shard has no owner, or its log refuses appends."""

    code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    action = ErrorAction.REFRESH


class NotCoordinatorError(RetriableError):
    """This process does not own the shard."""

    code = ErrorCode.NOT_COORDINATOR
    action = ErrorAction.REFRESH


class InvalidTopicError(CallerError):
    """An illegal topic name, or a write to an internal topic."""

    code = ErrorCode.INVALID_TOPIC


class RecordListTooLargeError(CallerError):
    """The batch is larger than a segment."""

    code = ErrorCode.RECORD_LIST_TOO_LARGE


class NotEnoughReplicasError(RetriableError):
    """Fewer replicas than min_insync_replicas are in sync; nothing was written."""

    code = ErrorCode.NOT_ENOUGH_REPLICAS


class NotEnoughReplicasAfterAppendError(RetriableError):
    """The ISR shrank after the append; the outcome is unknown."""

    code = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


class InvalidRequiredAcksError(CallerError):
    """acks is none of 0, 1, "all"."""

    code = ErrorCode.INVALID_REQUIRED_ACKS


class IllegalGenerationError(AbortableTransactionError):
    """The offset commit comes from an older generation of the group."""

    code = ErrorCode.ILLEGAL_GENERATION


class InvalidGroupIdError(CallerError):
    """The group id is empty, too long or illegal."""

    code = ErrorCode.INVALID_GROUP_ID


class UnknownMemberError(AbortableTransactionError):
    """The group does not know this member."""

    code = ErrorCode.UNKNOWN_MEMBER_ID


class TopicAuthorizationError(CallerError):
    """The caller may not do this with the topic; for principals see `oncelog acl check`."""

    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED


class GroupAuthorizationError(CallerError):
    """This principal may not do this to the group; see `oncelog acl check`."""

    code = ErrorCode.GROUP_AUTHORIZATION_FAILED


class ClusterAuthorizationError(CallerError):
    """This call belongs to the cluster's own services, or to principals that an ACL on the cluster names."""

    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED


class AuthenticationError(CallerError):
    """The cluster does not believe who this client says it is: correct its token, password or certificate."""

    code = ErrorCode.AUTHENTICATION_FAILED


class TokenExpiredError(RetriableError):
    """The token is over: the next connection needs a new one."""

    code = ErrorCode.TOKEN_EXPIRED


class InvalidTimestampError(CallerError):
    """The timestamp is outside of the accepted range."""

    code = ErrorCode.INVALID_TIMESTAMP


class UnsupportedVersionError(FatalProducerError):
    """The two sides have no protocol version in common."""

    code = ErrorCode.UNSUPPORTED_VERSION


class TopicExistsError(CallerError):
    """The topic exists already."""

    code = ErrorCode.TOPIC_ALREADY_EXISTS


class InvalidPartitionsError(CallerError):
    """The partition count is below 1 or above the limit."""

    code = ErrorCode.INVALID_PARTITIONS


class InvalidReplicationFactorError(CallerError):
    """The replication factor is below 1 or above the number of live brokers."""

    code = ErrorCode.INVALID_REPLICATION_FACTOR


class ConfigError(CallerError):
    """An unknown configuration key or an illegal value."""

    code = ErrorCode.INVALID_CONFIG


class NotControllerError(RetriableError):
    """This broker is not the controller."""

    code = ErrorCode.NOT_CONTROLLER
    action = ErrorAction.REFRESH


class InvalidRequestError(CallerError):
    """The request is malformed."""

    code = ErrorCode.INVALID_REQUEST


class UnsupportedMessageFormatError(CallerError):
    """The batch has an unknown magic byte."""

    code = ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT


class PolicyViolationError(CallerError):
    """The request is over a limit of the cluster's policy."""

    code = ErrorCode.POLICY_VIOLATION


class OutOfOrderSequenceError(AbortableTransactionError):
    """A gap or a partial overlap in the producer's sequence."""

    code = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


class DuplicateSequenceError(FatalProducerError):
    """The same sequence was used before for other content."""

    code = ErrorCode.DUPLICATE_SEQUENCE_NUMBER


class InvalidProducerEpochError(AbortableTransactionError):
    """A newer session of this producer exists."""

    code = ErrorCode.INVALID_PRODUCER_EPOCH


class InvalidTxnStateError(FatalProducerError):
    """The transaction is not in a state that allows this."""

    code = ErrorCode.INVALID_TXN_STATE


class InvalidPidMappingError(AbortableTransactionError):
    """This producer id does not belong to that transactional id."""

    code = ErrorCode.INVALID_PRODUCER_ID_MAPPING


class InvalidTransactionTimeoutError(CallerError):
    """The transaction time-out is not above zero, or above the maximum."""

    code = ErrorCode.INVALID_TRANSACTION_TIMEOUT


class ConcurrentTransactionsError(RetriableError):
    """The last step of this transactional id is still running."""

    code = ErrorCode.CONCURRENT_TRANSACTIONS


class CoordinatorFencedError(FatalProducerError):
    """A newer coordinator owns the shard."""

    code = ErrorCode.TRANSACTION_COORDINATOR_FENCED


class TransactionalIdAuthorizationError(FatalProducerError):
    """Without the token of the session, or this principal may not use the transactional id; see `oncelog acl check`."""

    code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


class StorageError(RetriableError):
    """The disk failed under this log."""

    code = ErrorCode.STORAGE_ERROR
    action = ErrorAction.REFRESH


class UnknownProducerIdError(AbortableTransactionError):
    """The partition has no state of this producer, and the sequence is not 0."""

    code = ErrorCode.UNKNOWN_PRODUCER_ID


class FencedLeaderEpochError(RetriableError):
    """The request names an older leader epoch."""

    code = ErrorCode.FENCED_LEADER_EPOCH
    action = ErrorAction.REFRESH


class UnknownLeaderEpochError(RetriableError):
    """The request names a newer leader epoch than this broker knows."""

    code = ErrorCode.UNKNOWN_LEADER_EPOCH
    action = ErrorAction.REFRESH


class UnsupportedCompressionError(CallerError):
    """Unknown compression codec."""

    code = ErrorCode.UNSUPPORTED_COMPRESSION


class StaleBrokerEpochError(RetriableError):
    """An older incarnation of a broker spoke or was spoken to."""

    code = ErrorCode.STALE_BROKER_EPOCH
    action = ErrorAction.REFRESH


class OffsetNotAvailableError(RetriableError):
    """The leader does not yet know the high watermark, or whether it still leads."""

    code = ErrorCode.OFFSET_NOT_AVAILABLE


class InvalidRecordError(CallerError):
    """The batch breaks a rule of the format."""

    code = ErrorCode.INVALID_RECORD


class UnstableOffsetCommitError(RetriableError):
    """An open transaction holds an offset of this partition."""

    code = ErrorCode.UNSTABLE_OFFSET_COMMIT


class ProducerFencedError(FatalProducerError):
    """A newer session of this transactional id exists; this one is finished."""

    code = ErrorCode.PRODUCER_FENCED


class IneligibleReplicaError(RetriableError):
    """The ISR change names a stale incarnation."""

    code = ErrorCode.INELIGIBLE_REPLICA
    action = ErrorAction.REFRESH


class FencedMemberEpochError(AbortableTransactionError):
    """The commit comes from a member of an older epoch."""

    code = ErrorCode.FENCED_MEMBER_EPOCH


class TransactionAbortableError(AbortableTransactionError):
    """Abort this transaction and go on."""

    code = ErrorCode.TRANSACTION_ABORTABLE


class UnknownServerError(RetriableError):
    """The server failed on this request; the outcome is unknown."""

    code = ErrorCode.UNKNOWN_ERROR


class NetworkError(RetriableError):
    """The link broke; the outcome is unknown."""

    code = ErrorCode.NETWORK_ERROR


class TxnEndedError(AbortableTransactionError):
    """The named transaction is decided; nothing can join or change it."""

    code = ErrorCode.TXN_ENDED


class TxnAbortedError(AbortableTransactionError):
    """The named transaction was aborted."""

    code = ErrorCode.TXN_ABORTED


class OutcomeForgottenError(CallerError):
    """The transaction is complete and its outcome no longer kept; read the topic to learn it."""

    code = ErrorCode.OUTCOME_FORGOTTEN


class TransactionDataLossError(CallerError):
    """A committed transaction lost records in a power cut of all replicas."""

    code = ErrorCode.TRANSACTION_DATA_LOSS


class BatchRolledBackError(CallerError):
    """The token is below the last committed one: the checkpoint went back; see option onRolledBackBatch."""

    code = ErrorCode.BATCH_ROLLED_BACK


class ReplayMismatchError(CallerError):
    """The replayed batch has another number of rows than the committed one; see option onReplayMismatch."""

    code = ErrorCode.REPLAY_MISMATCH


class UnknownParticipantError(AbortableTransactionError):
    """A winner never joined this transaction."""

    code = ErrorCode.UNKNOWN_PARTICIPANT


class WrongClusterError(FatalProducerError):
    """The peer belongs to another cluster."""

    code = ErrorCode.WRONG_CLUSTER


class ResourceExhaustedError(RetriableError):
    """A bound is reached; wait and try again."""

    code = ErrorCode.RESOURCE_EXHAUSTED


class ThrottlingQuotaExceededError(RetriableError):
    """Above a quota of the caller; nothing was done: wait and try again."""

    code = ErrorCode.THROTTLING_QUOTA_EXCEEDED


class IdSpaceExhaustedError(FatalProducerError):
    """The space of producer ids is used up."""

    code = ErrorCode.ID_SPACE_EXHAUSTED


class AllocatorRolledBackError(FatalProducerError):
    """The id block in etcd lies below ids in use: etcd was restored from an older backup."""

    code = ErrorCode.ALLOCATOR_ROLLED_BACK


class MetadataUnavailableError(RetriableError):
    """etcd does not answer."""

    code = ErrorCode.METADATA_UNAVAILABLE


class MisdirectedBatchError(CallerError):
    """The batch was built for another topic or partition."""

    code = ErrorCode.MISDIRECTED_BATCH


class ForkedClientError(CallerError):
    """A client was used in a forked child: create it after the fork, or use spawn."""

    code = ErrorCode.FORKED_CLIENT

    @classmethod
    def inherited(cls) -> ForkedClientError:
        """The child uses what its parent made."""
        return cls(
            "this client was made before the process was forked: make it in the child (gunicorn: without --preload or in"
            " post_fork; Celery: in worker_process_init; Airflow: inside of the task), or start processes with spawn"
        )


class ClusterUnreachableError(RetriableError):
    """No bootstrap address answered."""

    code = ErrorCode.CLUSTER_UNREACHABLE


class BufferExhaustedError(RetriableError):
    """The producer's buffer had no room within max_block_ms."""

    code = ErrorCode.BUFFER_EXHAUSTED


class DeliveryTimedOutError(AbortableTransactionError):
    """delivery_timeout_ms passed; the outcome is unknown."""

    code = ErrorCode.DELIVERY_TIMED_OUT


class CommitOutcomeUnknownError(RetriableError):
    """No answer to the commit: retry it, it is idempotent."""

    code = ErrorCode.COMMIT_OUTCOME_UNKNOWN


class OffsetCommitStaleError(CallerError):
    """A late copy of an older offset commit."""

    code = ErrorCode.OFFSET_COMMIT_STALE


class ShuttingDownError(RetriableError):
    """The process drains; try another."""

    code = ErrorCode.SHUTTING_DOWN
    action = ErrorAction.REFRESH


class IllegalStateError(CallerError):
    """The object's state does not allow this call."""

    code = ErrorCode.ILLEGAL_STATE


class DrainingElsewhereError(RetriableError):
    """Another node of this kind drains; one drains at a time: try again when it is back, or cancel its drain."""

    code = ErrorCode.DRAINING_ELSEWHERE


class InternalServerError(CallerError):
    """A bug of the server met this request before it changed anything; repeating it will not help. Please report it."""

    code = ErrorCode.INTERNAL_ERROR


class InvalidResponseError(RetriableError):
    """A server's answer breaks the protocol; nothing of it was used, and the outcome is unknown."""

    code = ErrorCode.INVALID_RESPONSE
    action = ErrorAction.REFRESH


class InvalidReplicaAssignmentError(CallerError):
    """The replicas must be different brokers that are registered."""

    code = ErrorCode.INVALID_REPLICA_ASSIGNMENT


class ReassignmentInProgressError(RetriableError):
    """The partition's replicas are being moved already: wait, or cancel that first."""

    code = ErrorCode.REASSIGNMENT_IN_PROGRESS


def _all_subclasses(root: type[OncelogError]) -> list[type[OncelogError]]:
    found: list[type[OncelogError]] = []
    for child in root.__subclasses__():
        found.append(child)
        found.extend(_all_subclasses(child))
    return found


_ABSTRACT = (RetriableError, AbortableTransactionError, FatalProducerError, CallerError)
BY_CODE: dict[int, type[OncelogError]] = {
    int(cls.code): cls for cls in _all_subclasses(OncelogError) if cls not in _ABSTRACT
}


def error_for(code: int, message: str, retry_after_ms: int = 0, context: dict[str, str] | None = None) -> OncelogError:
    """The error object of a wire code; an unknown number becomes `UnknownServerError`."""
    cls = BY_CODE.get(code, UnknownServerError)
    error = cls(message, retry_after_ms=retry_after_ms)
    # Not as keyword arguments: a peer may name one `message`.
    error.context = {printable(name): printable(value) for name, value in sorted((context or {}).items())}
    return error
