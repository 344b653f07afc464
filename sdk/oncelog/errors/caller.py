"""Errors that are the caller's mistake: the same request will always fail."""

from __future__ import annotations

from oncelog.error_codes import ErrorCode
from oncelog.errors.base import CallerError


class OffsetOutOfRangeError(CallerError):
    """The offset is below the log start or above what may be read."""

    code = ErrorCode.OFFSET_OUT_OF_RANGE


class CorruptMessageError(CallerError):
    """The batch's bytes do not agree with its checksum or its lengths."""

    code = ErrorCode.CORRUPT_MESSAGE


class UnknownTopicError(CallerError):
    """No such topic or partition; create it with `oncelog topic create`."""

    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    @classmethod
    def named(cls, topic: str, options: str = "--partitions 1", otherwise: str = "") -> UnknownTopicError:
        """The error that says how to create the topic; `options` of that command, and what else would help."""
        command = f"oncelog topic create {topic} {options}"
        return cls(f"topic {topic} does not exist; create it with `{command}`{otherwise}", topic=topic)


class MessageTooLargeError(CallerError):
    """The batch is above max_message_bytes."""

    code = ErrorCode.MESSAGE_TOO_LARGE


class OffsetMetadataTooLargeError(CallerError):
    """The metadata beside the offset is above 4096 bytes."""

    code = ErrorCode.OFFSET_METADATA_TOO_LARGE


class InvalidTopicError(CallerError):
    """An illegal topic name, or a write to an internal topic."""

    code = ErrorCode.INVALID_TOPIC


class RecordListTooLargeError(CallerError):
    """The batch is larger than a segment."""

    code = ErrorCode.RECORD_LIST_TOO_LARGE


class InvalidRequiredAcksError(CallerError):
    """acks is none of 0, 1, "all"."""

    code = ErrorCode.INVALID_REQUIRED_ACKS


class InvalidGroupIdError(CallerError):
    """The group id is empty, too long or illegal."""

    code = ErrorCode.INVALID_GROUP_ID


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


class InvalidTimestampError(CallerError):
    """The timestamp is outside of the accepted range."""

    code = ErrorCode.INVALID_TIMESTAMP


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


class InvalidRequestError(CallerError):
    """The request is malformed."""

    code = ErrorCode.INVALID_REQUEST


class UnsupportedMessageFormatError(CallerError):
    """The batch has an unknown magic byte."""

    code = ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT


class PolicyViolationError(CallerError):
    """The request exceeds a limit of the cluster's policy."""

    code = ErrorCode.POLICY_VIOLATION


class InvalidTransactionTimeoutError(CallerError):
    """The transaction time-out is not above zero, or above the maximum."""

    code = ErrorCode.INVALID_TRANSACTION_TIMEOUT


class UnsupportedCompressionError(CallerError):
    """Unknown compression codec."""

    code = ErrorCode.UNSUPPORTED_COMPRESSION


class InvalidRecordError(CallerError):
    """The batch breaks a rule of the format."""

    code = ErrorCode.INVALID_RECORD


class OutcomeForgottenError(CallerError):
    """The transaction is complete and its outcome no longer kept, or it was never begun; read the topic to learn it."""

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


class OffsetCommitStaleError(CallerError):
    """A late copy of an older offset commit."""

    code = ErrorCode.OFFSET_COMMIT_STALE


class IllegalStateError(CallerError):
    """The object's state does not allow this call."""

    code = ErrorCode.ILLEGAL_STATE


class ProcessingError(CallerError):
    """The work on a record failed, so nothing of its batch is committed: mend the cause, or give on_error, and start again."""

    code = ErrorCode.PROCESSING


class InternalServerError(CallerError):
    """A bug of the server met this request before it changed anything; repeating it will not help. Please report it."""

    code = ErrorCode.INTERNAL_ERROR


class InvalidReplicaAssignmentError(CallerError):
    """The replicas must be different brokers that are registered."""

    code = ErrorCode.INVALID_REPLICA_ASSIGNMENT


class NonEmptyGroupError(CallerError):
    """The group has members; stop them first."""

    code = ErrorCode.NON_EMPTY_GROUP


class GroupSubscribedToTopicError(CallerError):
    """Members of the group read this topic; its offsets cannot be deleted."""

    code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC


class GroupMaxSizeReachedError(CallerError):
    """The group takes no more members."""

    code = ErrorCode.GROUP_MAX_SIZE_REACHED


class FencedInstanceIdError(CallerError):
    """Another member of the group has this instance id now."""

    code = ErrorCode.FENCED_INSTANCE_ID


class UnsupportedAssignorError(CallerError):
    """There is no assignor of this name."""

    code = ErrorCode.UNSUPPORTED_ASSIGNOR


class InvalidRegularExpressionError(CallerError):
    """The pattern of topics cannot be read."""

    code = ErrorCode.INVALID_REGULAR_EXPRESSION


class UnknownChannelError(CallerError):
    """The topic has no channel of this name, or no longer this one; create it with `oncelog channel create`."""

    code = ErrorCode.UNKNOWN_CHANNEL


class ChannelExistsError(CallerError):
    """The channel exists already."""

    code = ErrorCode.CHANNEL_ALREADY_EXISTS


class NotOwnerError(CallerError):
    """The worker does not hold this record in this delivery: it was settled, or came to be another's; nothing was changed."""

    code = ErrorCode.NOT_OWNER


class InvalidDelayError(CallerError):
    """The delay is below zero or above a year, or the time is not a time."""

    code = ErrorCode.INVALID_DELAY


class NotScheduledError(CallerError):
    """No record waits under this id: it was delivered, cancelled, or never scheduled."""

    code = ErrorCode.NOT_SCHEDULED
