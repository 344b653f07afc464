"""An error has the reason behind it in its words and as its cause, and silence gives way to what was said before."""

from __future__ import annotations

import pytest

from oncelog import errors
from oncelog.core.causes import again, because, is_silence, is_unanswered, told_of


def test_a_cause_is_set_once_and_never_to_the_error_itself() -> None:
    reason = errors.NetworkError()
    error = because(errors.DeliveryTimedOutError(), reason)
    assert error.__cause__ is reason
    assert because(error, None).__cause__ is reason
    assert because(error, error).__cause__ is reason


def test_an_error_that_is_raised_again_is_another_object_that_says_the_same() -> None:
    first = errors.NotLeaderError("moved", retry_after_ms=7, leader=3)
    second = again(first)
    assert second is not first
    assert (type(second), str(second), second.retry_after_ms) == (errors.NotLeaderError, "moved (leader=3)", 7)
    assert second.__cause__ is first


def test_what_was_told_names_its_code_its_partition_and_the_isr_that_is_too_small() -> None:
    assert told_of(errors.StorageError("full"), "orders", 3) == "STORAGE_ERROR on orders-3: full"
    too_few = errors.NotEnoughReplicasError(isr=1, min_insync_replicas=2)
    assert told_of(too_few, "orders", 0) == "NOT_ENOUGH_REPLICAS on orders-0: ISR 1 of 2 needed"


@pytest.mark.parametrize(
    ("error", "silent", "unanswered"),
    [
        (errors.NetworkError(), True, True),
        (errors.RequestTimedOutError(), True, True),
        (errors.InvalidResponseError(), False, True),
        (errors.UnknownServerError(), False, False),
    ],
    ids=lambda item: str(item),
)
def test_an_answer_that_makes_no_sense_is_no_answer_and_no_silence_either(
    error: errors.OncelogError, silent: bool, unanswered: bool
) -> None:
    assert (is_silence(error), is_unanswered(error)) == (silent, unanswered)
    assert not is_unanswered(None)
