"""Every remote method has its row, and a row asks for what its method does."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog.v1 import channel_pb2, coordinator_pb2, partition_pb2, pid_allocator_pb2, security_pb2
from oncelog.wire import method_audience, methods
from oncelog_runtime.core.security.access import Policy
from oncelog_runtime.core.security.acl import ANONYMOUS
from oncelog_runtime.core.security.method_table import TABLE

OPEN = {"Security.CheckAcl", "Security.DescribeQuota"}
"""Methods with a row that asks nothing of some requests: everybody may ask about himself."""


def test_every_method_has_one_row() -> None:
    assert set(TABLE) == set(methods.ALL)


def test_every_method_of_the_wire_contract_has_a_row() -> None:
    described = {
        f"{service.name}.{method.name}"
        for module in (channel_pb2, coordinator_pb2, partition_pb2, pid_allocator_pb2, security_pb2)
        for service in module.DESCRIPTOR.services_by_name.values()
        for method in service.methods
        if method.name != "Connect"  # a link: each of its requests is a method of its own
    }
    assert described == set(TABLE)


@pytest.mark.parametrize("name", sorted(TABLE))
def test_a_row_asks_something_or_looks_at_items_or_hides(name: str) -> None:
    row = TABLE[name]
    assert row.asks is not None or row.each is not None or row.hides is not None


@pytest.mark.parametrize("name", sorted(method_audience.INTERNAL))
def test_what_is_for_services_asks_for_cluster_action(name: str) -> None:
    row = TABLE[name]
    assert row.asks is not None
    ((question,),) = row.asks(methods.ALL[name].request())
    assert (str(question.operation), str(question.resource_type)) == ("CLUSTER_ACTION", "CLUSTER")


@pytest.mark.parametrize("name", sorted(set(TABLE) - OPEN))
def test_nobody_is_let_through_without_a_rule(name: str) -> None:
    """Whatever the request is: an empty one, or one with an item in each list."""
    row, spec = TABLE[name], methods.ALL[name]
    access = Policy().access(ANONYMOUS, "h")
    access.look()
    for request in (spec.request(), filled(spec.request())):
        asked = [] if row.asks is None else list(row.asks(request))
        assert not any(question.holds(access) for alternatives in asked for question in alternatives)
        items = [] if row.each is None else getattr(request, row.each.field)
        for item in items:
            assert row.each is not None
            assert not row.each.question(item).holds(access)
        assert asked or row.each is not None or row.hides is not None


def filled(message: Any) -> Any:
    """With one item in each repeated field."""
    for field in message.DESCRIPTOR.fields:
        if field.is_repeated:
            values = getattr(message, field.name)
            if field.message_type is not None:
                values.add()
            elif field.type == field.TYPE_STRING:
                values.append("x")
    return message
