"""Roles: what the built-in ones may do, what one of one's own may say, and to whom a binding gives it."""

from __future__ import annotations

import pytest

from oncelog.errors import InvalidRequestError
from oncelog_runtime.core.security.acl import (
    CLUSTER_NAME,
    Acl,
    Operation,
    PatternType,
    ResourceType,
)
from oncelog_runtime.core.security.matcher import Matcher
from oncelog_runtime.core.security.roles import (
    BUILT_IN,
    Binding,
    Role,
    RoleRule,
    binding_of,
    check_binding,
    check_role,
    expand,
    role_of,
)

T, G, C = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER


def decide(who: str, operation: Operation, kind: ResourceType, name: str, *rules: Acl) -> bool:
    return Matcher(rules).rules_of(who, "10.0.0.1").decide(operation, kind, name).allowed


def test_built_in_roles_are_legal_on_any_resource_pattern() -> None:
    for role in BUILT_IN.values():
        for binding in (
            Binding("User:ann", role.name),
            Binding("User:ann", role.name, PatternType.PREFIXED, "shop."),
            Binding("User:ann", role.name, PatternType.LITERAL, "shop"),
        ):
            assert check_binding(binding, {}) == binding
            assert list(expand(binding, {}))


def test_no_role_but_owner_reads_and_writes_and_only_admin_alters_the_cluster() -> None:
    for name, role in BUILT_IN.items():
        rules = list(expand(Binding("User:ann", role.name), {}))
        may = {
            word: decide("User:ann", operation, kind, resource, *rules)
            for word, operation, kind, resource in (
                ("read", Operation.READ, T, "orders"),
                ("write", Operation.WRITE, T, "orders"),
                ("create", Operation.CREATE, T, "orders"),
                ("cluster", Operation.ALTER, C, CLUSTER_NAME),
                ("service", Operation.CLUSTER_ACTION, C, CLUSTER_NAME),
            )
        }
        expected = {
            "reader": {"read"},
            "writer": {"write"},
            "owner": {"read", "write", "create"},
            "operator": {"create"},
            "admin": {"create", "cluster"},
        }[name]
        assert {word for word, allowed in may.items() if allowed} == expected, name


def test_a_role_of_ones_own() -> None:
    role = Role("auditor", (RoleRule(T, (Operation.DESCRIBE,)), RoleRule(G, (Operation.DESCRIBE,), resource_name="*")))
    assert role_of(check_role(role).as_dict()) == role
    binding = Binding("User:ann", "auditor", PatternType.PREFIXED, "shop.")
    assert binding_of(check_binding(binding, {"auditor": role}).as_dict()) == binding
    rules = list(expand(binding, {"auditor": role}))
    assert decide("User:ann", Operation.DESCRIBE, T, "shop.a", *rules)
    assert not decide("User:ann", Operation.DESCRIBE, T, "other", *rules)
    assert decide("User:ann", Operation.DESCRIBE, G, "anything", *rules)
    assert not list(expand(binding, {}))  # its role is gone: it means nothing


@pytest.mark.parametrize(
    "role",
    [
        Role("reader", (RoleRule(T, (Operation.ALL,)),)),
        Role("Bad", (RoleRule(T, (Operation.ALL,)),)),
        Role("a/b", (RoleRule(T, (Operation.ALL,)),)),
        Role("empty", ()),
        Role("none", (RoleRule(T, ()),)),
        Role("odd", (RoleRule(G, (Operation.WRITE,)),)),
        Role("star", (RoleRule(T, (Operation.READ,), PatternType.LITERAL, "a*"),)),
    ],
    ids=lambda role: role.name,
)
def test_a_role_that_is_refused(role: Role) -> None:
    with pytest.raises(InvalidRequestError):
        check_role(role)


def test_a_binding_names_a_role_that_is_there() -> None:
    with pytest.raises(InvalidRequestError, match="no such role"):
        check_binding(Binding("User:ann", "auditor"), {})
    with pytest.raises(InvalidRequestError):
        check_binding(Binding("User:ann", "reader", PatternType.PREFIXED, ""), {})
    with pytest.raises(InvalidRequestError):
        check_binding(Binding("User:", "reader"), {})
