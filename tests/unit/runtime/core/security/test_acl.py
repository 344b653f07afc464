"""What may be written as a rule, and what rules and memory of them mean."""

from __future__ import annotations

from dataclasses import replace

import pytest

from oncelog.errors import InvalidRequestError
from oncelog_runtime.core.security import access as access_module
from oncelog_runtime.core.security.access import Policy
from oncelog_runtime.core.security.acl import (
    CLUSTER_NAME,
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourceType,
    acl_of,
    check_acl,
    check_principal,
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

READ_ORDERS = Acl("User:ann", ResourceType.TOPIC, PatternType.LITERAL, "orders", Operation.READ)
T, G, C = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER


@pytest.mark.parametrize(
    "changes",
    [
        {"principal": ""},
        {"principal": "User:"},
        {"principal": "ann"},
        {"principal": "Group:ann"},
        {"principal": "User:a*"},
        {"principal": "User:a\nb"},
        {"principal": "User:\x1b[31m"},
        {"principal": "User:a\0"},
        {"principal": "User: ann"},
        {"principal": "User:" + "a" * 513},
        {"host": ""},
        {"host": "10.0.0.0/8"},
        {"host": "10.0.0.01"},
        {"host": "example.org"},
        {"resource_name": ""},
        {"resource_name": "ord*"},
        {"resource_name": "**"},
        {"resource_name": "a/b"},
        {"resource_name": "\u0661"},
        {"resource_name": "a" * 250},
        {"resource_name": "..", "pattern_type": PatternType.LITERAL},
        {"resource_name": "", "pattern_type": PatternType.PREFIXED},
        {"resource_name": "*", "pattern_type": PatternType.PREFIXED},
        {"resource_type": G, "resource_name": "g\n"},
        {"resource_type": G, "resource_name": "g", "operation": Operation.WRITE},
        {"resource_type": C, "resource_name": "*", "operation": Operation.ALTER},
        {"resource_type": C, "resource_name": CLUSTER_NAME, "operation": Operation.READ},
        {"operation": Operation.CLUSTER_ACTION},
    ],
    ids=str,
)
def test_a_rule_that_fits_nothing_or_more_than_it_seems_to_is_refused(changes: dict[str, object]) -> None:
    with pytest.raises(InvalidRequestError):
        check_acl(replace(READ_ORDERS, **changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "principal", ["User:ann", "User:system:serviceaccount:shop:web", "User:spiffe://c/ns/a", "User:CN=a,O=b", "User:*"]
)
def test_principals_that_are_fine(principal: str) -> None:
    assert check_principal(principal) == principal


def test_everybody_is_no_principal_of_a_question() -> None:
    with pytest.raises(InvalidRequestError):
        check_principal("User:*", wildcard=False)


def test_a_rule_survives_its_stored_form_and_has_one_key() -> None:
    assert acl_of(READ_ORDERS.as_dict()) == READ_ORDERS
    assert READ_ORDERS.key == acl_of(READ_ORDERS.as_dict()).key
    assert READ_ORDERS.key != replace(READ_ORDERS, permission=Permission.DENY).key
    with pytest.raises(InvalidRequestError, match="operation is one of"):
        acl_of({**READ_ORDERS.as_dict(), "operation": "SUDO"})


def decide(who: str, operation: Operation, kind: ResourceType, name: str, *rules: Acl) -> bool:
    return Matcher(rules, ["User:root"]).rules_of(who, "10.0.0.1").decide(operation, kind, name).allowed


def test_nothing_is_allowed_without_a_rule_but_to_super_users() -> None:
    assert not decide("User:ann", Operation.READ, T, "orders")
    assert decide("User:root", Operation.READ, T, "orders")
    assert decide("User:root", Operation.READ, T, "orders", replace(READ_ORDERS, permission=Permission.DENY))


@pytest.mark.parametrize("operation", [Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER])
def test_who_may_do_something_may_describe(operation: Operation) -> None:
    rule = replace(READ_ORDERS, operation=operation)
    assert decide("User:ann", Operation.DESCRIBE, T, "orders", rule)
    assert not decide("User:ann", Operation.CREATE, T, "orders", rule)
    config = replace(READ_ORDERS, operation=Operation.ALTER_CONFIGS)
    assert decide("User:ann", Operation.DESCRIBE_CONFIGS, T, "orders", config)
    assert not decide("User:ann", Operation.DESCRIBE, T, "orders", config)


def test_deny_wins_and_denies_its_own_operation_alone() -> None:
    everything = replace(READ_ORDERS, operation=Operation.ALL, resource_name="*")
    deny = replace(READ_ORDERS, permission=Permission.DENY, principal="User:*")
    assert not decide("User:ann", Operation.READ, T, "orders", everything, deny)
    assert not decide("User:ann", Operation.READ, T, "orders", deny, everything)
    assert decide("User:ann", Operation.DESCRIBE, T, "orders", everything, deny)
    assert decide("User:ann", Operation.READ, T, "other", everything, deny)
    deny_all = replace(deny, operation=Operation.ALL)
    assert not decide("User:ann", Operation.DESCRIBE, T, "orders", everything, deny_all)


def test_a_host_is_the_callers() -> None:
    rule = replace(READ_ORDERS, host="10.0.0.9")
    assert not decide("User:ann", Operation.READ, T, "orders", rule)
    assert Matcher([rule]).rules_of("User:ann", "10.0.0.9").decide(Operation.READ, T, "orders").allowed


def test_names_are_compared_character_by_character() -> None:
    cyrillic = "User:\u0430nn"  # looks like ann
    assert not decide(cyrillic, Operation.READ, T, "orders", READ_ORDERS)
    assert not decide("User:Ann", Operation.READ, T, "orders", READ_ORDERS)
    assert not decide("User:ann", Operation.READ, T, "Orders", READ_ORDERS)


def test_new_rules_are_in_force_at_the_next_look() -> None:
    policy = Policy()
    access = policy.access("User:ann", "h")
    access.look()
    assert not access.allows(Operation.READ, T, "orders")
    policy.replace([READ_ORDERS], [], {})
    access.look()
    assert access.allows(Operation.READ, T, "orders")
    policy.replace([], [], {})
    access.look()
    assert not access.allows(Operation.READ, T, "orders")


def test_an_unknown_topic_id_is_asked_for_anew() -> None:
    policy, names = Policy(), dict[str, str]()
    policy.topic_name = names.get
    policy.replace([READ_ORDERS], [], {})
    access = policy.access("User:ann", "h")
    access.look()
    assert not access.allows_topic(Operation.READ, "id1")
    names["id1"] = "orders"
    assert access.allows_topic(Operation.READ, "id1")
    assert access.remembered(Operation.READ) == {"id1": True}


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access_module, "REMEMBERED_MAX", 10)
    monkeypatch.setattr(access_module, "CALLERS_MAX", 5)
    policy = Policy()
    policy.topic_name = lambda topic_id: topic_id
    access = policy.access("User:ann", "h")
    for number in range(100):
        access.allows(Operation.READ, T, f"t{number}")
        access.allows_topic(Operation.READ, f"t{number}")
        policy.access(f"User:{number}", "h")
    assert len(access._by_name) <= 10
    assert len(access.remembered(Operation.READ)) <= 10
    assert len(policy._callers) <= 5


# ---------------------------------------------------------------- roles


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
