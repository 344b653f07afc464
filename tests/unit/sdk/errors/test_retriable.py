"""The same request may be sent again; who must first look who is in charge is told so."""

from __future__ import annotations

from oncelog import errors
from oncelog.errors import retriable
from oncelog.errors.base import RetriableError

LOOKS_FIRST = {
    "LeaderNotAvailableError",
    "NotLeaderError",
    "StaleControllerEpochError",
    "CoordinatorNotAvailableError",
    "NotCoordinatorError",
    "NotControllerError",
    "StorageError",
    "FencedLeaderEpochError",
    "UnknownLeaderEpochError",
    "StaleBrokerEpochError",
    "IneligibleReplicaError",
    "ShuttingDownError",
    "InvalidResponseError",
}
"""Somebody else may be in charge by now: asking the same process again would not help."""


def test_only_what_another_process_may_serve_asks_to_look_first() -> None:
    kinds = {
        name: kind for name, kind in vars(retriable).items() if isinstance(kind, type) and kind is not RetriableError
    }
    ours = {name: kind for name, kind in kinds.items() if issubclass(kind, RetriableError)}
    assert {name for name, kind in ours.items() if kind.action is errors.ErrorAction.REFRESH} == LOOKS_FIRST
    assert {kind.action for kind in ours.values()} == {errors.ErrorAction.RETRY, errors.ErrorAction.REFRESH}
    assert all(kind().retriable for kind in ours.values())


def test_an_unknown_code_may_be_tried_again_and_tells_what_came() -> None:
    error = errors.error_for(77_777, "from a later version", 5, {"b": "2", "a": "1\n"})
    assert type(error) is errors.UnknownServerError
    assert (error.retriable, error.retry_after_ms) == (True, 5)
    assert error.context == {"a": "1\\n", "b": "2"}
