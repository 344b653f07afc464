"""All rules in force, indexed so that a decision looks only at rules that may match.

Rule 1: a super user may do everything. Otherwise a matching DENY of the operation (or of ALL) decides, then a matching
        ALLOW of the operation, of one that implies it (`allowed_by`) or of ALL; no match = refused. The rights on a
        waiting topic (docs/internals/delays.md) are those on its topic.
Rule 2: a `Matcher` never changes: new rules make a new one.
Rule 3: `decide` gives the same answer as a scan over all rules (`tests/property/test_acl.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from oncelog.core.names import WAITING_PREFIX
from oncelog_runtime.core.security.acl import (
    EVERYBODY,
    WILDCARD,
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourceType,
    allowed_by,
)


@dataclass(frozen=True, slots=True)
class Decision:
    """The answer with its reason. `acl`: the rule that decided; None: a super user, or no rule at all."""

    allowed: bool
    reason: str
    acl: Acl | None = None


class Matcher:
    """Holds the rules and the super users."""

    def __init__(self, acls: Iterable[Acl] = (), super_users: Iterable[str] = ()) -> None:
        self.super_users = frozenset(super_users)
        self._by_principal: dict[str, list[Acl]] = {}
        for acl in acls:
            self._by_principal.setdefault(acl.principal, []).append(acl)

    def rules_of(self, principal: str, host: str) -> Rules:
        """Returns the rules that apply to one caller."""
        named = (*self._by_principal.get(principal, ()), *self._by_principal.get(EVERYBODY, ()))
        mine = [acl for acl in named if acl.host in (host, WILDCARD)]
        return Rules(mine, is_super=principal in self.super_users)


class Rules:
    """The rules that apply to one principal at one host."""

    def __init__(self, acls: Iterable[Acl], *, is_super: bool = False) -> None:
        self.is_super = is_super
        self._literal: dict[tuple[ResourceType, str], list[Acl]] = {}
        self._prefixed: dict[ResourceType, dict[str, list[Acl]]] = {}
        self._allows_of_type: dict[ResourceType, list[Acl]] = {}
        for acl in acls:
            if acl.pattern_type is PatternType.LITERAL:
                self._literal.setdefault((acl.resource_type, acl.resource_name), []).append(acl)
            else:
                of_type = self._prefixed.setdefault(acl.resource_type, {})
                of_type.setdefault(acl.resource_name, []).append(acl)
            if acl.permission is Permission.ALLOW:
                self._allows_of_type.setdefault(acl.resource_type, []).append(acl)
        self._lengths = {kind: sorted({len(name) for name in of_type}) for kind, of_type in self._prefixed.items()}

    def about(self, resource_type: ResourceType, name: str) -> Iterator[Acl]:
        """Yields every rule whose pattern matches the resource."""
        yield from self._literal.get((resource_type, name), ())
        if name != WILDCARD:
            yield from self._literal.get((resource_type, WILDCARD), ())
        prefixed = self._prefixed.get(resource_type, {})
        for length in self._lengths.get(resource_type, ()):
            if length > len(name):
                return
            yield from prefixed.get(name[:length], ())

    def decide(self, operation: Operation, resource_type: ResourceType, name: str) -> Decision:
        """Decides by rule 1."""
        if self.is_super:
            return Decision(True, "a super user")
        if resource_type is ResourceType.TOPIC:  # what waits for a topic is the topic's
            name = name.removeprefix(WAITING_PREFIX)
        enough = allowed_by(operation)
        allow = None
        for acl in self.about(resource_type, name):
            if acl.permission is Permission.DENY:
                if acl.operation in (operation, Operation.ALL):
                    return Decision(False, f"denied by: {acl}", acl)
            elif allow is None and acl.operation in enough:
                allow = acl
        if allow is None:
            return Decision(False, "no rule allows it")
        return Decision(True, f"allowed by: {allow}", allow)

    def decide_any(self, operation: Operation, resource_type: ResourceType) -> Decision:
        """Decides whether this is allowed on some name, as Kafka's `authorizeByResourceType`: an ALLOW counts unless a
        DENY covers everything that it allows.
        """
        if self.is_super:
            return Decision(True, "a super user")
        enough = allowed_by(operation)
        for allow in self._allows_of_type.get(resource_type, ()):
            if allow.operation in enough and not self._is_covered(allow, operation):
                return Decision(True, f"allowed by: {allow}", allow)
        return Decision(False, "no rule allows it on any resource")

    def _is_covered(self, allow: Acl, operation: Operation) -> bool:
        """True when a DENY covers everything that this rule allows."""
        for deny in self.about(allow.resource_type, allow.resource_name):
            if deny.permission is not Permission.DENY or deny.operation not in (operation, Operation.ALL):
                continue
            if deny.pattern_type is PatternType.PREFIXED or deny.resource_name == WILDCARD:
                return True
            if allow.pattern_type is PatternType.LITERAL:
                return True
        return False
