"""Calls whose requests are arriving: nobody above a limit, one address leaves room for others, every place comes back."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from oncelog.errors import ResourceExhaustedError
from oncelog_runtime.core.arriving_calls import ArrivingCalls

ANN, BOB, EVE = "ipv4:10.0.0.1", "ipv4:10.0.0.2", "ipv4:10.0.0.3"


def enter(stack: ExitStack, calls: ArrivingCalls, *addresses: str) -> None:
    for address in addresses:
        stack.enter_context(calls.place(address))


def test_an_address_has_so_many_places_and_the_next_one_has_its_own() -> None:
    calls = ArrivingCalls(limit=10, limit_per_address=2)
    with ExitStack() as stack:
        enter(stack, calls, ANN, ANN, BOB)
        with pytest.raises(ResourceExhaustedError) as caught:
            enter(stack, calls, ANN)
        assert caught.value.retry_after_ms == 50
        enter(stack, calls, BOB)
        assert calls.count == 4


def test_all_addresses_together_have_so_many() -> None:
    calls = ArrivingCalls(limit=3, limit_per_address=2)
    with ExitStack() as stack:
        enter(stack, calls, ANN, ANN, BOB)
        with pytest.raises(ResourceExhaustedError):
            enter(stack, calls, EVE)
        assert calls.count == 3


def test_a_place_comes_back_whatever_becomes_of_the_call() -> None:
    calls = ArrivingCalls(limit=1, limit_per_address=1)
    with calls.place(ANN):
        assert calls.count == 1
    with pytest.raises(KeyError), calls.place(ANN):
        raise KeyError("a bug")
    with calls.place(BOB):
        assert calls.count == 1
    assert calls.count == 0
