"""Errors after which the same request may be sent again; some ask to look first who is in charge (`REFRESH`)."""

from __future__ import annotations

from oncelog.error_codes import ErrorAction, ErrorCode
from oncelog.errors.base import RetriableError


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


class StaleControllerEpochError(RetriableError):
    """The controller that spoke was deposed."""

    code = ErrorCode.STALE_CONTROLLER_EPOCH
    action = ErrorAction.REFRESH


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


class NotEnoughReplicasError(RetriableError):
    """Fewer replicas than min_insync_replicas are in sync; nothing was written."""

    code = ErrorCode.NOT_ENOUGH_REPLICAS


class NotEnoughReplicasAfterAppendError(RetriableError):
    """The ISR shrank after the append; the outcome is unknown."""

    code = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


class TokenExpiredError(RetriableError):
    """The token has expired: the next connection needs a new one."""

    code = ErrorCode.TOKEN_EXPIRED


class NotControllerError(RetriableError):
    """This broker is not the controller."""

    code = ErrorCode.NOT_CONTROLLER
    action = ErrorAction.REFRESH


class ConcurrentTransactionsError(RetriableError):
    """The last step of this transactional id is still running."""

    code = ErrorCode.CONCURRENT_TRANSACTIONS


class StorageError(RetriableError):
    """The disk failed under this log."""

    code = ErrorCode.STORAGE_ERROR
    action = ErrorAction.REFRESH


class FencedLeaderEpochError(RetriableError):
    """The request names an older leader epoch."""

    code = ErrorCode.FENCED_LEADER_EPOCH
    action = ErrorAction.REFRESH


class UnknownLeaderEpochError(RetriableError):
    """The request names a newer leader epoch than this broker knows."""

    code = ErrorCode.UNKNOWN_LEADER_EPOCH
    action = ErrorAction.REFRESH


class StaleBrokerEpochError(RetriableError):
    """An older incarnation of a broker spoke or was spoken to."""

    code = ErrorCode.STALE_BROKER_EPOCH
    action = ErrorAction.REFRESH


class OffsetNotAvailableError(RetriableError):
    """The leader does not yet know the high watermark, or whether it still leads."""

    code = ErrorCode.OFFSET_NOT_AVAILABLE


class UnstableOffsetCommitError(RetriableError):
    """An open transaction holds an offset of this partition."""

    code = ErrorCode.UNSTABLE_OFFSET_COMMIT


class IneligibleReplicaError(RetriableError):
    """The ISR change names a stale incarnation."""

    code = ErrorCode.INELIGIBLE_REPLICA
    action = ErrorAction.REFRESH


class UnknownServerError(RetriableError):
    """The server failed on this request; the outcome is unknown."""

    code = ErrorCode.UNKNOWN_ERROR


class NetworkError(RetriableError):
    """The link broke; the outcome is unknown."""

    code = ErrorCode.NETWORK_ERROR


class ResourceExhaustedError(RetriableError):
    """A bound is reached; wait and try again."""

    code = ErrorCode.RESOURCE_EXHAUSTED


class ThrottlingQuotaExceededError(RetriableError):
    """Above a quota of the caller; nothing was done: wait and try again."""

    code = ErrorCode.THROTTLING_QUOTA_EXCEEDED


class MetadataUnavailableError(RetriableError):
    """etcd, or the place of the keys of tokens, does not answer."""

    code = ErrorCode.METADATA_UNAVAILABLE


class ClusterUnreachableError(RetriableError):
    """No bootstrap address answered."""

    code = ErrorCode.CLUSTER_UNREACHABLE


class BufferExhaustedError(RetriableError):
    """The producer's buffer had no room within max_block_ms."""

    code = ErrorCode.BUFFER_EXHAUSTED


class CommitOutcomeUnknownError(RetriableError):
    """No answer to the commit: retry it, it is idempotent."""

    code = ErrorCode.COMMIT_OUTCOME_UNKNOWN


class ShuttingDownError(RetriableError):
    """The process drains; try another."""

    code = ErrorCode.SHUTTING_DOWN
    action = ErrorAction.REFRESH


class DrainingElsewhereError(RetriableError):
    """Another node of this kind drains; one drains at a time: try again when it is back, or cancel its drain."""

    code = ErrorCode.DRAINING_ELSEWHERE


class InvalidResponseError(RetriableError):
    """A server's answer breaks the protocol; nothing of it was used, and the outcome is unknown."""

    code = ErrorCode.INVALID_RESPONSE
    action = ErrorAction.REFRESH


class ReassignmentInProgressError(RetriableError):
    """The partition's replicas are being moved already: wait, or cancel that first."""

    code = ErrorCode.REASSIGNMENT_IN_PROGRESS


class UnreleasedInstanceIdError(RetriableError):
    """A member with this instance id has not left yet."""

    code = ErrorCode.UNRELEASED_INSTANCE_ID
