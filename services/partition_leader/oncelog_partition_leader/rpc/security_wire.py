"""Translates rules, roles and bindings between the wire and their own types. Incoming ones are checked."""

from __future__ import annotations

from oncelog.v1 import security_pb2 as pb
from oncelog_runtime.core.security.acl import (
    WILDCARD,
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourceType,
    check_acl,
    check_principal,
    member,
)
from oncelog_runtime.core.security.roles import BUILT_IN, Binding, Role, RoleRule, check_role, check_role_name


def acl_from(item: pb.Acl) -> Acl:
    """Parses a rule. Raises `InvalidRequestError`."""
    return check_acl(
        Acl(
            item.principal,
            member(ResourceType, item.resource_type, "resource type"),
            _pattern(item.pattern_type),
            item.resource_name,
            member(Operation, item.operation, "operation"),
            member(Permission, item.permission or Permission.ALLOW, "permission"),
            item.host or WILDCARD,
        )
    )


def acl_to(acl: Acl) -> pb.Acl:
    """Returns the wire form."""
    return pb.Acl(**acl.as_dict())


def binding_from(item: pb.RoleBinding) -> Binding:
    """Parses a binding; `check_binding` decides whether its role exists and fits. Raises `InvalidRequestError`."""
    check_principal(item.principal)
    check_role_name(item.role)
    return Binding(item.principal, item.role, _pattern(item.pattern_type), item.resource_name or WILDCARD)


def binding_to(binding: Binding) -> pb.RoleBinding:
    """Returns the wire form."""
    return pb.RoleBinding(**binding.as_dict())


def role_from(item: pb.Role) -> Role:
    """Parses a role. Raises `InvalidRequestError`."""
    rules = tuple(
        RoleRule(
            member(ResourceType, rule.resource_type, "resource type"),
            tuple(member(Operation, word, "operation") for word in rule.operations),
            _pattern(rule.pattern_type),
            rule.resource_name,
        )
        for rule in item.rules
    )
    return check_role(Role(item.name, rules))


def role_to(role: Role) -> pb.Role:
    """Returns the wire form."""
    reply = pb.Role(name=role.name, built_in=role.name in BUILT_IN)
    for rule in role.rules:
        reply.rules.add(
            resource_type=str(rule.resource_type),
            operations=map(str, rule.operations),
            pattern_type=str(rule.pattern_type) if rule.resource_name else "",
            resource_name=rule.resource_name,
        )
    return reply


def _pattern(word: str) -> PatternType:
    return member(PatternType, word or PatternType.LITERAL, "pattern type")
