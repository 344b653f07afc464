"""What rules mean: super users, DENY before ALLOW, what one operation implies, and names as they are written."""

from __future__ import annotations

from dataclasses import replace

import pytest

from oncelog_runtime.core.security.acl import (
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from oncelog_runtime.core.security.matcher import Matcher

READ_ORDERS = Acl("User:ann", ResourceType.TOPIC, PatternType.LITERAL, "orders", Operation.READ)


T, G, C = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER


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


@pytest.mark.parametrize(
    ("name", "fits"), [("shop.", True), ("shop.orders", True), ("shop", False), ("my.shop.", False)]
)
def test_a_prefix_fits_the_names_that_begin_with_it(name: str, fits: bool) -> None:
    rule = replace(READ_ORDERS, pattern_type=PatternType.PREFIXED, resource_name="shop.")
    longer = replace(rule, resource_name="shop.orders.of.last.year")
    assert decide("User:ann", Operation.READ, T, name, rule, longer) is fits
    assert not decide("User:ann", Operation.READ, ResourceType.GROUP, name, rule), "of topics alone"


def test_a_decision_names_the_rule_that_made_it() -> None:
    deny = replace(READ_ORDERS, permission=Permission.DENY)
    for rules, allowed, acl in (
        ([READ_ORDERS], True, READ_ORDERS),
        ([READ_ORDERS, deny], False, deny),
        ([], False, None),
    ):
        made = Matcher(rules).rules_of("User:ann", "h").decide(Operation.READ, T, "orders")
        assert (made.allowed, made.acl) == (allowed, acl)
        assert str(acl) in made.reason if acl else made.reason == "no rule allows it"


@pytest.mark.parametrize(
    ("denied", "somewhere"),
    [
        (None, True),
        (replace(READ_ORDERS, resource_name="other"), True),
        (READ_ORDERS, False),
        (replace(READ_ORDERS, resource_name="*"), False),
        (replace(READ_ORDERS, pattern_type=PatternType.PREFIXED, resource_name="ord"), False),
        (replace(READ_ORDERS, operation=Operation.WRITE), True),
        (replace(READ_ORDERS, operation=Operation.ALL), False),
    ],
    ids=str,
)
def test_something_is_allowed_somewhere_unless_a_denial_covers_all_of_it(denied: Acl | None, somewhere: bool) -> None:
    rules = [READ_ORDERS] if denied is None else [READ_ORDERS, replace(denied, permission=Permission.DENY)]
    assert Matcher(rules).rules_of("User:ann", "h").decide_any(Operation.READ, T).allowed is somewhere


def test_one_denied_topic_does_not_cover_a_prefix() -> None:
    rule = replace(READ_ORDERS, pattern_type=PatternType.PREFIXED, resource_name="ord")
    for name in ("orders", "ord"):
        deny = replace(READ_ORDERS, permission=Permission.DENY, resource_name=name)
        assert Matcher([rule, deny]).rules_of("User:ann", "h").decide_any(Operation.READ, T).allowed
    assert Matcher([], ["User:ann"]).rules_of("User:ann", "h").decide_any(Operation.READ, T).allowed, "a super user"
