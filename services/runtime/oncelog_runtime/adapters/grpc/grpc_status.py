"""Maps each error to its gRPC status, and ends unary calls with an error.

Rule 1: every `ErrorCode` has exactly one row; a test walks the enum.
Rule 2: the status is for proxies, dashboards and callers without our SDK. Our own clients read the `ErrorDetail` in the
        trailer `oncelog-error-bin`; a failure without it came from the network, and its outcome is unknown.
"""

from __future__ import annotations

from typing import Final, NoReturn

import grpc

from oncelog.errors import ErrorCode as C
from oncelog.errors import OncelogError
from oncelog.trace.tracing import Span, end_server_call
from oncelog.wire.wire_errors import to_detail
from oncelog_runtime.adapters.grpc.server_context import ServerContext

ERROR_TRAILER: Final = "oncelog-error-bin"

_BY_STATUS: Final[dict[grpc.StatusCode, tuple[C, ...]]] = {
    grpc.StatusCode.INVALID_ARGUMENT: (
        C.CORRUPT_MESSAGE,
        C.MESSAGE_TOO_LARGE,
        C.OFFSET_METADATA_TOO_LARGE,
        C.INVALID_TOPIC,
        C.RECORD_LIST_TOO_LARGE,
        C.INVALID_REQUIRED_ACKS,
        C.INVALID_GROUP_ID,
        C.INVALID_TIMESTAMP,
        C.INVALID_PARTITIONS,
        C.INVALID_REPLICATION_FACTOR,
        C.INVALID_REPLICA_ASSIGNMENT,
        C.INVALID_CONFIG,
        C.INVALID_REQUEST,
        C.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        C.POLICY_VIOLATION,
        C.INVALID_TRANSACTION_TIMEOUT,
        C.UNSUPPORTED_COMPRESSION,
        C.INVALID_RECORD,
        C.UNSUPPORTED_ASSIGNOR,
        C.INVALID_REGULAR_EXPRESSION,
        C.MISDIRECTED_BATCH,
        C.INVALID_DELAY,
    ),
    grpc.StatusCode.FAILED_PRECONDITION: (
        C.NOT_LEADER_OR_FOLLOWER,
        C.STALE_CONTROLLER_EPOCH,
        C.NOT_COORDINATOR,
        C.ILLEGAL_GENERATION,
        C.UNKNOWN_MEMBER_ID,
        C.UNSUPPORTED_VERSION,
        C.NOT_CONTROLLER,
        C.INVALID_PRODUCER_EPOCH,
        C.INVALID_TXN_STATE,
        C.INVALID_PRODUCER_ID_MAPPING,
        C.TRANSACTION_COORDINATOR_FENCED,
        C.UNKNOWN_PRODUCER_ID,
        C.FENCED_LEADER_EPOCH,
        C.UNKNOWN_LEADER_EPOCH,
        C.STALE_BROKER_EPOCH,
        C.PRODUCER_FENCED,
        C.INELIGIBLE_REPLICA,
        C.FENCED_MEMBER_EPOCH,
        C.FENCED_INSTANCE_ID,
        C.STALE_MEMBER_EPOCH,
        C.NON_EMPTY_GROUP,
        C.GROUP_SUBSCRIBED_TO_TOPIC,
        C.TXN_ENDED,
        C.UNKNOWN_PARTICIPANT,
        C.WRONG_CLUSTER,
        C.BATCH_ROLLED_BACK,
        C.REPLAY_MISMATCH,
        C.OFFSET_COMMIT_STALE,
        C.FORKED_CLIENT,
        C.ILLEGAL_STATE,
        C.PROCESSING,
        C.ALLOCATOR_ROLLED_BACK,
        C.NOT_OWNER,
    ),
    grpc.StatusCode.UNAVAILABLE: (
        C.LEADER_NOT_AVAILABLE,
        C.COORDINATOR_LOAD_IN_PROGRESS,
        C.COORDINATOR_NOT_AVAILABLE,
        C.NOT_ENOUGH_REPLICAS,
        C.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        C.STORAGE_ERROR,
        C.OFFSET_NOT_AVAILABLE,
        C.UNSTABLE_OFFSET_COMMIT,
        C.UNRELEASED_INSTANCE_ID,
        C.METADATA_UNAVAILABLE,
        C.NETWORK_ERROR,
        C.CLUSTER_UNREACHABLE,
        C.COMMIT_OUTCOME_UNKNOWN,
        C.SHUTTING_DOWN,
        C.DRAINING_ELSEWHERE,
        C.REASSIGNMENT_IN_PROGRESS,
    ),
    grpc.StatusCode.ABORTED: (
        C.OUT_OF_ORDER_SEQUENCE_NUMBER,
        C.CONCURRENT_TRANSACTIONS,
        C.TRANSACTION_ABORTABLE,
        C.TXN_ABORTED,
    ),
    grpc.StatusCode.ALREADY_EXISTS: (C.TOPIC_ALREADY_EXISTS, C.CHANNEL_ALREADY_EXISTS, C.DUPLICATE_SEQUENCE_NUMBER),
    grpc.StatusCode.OUT_OF_RANGE: (C.OFFSET_OUT_OF_RANGE,),
    grpc.StatusCode.NOT_FOUND: (C.UNKNOWN_TOPIC_OR_PARTITION, C.UNKNOWN_CHANNEL, C.NOT_SCHEDULED, C.OUTCOME_FORGOTTEN),
    grpc.StatusCode.DEADLINE_EXCEEDED: (C.REQUEST_TIMED_OUT, C.DELIVERY_TIMED_OUT),
    grpc.StatusCode.RESOURCE_EXHAUSTED: (
        *(C.RESOURCE_EXHAUSTED, C.ID_SPACE_EXHAUSTED, C.BUFFER_EXHAUSTED, C.THROTTLING_QUOTA_EXCEEDED),
        C.GROUP_MAX_SIZE_REACHED,
    ),
    grpc.StatusCode.PERMISSION_DENIED: (
        C.TOPIC_AUTHORIZATION_FAILED,
        C.GROUP_AUTHORIZATION_FAILED,
        C.CLUSTER_AUTHORIZATION_FAILED,
        C.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ),
    grpc.StatusCode.UNAUTHENTICATED: (C.AUTHENTICATION_FAILED, C.TOKEN_EXPIRED),
    grpc.StatusCode.DATA_LOSS: (C.TRANSACTION_DATA_LOSS,),
    grpc.StatusCode.INTERNAL: (C.INTERNAL_ERROR,),
    grpc.StatusCode.UNKNOWN: (C.UNKNOWN_ERROR, C.INVALID_RESPONSE),
}

