"""Rules, roles and bindings come in checked, and go out as they came in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from oncelog.errors import InvalidRequestError
from oncelog.v1 import security_pb2 as pb
from oncelog_partition_leader.rpc.security_wire import acl_from, acl_to, binding_from, binding_to, role_from, role_to
from oncelog_runtime.core.security.acl import Operation, PatternType, Permission
from oncelog_runtime.core.security.roles import BUILT_IN

ACL = pb.Acl(
    principal="User:a",
    host="10.0.0.7",
    resource_type="TOPIC",
    pattern_type="PREFIXED",
    resource_name="orders-",
    operation="READ",
    permission="DENY",
)
RULE = pb.RoleRule(
    resource_type="TOPIC", operations=["READ", "DESCRIBE"], pattern_type="PREFIXED", resource_name="orders-"
)


def test_a_rule_comes_back_as_it_was_sent() -> None:
    assert acl_to(acl_from(ACL)) == ACL


def test_what_is_left_out_of_a_rule_is_an_allowance_for_just_this_name_from_anywhere() -> None:
    acl = acl_from(pb.Acl(principal="User:a", resource_type="TOPIC", resource_name="orders", operation="READ"))
    assert (acl.permission, acl.pattern_type, acl.host) == (Permission.ALLOW, PatternType.LITERAL, "*")


def changed(message: Any, **fields: Any) -> Any:
    copy = type(message)()
    copy.CopyFrom(message)
    for name, value in fields.items():
        setattr(copy, name, value)
    return copy


@pytest.mark.parametrize(
    "fields",
    [
        {"principal": "a"},
        {"principal": ""},
        {"host": "somewhere"},
        {"resource_type": "TABLE"},
        {"pattern_type": "REGEX"},
        {"resource_name": ""},
        {"operation": "DANCE"},
        {"operation": "CLUSTER_ACTION"},
        {"permission": "MAYBE"},
    ],
)
def test_a_rule_that_would_never_do_anything_is_refused(fields: dict[str, str]) -> None:
    with pytest.raises(InvalidRequestError):
        acl_from(changed(ACL, **fields))


def test_a_binding_comes_back_as_it_was_sent_and_is_about_everything_unless_it_says() -> None:
    binding = pb.RoleBinding(principal="User:a", role="reader", pattern_type="PREFIXED", resource_name="orders-")
    assert binding_to(binding_from(binding)) == binding
    everywhere = binding_from(pb.RoleBinding(principal="User:a", role="reader"))
    assert (everywhere.pattern_type, everywhere.resource_name) == (PatternType.LITERAL, "*")


def test_a_role_comes_back_as_it_was_sent() -> None:
    role = pb.Role(name="clerk", rules=[RULE, pb.RoleRule(resource_type="GROUP", operations=["READ"])])
    assert role_to(role_from(role)) == role


def test_a_built_in_role_says_so() -> None:
    sent = role_to(BUILT_IN["reader"])
    assert sent.built_in
    assert list(sent.rules[0].operations) == [Operation.READ, Operation.DESCRIBE_CONFIGS]


@pytest.mark.parametrize(
    "make",
    [
        lambda: binding_from(pb.RoleBinding(principal="a", role="reader")),
        lambda: binding_from(pb.RoleBinding(principal="User:a", role="Not A Name")),
        lambda: binding_from(pb.RoleBinding(principal="User:a", role="reader", pattern_type="REGEX")),
        lambda: role_from(pb.Role(name="reader", rules=[RULE])),
        lambda: role_from(pb.Role(name="Not A Name", rules=[RULE])),
        lambda: role_from(pb.Role(name="clerk")),
        lambda: role_from(pb.Role(name="clerk", rules=[changed(RULE, resource_type="TABLE")])),
        lambda: role_from(pb.Role(name="clerk", rules=[pb.RoleRule(resource_type="TOPIC", operations=["DANCE"])])),
    ],
)
def test_bindings_and_roles_that_cannot_be_are_refused(make: Callable[[], object]) -> None:
    with pytest.raises(InvalidRequestError):
        make()
