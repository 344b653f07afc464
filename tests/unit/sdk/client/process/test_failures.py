"""What is tried again under `Client.process`, and what ends it."""

from __future__ import annotations

import pytest

from oncelog import errors
from oncelog.client.process.failures import can_go_on


@pytest.mark.parametrize(
    "error",
    [
        errors.StaleMemberEpochError(),
        errors.UnknownMemberError(),
        errors.TxnAbortedError(),
        errors.CommitOutcomeUnknownError(),
        errors.NotLeaderError(),
        errors.ClusterUnreachableError(),
        errors.DeliveryTimedOutError(),
        errors.InvalidProducerEpochError(),
    ],
)
def test_what_passes_by_itself_is_tried_again(error: errors.OncelogError) -> None:
    assert can_go_on(error, is_static=False)
    assert can_go_on(error, is_static=True)


@pytest.mark.parametrize(
    "error",
    [
        errors.TopicAuthorizationError(),
        errors.TransactionalIdAuthorizationError(),
        errors.FencedInstanceIdError(),
        errors.UnknownTopicError(),
        errors.UnsupportedVersionError(),
        errors.ProcessingError(),
        errors.IllegalStateError(),
    ],
)
def test_what_only_the_caller_can_solve_ends_it(error: errors.OncelogError) -> None:
    assert not can_go_on(error, is_static=False)


def test_a_name_that_another_process_took_over_is_given_up_and_one_of_our_own_is_taken_back() -> None:
    assert not can_go_on(errors.ProducerFencedError(), is_static=True)
    assert can_go_on(errors.ProducerFencedError(), is_static=False)
