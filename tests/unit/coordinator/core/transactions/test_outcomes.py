"""What is answered about the outcome of a number: definite, ongoing, not begun or forgotten, and never a guess."""

from __future__ import annotations

import pytest

from oncelog import errors
from oncelog_coordinator.core.limits import Limits
from oncelog_coordinator.core.transactions import commands as cmd
from tests.unit.coordinator.driver import P0, Driver


def test_outcomes_are_definite(driver: Driver) -> None:
    session = driver.init()
    driver.enrol(session, 1, P0)
    assert driver.outcome(1) == cmd.OutcomeReply(None, False)
    assert driver.last.confirm, "a deposed owner could give this answer wrongly"
    driver.end(session, 1)
    assert driver.outcome(1) == cmd.OutcomeReply(True, False)
    driver.mark(1, P0)
    assert driver.outcome(1) == cmd.OutcomeReply(True, True)
    assert driver.outcome(2) == cmd.OutcomeReply(None, False, begun=False)
    with pytest.raises(errors.InvalidPidMappingError):
        driver.do(cmd.GetOutcome("unknown", 1))


def test_a_number_that_nobody_began_is_not_ongoing(driver: Driver) -> None:
    not_begun = cmd.OutcomeReply(None, False, begun=False)
    session = driver.init()
    assert [driver.outcome(n) for n in (1, 2, 99)] == [not_begun] * 3
    assert driver.last.confirm, "a deposed owner could give this answer wrongly"
    driver.enrol(session, 1, P0)
    assert driver.outcome(1) == cmd.OutcomeReply(None, False), "what began is ongoing"
    assert driver.outcome(2) == not_begun
    driver.end(session, 1)
    assert driver.outcome(2) == not_begun, "enrolled ahead is not begun: this life knows whom it has answered"
    driver.enrol(session, 2, P0)
    assert driver.outcome(2) == cmd.OutcomeReply(None, False)


def test_a_number_that_an_earlier_life_may_have_let_leaders_open_is_ongoing(driver: Driver) -> None:
    session = driver.init()
    driver.enrol(session, 1, P0)
    driver.end(session, 1)
    later = driver.replayed()
    assert later.outcome(2) == cmd.OutcomeReply(None, False)
    assert later.outcome(3) == cmd.OutcomeReply(None, False, begun=False)


def test_a_new_session_settles_what_was_not_begun(driver: Driver) -> None:
    driver.init()
    driver.init()
    assert driver.outcome(1) == cmd.OutcomeReply(False, True)
    assert driver.outcome(2) == cmd.OutcomeReply(None, False, begun=False)


@pytest.mark.case("hole 15")
def test_below_the_list_the_answer_is_forgotten_never_a_guess() -> None:
    driver = Driver(Limits(kept_outcomes=3))
    session = driver.init()
    driver.enrol(session, 1, P0)
    driver.end(session, 1)
    for n in range(2, 10):
        driver.end(session, n, commit=n % 2 == 0)
    assert driver.outcome(1) == cmd.OutcomeReply(True, False), "not before COMPLETE"
    driver.mark(1, P0)
    for call in (lambda: driver.outcome(1), lambda: driver.end(session, 1), lambda: driver.outcome(6)):
        with pytest.raises(errors.OutcomeForgottenError):
            call()
    assert [driver.outcome(n).committed for n in (7, 8, 9)] == [False, True, False]
    with pytest.raises(errors.TxnEndedError):
        driver.enrol(session, 1, P0)
