"""What may be written as a rule."""

from __future__ import annotations

from dataclasses import replace

import pytest

from oncelog.errors import InvalidRequestError
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
