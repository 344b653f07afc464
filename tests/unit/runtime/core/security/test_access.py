"""What is remembered of a caller: always of the newest rules, bounded, and nothing of topics that nobody knows."""

from __future__ import annotations

import pytest

from oncelog_runtime.core.security import access as access_module
from oncelog_runtime.core.security.access import Policy
from oncelog_runtime.core.security.acl import (
    Acl,
    Operation,
    PatternType,
    ResourceType,
)
from oncelog_runtime.core.security.roles import (
    Binding,
)

READ_ORDERS = Acl("User:ann", ResourceType.TOPIC, PatternType.LITERAL, "orders", Operation.READ)


T, G, C = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER


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


def test_a_callers_memory_is_kept_by_principal_and_host() -> None:
    policy = Policy()
    assert policy.access("User:ann", "h") is policy.access("User:ann", "h")
    assert policy.access("User:ann", "h") is not policy.access("User:ann", "g")


def test_the_caller_who_was_away_longest_is_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access_module, "CALLERS_MAX", 2)
    policy = Policy()
    ann, bob = policy.access("User:ann", "h"), policy.access("User:bob", "h")
    policy.access("User:ann", "h")
    policy.access("User:eve", "h")
    assert policy.access("User:ann", "h") is ann
    assert policy.access("User:bob", "h") is not bob


def test_a_person_is_told_why_by_the_newest_rules() -> None:
    policy = Policy(["User:root"])
    access = policy.access("User:ann", "h")
    assert access.why(Operation.READ, T, "orders").reason == "no rule allows it"
    policy.replace([READ_ORDERS], [], {})
    assert access.why(Operation.READ, T, "orders").acl == READ_ORDERS
    assert policy.access("User:root", "h").why(Operation.READ, T, "orders").reason == "a super user"


def test_a_binding_counts_as_the_rules_that_it_stands_for() -> None:
    policy = Policy()
    policy.replace([], [Binding("User:ann", "reader", resource_name="orders")], {})
    access = policy.access("User:ann", "h")
    access.look()
    assert access.allows(Operation.READ, T, "orders")
    assert not access.allows(Operation.WRITE, T, "orders")
    assert access.allows_any(Operation.READ, T)
    assert not access.allows_any(Operation.WRITE, T)