STATUS: Final[dict[C, grpc.StatusCode]] = {code: status for status, codes in _BY_STATUS.items() for code in codes}


def end_call_span(span: Span, error: OncelogError | None) -> None:
    """Ends the span of a served call with the status of its answer."""
    if error is None:
        end_server_call(span, grpc.StatusCode.OK.name)
    else:
        status = STATUS.get(error.code, grpc.StatusCode.UNKNOWN)
        end_server_call(span, status.name, error.code.name, error.message)


async def abort(context: ServerContext, error: OncelogError) -> NoReturn:
    """Ends a unary call with the error's status and its detail in the trailer. Tools show only the text of the status."""
    status, text, trailer = _parts(error)
    await context.abort(status, text, trailing_metadata=trailer)
    raise AssertionError("abort raises")


def refusal(context: ServerContext, error: OncelogError) -> bytes:
    """Returns what the handler of a unary call returns to end it like `abort`.

    For what is refused in crowds: the exception of `abort` leaves a cycle of objects for each call to the garbage collector.
    """
    status, text, trailer = _parts(error)
    context.set_code(status)
    context.set_details(text)
    context.set_trailing_metadata(trailer)
    return b""


def _parts(error: OncelogError) -> tuple[grpc.StatusCode, str, tuple[tuple[str, bytes], ...]]:
    trailer = (ERROR_TRAILER, to_detail(error).SerializeToString())
    status = STATUS.get(error.code, grpc.StatusCode.UNKNOWN)
    return status, f"{error.message}: go to {error.go_to}" if error.go_to else error.message, (trailer,)
