"""Every error has a gRPC status."""

from __future__ import annotations

import grpc
import pytest

from oncelog.errors import ErrorCode
from oncelog_runtime.adapters.grpc.grpc_status import _BY_STATUS, STATUS


def test_every_code_has_exactly_one_status() -> None:
    rows = [code for codes in _BY_STATUS.values() for code in codes]
    assert sorted(rows) == sorted(ErrorCode)


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, grpc.StatusCode.FAILED_PRECONDITION),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, grpc.StatusCode.UNAVAILABLE),
        (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, grpc.StatusCode.ABORTED),
        (ErrorCode.OFFSET_OUT_OF_RANGE, grpc.StatusCode.OUT_OF_RANGE),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, grpc.StatusCode.NOT_FOUND),
        (ErrorCode.CORRUPT_MESSAGE, grpc.StatusCode.INVALID_ARGUMENT),
        (ErrorCode.TRANSACTION_DATA_LOSS, grpc.StatusCode.DATA_LOSS),
    ],
)
def test_the_status_says_what_grpc_means_by_it(code: ErrorCode, status: grpc.StatusCode) -> None:
    assert STATUS[code] is status
