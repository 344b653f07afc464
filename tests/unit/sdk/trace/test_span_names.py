"""Names in spans are those of OpenTelemetry's conventions, and what is not known is left out."""

from __future__ import annotations

import pytest

from oncelog.trace import span_names
from oncelog.trace.span_names import messaging, messaging_span
from oncelog.wire import methods


def test_messaging_attributes_leave_out_what_is_not_known() -> None:
    assert messaging("send", "orders", partition="3", group="") == {
        "messaging.system": "oncelog",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.destination.name": "orders",
        "messaging.destination.partition.id": "3",
    }


def test_a_call_is_named_as_the_contract_names_it() -> None:
    for name, spec in methods.ALL.items():
        service, _, method = span_names.rpc_method(name).partition("/")
        assert (service, method) == (f"oncelog.v1.{spec.service}", spec.method)


def test_calls_that_come_by_themselves_are_calls_that_there_are() -> None:
    assert set(methods.ALL) >= span_names.QUIET_METHODS


def test_a_span_without_a_topic_is_its_operation() -> None:
    assert (messaging_span("poll", "orders"), messaging_span("poll", "")) == ("poll orders", "poll")


@pytest.mark.parametrize(
    ("operation", "kind"),
    [("create", "create"), ("send", "send"), ("poll", "receive"), ("process", "process"), ("commit", "settle")],
)
def test_an_operation_has_the_type_that_the_conventions_give_it(operation: str, kind: str) -> None:
    assert messaging(operation, "")["messaging.operation.type"] == kind
