"""Roles: named sets of operations that principals have on resources (bindings).

Rule 1: a binding means exactly the ALLOW rules that `expand` makes of it, so all other code knows only rules.
Rule 2: built-in roles are the same everywhere, and cannot be changed or hidden.
Rule 3: a role denies nothing; an exception to a role is a DENY rule.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from oncelog.core.malformed import JsonObject
from oncelog.errors import InvalidRequestError
from oncelog_runtime.core.security.acl import (
    CLUSTER_NAME,
    WILDCARD,
    Acl,
    Operation,
    PatternType,
    ResourceType,
    check_acl,
    check_operation,
    check_pattern,
    check_principal,
    digest,
    is_printable,
    member,
)

_ROLE_NAME: Final = re.compile(r"[a-z0-9._-]{1,64}\Z", re.ASCII)
_RULES_MAX: Final = 100


@dataclass(frozen=True, slots=True)
class RoleRule:
    """Operations on resources of one type. `resource_name` empty: those of the binding."""

    resource_type: ResourceType
    operations: tuple[Operation, ...]
    pattern_type: PatternType = PatternType.LITERAL
    resource_name: str = ""


@dataclass(frozen=True, slots=True)
class Role:
    """A named set of operations."""

    name: str
    rules: tuple[RoleRule, ...]

    def as_dict(self) -> dict[str, object]:
        """Returns the fields, for etcd."""
        rules = [
            {
                "resource_type": str(rule.resource_type),
                "operations": [str(operation) for operation in rule.operations],
                "pattern_type": str(rule.pattern_type),
                "resource_name": rule.resource_name,
            }
            for rule in self.rules
        ]
        return {"name": self.name, "rules": rules}


@dataclass(frozen=True, slots=True)
class Binding:
    """Gives a principal a role on the resources that a pattern names."""

    principal: str
    role: str
    pattern_type: PatternType = PatternType.LITERAL
    resource_name: str = WILDCARD

    @property
    def key(self) -> str:
        """A digest, like `Acl.key`."""
        return digest(self.as_dict())

    def as_dict(self) -> dict[str, str]:
        """Returns the fields, for etcd and people."""
        return {name: str(getattr(self, name)) for name in self.__slots__}


_O, _R = Operation, ResourceType
BUILT_IN: Final[dict[str, Role]] = {
    role.name: role
    for role in (
        Role("reader", (RoleRule(_R.TOPIC, (_O.READ, _O.DESCRIBE_CONFIGS)), RoleRule(_R.GROUP, (_O.READ,)))),
        Role(
            "writer",
            (
                RoleRule(_R.TOPIC, (_O.WRITE, _O.DESCRIBE_CONFIGS)),
                RoleRule(_R.TRANSACTIONAL_ID, (_O.WRITE,)),
                RoleRule(_R.TOKEN_APP_ID, (_O.WRITE,)),
                RoleRule(_R.CLUSTER, (_O.IDEMPOTENT_WRITE,), resource_name=CLUSTER_NAME),
            ),
        ),
        Role(
            "owner",
            (
                RoleRule(_R.TOPIC, (_O.ALL,)),
                RoleRule(_R.GROUP, (_O.ALL,)),
                RoleRule(_R.TRANSACTIONAL_ID, (_O.ALL,)),
                RoleRule(_R.TOKEN_APP_ID, (_O.ALL,)),
                RoleRule(_R.CLUSTER, (_O.IDEMPOTENT_WRITE,), resource_name=CLUSTER_NAME),
            ),
        ),
        Role(
            "operator",
            (
                RoleRule(_R.CLUSTER, (_O.DESCRIBE, _O.DESCRIBE_CONFIGS), resource_name=CLUSTER_NAME),
                RoleRule(
                    _R.TOPIC,
                    (_O.CREATE, _O.DELETE, _O.ALTER, _O.DESCRIBE, _O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS),
                ),
                RoleRule(_R.GROUP, (_O.DESCRIBE, _O.DELETE)),
                RoleRule(_R.TRANSACTIONAL_ID, (_O.DESCRIBE,)),
            ),
        ),
        Role(
            "admin",
            (
                RoleRule(
                    _R.CLUSTER,
                    (_O.CREATE, _O.ALTER, _O.DESCRIBE, _O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS),
                    resource_name=CLUSTER_NAME,
                ),
                RoleRule(
                    _R.TOPIC,
                    (_O.CREATE, _O.DELETE, _O.ALTER, _O.DESCRIBE, _O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS),
                ),
                RoleRule(_R.GROUP, (_O.DESCRIBE, _O.DELETE)),
                RoleRule(_R.TRANSACTIONAL_ID, (_O.DESCRIBE,)),
            ),
        ),
    )
}
"""reader, writer, owner: for data. operator: runs topics and groups without reading or writing records. admin: also the
cluster with its rules and users.
"""


def expand(binding: Binding, roles: Mapping[str, Role]) -> Iterator[Acl]:
    """Yields the rules that a binding stands for; none while its role is unknown."""
    role = BUILT_IN.get(binding.role) or roles.get(binding.role)
    for rule in role.rules if role is not None else ():
        own = bool(rule.resource_name)
        pattern, name = (rule.pattern_type if own else binding.pattern_type), rule.resource_name
        if not own:
            name = CLUSTER_NAME if rule.resource_type is ResourceType.CLUSTER else binding.resource_name
            pattern = PatternType.LITERAL if rule.resource_type is ResourceType.CLUSTER else pattern
        for operation in rule.operations:
            yield Acl(binding.principal, rule.resource_type, pattern, name, operation)


# ---------------------------------------------------------------- checks


def check_role(role: Role) -> Role:
    """Returns the role, or raises `InvalidRequestError`."""
    check_role_name(role.name)
    if role.name in BUILT_IN:
        raise InvalidRequestError("this role is built in: choose another name", role=role.name)
    if not 0 < len(role.rules) <= _RULES_MAX:
        raise InvalidRequestError(f"a role has 1 to {_RULES_MAX} rules", role=role.name)
    for rule in role.rules:
        if not rule.operations:
            raise InvalidRequestError("a rule of a role names operations", role=role.name)
        for operation in rule.operations:
            check_operation(rule.resource_type, operation)
        if rule.resource_name:
            check_pattern(rule.resource_type, rule.pattern_type, rule.resource_name)
    return role


def check_role_name(name: str) -> str:
    """Returns the name, or raises `InvalidRequestError`."""
    if not _ROLE_NAME.match(name):
        raise InvalidRequestError("a role's name is 1-64 characters of [a-z0-9._-]", given=ascii(name[:64]))
    return name


def check_binding(binding: Binding, roles: Mapping[str, Role]) -> Binding:
    """Returns the binding, or raises `InvalidRequestError`: also for an unknown role, or one with a rule that would be
    illegal.
    """
    check_principal(binding.principal)
    check_role_name(binding.role)
    if binding.role not in BUILT_IN and binding.role not in roles:
        raise InvalidRequestError("no such role; see `oncelog acl list`", role=binding.role)
    if not is_printable(binding.resource_name):
        raise InvalidRequestError("a resource's name is printable and not empty", role=binding.role)
    for acl in expand(binding, roles):
        check_acl(acl)
    return binding


def role_of(values: JsonObject) -> Role:
    """Builds a role from the result of `as_dict`. Raises `InvalidRequestError` or `KeyError`."""
    rules = tuple(
        RoleRule(
            member(ResourceType, item["resource_type"], "resource type"),
            tuple(member(Operation, word, "operation") for word in item["operations"]),
            member(PatternType, item["pattern_type"], "pattern type"),
            str(item["resource_name"]),
        )
        for item in values["rules"]
    )
    return check_role(Role(str(values["name"]), rules))


def binding_of(values: JsonObject) -> Binding:
    """Builds a binding from the result of `as_dict`; its role is looked up when it is used. Raises
    `InvalidRequestError` or `KeyError`.
    """
    pattern = member(PatternType, values["pattern_type"], "pattern type")
    principal = check_principal(str(values["principal"]))
    return Binding(principal, check_role_name(str(values["role"])), pattern, str(values["resource_name"]))
