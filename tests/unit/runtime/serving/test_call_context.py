"""Who calls, as a handler may ask: by which door, and under which name."""

from __future__ import annotations

import asyncio

import pytest

from oncelog_runtime.core.listeners import CLIENT, EXTERNAL, INTERNAL
from oncelog_runtime.core.security.access import Policy
from oncelog_runtime.serving.call_context import CALL, CallInfo, asked_on


@pytest.mark.parametrize(
    ("listener", "client_listener", "answer"),
    [(INTERNAL, False, CLIENT), (INTERNAL, True, INTERNAL), (CLIENT, True, CLIENT), (EXTERNAL, False, EXTERNAL)],
)
def test_clients_of_a_process_with_one_door_come_to_the_internal_one(
    listener: str, client_listener: bool, answer: str
) -> None:
    token = CALL.set(CallInfo("somebody", listener=listener))
    try:
        assert asked_on(client_listener=client_listener) == answer
    finally:
        CALL.reset(token)


def test_who_is_asked_by_nobody_answers_as_the_internal_listener_does() -> None:
    assert CALL.get() is None
    assert asked_on(client_listener=True) == INTERNAL
    assert asked_on(client_listener=False) == CLIENT


def test_a_caller_has_a_name_where_access_rules_are_on() -> None:
    assert CallInfo("ipv4:10.0.0.7:1").principal == ""
    assert CallInfo("ipv4:10.0.0.7:1", access=Policy().access("User:ann", "10.0.0.7")).principal == "User:ann"


def test_tasks_that_a_handler_starts_know_its_caller() -> None:
    async def handler() -> CallInfo | None:
        token = CALL.set(CallInfo("ann"))
        started = asyncio.create_task(later())
        CALL.reset(token)
        return await started

    async def later() -> CallInfo | None:
        return CALL.get()

    assert asyncio.run(handler()) == CallInfo("ann")
