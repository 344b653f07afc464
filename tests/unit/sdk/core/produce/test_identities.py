"""When a partition may go on under the producer's identity, and when another one is asked for."""

from __future__ import annotations

from oncelog.core.batch.identity import NOBODY, Identity
from oncelog.core.produce.identities import Identities
from oncelog.core.produce.producer_window import ProducerWindow
from oncelog.errors import NetworkError
from tests.unit.sdk.core.produce.known_facts import IN_TRANSACTION, P0, P1, PRODUCER


def test_a_window_goes_on_under_any_identity_but_the_one_that_ended_there() -> None:
    identities = Identities(is_idempotent=True, can_renew=True)
    window = ProducerWindow(5)
    assert not identities.give(P0, window), "none is known"
    identities.current = PRODUCER
    window.burnt = PRODUCER
    assert not identities.give(P0, window)
    identities.current = Identity(8, 0)
    assert identities.give(P0, window)
    assert window.identity == Identity(8, 0)


def test_without_idempotence_nothing_ends_an_identity() -> None:
    identities = Identities(is_idempotent=False, can_renew=True)
    window = ProducerWindow(5)
    window.burnt = NOBODY
    assert identities.give(P0, window)


def test_one_renewal_runs_at_a_time_for_all_that_wait() -> None:
    identities = Identities(is_idempotent=True, can_renew=True)
    for partition in (P0, P1):
        identities.give(partition, ProducerWindow(5))
    assert identities.begin_renewal()
    assert not identities.begin_renewal()
    assert identities.end_renewal() == [P0, P1]
    assert identities.begin_renewal()
    assert identities.end_renewal() == []


def test_a_fixed_identity_is_never_renewed() -> None:
    assert not Identities(is_idempotent=True, can_renew=False).begin_renewal()


def test_a_failed_renewal_is_the_obstacle_of_those_who_wait_for_it() -> None:
    identities = Identities(is_idempotent=True, can_renew=True)
    identities.give(P0, ProducerWindow(5))
    assert identities.obstacle(P0) is None
    identities.error = NetworkError()
    assert (identities.obstacle(P0), identities.obstacle(P1)) == (identities.error, None)


def test_a_transaction_is_known_by_its_identity() -> None:
    identities = Identities(is_idempotent=True, can_renew=False)
    assert not identities.is_in_transaction
    identities.current = IN_TRANSACTION
    assert identities.is_in_transaction
