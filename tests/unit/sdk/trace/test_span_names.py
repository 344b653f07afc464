"""Names in spans are those of OpenTelemetry's conventions, and what is not known is left out."""

from __future__ import annotations

from oncelog.trace.span_names import messaging


def test_messaging_attributes_leave_out_what_is_not_known() -> None:
    assert messaging("send", "orders", partition="3", group="") == {
        "messaging.system": "oncelog",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.destination.name": "orders",
        "messaging.destination.partition.id": "3",
    }
